"""Who is named in parts: values of one record that belong together.

Pure: a text in, findings out, and questions that only the names model can answer. A given and a
family name under keys of their own are a person by these keys alone, whether or not anybody has
heard the name; where the keys are weak (`first`, `last`) or the values are everyday words, the
model is asked about the two together.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from gateway.classify import TooMany
from gateway.classify.names import FULL_NAME, PERSON
from gateway.classify.names.records.fields import Field, fields, reversed_after
from gateway.classify.names.records.keys import NamePart, keys
from gateway.classify.names.records.particulars import NearbyParticulars
from gateway.classify.names.records.plausible import (
    is_dull,
    is_given,
    is_place,
    split_words,
    stands_in,
)
from gateway.classify.names.records.tables import placed, tabled
from gateway.classify.names.records.unescaped import Unescaped, unescaped
from gateway.core.types import Finding

Span = tuple[int, int]

BY_KEYS = 0.9
"""The score of a name in parts that its keys or its place in a record tell."""
SURE, LONE = 0.9, 0.0
"""What the names model has to say of two values under weak keys, and of one beside a particular."""
MOST_QUESTIONS = 256
"""Of one text; one with more is too much to be cleared."""
_WEAK_APART = 400  # characters between two values under weak keys
_PERSONAL = re.compile(
    r"patient|person|human|practition|contact|customer|employee|guarantor"
    r"|name(?:[\"']?\s?[:=]?\s?[\[{(>.\n]|\[)"
)
_BEFORE = 120  # characters before weak keys in which that stands
_PARTS = frozenset({NamePart.GIVEN, NamePart.FAMILY})


@dataclass(frozen=True, slots=True)
class NamesQuery:
    """`text` goes to the names model. A name in it that scores `least` or more makes the spans a
    person's."""

    text: str = field(repr=False)
    spans: tuple[Span, ...]
    least: float = FULL_NAME

    def findings(self, answer: Iterable[Finding]) -> list[Finding]:
        score = max((f.score for f in answer if f.type == PERSON), default=0.0)
        if not score or score < self.least:
            return []
        return [Finding(PERSON, *span, max(FULL_NAME, score)) for span in self.spans]


@dataclass(frozen=True, slots=True)
class RecordReading:
    """What the records in a text tell of people."""

    people: tuple[Finding, ...] = ()
    questions: tuple[NamesQuery, ...] = ()
    keys: tuple[
        tuple[NamePart, Span], ...
    ] = ()  # of a given or a family name, and where they stand
    parts: tuple[Span, ...] = ()  # values under such keys


NOTHING = RecordReading()


def read(text: str, allowed: Sequence[str] = ()) -> RecordReading:
    """The people whose names stand in parts under keys or in the places of a record. Raises
    TooMany where too many may be."""
    return read_record(unescaped(text), allowed)


def read_record(record: Unescaped, allowed: Sequence[str] = ()) -> RecordReading:
    """As `read`, of a text whose escapes are undone."""
    announced = list(keys(record.text, record.folded))
    rows = [*(tabled(record, announced) if announced else ()), *placed(record)]
    if not (announced or rows):
        return NOTHING
    in_rows = {one.start for row in rows for one in row.fields}
    loose = [one for one in fields(record, announced) if one.start not in in_rows]
    people = _People(record, allowed)
    for row in rows:
        people.add_pairs(row.fields)
        if row.particular:
            people.near_particulars(row.fields)
    people.add_pairs(loose)
    people.add_whole_names(loose)
    single = [*loose, *(one for row in rows for one in row.fields)]
    people.near_particulars(single, NearbyParticulars(record.folded) if single else None)
    return RecordReading(
        tuple(people.findings.values()),
        tuple(people.questions.values()),
        tuple(
            (key.part, record.span(key.start, key.end))
            for key in announced
            if key.strong and key.part in _PARTS
        ),
        tuple(
            record.span(one.start, one.end)
            for one in single
            if one.strong and one.part in _PARTS and not is_dull(one.value)
        ),
    )


class _People:
    """Collects who is told for sure, and who is only if the names model says so."""

    def __init__(self, record: Unescaped, allowed: Sequence[str]) -> None:
        self._record = record
        self._allowed = allowed
        self.findings: dict[Span, Finding] = {}
        self.questions: dict[str, NamesQuery] = {}

    def add_pairs(self, listed: Sequence[Field]) -> None:
        """Given names and family names."""
        for given, family in _pairs(listed):
            self._judge(given, family)

    def add_whole_names(self, listed: Sequence[Field]) -> None:
        """Values that their keys call a whole name, as `anna kowalska` or `Kowalska, Anna`."""
        for one in listed:
            if one.part is NamePart.FULL and len(split_words(one.value)) > 1:
                self._judge(one)
            given = reversed_after(self._record.text, one)
            if given is not None and not (is_given(one.value) or is_place(one.value)):
                self._judge(given, replace(one, part=NamePart.FAMILY, strong=False))

    def near_particulars(
        self, listed: Sequence[Field], around: NearbyParticulars | None = None
    ) -> None:
        """Values by themselves; those within reach of a particular, where that is to be told."""
        for one in listed:
            if one.value in self._allowed:
                continue
            if around is not None and not around.reach(one.start, one.end):
                continue
            span = self._record.span(one.start, one.end)
            born = around is not None and around.births.reach(one.start, one.end)
            known = not is_dull(one.value) or (born and _is_titled(one.value))
            if one.sure and (one.strong or born) and known:
                self._add([span])
            else:
                for key in ("Patient", "Name"):  # a surname may be a place's under one of them
                    self._ask(f"{key}: {_titled(one.value)}.", [span], LONE)

    def _judge(self, *group: Field) -> None:
        values = [one.value for one in group]
        dull = [is_dull(value) for value in values]
        whole, reverse = " ".join(values), " ".join(reversed(values))
        if all(dull) or whole in self._allowed or reverse in self._allowed:
            return
        spans = [self._record.span(one.start, one.end) for one in group]
        strong = all(
            one.strong and (one.sure or not is_word)
            for one, is_word in zip(group, dull, strict=True)
        )
        if len(group) > 1 and all(one.part in _PARTS for one in group):
            by_keys = strong and not any(map(stands_in, values))
            if by_keys or (not any(dull) and self._is_personal(group)):
                self._add(spans)
                return
        value = " ".join(map(_titled, values))
        self._ask(f"Name: {value}.", spans, FULL_NAME if strong else SURE)

    def _is_personal(self, group: Sequence[Field]) -> bool:
        """Whether what stands before weak keys says that they are a person's."""
        first = min(one.start for one in group)
        before = max(0, first - _BEFORE)
        return _PERSONAL.search(self._record.folded, before, first) is not None

    def _add(self, spans: Iterable[Span]) -> None:
        self.findings.update({span: Finding(PERSON, *span, BY_KEYS) for span in spans})

    def _ask(self, text: str, spans: Sequence[Span], least: float) -> None:
        self.questions.setdefault(text, NamesQuery(text, tuple(spans), least))
        if len(self.questions) > MOST_QUESTIONS:
            raise TooMany("more names in parts than may be asked about")


def _pairs(listed: Sequence[Field]) -> Iterator[tuple[Field, Field]]:
    """(given, family): each of them with the nearest of the other kind. A value under `name` stands
    for the kind that is not there."""
    given = [one for one in listed if one.part is NamePart.GIVEN]
    family = [one for one in listed if one.part is NamePart.FAMILY]
    either = [
        one for one in listed if one.part is NamePart.NAME and len(split_words(one.value)) == 1
    ]
    for one, other in _nearest(given, family or either):
        yield one, other
    for one, other in _nearest(family, given or either):
        yield other, one


def _nearest(some: Sequence[Field], others: Sequence[Field]) -> Iterator[tuple[Field, Field]]:
    starts = [one.start for one in others]
    for one in some:
        at = bisect.bisect_left(starts, one.start)
        for other in sorted(
            others[max(0, at - 1) : at + 1], key=lambda o: abs(o.start - one.start)
        ):
            apart = abs(other.start - one.start)
            if apart and ((one.strong and other.strong) or apart <= _WEAK_APART):
                yield one, other
                break


def _is_titled(value: str) -> bool:
    """Whether it is written as a name is, and says no more than that there is none."""
    return value[:1].isupper() and not stands_in(value)


def _titled(value: str) -> str:
    return value.title() if value.isupper() else value
