"""Presidio's context words: what stands before a finding, and what that does to its score.

The same as `LemmaContextAwareEnhancer` as it is by default, which walks all tokens of the text for
every finding and copies every finding deeply. Here the words are asked for only when they can
change something, of an NLP engine that need not take the text apart as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from presidio_analyzer.context_aware_enhancers import (
    ContextAwareEnhancer,
    LemmaContextAwareEnhancer,
)

_BETWEEN = "\0"


class WordsNear(Protocol):
    """An NLP engine that needs not read all of a text to say which words stand at a place."""

    def words_near(self, text: str, start: int, count: int) -> list[str]:
        """The last `count` keywords up to and with the token at `start` and the first one from
        there on, as `process_text` would have them, in lower case. Raises ValueError when tokens
        end before `start` and none behind it, as Presidio does."""
        ...


class ContextWords:
    """The words around the findings in one text. Several recognizers often find the same number."""

    def __init__(self, text: str, engine: WordsNear, rules: LemmaContextAwareEnhancer) -> None:
        self._text = text
        self._engine = engine
        self._count = rules.context_prefix_count + 1  # with the finding's own first token
        self._known: dict[int, list[str]] = {}
        self._supported: dict[tuple[int, tuple[str, ...]], bool] = {}

    def support(self, start: int, wanted: tuple[str, ...]) -> bool:
        """Whether one of a recognizer's context words, in lower case, is among those before the
        finding at `start`."""
        key = start, wanted
        supported = self._supported.get(key)
        if supported is None:
            words = self._known.get(start)
            if words is None:
                words = self._engine.words_near(self._text, start, self._count)
                self._known[start] = words
            supported = self._supported[key] = _is_within(words, wanted)
        return supported


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


def enhanced(score: float, rules: LemmaContextAwareEnhancer) -> float:
    score += rules.context_similarity_factor
    score = max(score, rules.min_score_with_context_similarity)
    return min(score, ContextAwareEnhancer.MAX_SCORE)
