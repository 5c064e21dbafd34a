"""Regions are put together many reports at a time; one at a time gives the same."""

from __future__ import annotations

import math
from collections.abc import Sequence

import regex
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.classify.patterns.finder import _LOOKBEHIND, _between_stops
from gateway.classify.patterns.syntax import MatchExtent

STOPS = b" ."
FORWARD, BACKWARD = regex.compile(b"[ .]"), regex.compile(b"(?r)[ .]")


def one_at_a_time(
    extent: MatchExtent, folded: bytes, ends: Sequence[int]
) -> list[tuple[int, int, int]]:
    regions: list[tuple[int, int, int]] = []
    begin, stop = 0, -1
    for end in sorted(ends):
        inside = max(end - 2, 0)
        if inside > stop:
            begin = max((at + 1 for at in range(inside) if folded[at] in STOPS), default=0)
        if end - 1 > stop:
            behind = (at for at in range(max(end - 1, 0), len(folded)) if folded[at] in STOPS)
            stop = next(behind, len(folded))
        first = int(max(begin, end - 1 - extent.most))
        if regions and first <= regions[-1][1]:
            first = regions.pop()[0]
        horizon = min(stop + _LOOKBEHIND, end + extent.reach + _LOOKBEHIND, len(folded))
        regions.append((first, end, int(horizon)))
    return regions


lengths = st.one_of(st.integers(1, 60), st.just(math.inf))


@st.composite
def reports(draw: st.DrawFn) -> tuple[bytes, list[int]]:
    """Texts of long runs between stops, and places that are often one after the other."""
    parts = st.one_of(st.just(b" "), st.just(b"."), st.integers(1, 40).map(lambda n: b"a" * n))
    folded = b"".join(draw(st.lists(parts, min_size=1, max_size=12)))
    starts = draw(st.lists(st.integers(1, len(folded)), min_size=1, max_size=8))
    runs = [range(at, min(at + draw(st.integers(1, 30)), len(folded) + 1)) for at in starts]
    return folded, [end for run in runs for end in run]


@given(reports(), lengths, lengths)
@example((b"a" * 50, list(range(1, 51))), math.inf, math.inf)
@example((b"aaaa aaaa", [2, 5, 6, 9]), 5, 4)
def test_reports_one_at_a_time_give_the_same_regions(
    reported: tuple[bytes, list[int]], most: float, reach: float
) -> None:
    folded, ends = reported
    extent = MatchExtent(1, most, reach)
    found = _between_stops(FORWARD, BACKWARD, extent, folded, ends)
    assert found == one_at_a_time(extent, folded, ends)
