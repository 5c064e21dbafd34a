"""Which runs of digits no valid number of a region can be.

phonenumbers keeps the digits of such a run in order and takes it apart in `parse`. When the
region's international prefix stands in front, anything may follow. Else the national number is the
run itself, or the run without the region's country code, either one without its national prefix,
which may be stripped twice (`_maybe_extract_country_code`, `parse`). It is valid only when it
matches the pattern of one of its kinds in a region with that country code (`is_valid_number`), and,
where numbers are written with the national prefix, when the run has one
(`_is_national_prefix_present_if_required`; with a country code nothing is asked). So a run of which
none of these forms does is no number.
"""

from __future__ import annotations

import functools
import importlib
import re
from dataclasses import dataclass
from typing import Any

import regex
from phonenumbers import PhoneMetadata
from phonenumbers.data import _COUNTRY_CODE_TO_REGION_CODE as REGIONS_OF_CODE

from gateway.classify.patterns import syntax

_library: Any = importlib.import_module("phonenumbers.phonenumberutil")
_choose_format: Any = _library._choose_formatting_pattern_for_number
_says_nothing: Any = _library._formatting_rule_has_first_group_only
_KINDS = (
    *("fixed_line", "mobile", "toll_free", "premium_rate", "shared_cost"),
    *("personal_number", "voip", "pager", "uan", "voicemail"),
)
_LONGEST = 40
"""Digits; phonenumbers' own limits are 17 for a number and 3 for a country code."""
_LEAST_AFTER_PREFIX = 3
"""Digits behind an international prefix: a country code and phonenumbers' least number of two."""


@dataclass(frozen=True, slots=True)
class _Prefix:
    """A national prefix, and what phonenumbers puts in its place."""

    pattern: re.Pattern[str]
    rule: str | None

    def without(self, digits: str) -> tuple[str, ...]:
        match = self.pattern.match(digits)
        if match is None:
            return ()
        rest = digits[match.end() :]
        if self.rule and match.groups() and match.groups()[-1] is not None:
            return rest, self.pattern.sub(self.rule, digits, count=1)
        return (rest,)


@dataclass(frozen=True, slots=True)
class Numbering:
    """One region's numbers, seen from outside."""

    country_code: str
    abroad: re.Pattern[str]
    abroad_digits: frozenset[str]
    """With one of these it begins."""
    prefixes: tuple[_Prefix, ...]
    lengths: frozenset[int]
    numbers: re.Pattern[str]
    formats: tuple[Any, ...]
    least_digits: int
    totals: frozenset[int] | None
    """How long a run without an international prefix can be; None when that is not known."""

    @staticmethod
    def exists(region: str) -> bool:
        return PhoneMetadata.metadata_for_region(region, None) is not None

    @staticmethod
    @functools.cache
    def of(region: str) -> Numbering:
        own: Any = PhoneMetadata.metadata_for_region(region)
        alike: list[Any] = [
            PhoneMetadata.metadata_for_region(r) for r in REGIONS_OF_CODE[own.country_code]
        ]
        kinds = [
            kind
            for metadata in alike
            for kind in (getattr(metadata, name) for name in _KINDS)
            if kind is not None and kind.national_number_pattern
        ]
        lengths = frozenset(n for m in alike for n in m.general_desc.possible_length)
        patterns = dict.fromkeys(kind.national_number_pattern for kind in kinds)
        abroad = own.international_prefix or "(?!)"
        prefixes = tuple(_prefixes(own, alike[0]))
        prefix_digits = int(syntax.extent(syntax.parse(abroad, 0)).least)
        return Numbering(
            country_code=str(own.country_code),
            abroad=re.compile(abroad),
            abroad_digits=frozenset(
                d for d in "0123456789" if regex.match(abroad, d, partial=True)
            ),
            prefixes=prefixes,
            lengths=lengths,
            numbers=re.compile("|".join(f"(?:{p})" for p in patterns)),
            formats=tuple(alike[0].number_format),
            least_digits=min(min(lengths), prefix_digits + _LEAST_AFTER_PREFIX),
            totals=_totals(lengths, len(str(own.country_code)), prefixes),
        )

    def could_be_like(self, first: str, length: int) -> bool:
        """Whether some run with this first digit and of this length could be one."""
        if length < self.least_digits:
            return False
        return first in self.abroad_digits or self.totals is None or length in self.totals

    def could_be(self, digits: str) -> bool:
        if not self.could_be_like(digits[0], len(digits)):
            return False
        if self.abroad.match(digits):
            return True
        forms = self._without_prefix(digits)
        if self._fits(digits) and (forms or not self._wants_prefix(digits)):
            return True
        if digits.startswith(self.country_code):
            forms.append(digits[len(self.country_code) :])
        for form in forms:  # which grows, and ends where no prefix is left
            if self._fits(form):
                return True
            forms += [other for other in self._without_prefix(form) if other not in forms]
        return False

    def _fits(self, number: str) -> bool:
        return len(number) in self.lengths and self.numbers.fullmatch(number) is not None

    def _without_prefix(self, digits: str) -> list[str]:
        return [form for prefix in self.prefixes for form in prefix.without(digits)]

    def _wants_prefix(self, number: str) -> bool:
        """Whether a national number is only taken for one when it has its prefix in front."""
        wanted = _choose_format(self.formats, number)
        if wanted is None or not wanted.national_prefix_formatting_rule:
            return False
        return not (
            wanted.national_prefix_optional_when_formatting
            or _says_nothing(wanted.national_prefix_formatting_rule)
        )


def _prefixes(*metadata: Any) -> list[_Prefix]:
    """The region's own, and that of the main region of its country code, which phonenumbers goes
    on with when it has found the code."""
    found = {
        (m.national_prefix_for_parsing, m.national_prefix_transform_rule)
        for m in metadata
        if m.national_prefix_for_parsing
    }
    return [_Prefix(re.compile(pattern), rule) for pattern, rule in sorted(found, key=str)]


def _totals(
    lengths: frozenset[int], code_digits: int, prefixes: tuple[_Prefix, ...]
) -> frozenset[int] | None:
    """With the country code or without, and with up to two national prefixes."""
    extents = [syntax.extent(syntax.parse(prefix.pattern.pattern, 0)) for prefix in prefixes]
    if any(prefix.rule for prefix in prefixes) or any(e.most > _LONGEST for e in extents):
        return None
    added = {n for e in extents for n in range(e.least, int(e.most) + 1)}
    totals = {n + code for n in lengths for code in (0, code_digits)}
    for _ in range(2):
        totals |= {n + more for n in totals for more in added}
    return frozenset(totals)
