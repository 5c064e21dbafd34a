"""Numbers written with separators that no recognizer expects."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gateway.classify.cards import is_card_number

_RUN = re.compile(r"(?<![\w.])\d(?:[ \t\r\n\-./_,|·•]{0,2}\d){8,40}(?![\w]|[.,]\d)")
_GROUPS = re.compile(r"\d+")
_SEPARATORS = re.compile(r"\D+")
_OF_LISTS = {".", ",", ", ", ",\n"}  # between numbers of their own; a card's check digit tells
CONTEXT = 48


def cards(text: str) -> Iterator[tuple[str, int, int]]:
    """Runs of digit groups, all with one separator, that make a card number."""
    for match in _RUN.finditer(text):
        digits, groups, separators = _taken_apart(match[0])
        if separators and len(separators) == 1 and _grouped(groups) and is_card_number(digits):
            yield "CREDIT_CARD", match.start(), match.end()


def regrouped(text: str) -> Iterator[tuple[str, int, int]]:
    """Nine digits in an odd dress as a social security number, others as one block, each behind
    the words before it, which the recognizers ask for."""
    for match in _RUN.finditer(text):
        digits, groups, separators = _taken_apart(match[0])
        if len(separators) != 1 or separators & _OF_LISTS:
            continue
        if len(digits) not in range(9, 20) or not _grouped(groups):
            continue
        before = text[max(0, match.start() - CONTEXT) : match.start()]
        if [len(g) for g in groups] == [3, 2, 4]:
            digits = "-".join(groups)
        elif len(set(map(len, groups))) == 1 and len(groups[0]) == 1 and len(digits) == 9:
            digits = f"{digits[:3]}-{digits[3:5]}-{digits[5:]}"
        yield before + digits, match.start(), match.end()


def _taken_apart(run: str) -> tuple[str, list[str], set[str]]:
    groups = _GROUPS.findall(run)
    return "".join(groups), groups, set(_SEPARATORS.findall(run))


def _grouped(groups: list[str]) -> bool:
    """The way numbers are split by people: one digit each, or groups of two to six."""
    sizes = {len(g) for g in groups}
    return sizes == {1} or (min(len(g) for g in groups[:-1]) > 1 and max(sizes) <= 6)
