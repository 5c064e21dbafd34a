"""Prompts of plain words, every one different, at the cost of copying a slice."""

from __future__ import annotations

import random

_WORDS = """
the quick build of a small model takes less time than we thought when every layer is read once and
then kept near its user so that a later step finds it warm again while other parts wait for their
turn in a line that moves as fast as the slowest piece allows which is why good tools show where the
time goes before they change how work is shared between many simple parts each with one task and a
clear edge that tests can hold on to even if the whole grows or shrinks over long runs on cold
machines under heavy rain or bright sun because nothing else explains such results better than plain
numbers drawn on paper beside the rules that made them
""".split()  # noqa: SIM905
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_STOCK_CHARACTERS = 1 << 20
_COUNTER = 8


class Words:
    """Texts of exactly `length` characters: letters, spaces and full stops, nothing to escape."""

    def __init__(self, length: int, seed: int = 0) -> None:
        self._chance = random.Random(seed)
        self._length = max(0, length - _COUNTER - 1)
        sentences, characters = [], 0
        while characters < _STOCK_CHARACTERS + length:
            words = self._chance.choices(_WORDS, k=self._chance.randint(5, 14))
            sentences.append(" ".join(words) + ".")
            characters += len(sentences[-1]) + 1
        self._stock = " ".join(sentences).encode()
        # Where it starts differs between runs, so that nothing of an earlier one is remembered.
        self._count = self._chance.randrange(1 << 30)

    def next(self) -> bytes:
        self._count += 1
        at = int(self._chance.random() * _STOCK_CHARACTERS)
        return b"%b %b" % (_in_letters(self._count), self._stock[at : at + self._length])


def _in_letters(number: int) -> bytes:
    """A counter without digits, which would look like somebody's account."""
    letters = []
    for _ in range(_COUNTER):
        number, digit = divmod(number, 26)
        letters.append(_LETTERS[digit])
    return "".join(letters).encode()
