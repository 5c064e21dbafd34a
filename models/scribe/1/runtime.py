"""A toy text generator: it strings together words of one page, and says so before it begins.

A Markov chain of second order over `corpus.txt`: each word is drawn from those that followed the
same two words on the page. It exists so that chat works without a network; it answers nothing.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PREFACE = "[scribe, a toy generator without understanding, writes:]"
MAX_TOKENS = 2048
SENTENCES = 4  # how long an answer is when max_tokens does not end it


class Runtime:
    def __init__(self, directory: Path) -> None:
        lines = (directory / "corpus.txt").read_text(encoding="utf-8").splitlines()
        sentences = [line.split() for line in lines if line.strip()]
        self._openings = [(words[0], words[1]) for words in sentences]
        self._about: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._next: dict[tuple[str, str], list[str]] = defaultdict(list)
        for words in sentences:
            for word in words:
                self._about[_plain(word)].append((words[0], words[1]))
            for first, second, third in zip(words, words[1:], words[2:], strict=False):
                self._next[first, second].append(third)

    def generate(self, prompt: str, max_tokens: int, seed: int) -> Iterator[str]:
        """Pieces of text, a word each; joined, they are the answer. The preface counts too."""
        words = self._words(prompt, random.Random(seed))
        for index, word in zip(range(min(max_tokens, MAX_TOKENS)), words, strict=False):
            yield f" {word}" if index else word

    def _words(self, prompt: str, rng: random.Random) -> Iterator[str]:
        yield from PREFACE.split()
        for _ in range(SENTENCES):
            pair = rng.choice(self._openings_for(prompt))
            yield from pair
            while following := self._next.get(pair):
                pair = (pair[1], rng.choice(following))
                yield pair[1]

    def _openings_for(self, prompt: str) -> list[tuple[str, str]]:
        """A sentence that shares a rare word with the prompt, if there is one."""
        asked = {_plain(word) for word in prompt.split()[-200:]}
        known = [self._about[word] for word in sorted(asked) if word in self._about]
        rare = [openings for openings in known if len(openings) < 10]
        return min(rare, key=len) if rare else self._openings


def count_tokens(text: str) -> int:
    """As `generate` counts: words."""
    return len(text.split())


def _plain(word: str) -> str:
    return re.sub(r"\W", "", word).lower()
