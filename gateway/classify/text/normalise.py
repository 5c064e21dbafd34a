"""The other forms in which a text may hold what a scan of it as written would miss (C4).

Offsets. A `NormalisedPiece` is derived text together with the part of the original that it came
from; there is no finer mapping, as folding and decoding change lengths. Findings in a piece get the
span of that part. The text as written is scanned by the caller and has exact offsets.

Cost. Every step is linear, pieces never add up to more than a fixed multiple of the text, decoding
goes three levels deep. Where a bound cuts something off, that part is reported as hidden text,
which restricts: a bound must never be a way past the scan. Under a limit (effort.py) each form
costs steps, and too many of them are a verdict.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from gateway.classify.scanner.effort import spend
from gateway.classify.text import decoding, folding, numbers, spelled

MAX_DEPTH = 3
_GROWTH = 6  # all pieces together, in multiples of the text
_SLACK = 8192  # characters that any text may grow by
_STEPS_A_PIECE, _STEPS_A_CHARACTER = 20, 1 / 4  # of effort.py: to derive and to scan it


@dataclass(frozen=True, slots=True)
class NormalisedPiece:
    """`numeric`: it differs in numbers alone, and holds no name that the text does not. `phones`:
    whether digits in it may be a telephone number."""

    text: str = field(repr=False)
    start: int
    end: int
    numeric: bool = False
    phones: bool = True


@dataclass(frozen=True, slots=True)
class Forms:
    """What was derived from one text."""

    pieces: tuple[NormalisedPiece, ...] = ()
    hidden: tuple[tuple[int, int], ...] = ()  # parts that somebody does not want read
    values: tuple[tuple[str, int, int], ...] = ()  # (entity type, start, end) found on the way


class _Work:
    """Collects the forms of one text under its bounds."""

    def __init__(self, length: int, *, words: bool = False) -> None:
        """`words`: forms of words alone are collected."""
        self.words = words
        self.pieces: dict[tuple[str, int, int, bool], NormalisedPiece] = {}
        self.hidden: list[tuple[int, int]] = []
        self.values: dict[tuple[str, int, int], None] = {}
        self._room = length * _GROWTH + _SLACK

    def add(
        self, text: str, start: int, end: int, numeric: bool = False, phones: bool = True
    ) -> bool:
        """False if it was there before, or if there is no room left (then it counts as hidden)."""
        key = (text, start, end, phones)
        if not text or key in self.pieces:
            return False
        spend(_STEPS_A_PIECE + len(text) * _STEPS_A_CHARACTER)
        self._room -= len(text)
        if self._room < 0:
            self.hidden.append((start, end))
            return False
        self.pieces[key] = NormalisedPiece(text, start, end, numeric, phones)
        return True


def lead(form: NormalisedPiece, text: str) -> int:
    """How many characters at the head of a form are only the words before its part of `text`, for
    recognizers to see: what is found in them alone is no finding of that part."""
    before = text[max(0, form.start - numbers.CONTEXT) : form.start]
    return len(before) if before and form.text.startswith(before) else 0


def prepare() -> None:
    """What `wordings` needs beside a text."""
    decoding.may_hold_words("")


def wordings(text: str) -> tuple[NormalisedPiece, ...]:
    """The forms that may hold words which the text does not: without those of numbers, and without
    runs that are no text."""
    work = _Work(len(text), words=True)
    _derive(text, None, work, MAX_DEPTH)
    return tuple(work.pieces.values())


def derived(text: str) -> Forms:
    """All forms but the text itself."""
    work = _Work(len(text))
    if folding.hides_text(text):
        work.hidden.append((0, len(text)))
    _derive(text, None, work, MAX_DEPTH)
    return Forms(tuple(work.pieces.values()), tuple(work.hidden), tuple(work.values))


def _derive(text: str, origin: tuple[int, int] | None, work: _Work, depth: int) -> None:
    """Forms of `text`. `origin` is its part of the original, or None if it is the original."""
    lines = folding.fold_lines(text)
    folded = text if lines is None else "\n".join(lines)
    if lines is not None and folded != text:
        for form, start, end in folding.changes(text, lines):
            work.add(form, *(origin or (start, end)))
    whole = origin or (0, len(text))
    same = folded == text
    for number in () if work.words else numbers.forms(folded):
        place = origin or ((number.start, number.end) if same else whole)
        if number.is_card:
            work.values[("CREDIT_CARD", *place)] = None
        else:
            work.add(number.text, *place, numeric=True, phones=number.phones)
    for form, start, end in () if work.words else spelled.forms(folded):
        work.add(form, *(origin or ((start, end) if same else whole)))
    for written in (text,) if same else (text, folded):
        unbroken = folding.without_soft_breaks(written)
        if unbroken != written and depth and work.add(unbroken, *whole):
            _derive(unbroken, whole, work, depth - 1)
    # guard: C19.written-signs -> if work.words and not decoding.may_hold_words(folded):
    if work.words and not any(map(decoding.may_hold_words, _spellings(text, folded))):
        return
    for run in _runs(text, folded):
        place = origin or ((run.start, run.end) if run.start >= 0 else whole)
        if run.opaque or run.text is None or depth == 0:
            work.hidden.append(place)
        elif work.add(run.text, *place):
            _derive(run.text, place, work, depth - 1)


def _spellings(text: str, folded: str) -> list[str]:
    """In which runs are looked for: folding makes one of the `++` of a base64."""
    return list(dict.fromkeys((text, folding.decoded(text), folded))) if folded != text else [text]


def _runs(text: str, folded: str) -> Iterator[decoding.DecodedRun]:
    """Of the text as written and as it is decoded, in which the signs of base64 are what they are,
    and of the folded one. What is not in the text as written has no place in it."""
    written: set[str | None] = set()
    for run in decoding.runs(text):
        written.add(run.text)
        yield run
    for form in _spellings(text, folded)[1:]:
        for run in decoding.runs(form):
            if run.text not in written:
                written.add(run.text)
                yield replace(run, start=-1)
