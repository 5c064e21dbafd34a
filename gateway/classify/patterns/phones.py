"""Presidio's phone recognizer, once for all of its regions.

`PhoneRecognizer` searches the text anew for each region and hands every run of digits to the
parser of phonenumbers (20 to 170 us each, measured November 2026). Here the runs are searched once,
and one that no number of the region can be is not parsed (numbering.py says which). The rest is
parsed by phonenumbers itself. What is spared is counted as tries, because phonenumbers gives up on
a text after 65,535 of them.
"""

from __future__ import annotations

import functools
import importlib
import re
from dataclasses import dataclass
from typing import Any

from phonenumbers import Leniency, PhoneNumberMatcher
from phonenumbers.data import _COUNTRY_CODE_TO_REGION_CODE as REGIONS_OF_CODE
from presidio_analyzer.predefined_recognizers import PhoneRecognizer

from gateway.classify.patterns.numbering import Numbering

matching: Any = importlib.import_module("phonenumbers.phonenumbermatcher")
_CANDIDATE: Any = matching._PATTERN
_SECOND_NUMBER: Any = matching._SECOND_NUMBER_START_PATTERN
_DIGIT = re.compile(r"\d")
_BEFORE_DIGITS = 10
"""Characters of a candidate before its first digit: twice a bracket or plus with four more."""
_PLAIN = re.compile(r"[0-9 ()\[\]./\-]+\Z")
"""No plus, no extension, no letters, no other digits."""
_INTERNATIONAL = re.compile(r"\+([0-9 ()\[\]./\-]+)\Z")
_DIGITS = re.compile(r"[0-9]+\Z")
_BLOCK = re.compile(r"[0-9]+")
_SEPARATOR = re.compile(r"[^0-9]")
_MOST_BLOCKS = 6


class _OutOfTries(Exception):
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
    least = min((Numbering.of(r).least_digits for r in recognizer.supported_regions), default=1)
    punctuation = matching._VALID_PUNCTUATION
    digits = rf"\d(?:[{punctuation}]{{0,4}}\d){{{least - 1}}}"
    international = rf"[+\uff0b][{punctuation}+\uff0b]{{0,9}}\d"
    with_extension = rf"\d(?:{matching._EXTN_PATTERNS_FOR_MATCHING})"
    return f"{digits}|{international}|{with_extension}", int(re.IGNORECASE)


def find(recognizer: Any, text: str) -> set[tuple[int, int]]:
    """The spans that the recognizer finds."""
    try:
        candidates = Candidates(text, tuple(recognizer.supported_regions))
        matchers = [Matcher(candidates, at) for at in candidates.possible_regions()]
        return {(match.start, match.end) for matcher in matchers for match in matcher}
    except _OutOfTries:
        return {
            (match.start, match.end)
            for region in recognizer.supported_regions
            for match in PhoneNumberMatcher(text, region, leniency=recognizer.leniency)
        }


@dataclass(frozen=True, slots=True)
class Candidate:
    """A run that phonenumbers would look at, the regions for which it or a part of it can be a
    number (a bit for each), and how many tries went into runs before it that were none at all."""

    start: int
    run: str
    regions: int
    spared: int


class Candidates:
    """The runs of one text, found once for all regions."""

    def __init__(self, text: str, regions: tuple[str, ...]) -> None:
        self.text = text
        self.regions = regions
        self._all = (1 << len(regions)) - 1
        self._least = min((Numbering.of(region).least_digits for region in regions), default=1)
        self._after: dict[int, Candidate | None] = {}
        self._masks: dict[str, int] = {}
        self.verified: dict[tuple[int, str], Any] = {}

    def after(self, index: int) -> Candidate | None:
        if index not in self._after:
            self._after[index] = self._search(index)
        return self._after[index]

    def _search(self, index: int) -> Candidate | None:
        spared = 0
        while True:
            digit = _DIGIT.search(self.text, index)
            if digit is None:
                return None
            match = _CANDIDATE.search(self.text, max(index, digit.start() - _BEFORE_DIGITS))
            if match is None:
                return None
            start, run = match.start(), match[0]
            if not _DIGITS.match(run) and (second := _SECOND_NUMBER.search(run)):
                run = run[: second.start()]
            regions = self.with_parts(run)
            if regions:
                return Candidate(start, run, regions, spared)
            spared += tries(run)
            index = start + len(run)

    def possible_regions(self) -> list[int]:
        """Those for which some run can be a number. While nothing is found, all go through the same
        runs; so one that finds nothing in these finds nothing at all."""
        mask, index = 0, 0
        while mask != self._all and (found := self.after(index)) is not None:
            mask |= found.regions
            index = found.start + len(found.run)
        return [at for at in range(len(self.regions)) if mask >> at & 1]

    def as_number(self, run: str) -> int:
        """For which regions the whole run can be a number."""
        return self._of_digits("".join(_BLOCK.findall(run))) if _PLAIN.match(run) else self._all

    def with_parts(self, run: str) -> int:
        """For which regions it or a part of it can be one: phonenumbers also tries parts, which
        begin and end where a block of digits does."""
        if not _PLAIN.match(run):
            return self._all
        if len(run) < self._least:
            return 0
        blocks = _BLOCK.findall(run)
        if len(blocks) > _MOST_BLOCKS:
            return self._all
        mask = 0
        for first in range(len(blocks)):
            for last in range(first + 1, len(blocks) + 1):
                mask |= self._of_digits("".join(blocks[first:last]))
        return mask

    def _of_digits(self, digits: str) -> int:
        if len(digits) < self._least:
            return 0
        mask = self._masks.get(digits)
        if mask is None:
            mask = 0
            for bit, numbering in _numberings_like(self.regions, digits[0], len(digits)):
                if numbering.could_be(digits):
                    mask |= bit
            self._masks[digits] = mask
        return mask


@functools.lru_cache(maxsize=1024)
def _numberings_like(
    regions: tuple[str, ...], first: str, length: int
) -> tuple[tuple[int, Numbering], ...]:
    """The regions, as bits, for which a run of this shape is worth a look."""
    numberings = [(1 << at, Numbering.of(region)) for at, region in enumerate(regions)]
    return tuple((bit, n) for bit, n in numberings if n.could_be_like(first, length))


class Matcher(PhoneNumberMatcher):
    """phonenumbers' matcher for one region, over shared candidates."""

    def __init__(self, candidates: Candidates, at: int) -> None:
        super().__init__(candidates.text, candidates.regions[at], leniency=Leniency.VALID)
        self._candidates = candidates
        self._bit = 1 << at
        self._spared = 0

    def _find(self, index: int) -> Any:
        while self._max_tries > self._spared:
            found = self._candidates.after(index)
            if found is None:
                return None
            self._spared += found.spared
            if found.regions & self._bit:
                match = self._extract_match(found.run, found.start)
                if match is not None:
                    return match
                self._max_tries -= 1
            else:
                self._spared += tries(found.run)
            index = found.start + len(found.run)
        raise _OutOfTries

    def _extract_match(self, candidate: str, offset: int) -> Any:
        if _DIGITS.match(candidate):  # neither a date nor a time, and without parts
            return self._parse_and_verify(candidate, offset)
        return super()._extract_match(candidate, offset)

    def _parse_and_verify(self, candidate: str, offset: int) -> Any:
        if not self._candidates.as_number(candidate) & self._bit:
            return None
        if not _has_country_code(candidate):
            return super()._parse_and_verify(candidate, offset)
        verified, place = self._candidates.verified, (offset, candidate)
        if place not in verified:
            verified[place] = super()._parse_and_verify(candidate, offset)
        return verified[place]


def tries(run: str) -> int:
    """At least as many as phonenumbers counts for a plain run that is no number: itself, and the
    part behind each separator, of which a hyphen can be two, and the one before the first."""
    return 1 + 3 * len(_SEPARATOR.findall(run))


def _has_country_code(candidate: str) -> bool:
    """With a plus and a country code that exists the region says nothing."""
    match = _INTERNATIONAL.match(candidate)
    if match is None:
        return False
    digits = "".join(_BLOCK.findall(match[1]))
    return len(digits) > 4 and any(int(digits[:n]) in REGIONS_OF_CODE for n in (1, 2, 3))
