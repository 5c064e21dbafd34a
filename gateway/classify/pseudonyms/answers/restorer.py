"""Originals back in the place of surrogates, also when a stream cuts these in pieces.

From left to right, at each place the longest form that is there: in any case of letters, and of a
number in whatever groups its digits stand. A number is never a part of a longer one. What is held
back is only what could still become a surrogate, so that the pieces of a text can be cut anywhere
without a difference.

What of a surrogate is there in a form that cannot be put back (shortened, misspelt, its digits in
part) is counted: it must not pass for something true.

No regular expression is built of a form, since `re` would keep it beyond the call. Letters are
lowered one by one and ASCII ones alone, so that no place in the text moves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gateway.classify.pseudonyms.answers.traces import Traces
from gateway.classify.pseudonyms.forms import SurrogateForm, compact
from gateway.classify.pseudonyms.values.numerals import LAST

_LOWER = {ord(c): c.lower() for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_SEPARATORS = " ().-/\u00a0\u202f\u2009\u2010\u2011\u2012\u2013\u2014"
_IN_A_ROW = 3  # separators between two digits of one number
_AROUND = LAST + 2  # characters beside four digits that say whether they are of a longer number
_NUMBER = re.compile(r"(?<![0-9])[0-9]")
_HEAD = 3  # characters by which words are looked for in a long text
_LETTERS = 2  # at the beginning of an account number
_NOTHING = SurrogateForm("", "")
_LOOKED_OVER = 4 * 1024  # characters of a text that goes on
_BETWEEN_WORDS = re.compile(r"[^\W\d_](\s)[^\W\d_]")  # no word and no number reaches over it
_MORE = -1  # it may be there, once more of the text is


@dataclass(frozen=True, slots=True)
class _Match:
    start: int
    end: int
    form: SurrogateForm


@dataclass(frozen=True, slots=True)
class RestoredPiece:
    """A part of a text, restored; how much of it that is; and what of it was as it came."""

    restored: str = field(repr=False)
    length: int
    rest: str = field(repr=False)


class Restorer:
    """Puts back what one ledger holds."""

    def __init__(self, forms: Sequence[SurrogateForm]) -> None:
        self._literal = _Words()
        self._numbers = _Words()
        for form in forms:
            surrogate = form.surrogate.translate(_LOWER)
            self._literal.add(surrogate, form)
            if form.number:
                self._numbers.add(compact(surrogate), form)
        longest = max(self._literal.longest, (1 + _IN_A_ROW) * self._numbers.longest)
        self._longest = longest + _AROUND
        self.shortest = min([LAST, *(len(form.surrogate) for form in forms)])
        """Characters: in a shorter text there is nothing to put back, and nothing left."""
        self._traces = Traces((form.surrogate, form.original) for form in forms)
        self.unrestored = 0  # places where something of a surrogate is left in what was put back
        self.forgotten = False

    def whole(self, text: str) -> str:
        piece = self.piece(text, "", final=True)
        self.check_rest(piece.rest)
        return piece.restored

    def check_rest(self, rest: str) -> None:
        """Count what of surrogates is left in a text, of which what was put back is taken out."""
        self.unrestored += self._traces.count(rest)

    def check_begun(self, rest: str) -> str:
        """The same of a text that goes on, as far as nothing can reach over; what is left of it."""
        at = 0
        while len(rest) - at > 2 * _LOOKED_OVER:
            between = _BETWEEN_WORDS.search(rest, at + _LOOKED_OVER, at + 2 * _LOOKED_OVER)
            end = at + 2 * _LOOKED_OVER if between is None else between.start(1)
            self.check_rest(rest[at:end])
            at = end
        return rest[at:]

    def piece(self, text: str, before: str, final: bool) -> RestoredPiece:
        """The text as far as it need not wait for more. `before`: what came before it, as it
        came."""
        matches, cut = self._find_matches(before + text, len(before), final)
        made, rest, at = [], [], 0
        for match in matches:
            start, end = match.start - len(before), match.end - len(before)
            made += [text[at:start], match.form.original_as(text[start:end])]
            rest += [text[at:start], "\0"]
            at = end
        cut -= len(before)
        last = text[at:cut]
        return RestoredPiece("".join((*made, last)), cut, "".join((*rest, last)))

    def forget(self) -> None:
        """A thread that restores a large answer meanwhile has what it began with, and stops."""
        self.forgotten = True
        self._literal, self._numbers = _Words(), _Words()
        self._traces.forget()

    def _find_matches(self, text: str, start: int, final: bool) -> tuple[list[_Match], int]:
        """Surrogates from left to right, and where what has to wait begins."""
        lowered, end = text.translate(_LOWER), start
        matches: list[_Match] = []
        for at in self._candidates(lowered, start, final):
            if at < end:
                continue
            best: _Match | None = None
            for stop, form in self._matches(lowered, at, final):
                if stop == _MORE:
                    return matches, at
                if best is None or stop > best.end:
                    best = _Match(at, stop, form)
            if best is not None:
                matches.append(best)
                end = best.end
        return matches, len(lowered)

    def _candidates(self, text: str, start: int, final: bool) -> list[int]:
        """Where a form may begin, in order."""
        places: set[int] = set()
        for head in self._literal.heads:
            places.update(_places(text, head, start))
        for head in self._numbers.heads:
            if not head[0].isdigit():
                places.update(_places(text, head[:_LETTERS], start))
        if self._numbers.heads:
            places.update(m.start() for m in _NUMBER.finditer(text, start))
        if not final:
            places.update(range(max(start, len(text) - self._longest), len(text)))
        return sorted(places)

    def _matches(self, text: str, at: int, final: bool) -> Iterator[tuple[int, SurrogateForm]]:
        for end, surrogate, form in self._literal.at(text, at, "", final):
            if form is None:
                yield _MORE, _NOTHING
            elif form.begins and at and text[at - 1].isalnum():
                continue
            elif not form.number:
                yield end, form
            elif (fits := _apart(text, at, end, surrogate, final)) != 0:
                yield (end if fits == 1 else _MORE), form
        for end, key, form in self._numbers.at(text, at, _SEPARATORS, final):
            if form is None:
                yield _MORE, _NOTHING
            elif (fits := _apart(text, at, end, key, final)) != 0:
                yield (end if fits == 1 else _MORE), form


class _Words:
    """What is looked for, and the beginnings of it."""

    def __init__(self) -> None:
        self._forms: dict[str, SurrogateForm] = {}
        self._beginnings: set[str] = set()
        self.heads: set[str] = set()
        self.longest = 0

    def add(self, word: str, form: SurrogateForm) -> None:
        """The form that came first counts."""
        self._forms.setdefault(word, form)
        self._beginnings.update(word[:n] for n in range(1, len(word)))
        self.heads.add(word[:_HEAD])
        self.longest = max(self.longest, len(word))

    def at(
        self, text: str, at: int, separators: str, final: bool
    ) -> Iterator[tuple[int, str, SurrogateForm | None]]:
        """The words that stand at a place: where each ends, itself, its form; no form for one that
        may stand there once more of the text is. Separators count for nothing within them."""
        word, gap = "", 0
        while at < len(text):
            c = text[at]
            if word and c in separators and gap < _IN_A_ROW:
                at, gap = at + 1, gap + 1
                continue
            word += c
            at, gap = at + 1, 0
            if (form := self._forms.get(word)) is not None:
                yield at, word, form
            if word not in self._beginnings:
                return
        if word and not final:
            yield at, word, None


def _places(text: str, needle: str, start: int) -> Iterator[int]:
    at = text.find(needle, start)
    while at >= 0:
        yield at
        at = text.find(needle, at + 1)


def _apart(text: str, start: int, end: int, surrogate: str, final: bool) -> int:
    """Whether a number stands for itself: 1 if it does, 0 if not, -1 if more has to come."""
    if start and text[start - 1].isdigit() and surrogate[0].isdigit():
        return 0
    if not final and end == len(text):
        return _MORE
    if text[end : end + 1].isdigit():
        return 0
    if len(surrogate) != LAST:
        return 1
    if not final and len(text) < end + _AROUND and _may_go_on(text[end:]):
        return _MORE
    behind = text[end : end + _AROUND]
    before = text[max(0, start - _AROUND) : start][::-1]
    return 0 if _another_group(behind) or _another_group(before) else 1


def _another_group(neighbour: str) -> bool:
    digits = neighbour[1 : 1 + LAST]
    is_group = len(digits) == LAST and digits.isdigit() and not neighbour[1 + LAST :][:1].isdigit()
    return is_group and neighbour[0] in _SEPARATORS


def _may_go_on(behind: str) -> bool:
    return behind[:1] in _SEPARATORS and (len(behind) == 1 or behind[1:].isdigit())


class Channel:
    """One text that comes in pieces."""

    def __init__(self, restorer: Restorer) -> None:
        self._restorer = restorer
        self._held = ""
        self._before = ""  # the last characters that were let go of, as they came
        self._rest: list[str] = []  # what was let go of and was nothing to put back
        self._rest_size = 0

    @property
    def held(self) -> bool:
        return bool(self._held)

    def feed(self, piece: str) -> str:
        return self._go_on(self._held + piece, final=False)

    def flush(self) -> str:
        """What was held, when no more will come."""
        restored = self._go_on(self._held, final=True)
        self._restorer.check_rest("".join(self._rest))
        self._rest.clear()
        self._rest_size = 0
        return restored

    def _go_on(self, text: str, final: bool) -> str:
        piece = self._restorer.piece(text, self._before, final)
        self._before = (self._before + text[: piece.length])[-_AROUND:]
        self._held = text[piece.length :]
        self._rest.append(piece.rest)
        self._rest_size += len(piece.rest)
        if self._rest_size > 8 * _LOOKED_OVER:  # guard: A9.surrogate-tail
            left = self._restorer.check_begun("".join(self._rest))
            self._rest, self._rest_size = [left], len(left)
        return piece.restored
