"""Which surrogate stands for which original, for the length of one call.

The same original has the same surrogate wherever it stands, in capitals too; a person's name is
kept part by part, so that "Mrs Keller" is still of the family of "Maria Keller", and a spelling of
a part of its own (Mueller for Müller) has a spelling of its surrogate. No form that is put back
stands in the call as its caller wrote it: whatever of them is found in an answer means its
original. No surrogate holds anything that would tell of an original.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from gateway.classify.pseudonyms import PseudonymDoubt, numerals
from gateway.classify.pseudonyms.addresses import is_address, renamed
from gateway.classify.pseudonyms.gender import Gender, given_names, name_gender
from gateway.classify.pseudonyms.lists import FAMILY, STREETS
from gateway.classify.pseudonyms.mailboxes import mailbox
from gateway.classify.pseudonyms.names import name_parts, with_initial
from gateway.classify.pseudonyms.remnants import ADDRESS, EMAIL, PERSON, Remnant, Remnants
from gateway.classify.pseudonyms.spelling import plain
from gateway.classify.pseudonyms.surrogates import (
    MAKERS,
    Surrogate,
    in_layout,
    invented,
    unlabelled,
)

MAX_VALUES = 256  # different originals of one call
_DRAWS = 64  # until a surrogate is found that is nowhere in the call
_LENIENT = 32  # of these, from which seven digits of a range that is set aside may be alike

Draw = Callable[[], Surrogate | None]


@dataclass(frozen=True, slots=True)
class SurrogateForm:
    """What to look for in an answer, and what to put there. `number`: it is found in whatever
    groups its digits stand. `begins`: only where a word begins."""

    surrogate: str = field(repr=False)
    original: str = field(repr=False)
    number: bool = False
    begins: bool = False

    def original_as(self, written: str) -> str:
        """The original in the case of letters, or in the groups, in which its surrogate was
        found."""
        if written == self.surrogate:
            return self.original
        if self.number:
            characters = compact(self.original)
            if written.islower():
                characters = characters.lower()
            alike = len(characters) == len(compact(written))
            return in_layout(written, characters) if alike else characters
        for case in (str.upper, str.lower, str.title):
            if written == case(self.surrogate):
                return case(self.original)
        return self.original


class SurrogateLedger:
    """Nothing of it is ever shown: it has no repr of its own, and its errors have no content."""

    def __init__(self, texts: Iterable[str], random: Random) -> None:
        whole = "\n".join(texts).lower()
        self._taken = (whole, compact(whole))
        self._random = random
        self._surrogates: dict[str, str] = {}  # original, or part of one -> surrogate
        self._spelled: dict[tuple[str, str], str] = {}  # type and remnant -> its surrogate
        self._folded: dict[str, str] = {}  # without its case -> the spelling that came first
        self._values: dict[str, str] = {}  # what counts as a value, whole names too -> type
        self._genders: dict[str, Gender] = {}  # of parts of names
        self._forms: dict[str, SurrogateForm] = {}  # in lower case
        self.remnants = Remnants({})

    def expect(self, values: Iterable[tuple[str, str]]) -> None:
        """All that is to be replaced: types and originals. What tells of them is in no
        surrogate."""
        bare = {unlabelled(type_, value)[1]: type_ for type_, value in values}
        self.remnants = Remnants(bare)

    def surrogate(self, type_: str, original: str) -> str:
        """Raises Doubt when there is none."""
        if (known := self._spelled.get((type_, original))) is not None:
            return known
        if type_ == PERSON:
            return self._person(original)
        if type_ == ADDRESS:
            return self._address(original)
        if type_ not in MAKERS:
            raise PseudonymDoubt("no_surrogate")
        make = MAKERS[type_]
        label, value = unlabelled(type_, original)
        self._count(type_, value)
        return label + self._one(type_, value, lambda: make(value, self._random))

    def spell(self, remnant: Remnant, written: str) -> None:
        """Find a surrogate for what is left of an original, as it is written. Raises Doubt when
        there is none."""
        key = (remnant.type, written)
        if key not in self._spelled:
            self._spelled[key] = self._spelling(remnant, written)

    @property
    def counts(self) -> Mapping[str, int]:
        """Type -> different values, however they are written."""
        one_each = {value.casefold(): type_ for value, type_ in self._values.items()}
        return dict(sorted(Counter(one_each.values()).items()))

    @property
    def forms(self) -> Sequence[SurrogateForm]:
        return tuple(self._forms.values())

    @property
    def originals(self) -> Mapping[str, str]:
        """Whole values with their types."""
        return dict(self._values)

    @staticmethod
    def derived(type_: str, text: str) -> bool:
        """Whether a finding of a type that has surrogates is not in the form of a value: it was
        made in a decoded or folded form of the text, and its span is all that this came from."""
        if type_ == PERSON:
            return not name_parts(text)
        if type_ == ADDRESS:
            return not is_address(text)
        make = MAKERS.get(type_)
        return make is not None and make(unlabelled(type_, text)[1], Random(0)) is None

    def forget(self) -> None:
        """The call is over."""
        self._taken = ("", "")
        for known in (self._surrogates, self._folded, self._values, self._genders):
            known.clear()
        self._spelled.clear()
        self._forms.clear()
        self.remnants = Remnants({})

    def _count(self, type_: str, value: str) -> None:
        if value not in self._values and len(self._values) >= MAX_VALUES:
            raise PseudonymDoubt("too_many")
        self._values.setdefault(value, type_)

    def _person(self, name: str) -> str:
        if not (parts := name_parts(name)):
            raise PseudonymDoubt("no_surrogate")
        if name not in self._surrogates:  # as part of a name that counts already
            self._count(PERSON, name)
        gender = name_gender(name, parts[0][0])
        made, at = "", 0
        for number, part in enumerate(parts):
            family = number == len(parts) - 1 or name[part.end() : part.end() + 1] == "-"
            family = family and number > 0
            made += name[at : part.start()] + self._name_part(part[0], gender, family)
            at = part.end()
        self._cut_short([part[0] for part in parts])
        return made + name[at:]

    def _cut_short(self, parts: list[str]) -> None:
        """M. Keller is of the same person as Maria Keller."""
        short = with_initial(parts)
        other = with_initial([self._known(part) for part in parts])
        if short is None or other is None or short in self._surrogates:
            return
        if f" {other[:2].lower()}" in self._taken[0]:  # somebody's initial, or a middle one
            return
        if (
            self._forms.setdefault(other.lower(), SurrogateForm(other, short, begins=True)).original
            == short
        ):
            self._surrogates[short] = other
            self._folded.setdefault(short.casefold(), short)

    def _known(self, part: str) -> str:
        return self._surrogates.get(part) or self._in_other_case(part) or part

    def _name_part(self, part: str, gender: Gender, family: bool) -> str:
        def draw() -> Surrogate:
            names = FAMILY if family else given_names(gender)
            name = self._random.choice(names)
            if len(self._surrogates) > len(names) // 2:
                name = invented(self._random)
            return Surrogate(name := _match_case(part, name), ((name, part),))

        return self._one(PERSON, part, draw)

    def _address(self, address: str) -> str:
        value = address.rstrip(" ,.\n")  # the comma behind it parts it from what follows
        if not is_address(value):
            raise PseudonymDoubt("no_surrogate")
        self._count(ADDRESS, value)

        def draw() -> Surrogate:
            new = renamed(value, self._place, self._random)
            return Surrogate(new.text, ((new.text, value), *new.pieces))

        return self._one(ADDRESS, value, draw) + address[len(value) :]

    def _place(self, word: str) -> str:
        def draw() -> Surrogate:
            name = self._random.choice(STREETS)
            if len(self._surrogates) > len(STREETS) // 2:
                name = invented(self._random)
            return Surrogate(name := _match_case(word, name), ((name, word),))

        return self._one(ADDRESS, word, draw)

    def _address_part(self, original: str) -> str:
        for form in self._forms.values():  # a postcode
            if form.original == original:
                return form.surrogate
        return self._place(original)

    def _spelling(self, remnant: Remnant, written: str) -> str:
        if remnant.type in numerals.NUMBERS:
            return self._number_part(remnant, written)
        if remnant.type == EMAIL:
            base = mailbox(self.surrogate(EMAIL, remnant.original))
            self._keep(Surrogate(base, ((base, mailbox(remnant.original)),)), number=False)
        elif remnant.type == ADDRESS:
            base = self._address_part(remnant.original)
        else:
            gender = name_gender(remnant.original, remnant.original)
            base = self._name_part(remnant.original, gender, False)
        form = self._forms[base.lower()]
        for cased in (base, base.upper(), base.lower(), base.title()):
            if form.original_as(cased) == written:
                return cased
        return self._choose(
            Surrogate(name := _match_case(written, other), ((name, written),))
            for other in _other_spellings(base)
        )

    def _number_part(self, remnant: Remnant, written: str) -> str:
        surrogate = self.surrogate(remnant.type, remnant.original)
        digits = numerals.only_digits(plain(written).text)
        olds = numerals.number_forms(remnant.type, remnant.original)
        news = numerals.number_forms(remnant.type, surrogate)
        made = []
        for old, new in zip(olds, news, strict=False):
            if len(old) == len(new) and digits in old:
                at = old.rfind(digits)
                part = new[at : at + len(digits)]
            elif digits == old:
                part = new
            elif old.endswith(digits):
                part = new[-len(digits) :]
            else:
                continue
            alike = written.isascii() and len(part) == numerals.letters_and_digits(written)
            text = in_layout(written, part) if alike else part
            made.append(Surrogate(text, ((text, written),)))
        return self._choose(iter(made), number=True)

    def _choose(self, choices: Iterator[Surrogate], number: bool = False) -> str:
        for made in choices:
            if self._is_new(made) and not self._means_another(made):
                self._keep(made, number)
                return made.text
        raise PseudonymDoubt("no_surrogate")

    def _one(self, type_: str, original: str, draw: Draw) -> str:
        known = self._surrogates.get(original) or self._in_other_case(original)
        if known is not None:
            return known
        number = type_ in numerals.NUMBERS
        for drawn in range(_DRAWS):
            made = draw()
            if made is None:
                raise PseudonymDoubt("no_surrogate")
            if self._admits(type_, made, lenient=drawn >= _LENIENT):
                self._surrogates[original] = made.text
                self._folded.setdefault(original.casefold(), original)
                self._keep(made, number)
                if number:
                    self.remnants.numbers.forgive(numerals.number_forms(type_, made.text))
                return made.text
        raise PseudonymDoubt("no_surrogate")

    def _keep(self, made: Surrogate, number: bool) -> None:
        for surrogate, was in made.forms:
            self._forms.setdefault(surrogate.lower(), SurrogateForm(surrogate, was, number))

    def _in_other_case(self, original: str) -> str | None:
        first = self._folded.get(original.casefold())
        if first is None:
            return None
        surrogate = self._surrogates[first]
        for case in (str.upper, str.lower):
            if case(first) == original and case(surrogate) != surrogate:
                return case(surrogate)
        return None

    def _admits(self, type_: str, made: Surrogate, lenient: bool) -> bool:
        """Whether nothing of it is in the call, nor part of a form that is there, nor the other
        way round, and whether it tells of no original."""
        if not self._is_new(made):
            return False
        news = {surrogate.lower() for surrogate, _ in made.forms}
        if any(new in known or known in new for new in news for known in self._forms):
            if type_ != ADDRESS:
                return False
            if not news.isdisjoint(self._forms):
                return False
        if self.remnants.find(made.text):
            return False
        if type_ not in numerals.NUMBERS:
            return True
        forms = numerals.number_forms(type_, made.text)
        return not any(self.remnants.numbers.within(form, lenient) for form in forms)

    def _means_another(self, made: Surrogate) -> bool:
        known = ((self._forms.get(surrogate.lower()), was) for surrogate, was in made.forms)
        return any(form is not None and form.original != was for form, was in known)

    def _is_new(self, made: Surrogate) -> bool:
        """Whether nothing of it is in the call."""
        whole, solid = self._taken
        for surrogate, _ in made.forms:
            new = surrogate.lower()
            if len(new) <= numerals.TAIL and new.isdigit():
                if new in whole or numerals.looks_like_a_year(new):
                    return False
            elif new in whole or compact(new) in solid:
                return False
        return True


def _match_case(written: str, name: str) -> str:
    if len(written) > 1 and written.isupper():
        return name.upper()
    return name.lower() if written.islower() else name


def _other_spellings(name: str) -> Iterator[str]:
    """The name with one of its letters doubled: another spelling, and no other person."""
    for at in range(len(name) - 2, 0, -1):
        if name[at].isalpha() and name[at] not in (name[at - 1], name[at + 1]):
            yield name[:at] + name[at] + name[at:]


def compact(text: str) -> str:
    """Letters and digits alone."""
    return "".join(filter(str.isalnum, text))
