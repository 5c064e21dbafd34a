"""Presidio's phone recognizer, once for all of its regions.

`PhoneRecognizer` searches the text anew for each region and hands every run of digits to the
parser of phonenumbers (40 to 280 us each, measured November 2026). Here the runs are searched once,
and numbering.py says which are numbers. Runs with letters, extensions or other digits are parsed by
phonenumbers itself. What is spared is counted as tries, because phonenumbers gives up on a text
after 65,535 of them.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from phonenumbers import Leniency, PhoneNumberMatcher
from presidio_analyzer.predefined_recognizers import PhoneRecognizer

from gateway.classify.patterns import numbering
from gateway.classify.patterns.numbering import Numbering

matching: Any = importlib.import_module("phonenumbers.phonenumbermatcher")
_CANDIDATE: Any = matching._PATTERN
_SECOND_NUMBER: Any = matching._SECOND_NUMBER_START_PATTERN
_BRACKETS: Any = matching._MATCHING_BRACKETS
_PAGES: Any = matching._PUB_PAGES
_DATES: Any = matching._SLASH_SEPARATED_DATES
_TIMES: Any = matching._TIME_STAMPS
_BEHIND_TIME: Any = matching._TIME_STAMPS_SUFFIX
_LEAD: Any = matching._LEAD_PATTERN
_DIGIT = re.compile(r"\d")
_LEAD_MOST, _APART = 10, 5
"""Characters of a candidate before its first digit (twice a bracket or plus with four more), and
from one of its digits to the next."""
_COUNTED = 16_000
"""Characters. In a shorter text phonenumbers never comes to the end of its tries: there are at most
four for each."""
_PLAIN = re.compile(r"[0-9 ()\[\]./\-]+\Z")
"""No plus, no extension, no letters, no other digits."""
_INTERNATIONAL = re.compile(r"\+([0-9 ()\[\]./\-]+)\Z")
_BLOCK = re.compile(r"[0-9]+")
_SEPARATOR = re.compile(r"[^0-9]")
_INNER: Any = tuple(zip("/( \u2012. ", matching._INNER_MATCHES, strict=True))
"""Where phonenumbers takes runs apart, with a character that each needs; the fourth needs a wide
hyphen, which no plain run has."""
_LONGEST = 250
"""Characters. phonenumbers parses no more."""


class _TriesExhausted(Exception):
    """What was spared might have been the end of phonenumbers' patience."""


def is_understood(recognizer: object) -> bool:
    """Presidio's own, and lenient enough to ask for valid numbers alone."""
    return (
        type(recognizer) is PhoneRecognizer
        and recognizer.leniency in (Leniency.VALID,)
        and all(Numbering.exists(region) for region in recognizer.supported_regions)
    )


def gate_expression(recognizer: Any) -> tuple[str, int]:
    """Where this matches nothing, the recognizer finds nothing."""
    least = _least_digits(tuple(recognizer.supported_regions))
    digits, international, with_extension = _signs(least)
    expression = rf"\d{digits}|[+\uff0b]{international}|\d{with_extension}"
    return expression, int(re.IGNORECASE)


@functools.lru_cache(maxsize=32)
def _least_digits(regions: tuple[str, ...]) -> int:
    return min((Numbering.for_region(region).least_digits for region in regions), default=1)


def _signs(least: int) -> tuple[str, str, str]:
    """What follows the first character of a number: digits, a digit behind a plus, an extension."""
    punctuation = matching._VALID_PUNCTUATION
    return (
        rf"(?:[{punctuation}]{{0,4}}\d){{{least - 1}}}",
        rf"[{punctuation}+\uff0b]{{0,9}}\d",
        rf"(?:{matching._EXTN_PATTERNS_FOR_MATCHING})",
    )


@functools.lru_cache(maxsize=32)
def _place(least: int) -> re.Pattern[str]:
    """Where a candidate that can be a number is told, as `gate_expression` tells it. It begins with
    a set of characters, which `re` looks for quickly."""
    digits, international, with_extension = _signs(least)
    return re.compile(
        rf"[\d+\uff0b](?:(?<=\d)(?:{digits}|{with_extension})|(?<=[+\uff0b]){international})",
        re.IGNORECASE,
    )


def find(recognizer: Any, text: str) -> set[tuple[int, int]]:
    """The spans that the recognizer finds."""
    candidates = PhoneCandidates(text, tuple(recognizer.supported_regions))
    try:
        if len(text) > _COUNTED:
            return candidates.matches_in(candidates.possible_regions())
        return candidates.matches_together()
    except _TriesExhausted:
        return {
            (match.start, match.end)
            for region in recognizer.supported_regions
            for match in PhoneNumberMatcher(text, region, leniency=recognizer.leniency)
        }


@dataclass(frozen=True, slots=True)
class PhoneCandidate:
    """A run that phonenumbers would look at, the regions for which it or a part of it can be a
    number (a bit for each), and how many tries went into runs before it that were none at all."""

    start: int
    run: str
    regions: int
    spared: int


@dataclass(frozen=True, slots=True)
class PhoneSpan:
    """Of a number, as much of phonenumbers' match as is asked for."""

    start: int
    end: int


class PhoneCandidates:
    """The runs of one text, found once for all regions."""

    def __init__(self, text: str, regions: tuple[str, ...]) -> None:
        self.text = text
        self.regions = regions
        self._all = (1 << len(regions)) - 1
        self._least = _least_digits(regions)
        self._before = _LEAD_MOST + _APART * (self._least - 1)
        self._place = _DIGIT if len(text) > _COUNTED else _place(self._least)
        self._after: dict[int, PhoneCandidate | None] = {}
        self._masks: dict[str, int] = {}
        self._spans: dict[tuple[int, str], PhoneSpan | None] = {}

    def after(self, index: int) -> PhoneCandidate | None:
        if index not in self._after:
            self._after[index] = self._search(index)
        return self._after[index]

    def _search(self, index: int) -> PhoneCandidate | None:
        spared = 0
        while True:
            place = self._place.search(self.text, index)
            if place is None:
                return None
            match = _CANDIDATE.search(self.text, max(index, place.start() - self._before))
            if match is None:
                return None
            start, run = match.start(), match[0]
            if not run.isdecimal() and (second := _SECOND_NUMBER.search(run)):
                run = run[: second.start()]
            regions = self.with_parts(run)
            if regions:
                return PhoneCandidate(start, run, regions, spared)
            spared += tries(run)
            index = start + len(run)

    def matches_together(self) -> set[tuple[int, int]]:
        """While a region finds nothing but whole runs it goes through the same ones as all. Where
        it might find a part of one it goes its own way, from the beginning."""
        spans: set[tuple[int, int]] = set()
        astray, index = 0, 0
        while (candidate := self.after(index)) is not None:
            start, run = candidate.start, candidate.run
            index = start + len(run)
            regions = candidate.regions & ~astray
            if not regions or self._is_date(run, index):
                continue
            whole = self.as_number(run)
            if whole is not None and whole & regions and self.span(run, start) is not None:
                spans.add((start, index))
                regions &= ~whole
            if whole is None or not run.isdecimal():
                astray |= regions
        if astray:
            spans |= self.matches_in([at for at in range(len(self.regions)) if astray >> at & 1])
        return spans

    def matches_in(self, regions: Sequence[int]) -> set[tuple[int, int]]:
        matchers = (Matcher(self, at) for at in regions)
        return {(match.start, match.end) for matcher in matchers for match in matcher}

    def _is_date(self, run: str, end: int) -> bool:
        """As `PhoneNumberMatcher._extract_match` has it first."""
        if _DATES.search(run):
            return True
        return bool(_TIMES.search(run) and _BEHIND_TIME.match(self.text, end))

    def possible_regions(self) -> list[int]:
        """Those for which some run can be a number. While nothing is found, all go through the same
        runs; so one that finds nothing in these finds nothing at all."""
        mask, index = 0, 0
        while mask != self._all and (candidate := self.after(index)) is not None:
            mask |= candidate.regions
            index = candidate.start + len(candidate.run)
        return [at for at in range(len(self.regions)) if mask >> at & 1]

    def as_number(self, run: str) -> int | None:
        """For which regions the whole run is a number; None when only phonenumbers can tell."""
        if len(run) > _LONGEST or not run:
            return 0
        if _PLAIN.match(run):
            return self._digit_regions("".join(_BLOCK.findall(run)))
        if match := _INTERNATIONAL.match(run):
            digits = "".join(_BLOCK.findall(match[1]))
            if numbering.country_code(digits) is not None:  # then the region says nothing
                return self._all if numbering.is_international(digits) else 0
        return None

    def with_parts(self, run: str) -> int:
        """For which regions it, or a part of it that phonenumbers tries too, is one."""
        if not _PLAIN.match(run):
            return self._all
        if len(run) < self._least:
            return 0
        mask = self._digit_regions("".join(_BLOCK.findall(run)))
        if not run.isdecimal():
            for part in _parts(run):
                mask |= self._digit_regions("".join(_BLOCK.findall(part)))
        return mask

    def _digit_regions(self, digits: str) -> int:
        if len(digits) < self._least:
            return 0
        mask = self._masks.get(digits)
        if mask is None:
            mask = 0
            for bit, own in _numberings_like(self.regions, digits[0], len(digits)):
                if own.has(digits):
                    mask |= bit
            self._masks[digits] = mask
        return mask

    def span(self, run: str, start: int) -> PhoneSpan | None:
        """Where a number stands, unless its brackets or its neighbours say that it is none."""
        place = start, run
        if place not in self._spans:
            free = self._stands_free(run, start)
            self._spans[place] = PhoneSpan(start, start + len(run)) if free else None
        return self._spans[place]

    def _stands_free(self, run: str, start: int) -> bool:
        """As `PhoneNumberMatcher._parse_and_verify` has it before it parses."""
        if not _BRACKETS.fullmatch(run) or _PAGES.search(run):
            return False
        if start > 0 and not _LEAD.match(run) and _belongs_to_number(self.text[start - 1]):
            return False
        end = start + len(run)
        return end == len(self.text) or not _belongs_to_number(self.text[end])


def _parts(run: str) -> Iterator[str]:
    """As `PhoneNumberMatcher._extract_inner_match` takes them from a plain run."""
    for sign, pattern in _INNER:
        match = pattern.search(run) if sign in run else None
        if match is not None:
            yield run[: match.start()]
        while match is not None:
            yield match[1]
            match = pattern.search(run, match.start() + 1)


@functools.lru_cache(maxsize=512)
def _belongs_to_number(neighbour: str) -> bool:
    """A letter, a currency or a percent sign: then it is no telephone's."""
    matcher: Any = PhoneNumberMatcher
    return bool(
        matcher._is_invalid_punctuation_symbol(neighbour) or matcher._is_latin_letter(neighbour)
    )


@functools.lru_cache(maxsize=1024)
def _numberings_like(
    regions: tuple[str, ...], first: str, length: int
) -> tuple[tuple[int, Numbering], ...]:
    """The regions, as bits, for which a run of this shape is worth a look."""
    numberings = [(1 << at, Numbering.for_region(region)) for at, region in enumerate(regions)]
    return tuple((bit, n) for bit, n in numberings if n.has_like(first, length))


class Matcher(PhoneNumberMatcher):
    """phonenumbers' matcher for one region, over shared candidates."""

    def __init__(self, candidates: PhoneCandidates, at: int) -> None:
        super().__init__(candidates.text, candidates.regions[at], leniency=Leniency.VALID)
        self._candidates = candidates
        self._bit = 1 << at
        self._spared = 0

    def _find(self, index: int) -> Any:
        while self._max_tries > self._spared:
            candidate = self._candidates.after(index)
            if candidate is None:
                return None
            self._spared += candidate.spared
            if candidate.regions & self._bit:
                match = self._extract_match(candidate.run, candidate.start)
                if match is not None:
                    return match
                self._max_tries -= 1
            else:
                self._spared += tries(candidate.run)
            index = candidate.start + len(candidate.run)
        raise _TriesExhausted

    def _extract_match(self, candidate: str, offset: int) -> Any:
        if candidate.isdecimal():  # neither a date nor a time, and without parts
            return self._parse_and_verify(candidate, offset)
        return super()._extract_match(candidate, offset)

    def _parse_and_verify(self, candidate: str, offset: int) -> Any:
        regions = self._candidates.as_number(candidate)
        if regions is None:
            return super()._parse_and_verify(candidate, offset)
        return self._candidates.span(candidate, offset) if regions & self._bit else None


def tries(run: str) -> int:
    """At least as many as phonenumbers counts for a plain run that is no number: itself, and the
    part behind each separator, of which a hyphen can be two, and the one before the first."""
    return 1 + 3 * len(_SEPARATOR.findall(run))
