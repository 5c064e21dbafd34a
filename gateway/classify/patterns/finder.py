"""Running one of Presidio's expressions where the scan says that it can match, and nowhere else.

The automaton reports where matches of the over-matching expression end. Around each report lies a
region that holds the start of every true match (`_regions`). Inside a region the original
expression runs with all of the text to its left in sight, and with as much to its right as it can
look at from any start in the region. So every attempt goes as it would in the whole text, and what
`finditer` yields is the same.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import regex

from gateway.classify.patterns.alphabet import ALL
from gateway.classify.patterns.syntax import MatchExtent
from gateway.classify.scanner.effort import spend

_WHOLE = 64
"""Characters. A text up to here is searched as a whole: a search of it costs about as much as
finding out where to look (measured November 2026)."""
_WIDE = 48
"""Characters. What matches at most this much is not worth looking for where its match must end."""
_STEPS_A_CHARACTER, _STEPS_A_CHARACTER_WIDE = 0.2, 1
_STEPS_A_REPORT, _STEPS_A_REGION, _STEPS_A_MATCH = 0.25, 1, 4
"""What effort.py counts: a character where matches can start, of expressions with a short match and
of those with a long one, which try more at each; a report of the automaton; a region; a match,
whose digits somebody checks."""
_BEHIND = 0.25
"""Of those for a character: for one behind a region, which is looked at too."""
_LOOKBEHIND = 3
"""What `$` and `\\b` see behind the last character, and one more."""


@dataclass(frozen=True, slots=True)
class ExpressionReading:
    """What the finder has to know of an expression: its extent, and the bytes it can step over."""

    extent: MatchExtent
    steps: int

    @property
    def bounded(self) -> bool:
        return self.extent.reach != float("inf") and self.extent.most != float("inf")


class ExpressionFinder:
    """One expression, compiled as Presidio compiles it."""

    def __init__(self, expression: str, flags: int, reading: ExpressionReading | None) -> None:
        self._expression, self._flags = expression, flags
        self._reading = reading
        wide = reading is not None and reading.extent.most > _WIDE
        self._steps_a_character = _STEPS_A_CHARACTER_WIDE if wide else _STEPS_A_CHARACTER

    @functools.cached_property
    def pattern(self) -> regex.Pattern[str]:
        """Compiled when it first runs: most never do, and some take a tenth of a second."""
        return regex.compile(self._expression, self._flags)

    @functools.cached_property
    def _stops(self) -> tuple[regex.Pattern[bytes], regex.Pattern[bytes]] | None:
        """What a long match cannot step over, forwards and backwards."""
        reading = self._reading
        if reading is None or reading.extent.most <= _WIDE or reading.steps == ALL:
            return None
        outside = _byte_class(ALL & ~reading.steps)
        return regex.compile(outside), regex.compile(b"(?r)" + outside)

    def find(
        self, text: str, folded: bytes, ends: Sequence[int] | None, timeout_s: float | None
    ) -> Iterator[regex.Match[str]]:
        """All matches, in order. `ends` None: nothing is known of where they are."""
        regions = None
        if ends is not None and len(text) > _WHOLE and self._reading is not None:
            regions = self._regions(folded, ends)
        if regions is None:
            if ends is not None:  # else it runs on every text, and says nothing of this one
                spend(len(text) * self._steps_a_character)
            for match in self.pattern.finditer(text, timeout=timeout_s):
                spend(_STEPS_A_MATCH)
                yield match
            return
        spend(len(ends or ()) * _STEPS_A_REPORT)
        resume = 0
        for first, last, horizon in regions:
            characters = last - first + (horizon - last) * _BEHIND
            spend(_STEPS_A_REGION + characters * self._steps_a_character)
            for match in self.pattern.finditer(
                text, max(first, resume), horizon, timeout=timeout_s
            ):
                if match.start() >= last:
                    break
                resume = match.end()
                spend(_STEPS_A_MATCH)
                yield match

    def _regions(self, folded: bytes, ends: Sequence[int]) -> list[tuple[int, int, int]] | None:
        """Where starts can be, from (included) to (excluded), and how far from there to look."""
        assert self._reading is not None
        if self._stops is not None:
            return _between_stops(*self._stops, self._reading.extent, folded, ends)
        if self._reading.bounded:
            return _bounded(self._reading.extent, ends, len(folded))
        return None


def _bounded(extent: MatchExtent, ends: Sequence[int], length: int) -> list[tuple[int, int, int]]:
    """A report at `end` is a match that ends there or one before (superset.py), or the least part
    of one that goes on; it starts before `end`, and at most its longest match before that."""
    most, reach = int(extent.most), int(extent.reach)
    regions: list[tuple[int, int, int]] = []
    for end in sorted(ends):
        first = max(end - 1 - most, 0)
        if regions and first <= regions[-1][1]:
            first = regions.pop()[0]
        regions.append((first, end, min(end + reach + _LOOKBEHIND, length)))
    return regions


def _between_stops(
    forward: regex.Pattern[bytes],
    backward: regex.Pattern[bytes],
    extent: MatchExtent,
    folded: bytes,
    ends: Sequence[int],
) -> list[tuple[int, int, int]]:
    """An expression with a long match, or without a longest one, still cannot step over some bytes:
    a match lies between two of those. The last character that it is sure to hold stands one or two
    before `end`."""
    regions: list[tuple[int, int, int]] = []
    begin, stop = 0, -1
    ends = sorted(ends)
    at = 0
    while at < len(ends):
        end = ends[at]
        at += 1
        inside = max(end - 2, 0)
        if inside > stop:
            before = backward.search(folded, 0, inside)
            begin = 0 if before is None else before.start() + 1
        if end - 1 > stop:
            after = forward.search(folded, max(end - 1, 0))
            stop = len(folded) if after is None else after.start()
        first = int(max(begin, end - 1 - extent.most))
        if regions and first <= regions[-1][1]:
            first = regions.pop()[0]
        # Those that follow, up to the stop and with no room for a gap before them, change its end
        # alone.
        last = bisect.bisect_right(ends, min(stop + 1, end + extent.most), lo=at) - 1
        if last >= at:
            end, at = ends[last], last + 1
        horizon = min(stop + _LOOKBEHIND, end + extent.reach + _LOOKBEHIND, len(folded))
        regions.append((first, end, int(horizon)))
    return regions


def _byte_class(mask: int) -> bytes:
    return b"[" + b"".join(b"\\x%02x" % b for b in range(256) if mask >> b & 1) + b"]"
