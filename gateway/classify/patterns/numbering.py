"""Which runs of digits phonenumbers takes for valid numbers, without asking it each time.

It keeps the digits of a run in order and takes them apart in `parse`: behind the region's
international prefix stands a country code; else the run may begin with the region's own code; then
a national prefix may go. What is left is valid when it matches the pattern of one of its kinds in a
region with that country code (`is_valid_number`), and, where numbers are written with the national
prefix, when the run has one (`_is_national_prefix_present_if_required`). Here the same steps are
taken over strings of digits alone, with each region's metadata read and compiled once: a verdict
takes a microsecond or two instead of 40 to 280 (measured November 2026).
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Sequence
from typing import Any

import regex
from phonenumbers import PhoneMetadata, ValidationResult
from phonenumbers.data import _COUNTRY_CODE_TO_REGION_CODE as REGIONS_BY_CODE

from gateway.classify.patterns import syntax

_library: Any = importlib.import_module("phonenumbers.phonenumberutil")
_test_length: Any = _library._test_number_length
_says_nothing: Any = _library._formatting_rule_has_first_group_only
_KINDS = (
    *("fixed_line", "mobile", "toll_free", "premium_rate", "shared_cost"),
    *("personal_number", "voip", "pager", "uan", "voicemail"),
)
_LEAST, _MOST = 2, 17
"""Digits of a national number, for phonenumbers."""
_MOST_WITH_CODE = 40
"""Digits; longer ones are too long for every region."""
_LEAST_AFTER_PREFIX = 3
"""Digits behind an international prefix: a country code and phonenumbers' least number of two."""


class Scheme:
    """The numbers of one region, or of one country code that belongs to no region."""

    def __init__(self, metadata: Any) -> None:
        self._metadata = metadata
        general = metadata.general_desc
        self.code = str(metadata.country_code)
        self.lengths = frozenset(general.possible_length)
        self._general = re.compile(general.national_number_pattern or "(?!)")
        prefix = metadata.national_prefix_for_parsing
        self.prefix = re.compile(prefix) if prefix else None
        self._prefix_digits = _first_digits(prefix) if prefix else frozenset()
        self.prefix_rule = metadata.national_prefix_transform_rule
        leading = metadata.leading_digits
        self.leading = None if leading is None else re.compile(leading)
        self._by_length: dict[int, re.Pattern[str] | None] = {}
        verdicts = [_test_length("0" * n, metadata) for n in range(_MOST_WITH_CODE)]
        long = ValidationResult.TOO_LONG
        possible = (long, ValidationResult.IS_POSSIBLE)
        self._may_lose_prefix = frozenset(n for n, v in enumerate(verdicts) if v in possible)
        self._too_long = frozenset(n for n, v in enumerate(verdicts) if v == long)

    def patterns_by_length(self, length: int) -> Sequence[str]:
        """Of the kinds of numbers that can be so long."""
        own = self._metadata
        if self.lengths and length not in self.lengths:
            return ()
        names = [k for k in _KINDS if k != "mobile" or not own.same_mobile_and_fixed_line_pattern]
        kinds = [kind for kind in (getattr(own, name) for name in names) if kind is not None]
        return [
            kind.national_number_pattern
            for kind in kinds
            if kind.national_number_pattern
            and (not kind.possible_length or length in kind.possible_length)
        ]

    def has(self, number: str) -> bool:
        """Whether it is of some kind (`_number_type_helper`)."""
        length = len(number)
        try:
            pattern = self._by_length[length]
        except KeyError:
            pattern = self._by_length[length] = _any_pattern(self.patterns_by_length(length))
        return pattern is not None and pattern.fullmatch(number) is not None and self.fits(number)

    def fits(self, number: str) -> bool:
        """Whether it looks like one of these at all."""
        return self._general.fullmatch(number) is not None

    def is_too_long(self, number: str) -> bool:
        return len(number) in self._too_long or len(number) >= _MOST_WITH_CODE

    def without_prefix(self, number: str) -> tuple[str, bool]:
        """And whether it had one (`_maybe_strip_national_prefix_carrier_code`)."""
        if self.prefix is None or number[:1] not in self._prefix_digits:
            return number, False
        match = self.prefix.match(number)
        if match is None:
            return number, False
        if self.prefix_rule and match.groups()[-1] is not None:
            rest = self.prefix.sub(self.prefix_rule, number, count=1)
        else:
            rest = number[match.end() :]
        if not self.fits(rest) and self.fits(number):
            return number, False
        return rest, True

    def national(self, number: str) -> str:
        """Without its prefix, unless what is left is too short."""
        rest, had_one = self.without_prefix(number)
        if not had_one:
            return number
        enough = len(rest) in self._may_lose_prefix or len(rest) >= _MOST_WITH_CODE
        return rest if enough else number

    def wants_prefix(self, number: str) -> bool:
        """Whether it is only taken for a number when it has its prefix in front."""
        for leading, shape, wants in self._formats:
            if (leading is None or leading.match(number)) and shape.fullmatch(number):
                return wants
        return False

    @functools.cached_property
    def _formats(self) -> list[tuple[re.Pattern[str] | None, re.Pattern[str], bool]]:
        return [
            (
                re.compile(f.leading_digits_pattern[-1]) if f.leading_digits_pattern else None,
                re.compile(f.pattern),
                bool(f.national_prefix_formatting_rule)
                and not f.national_prefix_optional_when_formatting
                and not _says_nothing(f.national_prefix_formatting_rule),
            )
            for f in self._metadata.number_format
        ]


def _first_digits(expression: str) -> frozenset[str]:
    """With which digits something begins that it matches."""
    return frozenset(d for d in "0123456789" if regex.match(expression, d, partial=True))


def _any_pattern(patterns: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{p})" for p in dict.fromkeys(patterns))) if patterns else None


@functools.cache
def _scheme(region: str, code: int) -> Scheme:
    return Scheme(PhoneMetadata.metadata_for_region_or_calling_code(code, region))


class Country:
    """All that share a country code."""

    def __init__(self, code: int) -> None:
        self._schemes = [_scheme(region, code) for region in REGIONS_BY_CODE[code]]
        self.main = self._schemes[0]
        self._by_length: dict[int, re.Pattern[str] | None] = {}

    def has(self, number: str) -> bool:
        """Whether it is valid (`is_valid_number`)."""
        length = len(number)
        try:
            pattern = self._by_length[length]
        except KeyError:
            pattern = self._by_length[length] = self._any_by_length(length)
        return (
            pattern is not None
            and pattern.fullmatch(number) is not None
            and self._has_in_turn(number)
        )

    def _any_by_length(self, length: int) -> re.Pattern[str] | None:
        """Dozens of regions share some codes; hardly any number is one of theirs."""
        if not _LEAST <= length <= _MOST:
            return None
        return _any_pattern(
            [p for scheme in self._schemes for p in scheme.patterns_by_length(length)]
        )

    def _has_in_turn(self, number: str) -> bool:
        if len(self._schemes) == 1:
            return self.main.has(number)
        for scheme in self._schemes:
            if scheme.leading is None:
                if scheme.has(number):
                    return True
            elif scheme.leading.match(number):
                return scheme.has(number)
        return False


@functools.cache
def _country(code: int) -> Country:
    return Country(code)


def country_code(digits: str) -> int | None:
    """With which digits behind a plus or an international prefix begin."""
    if digits.startswith("0"):
        return None
    codes = (int(digits[:n]) for n in range(1, min(len(digits), 3) + 1))
    return next((code for code in codes if code in REGIONS_BY_CODE), None)


def is_international(digits: str) -> bool:
    """Whether they are a number behind a plus, or behind an international prefix."""
    code = country_code(digits) if len(digits) > _LEAST else None
    if code is None:
        return False
    rest, country = digits[len(str(code)) :], _country(code)
    return len(rest) >= _LEAST and country.has(country.main.national(rest))


class Numbering:
    """What is dialled in one region."""

    def __init__(self, region: str) -> None:
        own: Any = PhoneMetadata.metadata_for_region(region)
        self._scheme = _scheme(region, own.country_code)
        self._country = _country(own.country_code)
        self.country_code = self._scheme.code
        prefix = own.international_prefix or "(?!)"
        self._international = re.compile(prefix)
        self._international_digits = _first_digits(prefix)
        schemes = (self._scheme, self._country.main)
        lengths = frozenset(n for r in REGIONS_BY_CODE[own.country_code] for n in _lengths(r))
        after_prefix = int(syntax.extent(syntax.parse(prefix, 0)).least) + _LEAST_AFTER_PREFIX
        self.least_digits = min(min(lengths), after_prefix)
        """Of any number; phonenumbers looks at how two digits are written, and never at three."""
        self._totals = _totals(lengths, len(self.country_code), schemes)

    @staticmethod
    @functools.cache
    def for_region(region: str) -> Numbering:
        return Numbering(region)

    @staticmethod
    def exists(region: str) -> bool:
        return PhoneMetadata.metadata_for_region(region, None) is not None

    def has_like(self, first: str, length: int) -> bool:
        """Whether some run with this first digit and of this length could be a number."""
        if length < self.least_digits:
            return False
        return first in self._international_digits or self._totals is None or length in self._totals

    def has(self, digits: str) -> bool:
        """Whether they are a valid number, and written as one."""
        if digits[0] in self._international_digits:
            match = self._international.match(digits)
            if match is not None and not digits.startswith("0", match.end()):
                return is_international(digits[match.end() :])
        own, country = self._scheme, self._country
        if digits.startswith(own.code):
            rest, _ = own.without_prefix(digits[len(own.code) :])
            if (own.fits(rest) and not own.fits(digits)) or own.is_too_long(digits):
                return len(rest) >= _LEAST and country.has(country.main.national(rest))
        number = own.national(digits)
        if not country.has(number):
            return False
        return not country.main.wants_prefix(number) or country.main.without_prefix(digits)[1]


def _lengths(region: str) -> Sequence[int]:
    metadata: Any = PhoneMetadata.metadata_for_region(region)
    lengths: Sequence[int] = metadata.general_desc.possible_length
    return lengths


def _totals(
    lengths: frozenset[int], code_digits: int, schemes: tuple[Scheme, ...]
) -> frozenset[int] | None:
    """How long a run without an international prefix can be: with the country code or without, and
    with up to two national prefixes. None when that is not known."""
    prefixes = {s.prefix.pattern for s in schemes if s.prefix is not None}
    extents = [syntax.extent(syntax.parse(prefix, 0)) for prefix in prefixes]
    if any(s.prefix_rule for s in schemes) or any(e.most > _MOST_WITH_CODE for e in extents):
        return None
    added = {n for e in extents for n in range(e.least, int(e.most) + 1)}
    totals = {n + code for n in lengths for code in (0, code_digits)}
    for _ in range(2):
        totals |= {n + more for n in totals for more in added}
    return frozenset(totals)
