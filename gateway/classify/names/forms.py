"""Names in a text as it stands and in the other forms in which it may be read (C4)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from gateway.classify import ScanFailed, ScanLate
from gateway.classify.names import Enough, Names
from gateway.classify.names.records.keys import folded
from gateway.classify.names.records.lone import adjacent, lifted, with_people
from gateway.classify.names.records.particulars import NearbyParticulars
from gateway.classify.names.records.people import NOTHING, RecordReading, read
from gateway.classify.text import normalise
from gateway.core import ambient
from gateway.core.types import Finding

T = TypeVar("T")

_SHORT = 8_192  # characters whose forms and records are read on the loop: a millisecond


def prepare() -> None:
    """Compile what texts are searched with, so that no call waits for it: a fifth of a second."""
    normalise.prepare()
    read("")
    _tells("")


async def find_in_all_forms(
    names: Names,
    texts: Sequence[str],
    budget_s: float,
    allowed: Sequence[str] = (),
    *,
    records: bool = True,
    lone: bool = True,
    enough: Enough | None = None,
) -> list[list[Finding]]:
    """One list of findings a text. A finding in a derived form has the span of the part that the
    form came from. People whose names stand in parts are found by what records say
    (`people`), and a lone name beside a particular of somebody counts as a full one. Without
    `records`, somebody else reads those of the texts as they stand (`across`). Without `lone`, lone
    names count only where records speak of somebody, and beside a particular in a derived form:
    `across.lone_people` looks at the particulars in the texts as they stand. `enough` as in
    `Names.find`. Raises `NoScan` as that does; a part that was hidden from the reader is none of
    this: the patterns' scan finds it."""
    until_s = ambient.monotonic_s() + budget_s
    forms: list[str] = []
    origins: list[tuple[int, normalise.NormalisedPiece | None]] = []
    for at, text in enumerate(texts):
        forms.append(text)
        origins.append((at, None))
        pieces = await off_loop(len(text), until_s, normalise.wordings, text)
        forms += [form.text for form in pieces]
        origins += [(at, form) for form in pieces]
    read_too = [records or piece is not None for _, piece in origins]
    lone_too = [lone or (piece is not None and _tells(piece.text)) for _, piece in origins]
    answers = await _people(names, forms, read_too, lone_too, until_s, allowed, enough)
    results: list[list[Finding]] = [[] for _ in texts]
    for (at, piece), findings in zip(origins, answers, strict=True):
        for finding in findings:
            written = (texts[at] if piece is None else piece.text)[finding.start : finding.end]
            if written in allowed:
                continue
            if piece is None:
                results[at].append(finding)
            elif not any(_within(f, piece, finding) for f in results[at]):
                results[at].append(Finding(finding.type, piece.start, piece.end, finding.score))
    return results


async def _people(
    names: Names,
    texts: Sequence[str],
    records: Sequence[bool],
    lone: Sequence[bool],
    until_s: float,
    allowed: Sequence[str],
    enough: Enough | None,
) -> list[list[Finding]]:
    """What the names model says of texts, and what the records do in those of them."""
    readings = [
        await read_records(text, until_s, allowed) if rows else NOTHING
        for text, rows in zip(texts, records, strict=True)
    ]
    questions = [question for reading in readings for question in reading.questions]
    count = [own or bool(reading.keys) for own, reading in zip(lone, readings, strict=True)]
    results = await names.find(texts, until_s - ambient.monotonic_s(), count, enough)
    if len(results) != len(texts):
        raise ScanFailed("the answer does not fit the question")
    if enough and any(enough(t, f) for t, own in zip(texts, results, strict=True) for f in own):
        return results
    answers: Sequence[list[Finding]] = ()
    if questions:
        answers = await names.find([q.text for q in questions], until_s - ambient.monotonic_s())
        if len(answers) != len(questions):
            raise ScanFailed("the answer does not fit the question")
    confirmed = iter(zip(questions, answers, strict=True))
    more = [
        await off_loop(len(text), until_s, adjacent, text, findings, reading) if findings else []
        for text, findings, reading in zip(texts, results, readings, strict=True)
    ]
    joining = [question for some in more for question in some]
    joined: Sequence[list[Finding]] = ()
    if joining:
        joined = await names.find([q.text for q in joining], until_s - ambient.monotonic_s())
    answered = iter(zip(joining, joined, strict=True))
    for at, reading in enumerate(readings):
        people = list(reading.people)
        for question, answer in itertools.islice(confirmed, len(reading.questions)):
            people += question.findings(answer)
        for question, answer in itertools.islice(answered, len(more[at])):
            people += question.findings(answer)
        if results[at]:
            results[at] = await off_loop(len(texts[at]), until_s, lifted, texts[at], results[at])
        results[at] = with_people(results[at], people)
    return results


async def read_records(text: str, until_s: float, allowed: Sequence[str]) -> RecordReading:
    """What the records in a text say of people."""
    return await off_loop(len(text), until_s, read, text, allowed)


async def off_loop(size: int, until_s: float, work: Callable[..., T], *given: Any) -> T:
    """In a thread for so many characters that the loop would wait; the work is bounded, so it ends
    by itself when nobody waits any longer."""
    if size <= _SHORT:
        return work(*given)
    try:
        async with asyncio.timeout(max(0.0, until_s - ambient.monotonic_s())):
            return await asyncio.to_thread(work, *given)
    except TimeoutError:
        raise ScanLate("the records of the text were not read in time") from None


def _tells(text: str) -> bool:
    """Whether a derived form, which is short, tells a particular of somebody."""
    return bool(NearbyParticulars(folded(text)))


def _within(known: Finding, piece: normalise.NormalisedPiece, finding: Finding) -> bool:
    """The text as it stands showed this kind there already, as surely."""
    return (
        known.type == finding.type
        and known.start < piece.end
        and piece.start < known.end
        and known.score >= finding.score
    )
