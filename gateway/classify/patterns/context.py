"""Presidio's context words: what stands before a finding, and what that does to its score.

The same as `LemmaContextAwareEnhancer`, which walks all tokens of the text for every finding and
copies every finding deeply. Here a finding's token is found by bisection and its words are asked
for only when they can change something. With an NLP engine that can say what stands before a place
(`WordsNear`) the text is never taken apart as a whole.
"""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from presidio_analyzer.context_aware_enhancers import (
    ContextAwareEnhancer,
    LemmaContextAwareEnhancer,
)
from presidio_analyzer.nlp_engine import NlpArtifacts


@runtime_checkable
class WordsNear(Protocol):
    """An NLP engine that needs not read all of a text to say which words stand at a place."""

    def words_near(self, text: str, start: int, count: int) -> list[str] | None:
        """The last `count` keywords up to and with the token at `start` and the first one from
        there on, as `process_text` would have them; None when they are too far to look for. Raises
        LookupError when tokens end before `start` and none behind it."""
        ...


@functools.lru_cache(maxsize=8)
def _has_words_near(kind: type) -> bool:
    """A protocol is looked for name by name, which takes longer than the words."""
    return issubclass(kind, WordsNear)


class ContextWords:
    """The words around a place in one text."""

    def __init__(
        self,
        text: str,
        engine: object,
        artifacts: Callable[[], NlpArtifacts],
        rules: LemmaContextAwareEnhancer,
        given: Sequence[str] = (),
    ) -> None:
        """`given` stand around every place."""
        self._text = text
        kind: Any = type(engine)
        self._local: Any = engine if _has_words_near(kind) else None
        self._artifacts = artifacts
        self._rules = rules
        self._whole_words = rules.context_matching_mode == "whole_word"
        self._given = given
        self._indexed: _Tokens | None = None
        self._known: dict[int, list[str]] = {}
        self._supported: dict[tuple[int, tuple[str, ...]], bool] = {}

    def around(self, start: int) -> list[str]:
        """In lower case. Several recognizers often find the same number."""
        words = self._known.get(start)
        if words is None:
            words = self._known[start] = [word.lower() for word in self._tokens_from(start)]
        return words

    def support(self, start: int, wanted: tuple[str, ...]) -> bool:
        """Whether one of a recognizer's context words, in lower case, is among them."""
        key = start, wanted
        supported = self._supported.get(key)
        if supported is None:
            words = [*self.around(start), *self._given]
            if self._whole_words:
                supported = bool(next((word for word in wanted if word in words), ""))
            else:
                supported = _is_within(words, wanted)
            self._supported[key] = supported
        return supported

    def _tokens_from(self, start: int) -> list[str]:
        before = self._rules.context_prefix_count + 1  # with the finding's own first token
        try:
            if self._local is not None and self._rules.context_suffix_count == 0:
                words: list[str] | None = self._local.words_near(self._text, start, before)
                if words is not None:
                    return words
            if self._indexed is None:
                self._indexed = _Tokens(self._artifacts())
            return self._indexed.around(start, before, self._rules.context_suffix_count + 1)
        except LookupError:
            raise ValueError("a finding stands behind the last token") from None  # as Presidio


class _Tokens:
    """The tokens of a whole text, by place."""

    def __init__(self, artifacts: NlpArtifacts) -> None:
        self._empty = not artifacts.tokens
        if self._empty:
            return
        starts = artifacts.tokens_indices
        lengths = map(len, artifacts.tokens)
        ends = [start + length for start, length in zip(starts, lengths, strict=False)]
        self._furthest = list(itertools.accumulate(ends, max))
        self._by_start: dict[int, int] = {}
        for at, start in enumerate(starts):
            self._by_start.setdefault(start, at)
        self._lemmas = [lemma.lower() for lemma in artifacts.lemmas]
        self._keywords = frozenset(artifacts.keywords)

    def around(self, start: int, before: int, behind: int) -> list[str]:
        if self._empty:
            return [""]
        at = bisect.bisect_right(self._furthest, start)
        at = min(at, self._by_start.get(start, at))
        if at == len(self._furthest):
            raise LookupError
        return [
            *self._take(range(at, -1, -1), before),
            *self._take(range(at, len(self._lemmas)), behind),
        ]

    def _take(self, places: Sequence[int], count: int) -> list[str]:
        lemmas = (self._lemmas[i] for i in places if i < len(self._lemmas))
        return list(itertools.islice((w for w in lemmas if w in self._keywords), count))


def _is_within(words: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether one of them is a part of a word; Presidio looks no further than an empty one. One
    string is searched, with what no word has between the words; a wanted one that has it too is
    looked for in each."""
    if not words:
        return False
    joined = _BETWEEN.join(words)
    for one in wanted:
        if one in joined and (_BETWEEN not in one or any(one in word for word in words)):
            return bool(one)
    return False


_BETWEEN = "\0"


def enhanced(score: float, rules: LemmaContextAwareEnhancer) -> float:
    score += rules.context_similarity_factor
    score = max(score, rules.min_score_with_context_similarity)
    return min(score, ContextAwareEnhancer.MAX_SCORE)
