"""Which runs of digits no valid number of a region can be.

phonenumbers keeps the digits of such a run in order and takes it apart in `parse`. When the
region's international prefix stands in front, anything may follow. Else the national number is the
run itself, or the run without the region's country code, either one without its national prefix,
which may be stripped twice (`_maybe_extract_country_code`, `parse`). It is valid only when it
matches the pattern of one of its kinds in a region with that country code (`is_valid_number`). So a
run of which none of these forms does is no number.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

from phonenumbers import PhoneMetadata
from phonenumbers.data import _COUNTRY_CODE_TO_REGION_CODE as REGIONS_OF_CODE

from gateway.classify.patterns import syntax

_KINDS = (
    *("fixed_line", "mobile", "toll_free", "premium_rate", "shared_cost"),
    *("personal_number", "voip", "pager", "uan", "voicemail"),
)
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
    prefixes: tuple[_Prefix, ...]
    lengths: frozenset[int]
    numbers: re.Pattern[str]
    least_digits: int

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
        prefix_digits = int(syntax.extent(syntax.parse(abroad, 0)).least)
        return Numbering(
            country_code=str(own.country_code),
            abroad=re.compile(abroad),
            prefixes=tuple(_prefixes(own, alike[0])),
            lengths=lengths,
            numbers=re.compile("|".join(f"(?:{p})" for p in patterns)),
            least_digits=min(min(lengths), prefix_digits + _LEAST_AFTER_PREFIX),
        )

    def could_be(self, digits: str) -> bool:
        if len(digits) < self.least_digits:
            return False
        if self.abroad.match(digits):
            return True
        forms = [digits]
        if digits.startswith(self.country_code):
            forms.append(digits[len(self.country_code) :])
        for form in forms:  # which grows, and ends where no prefix is left
            if len(form) in self.lengths and self.numbers.fullmatch(form):
                return True
            for prefix in self.prefixes:
                forms += [other for other in prefix.without(form) if other not in forms]
        return False


def _prefixes(*metadata: Any) -> list[_Prefix]:
    """The region's own, and that of the main region of its country code, which phonenumbers goes
    on with when it has found the code."""
    found = {
        (m.national_prefix_for_parsing, m.national_prefix_transform_rule)
        for m in metadata
        if m.national_prefix_for_parsing
    }
    return [_Prefix(re.compile(pattern), rule) for pattern, rule in sorted(found, key=str)]
