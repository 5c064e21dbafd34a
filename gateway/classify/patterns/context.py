"""Presidio's context words: what stands before a finding, and what that does to its score.

The same as `LemmaContextAwareEnhancer`, which walks all tokens of the text for every finding and
copies every finding deeply. Here a finding's token is found by bisection and its words are asked
for only when they can change something. With an NLP engine that can say what stands before a place
(`WordsNear`) the text is never taken apart as a whole.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

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


class Words:
    """The words around a place in one text."""

    def __init__(
        self,
        text: str,
        engine: object,
        artifacts: Callable[[], NlpArtifacts],
        rules: LemmaContextAwareEnhancer,
    ) -> None:
        self._text = text
        self._local = engine if isinstance(engine, WordsNear) else None
        self._artifacts = artifacts
        self._rules = rules
        self._indexed: _Tokens | None = None
        self._known: dict[int, list[str]] = {}

    def around(self, start: int) -> list[str]:
        """In lower case. Several recognizers often find the same number."""
        if start not in self._known:
            self._known[start] = [word.lower() for word in self._look(start)]
        return self._known[start]

    def _look(self, start: int) -> list[str]:
        before = self._rules.context_prefix_count + 1  # with the finding's own first token
        try:
            if self._local is not None and self._rules.context_suffix_count == 0:
                words = self._local.words_near(self._text, start, before)
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
        found = (self._lemmas[i] for i in places if i < len(self._lemmas))
        return list(itertools.islice((w for w in found if w in self._keywords), count))


def supported(words: Sequence[str], context: Sequence[str], mode: str) -> bool:
    """Whether one of a recognizer's context words is among words in lower case."""
    if mode == "whole_word":
        return any(wanted.lower() in words for wanted in context)
    for wanted in map(str.lower, context):
        for word in words:
            if wanted in word:
                return True
    return False


def enhanced(score: float, rules: LemmaContextAwareEnhancer) -> float:
    score += rules.context_similarity_factor
    score = max(score, rules.min_score_with_context_similarity)
    return min(score, ContextAwareEnhancer.MAX_SCORE)
