"""People whom only a whole call tells of: parts of a name in fields and messages far apart.

Verdicts on the texts of a call are remembered piece by piece, so a search by the names model never
reads all of a long conversation at once. What is looked for here needs all of it and costs little:
keys of names with their values, and what stands around a particular of somebody.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

from gateway.classify import ScanFailed, TooMany
from gateway.classify.conversations.memory import BETWEEN
from gateway.classify.names import Names
from gateway.classify.names.forms import off_loop
from gateway.classify.names.records.fields import fields
from gateway.classify.names.records.keys import Key, NamePart, keys
from gateway.classify.names.records.lone import lifted
from gateway.classify.names.records.particulars import NearbyParticulars
from gateway.classify.names.records.people import (
    MOST_QUESTIONS,
    NOTHING,
    NamesQuery,
    RecordReading,
    read_record,
)
from gateway.classify.names.records.tables import placed
from gateway.classify.names.records.unescaped import Unescaped, plain_json, undone
from gateway.core import ambient
from gateway.core.types import DocumentCall, Finding, Payload

_PAIR = frozenset({NamePart.GIVEN, NamePart.FAMILY})
_ENDS_A_CELL = re.compile(r"[ \"'`\[\]*:\r]*(?:[\t|;,)}<\n]|$)")
_MANY_LINES = re.compile(r"[\n\r]|\\[nr]")


class CallRecord:
    """A call as one record: with its numbers, and with the words that are no content. Read once,
    whoever asks, and only if somebody does."""

    def __init__(self, payload: Payload, texts: Sequence[str]) -> None:
        """`texts`: the strings that are read of it."""
        self.payload = payload
        self.texts = texts
        self.size = sum(map(len, texts))

    @functools.cached_property
    def whole(self) -> Unescaped:
        if isinstance(self.payload, DocumentCall):
            return undone(plain_json(self.payload.document))
        return undone(BETWEEN.join(self.texts))

    @functools.cached_property
    def particulars(self) -> NearbyParticulars:
        return NearbyParticulars(self.whole.folded)


async def people_findings(
    names: Names, record: CallRecord, budget_s: float, allowed: Sequence[str]
) -> list[Finding]:
    """Those whose names stand in parts anywhere in the call. Their places mean nothing. Raises
    `NoScan` as `Names.find` does."""
    until_s = ambient.monotonic_s() + budget_s
    reading = await off_loop(record.size, until_s, _read, record, allowed)
    if reading.people or not reading.questions:
        return list(reading.people)
    answers = await names.find(
        [question.text for question in reading.questions], until_s - ambient.monotonic_s()
    )
    if len(answers) != len(reading.questions):
        raise ScanFailed("the answer does not fit the question")
    return [
        finding
        for question, answer in zip(reading.questions, answers, strict=True)
        for finding in question.findings(answer)
    ]


async def lone_people(
    names: Names, record: CallRecord, budget_s: float, allowed: Sequence[str]
) -> list[Finding]:
    """Lone names near a particular of somebody (a date of birth, a number, a diagnosis), as the
    identifying ones that they are there. Raises `NoScan` as `Names.find` does."""
    until_s = ambient.monotonic_s() + budget_s
    windows = await off_loop(record.size, until_s, _windows, record)
    if not windows:
        return []
    answers = await names.find(windows, until_s - ambient.monotonic_s())
    if len(answers) != len(windows):
        raise ScanFailed("the answer does not fit the question")
    return [
        finding
        for window, findings in zip(windows, answers, strict=True)
        for finding in lifted(window, findings)
        if window[finding.start : finding.end] not in allowed
    ]


def _read(record: CallRecord, allowed: Sequence[str]) -> RecordReading:
    if not _announces(record):
        return NOTHING
    people: list[Finding] = []
    questions: dict[str, NamesQuery] = {}
    for part in (record.whole, *map(undone, _tables(record))):
        reading = read_record(part, allowed)
        people += reading.people
        questions |= {question.text: question for question in reading.questions}
        if len(questions) > MOST_QUESTIONS:
            raise TooMany("more names in parts than may be asked about")
    return RecordReading(tuple(people), tuple(questions.values()))


def _tables(record: CallRecord) -> Iterator[str]:
    """Texts that may hold one. Between the commas of a document its columns are not to be told."""
    if isinstance(record.payload, DocumentCall):
        yield from (text for text in record.texts if _MANY_LINES.search(text))


def _announces(record: CallRecord) -> bool:
    """Whether a key in it is a person's alone, two may be together, one stands in a call that tells
    a particular of somebody, or names have places in it."""
    whole = record.whole
    announced = list(keys(whole.text, whole.folded))
    if any(key.strong for key in announced) or _are_paired(whole, announced):
        return True
    if announced and record.particulars:
        return True
    return any(row.fields for row in placed(whole))


def _are_paired(whole: Unescaped, announced: Sequence[Key]) -> bool:
    """Whether the keys of a given and of a family name, which are words of prose too (`first`,
    `last`), head columns, or one of them has a value."""
    pair = [key for key in announced if key.part in _PAIR]
    if {key.part for key in pair} != _PAIR:
        return False
    heads = {key.part for key in pair if _ENDS_A_CELL.match(whole.text, key.end)}
    return heads == _PAIR or any(True for _ in fields(whole, pair))


def _windows(record: CallRecord) -> list[str]:
    """What stands around the particulars in the call."""
    return [record.whole.text[start:end] for start, end in record.particulars]
