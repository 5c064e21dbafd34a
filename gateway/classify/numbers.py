"""Numbers written with separators that no recognizer expects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gateway.classify.cards import is_card_number
from gateway.classify.effort import spend

_RUN = re.compile(r"(?<![\w.])\d(?:[ \t\r\n\-./_,|·•]{0,2}\d){8,40}(?![\w]|[.,]\d)")
_SEPARATOR = re.compile(r"\D+")
_OF_LISTS = {".", ",", ", ", ",\n"}  # between numbers of their own; a card's check digit tells
_STEPS_A_RUN = 8  # of effort.py
CONTEXT = 48


@dataclass(frozen=True, slots=True)
class Run:
    """Groups of digits with one separator between them all, grouped as people do it."""

    start: int
    end: int
    groups: tuple[str, ...]
    separator: str

    @property
    def digits(self) -> str:
        return "".join(self.groups)

    @property
    def is_card(self) -> bool:
        return is_card_number(self.digits)


def runs(text: str) -> Iterator[Run]:
    for match in _RUN.finditer(text):
        spend(_STEPS_A_RUN)
        separator = _SEPARATOR.search(match[0])
        if separator is None:
            continue
        groups = match[0].split(separator[0])
        if _grouped(groups):
            yield Run(match.start(), match.end(), tuple(groups), separator[0])


def cards(text: str) -> Iterator[tuple[str, int, int]]:
    """Runs of digit groups, all with one separator, that make a card number."""
    return (("CREDIT_CARD", run.start, run.end) for run in runs(text) if run.is_card)


def regrouped(text: str) -> Iterator[tuple[str, int, int]]:
    """Those that read otherwise in one piece."""
    for run in runs(text):
        if (form := in_one_piece(run, text)) is not None:
            yield form, run.start, run.end


def in_one_piece(run: Run, text: str) -> str | None:
    """Nine digits in an odd dress as a social security number, others as one block, behind the
    words before it, which the recognizers ask for."""
    digits, groups = run.digits, run.groups
    if run.separator in _OF_LISTS or len(digits) not in range(9, 20):
        return None
    before = text[max(0, run.start - CONTEXT) : run.start]
    if [len(g) for g in groups] == [3, 2, 4]:
        digits = "-".join(groups)
    elif len(set(map(len, groups))) == 1 and len(groups[0]) == 1 and len(digits) == 9:
        digits = f"{digits[:3]}-{digits[3:5]}-{digits[5:]}"
    return before + digits


def _grouped(groups: list[str]) -> bool:
    """The way numbers are split by people: digits alone, one each, or groups of two to six."""
    sizes = [len(group) for group in groups]
    if max(sizes) == 1:
        return min(sizes) == 1
    return min(sizes[:-1]) > 1 and max(sizes) <= 6 and "".join(groups).isdigit()
