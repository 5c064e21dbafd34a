"""The digits of a number, and which parts of them tell of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import phonenumbers

WINDOW = 7  # digits in a row that tell of a number
TAIL = 6  # digits that do at its end
LAST = 4  # digits by which people call a card or an account
LAST_TELLS = frozenset({"CREDIT_CARD", "IBAN_CODE", "US_SSN"})
NUMBERS = frozenset(
    {"CREDIT_CARD", "IBAN_CODE", "MEDICAL_RECORD", "PHONE_NUMBER", "UK_NHS", "US_SSN"}
)
"""The types of findings whose digits are looked for."""

_RUN = re.compile(r"[0-9](?:[ ().\-/]{0,3}[0-9])*")
_GROUP = re.compile(r"[0-9]+")
_MAX_GROUPS = 16  # of one number


@dataclass(frozen=True, slots=True)
class DigitGroup:
    """Digits in a row in a text."""

    digits: str = field(repr=False)
    start: int
    end: int


def only_digits(text: str) -> str:
    return "".join(c for c in text if c in "0123456789")


def letters_and_digits(text: str) -> int:
    return sum(map(str.isalnum, text))


def runs(text: str) -> Iterator[list[DigitGroup]]:
    """Groups of digits that may be one number, in a text in plain spelling."""
    for run in _RUN.finditer(text):
        yield [
            DigitGroup(m[0], run.start() + m.start(), run.start() + m.end())
            for m in _GROUP.finditer(run[0])
        ]


def numbers_within(groups: list[DigitGroup]) -> Iterator[tuple[str, int, int, bool]]:
    """All numbers that groups in a row may be, the longest of each beginning first: digits, start,
    end, and whether it stands apart from the digits beside it."""
    for first in range(len(groups)):
        for last in range(min(len(groups), first + _MAX_GROUPS) - 1, first - 1, -1):
            digits = "".join(group.digits for group in groups[first : last + 1])
            apart = first == last and stands_apart(groups, first)
            yield digits, groups[first].start, groups[last].end, apart


def stands_apart(groups: list[DigitGroup], at: int) -> bool:
    """Whether four digits are not a group of a longer number: one that is parted by other signs
    than spaces, or by a space from another four digits."""
    for one, two in pairwise(groups[max(0, at - 1) : at + 2]):
        between = two.start - one.end
        if between == 1 and len(one.digits) == len(two.digits) == LAST:
            return False
    return True


def looks_like_a_year(digits: str) -> bool:
    """Or like another number that an answer may well have by itself."""
    return len(digits) <= LAST and (digits.startswith(("19", "20")) or digits.endswith("00"))


def phone_forms(number: str) -> tuple[str, ...]:
    """The digits of a telephone number as it is dialled from abroad, with 00 and from at home."""
    digits = only_digits(number)
    if not ("+" in number or digits.startswith("00")):
        bare = digits.removeprefix("0")
        return tuple(dict.fromkeys((digits, bare)))
    digits = digits.removeprefix("00")
    national = _national(digits)
    return tuple(dict.fromkeys((digits, "00" + digits, "0" + national, national)))


def _national(digits: str) -> str:
    """Without the country's code, if it is one of ITU-T E.164."""
    national = digits[len(country_code(digits)) :]
    trunk = national.startswith("0") and not national.startswith("00")
    return national[1:] if trunk else national  # of +44 (0)20


def country_code(digits: str) -> str:
    """Of a number as it is dialled from abroad."""
    for length in (1, 2, 3):
        if int(digits[:length] or "0") in phonenumbers.COUNTRY_CODE_TO_REGION_CODE:
            return digits[:length]
    return ""


def number_forms(type_: str, number: str) -> tuple[str, ...]:
    """All strings of digits that are the number."""
    return phone_forms(number) if type_ == "PHONE_NUMBER" else (only_digits(number),)


@dataclass(slots=True)
class CallNumbers:
    """What of a call's numbers is looked for."""

    windows: dict[str, list[tuple[str, str]]] = field(default_factory=dict, repr=False)
    tails: dict[str, tuple[str, str]] = field(default_factory=dict, repr=False)
    lasts: dict[str, tuple[str, str]] = field(default_factory=dict, repr=False)
    wholes: dict[str, tuple[str, str]] = field(default_factory=dict, repr=False)

    @classmethod
    def from_values(cls, values: Mapping[str, str]) -> CallNumbers:
        """`values`: original -> type."""
        made = cls()
        for number, type_ in values.items():
            if type_ in NUMBERS:
                made._add(type_, number)
        return made

    def _add(self, type_: str, number: str) -> None:
        key = (type_, number)
        for form in number_forms(type_, number):
            self.wholes.setdefault(form, key)
            for at in range(len(form) - WINDOW + 1):
                self.windows.setdefault(form[at : at + WINDOW], []).append(key)
        digits = only_digits(number)
        if len(digits) > WINDOW:
            self.tails.setdefault(digits[-TAIL:], key)
        if type_ in LAST_TELLS:
            self.lasts.setdefault(digits[-LAST:], key)

    def match(self, digits: str, apart: bool) -> tuple[str, str] | None:
        """The original that digits which stand for themselves are a part of."""
        if digits in self.wholes:
            return self.wholes[digits]
        if len(digits) >= WINDOW:
            for key in self.windows.get(digits[:WINDOW], ()):
                if any(digits in form for form in number_forms(*key)):
                    return key
            return None
        if len(digits) == TAIL:
            return self.tails.get(digits)
        return self.lasts.get(digits) if apart and len(digits) == LAST else None

    def within(self, digits: str, lenient: bool = False) -> bool:
        """Whether a part of some original is anywhere in a run of digits. Lenient: only its end,
        for seven digits in a row may be those of a range that is set aside."""
        if any(digits[at : at + TAIL] in self.tails for at in range(len(digits) - TAIL + 1)):
            return True
        return not lenient and any(
            digits[at : at + WINDOW] in self.windows for at in range(len(digits) - WINDOW + 1)
        )

    def forgive(self, forms: Iterable[str]) -> None:
        """Take digits in a row that a surrogate has too for what they are: of a range that is set
        aside."""
        for form in forms:
            for at in range(len(form) - WINDOW + 1):
                self.windows.pop(form[at : at + WINDOW], None)
