"""Which surrogate stands for which original, for the length of one call.

The same original has the same surrogate wherever it stands, in capitals too; a person's name is
kept part by part, so that "Mrs Keller" is still of the family of "Maria Keller". Of all forms that
are put back none is part of another, and none stands in the call as its caller wrote it: whatever
of them is found in an answer means its original.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from gateway.pseudonyms import Doubt
from gateway.pseudonyms.lists import FAMILY, GIVEN, PARTICLES
from gateway.pseudonyms.surrogates import MAKERS, Made, unlabelled

PERSON = "PERSON"
MAX_VALUES = 128  # different originals of one call
_DRAWS = 64  # until a surrogate is found that is nowhere in the call
_NAME = re.compile(r"(?=[^\W\d_])(?:[^\W\d_]|[ .,'\u2019-]){2,80}")
_PART = re.compile(r"(?:[^\W\d_](?:\. ?| ))*[^\W\d_](?:[^\W\d_]|['\u2019-](?=[^\W\d_]))+")
_MAX_PARTS = 6

Draw = Callable[[], Made | None]


@dataclass(frozen=True, slots=True)
class Form:
    """What to look for in an answer, and what to put there."""

    seen: str = field(repr=False)
    original: str = field(repr=False)

    def original_as(self, found: str) -> str:
        """The original in the case of letters in which its surrogate was found."""
        if found == self.seen:
            return self.original
        for case in (str.upper, str.lower, str.title):
            if found == case(self.seen):
                return case(self.original)
        return self.original


class Ledger:
    """Nothing of it is ever shown: it has no repr of its own, and its errors have no content."""

    def __init__(self, texts: Iterable[str], random: Random) -> None:
        whole = "\n".join(texts).lower()
        self._taken = (whole, compact(whole))
        self._random = random
        self._surrogates: dict[str, str] = {}  # original, or part of a name -> surrogate
        self._types: dict[str, str] = {}  # of each of them
        self._folded: dict[str, str] = {}  # without its case -> the spelling that came first
        self._values: dict[str, str] = {}  # what counts as a value, whole names too -> type
        self._forms: dict[str, Form] = {}  # in lower case

    def surrogate(self, type_: str, original: str) -> str:
        """Raises Doubt when there is none."""
        if type_ == PERSON:
            return self._person(original)
        if type_ not in MAKERS:
            raise Doubt("no_surrogate")
        make = MAKERS[type_]
        label, value = unlabelled(type_, original)
        self._count(type_, value)
        return label + self._one(type_, value, lambda: make(value, self._random))

    @property
    def counts(self) -> Mapping[str, int]:
        """Type -> different values, however they are written."""
        one_each = {value.casefold(): type_ for value, type_ in self._values.items()}
        return dict(sorted(Counter(one_each.values()).items()))

    @property
    def forms(self) -> Sequence[Form]:
        return tuple(self._forms.values())

    @property
    def originals(self) -> Mapping[str, str]:
        """Values, whole names and parts of names, with their types."""
        return {**self._types, **self._values}

    @staticmethod
    def derived(type_: str, text: str) -> bool:
        """Whether a finding of a type that has surrogates is not in the form of a value: it was
        made in a decoded or folded form of the text, and its span is all that this came from."""
        if type_ == PERSON:
            return not _name_parts(text)
        make = MAKERS.get(type_)
        return make is not None and make(unlabelled(type_, text)[1], Random(0)) is None

    def forget(self) -> None:
        """The call is over."""
        self._taken = ("", "")
        for kept in (self._surrogates, self._types, self._folded, self._values):
            kept.clear()
        self._forms.clear()

    def _count(self, type_: str, value: str) -> None:
        if value not in self._values and len(self._values) >= MAX_VALUES:
            raise Doubt("too_many")
        self._values.setdefault(value, type_)

    def _person(self, name: str) -> str:
        if not (parts := _name_parts(name)):
            raise Doubt("no_surrogate")
        if name not in self._surrogates:  # as part of a name that counts already
            self._count(PERSON, name)
        made, at = "", 0
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            made += name[at : part.start()] + self._name_part(part[0], FAMILY if last else GIVEN)
            at = part.end()
        return made + name[at:]

    def _name_part(self, part: str, names: Sequence[str]) -> str:
        def draw() -> Made:
            name = self._random.choice(names)
            if len(part) > 1 and part.isupper():
                name = name.upper()
            elif part.islower():
                name = name.lower()
            return Made(name, ((name, part),))

        return self._one(PERSON, part, draw)

    def _one(self, type_: str, original: str, draw: Draw) -> str:
        known = self._surrogates.get(original) or self._in_other_case(original)
        if known is not None:
            return known
        for _ in range(_DRAWS):
            made = draw()
            if made is None:
                raise Doubt("no_surrogate")
            if self._admits(made):
                self._surrogates[original] = made.text
                self._types[original] = type_
                self._folded.setdefault(original.casefold(), original)
                self._forms |= {seen.lower(): Form(seen, was) for seen, was in made.forms}
                return made.text
        raise Doubt("no_surrogate")

    def _in_other_case(self, original: str) -> str | None:
        first = self._folded.get(original.casefold())
        if first is None:
            return None
        surrogate = self._surrogates[first]
        for case in (str.upper, str.lower):
            if case(first) == original and case(surrogate) != surrogate:
                return case(surrogate)
        return None

    def _admits(self, made: Made) -> bool:
        """Whether nothing of it is in the call, nor part of a form that is there, nor the other
        way round."""
        whole, solid = self._taken
        news = [seen.lower() for seen, _ in made.forms]
        if any(new in whole or compact(new) in solid for new in news):
            return False
        return not any(new in known or known in new for new in news for known in self._forms)


def _name_parts(name: str) -> list[re.Match[str]]:
    """No parts if it does not look like a name, or like nothing else."""
    if not _NAME.fullmatch(name):
        return []
    parts = [m for m in _PART.finditer(name) if m[0].lower() not in PARTICLES]
    return parts if len(parts) <= _MAX_PARTS else []


def compact(text: str) -> str:
    """Letters and digits alone."""
    return "".join(filter(str.isalnum, text))
