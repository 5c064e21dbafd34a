"""Lone names that are somebody's all the same: by what stands beside them.

Two in cells beside each other may be a given name and a family name, which the names model says
when it reads the two together; one near a date of birth, a number in a register or a diagnosis
identifies its bearer.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gateway.classify import TooMany
from gateway.classify.names import FULL_NAME, PERSON, is_lone
from gateway.classify.names.records.keys import NamePart, folded, is_key
from gateway.classify.names.records.particulars import NearbyParticulars
from gateway.classify.names.records.people import MOST_QUESTIONS, NamesQuery, RecordReading, Span
from gateway.classify.names.records.plausible import (
    is_dull,
    is_family,
    is_given,
    is_name_like,
    is_place,
    split_words,
    stands_in,
)
from gateway.core.types import Finding

BY_PARTICULARS = FULL_NAME
"""The least score of a lone name beside a particular."""

_S = r"\s{0,8}"
_BORDER = re.compile(
    rf"{_S}[\"'`]{_S}[,;|]{_S}[\"'`]{_S}|\n\|\n|[ ]{{0,40}}[|\t^;][ ]{{0,40}}|,"
    rf"|(?:{_S}</?[a-zA-Z][^<>\n]{{0,60}}>){{1,8}}{_S}"
)
_REVERSED = re.compile(r",[ ]")
_OWN, _AROUND = 40, 150
"""Characters between a key and its name, and between it and the other name."""
_EDGE = 8  # characters before a cell that say where it begins
_BEGINS = re.compile(r"(?:^|[,;|\t^\[({>])\s*[\"'`]?\s*$", re.MULTILINE)
_ENDS = re.compile(rf"{_S}[\"'`]?{_S}(?:[,;|\t^\])}}<]|\n\|\n|$)", re.MULTILINE)
_CELL = re.compile(r"[^\W\d_][^\n,;|\t^\"`<>=:(){}\[\]]{1,40}")
_CELL_BEFORE = re.compile(
    rf"(?:^|[,;|\t^\[({{>\n]){_S}[\"'`]?{_S}([^\W\d_][^\n,;|\t^\"`<>=:(){{}}\[\]]{{1,40}}?)"
    rf"(?:{_S}[\"'`]{_S}[,;|]{_S}[\"'`]{_S}|\n\|\n|[ ]{{0,8}}[|\t^;][ ]{{0,8}}|,)$"
)


def adjacent(text: str, findings: Sequence[Finding], reading: RecordReading) -> list[NamesQuery]:
    """Lone names that may be one person's: in cells beside each other, as they stand in a row
    without a head, in a list, and in messages that follow each other; and near the key of one."""
    lone = sorted(
        (f for f in findings if is_lone(f) and "@" not in text[f.start : f.end]),
        key=lambda f: f.start,
    )
    questions: list[NamesQuery] = []
    for run in _runs(text, lone):
        if len(run) == 1:
            questions += _neighbours(text, run[0])
        elif _are_cells(text, run):
            questions += _joined(text, run)
    if reading.keys:
        spans = {(one.start, one.end) for one in lone}.union(reading.parts)
        questions += _near_keys(text, sorted(spans), reading)
    if len(questions) > MOST_QUESTIONS:
        raise TooMany("more names in parts than may be asked about")
    return questions


def _near_keys(text: str, spans: Sequence[Span], reading: RecordReading) -> Iterator[NamesQuery]:
    """Two lone names beside the key of one: `My name is Anna and my surname is Kowalska`."""
    starts = [start for start, _ in spans]
    for part, (start, end) in reading.keys:
        first = bisect.bisect_left(starts, start - _AROUND)
        last = bisect.bisect_right(starts, end + _AROUND)
        near = spans[first:last]
        own = next((s for s in near if 0 <= s[0] - end <= _OWN), None)
        if own is None:
            own = next((s for s in reversed(near) if 0 <= start - s[1] <= _OWN // 2), None)
        if own is None:
            continue
        name = text[slice(*own)]
        others = [s for s in near if s != own and text[slice(*s)].lower() != name.lower()]
        other = min(others, key=lambda s: abs(s[0] - start), default=None)
        if other is None or not _are_two_parts(name, text[slice(*other)]):
            continue
        given, family = (own, other) if part is NamePart.GIVEN else (other, own)
        yield NamesQuery(f"Name: {text[slice(*given)]} {text[slice(*family)]}.", (given, family))


def _are_two_parts(name: str, other: str) -> bool:
    both = (name, other)
    return not (all(map(is_given, both)) or any(map(stands_in, both)) or any(map(is_key, both)))


def _runs(text: str, lone: Sequence[Finding]) -> Iterator[list[Finding]]:
    run: list[Finding] = []
    for one in lone:
        if run and not _is_border(text, run[-1].end, one.start):
            if _is_reversed(text, run[-1], one):
                yield [run.pop(), one]
            if run:
                yield run
            run = []
        run.append(one)
    if run:
        yield run


def _is_border(text: str, start: int, end: int) -> bool:
    return end - start <= _AROUND and _BORDER.fullmatch(text, start, end) is not None


def _is_reversed(text: str, one: Finding, other: Finding) -> bool:
    """`Kowalska, Anna` in a sentence."""
    if _REVERSED.fullmatch(text, one.end, other.start) is None:
        return False
    return is_family(text[one.start : one.end]) and is_given(text[other.start : other.end])


def _joined(text: str, run: Sequence[Finding]) -> Iterator[NamesQuery]:
    words = [text[f.start : f.end] for f in run]
    given = [is_given(word) for word in words]
    if len(run) == 2:
        pairs = [] if all(given) else [(0, 1)]
    elif len(run) == 3 and given[0] and is_family(words[2]):
        pairs = [(0, 2)]
    else:
        turns = [given[0], not given[0]] * len(run)
        pairs = []
        if len(run) % 2 == 0 and given == turns[: len(run)]:
            pairs = [(at, at + 1) for at in range(0, len(run), 2)]
    for first, last in pairs:
        names = (words[last], words[first]) if given[last] else (words[first], words[last])
        spans = tuple((f.start, f.end) for f in run[first : last + 1])
        yield NamesQuery(f"Name: {names[0]} {names[1]}.", spans)


def _are_cells(text: str, run: Sequence[Finding]) -> bool:
    """Whether names side by side are all that stands in their cells."""
    if _is_reversed(text, run[0], run[1]):
        return True
    start, end = run[0].start, run[-1].end
    begins = _BEGINS.search(text, max(0, start - _EDGE), start) is not None
    return begins and _ENDS.match(text, end) is not None


def _neighbours(text: str, one: Finding) -> Iterator[NamesQuery]:
    """A lone name that is a cell, with the cells beside it: the model may not know the other."""
    name = text[one.start : one.end]
    if _BEGINS.search(text, max(0, one.start - _EDGE), one.start) is None:
        return
    border = _BORDER.match(text, one.end)
    after = None if border is None else _CELL.match(text, border.end())
    if after is not None and _ENDS.match(text, after.end()) is not None:
        span = after.start(), after.start() + len(after[0].rstrip(" '"))
        if _may_join(name, text[slice(*span)]):
            yield NamesQuery(f"Name: {name} {text[slice(*span)]}.", ((one.start, one.end), span))
    first = max(0, one.start - 60)
    before = _CELL_BEFORE.search(text[first : one.start])
    if before is not None and _ENDS.match(text, one.end) is not None:
        span = first + before.start(1), first + before.end(1)
        if _may_join(name, text[slice(*span)]):
            yield NamesQuery(f"Name: {name} {text[slice(*span)]}.", (span, (one.start, one.end)))


def _may_join(name: str, value: str) -> bool:
    return (
        value[:1].isupper()
        and len(split_words(value)) == 1
        and is_name_like(value, family=True)
        and not (is_dull(value) or is_key(value) or is_place(value))
        and not (is_given(name) and is_given(value))
    )


def lifted(text: str, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, of which a lone name near a particular identifies its bearer."""
    if not any(map(is_lone, findings)):
        return list(findings)
    around = NearbyParticulars(folded(text))
    if not around:
        return list(findings)
    return [
        replace(f, score=max(f.score, BY_PARTICULARS))
        if is_lone(f) and around.reach(f.start, f.end)
        else f
        for f in findings
    ]


def with_people(findings: Sequence[Finding], people: Sequence[Finding]) -> list[Finding]:
    """All of them; of two names in one place the surer."""
    if not people:
        return list(findings)
    sure = sorted({(f.start, f.end): f for f in people}.values(), key=lambda f: f.start)
    starts = [f.start for f in sure]

    def is_surpassed(one: Finding) -> bool:
        at = bisect.bisect_right(starts, one.start) - 1
        return at >= 0 and one.end <= sure[at].end and one.score <= sure[at].score

    return [*(f for f in findings if f.type != PERSON or not is_surpassed(f)), *sure]
