"""Which surrogate stands for which original, for the length of one call.

A person's name is kept part by part, so that "Mrs Keller" is still of the family of "Maria Keller",
and a spelling of a part of its own (Mueller for Müller) has a spelling of its surrogate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random

from gateway.classify.pseudonyms import PseudonymDoubt
from gateway.classify.pseudonyms.drawing import DrawnSurrogates, match_case
from gateway.classify.pseudonyms.forms import SurrogateForm, SurrogateForms
from gateway.classify.pseudonyms.remnants import ADDRESS, EMAIL, PERSON, Remnant, Remnants
from gateway.classify.pseudonyms.surrogates import MAKERS, Surrogate, in_layout, unlabelled
from gateway.classify.pseudonyms.values import numerals
from gateway.classify.pseudonyms.values.addresses import is_address, renamed
from gateway.classify.pseudonyms.values.gender import Gender, given_names, name_gender
from gateway.classify.pseudonyms.values.lists import FAMILY, STREETS
from gateway.classify.pseudonyms.values.mailboxes import mailbox
from gateway.classify.pseudonyms.values.names import name_parts, with_initial
from gateway.classify.pseudonyms.values.spelling import plain

MAX_VALUES = 256  # different originals of one call


class SurrogateLedger:
    """Nothing of it is ever shown: it has no repr of its own, and its errors have no content."""

    def __init__(self, texts: Iterable[str], random: Random) -> None:
        self._random = random
        self._forms = SurrogateForms(texts)
        self._drawn = DrawnSurrogates(self._forms, random)
        self._spelled: dict[tuple[str, str], str] = {}  # type and remnant -> its surrogate
        self._values: dict[str, str] = {}  # what counts as a value, whole names too -> type

    def expect(self, values: Iterable[tuple[str, str]]) -> None:
        """All that is to be replaced: types and originals. What tells of them is in no
        surrogate."""
        bare = {unlabelled(type_, value)[1]: type_ for type_, value in values}
        self._drawn.remnants = Remnants(bare)

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
        return label + self._drawn.one(type_, value, lambda: make(value, self._random))

    def spell(self, remnant: Remnant, written: str) -> None:
        """Find a surrogate for what is left of an original, as it is written. Raises Doubt when
        there is none."""
        key = (remnant.type, written)
        if key not in self._spelled:
            self._spelled[key] = self._spelling(remnant, written)

    @property
    def remnants(self) -> Remnants:
        """What would still tell of an original."""
        return self._drawn.remnants

    @property
    def counts(self) -> Mapping[str, int]:
        """Type -> different values, however they are written."""
        one_each = {value.casefold(): type_ for value, type_ in self._values.items()}
        return dict(sorted(Counter(one_each.values()).items()))

    @property
    def forms(self) -> Sequence[SurrogateForm]:
        return tuple(self._forms)

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
        self._values.clear()
        self._spelled.clear()
        self._drawn.forget()
        self._forms.forget()

    def _count(self, type_: str, value: str) -> None:
        if value not in self._values and len(self._values) >= MAX_VALUES:
            raise PseudonymDoubt("too_many")
        self._values.setdefault(value, type_)

    def _person(self, name: str) -> str:
        if not (parts := name_parts(name)):
            raise PseudonymDoubt("no_surrogate")
        if name not in self._drawn:  # as part of a name that counts already
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
        other = with_initial([self._drawn.find(part) or part for part in parts])
        if short is None or other is None or short in self._drawn:
            return
        if self._forms.keep_initial(other, short):
            self._drawn.add(short, other)

    def _name_part(self, part: str, gender: Gender, family: bool) -> str:
        return self._drawn.word(PERSON, part, FAMILY if family else given_names(gender))

    def _address(self, address: str) -> str:
        value = address.rstrip(" ,.\n")  # the comma behind it parts it from what follows
        if not is_address(value):
            raise PseudonymDoubt("no_surrogate")
        self._count(ADDRESS, value)

        def draw() -> Surrogate:
            new = renamed(value, self._place, self._random)
            return Surrogate(new.text, ((new.text, value), *new.pieces))

        return self._drawn.one(ADDRESS, value, draw) + address[len(value) :]

    def _place(self, word: str) -> str:
        return self._drawn.word(ADDRESS, word, STREETS)

    def _address_part(self, original: str) -> str:
        for form in self._forms:  # a postcode
            if form.original == original:
                return form.surrogate
        return self._place(original)

    def _spelling(self, remnant: Remnant, written: str) -> str:
        if remnant.type in numerals.NUMBERS:
            return self._number_part(remnant, written)
        if remnant.type == EMAIL:
            base = mailbox(self.surrogate(EMAIL, remnant.original))
            self._forms.keep(Surrogate(base, ((base, mailbox(remnant.original)),)), number=False)
        elif remnant.type == ADDRESS:
            base = self._address_part(remnant.original)
        else:
            gender = name_gender(remnant.original, remnant.original)
            base = self._name_part(remnant.original, gender, False)
        form = self._forms.get(base)
        for cased in (base, base.upper(), base.lower(), base.title()):
            if form.original_as(cased) == written:
                return cased
        return self._forms.choose(
            Surrogate(name := match_case(written, other), ((name, written),))
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
        return self._forms.choose(iter(made), number=True)


def _other_spellings(name: str) -> Iterator[str]:
    """The name with one of its letters doubled: another spelling, and no other person."""
    for at in range(len(name) - 2, 0, -1):
        if name[at].isalpha() and name[at] not in (name[at - 1], name[at + 1]):
            yield name[:at] + name[at] + name[at:]
