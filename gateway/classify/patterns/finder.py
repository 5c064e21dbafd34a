"""Running one of Presidio's expressions where the scan says that it can match, and nowhere else.

The automaton reports where matches of the over-matching expression end. Around each report lies a
region that holds the start of every true match (`_regions`). Inside a region the original
expression runs with all of the text to its left in sight, and with as much to its right as it can
look at from any start in the region. So every attempt goes as it would in the whole text, and what
`finditer` yields is the same.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import regex

from gateway.classify.patterns.alphabet import ALL
from gateway.classify.patterns.syntax import Extent

_WHOLE = 64
"""Characters. A text up to here is searched as a whole: a search of it costs about as much as
finding out where to look (measured November 2026)."""
_WIDE = 48
"""Characters. What matches at most this much is not worth looking for where its match must end."""
_LOOK = 3
"""What `$` and `\\b` see behind the last character, and one more."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the finder has to know of an expression: its extent, and the bytes it can step over."""

    extent: Extent
    steps: int

    @property
    def bounded(self) -> bool:
        return self.extent.reach != float("inf") and self.extent.most != float("inf")


class Finder:
    """One expression, compiled as Presidio compiles it."""

    def __init__(self, expression: str, flags: int, reading: Reading | None) -> None:
        self._expression, self._flags = expression, flags
        self._reading = reading
        self._stops: tuple[regex.Pattern[bytes], regex.Pattern[bytes]] | None = None
        if reading is not None and reading.extent.most > _WIDE and reading.steps != ALL:
            outside = _byte_class(ALL & ~reading.steps)
            self._stops = regex.compile(outside), regex.compile(b"(?r)" + outside)

    @functools.cached_property
    def pattern(self) -> regex.Pattern[str]:
        """Compiled when it first runs: most never do, and some take a tenth of a second."""
        return regex.compile(self._expression, self._flags)

    def find(
        self, text: str, folded: bytes, ends: Sequence[int] | None, timeout_s: float | None
    ) -> Iterator[regex.Match[str]]:
        """All matches, in order. `ends` None: nothing is known of where they are."""
        regions = None
        if ends is not None and len(text) > _WHOLE and self._reading is not None:
            regions = self._regions(folded, ends)
        if regions is None:
            yield from self.pattern.finditer(text, timeout=timeout_s)
            return
        resume = 0
        for first, last, horizon in regions:
            for match in self.pattern.finditer(
                text, max(first, resume), horizon, timeout=timeout_s
            ):
                if match.start() >= last:
                    break
                resume = match.end()
                yield match

    def _regions(self, folded: bytes, ends: Sequence[int]) -> list[tuple[int, int, int]] | None:
        """Where starts can be, from (included) to (excluded), and how far from there to look."""
        assert self._reading is not None
        if self._stops is not None:
            return _between_stops(*self._stops, self._reading.extent, folded, ends)
        if self._reading.bounded:
            return _bounded(self._reading.extent, ends, len(folded))
        return None


def _bounded(extent: Extent, ends: Sequence[int], length: int) -> list[tuple[int, int, int]]:
    """A report at `end` is a match that ends there or one before (superset.py), or the least part
    of one that goes on; it starts before `end`, and at most its longest match before that."""
    most, reach = int(extent.most), int(extent.reach)
    regions: list[tuple[int, int, int]] = []
    for end in sorted(ends):
        first = max(end - 1 - most, 0)
        if regions and first <= regions[-1][1]:
            first = regions.pop()[0]
        regions.append((first, end, min(end + reach + _LOOK, length)))
    return regions


def _between_stops(
    forward: regex.Pattern[bytes],
    backward: regex.Pattern[bytes],
    extent: Extent,
    folded: bytes,
    ends: Sequence[int],
) -> list[tuple[int, int, int]]:
    """An expression with a long match, or without a longest one, still cannot step over some bytes:
    a match lies between two of those. The last character that it is sure to hold stands one or two
    before `end`."""
    regions: list[tuple[int, int, int]] = []
    begin, stop = 0, -1
    for end in sorted(ends):
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
        horizon = min(stop + _LOOK, end + extent.reach + _LOOK, len(folded))
        regions.append((first, end, int(horizon)))
    return regions


def _byte_class(mask: int) -> bytes:
    return b"[" + b"".join(b"\\x%02x" % b for b in range(256) if mask >> b & 1) + b"]"
