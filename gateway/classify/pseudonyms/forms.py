"""The forms in which the surrogates of one call may come back in its answer.

No form that is put back stands in the call as its caller wrote it: whatever of them is found in an
answer means its original. No surrogate holds anything that would tell of an original.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gateway.classify.pseudonyms import PseudonymDoubt
from gateway.classify.pseudonyms.remnants import ADDRESS, Remnants
from gateway.classify.pseudonyms.surrogates import Surrogate, in_layout
from gateway.classify.pseudonyms.values import numerals


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


class SurrogateForms:
    """Nothing of it is ever shown: it has no repr of its own."""

    def __init__(self, texts: Iterable[str]) -> None:
        """`texts`: all of the call."""
        whole = "\n".join(texts).lower()
        self._taken = (whole, compact(whole))
        self._forms: dict[str, SurrogateForm] = {}  # in lower case

    def __iter__(self) -> Iterator[SurrogateForm]:
        return iter(self._forms.values())

    def get(self, surrogate: str) -> SurrogateForm:
        """Raises KeyError."""
        return self._forms[surrogate.lower()]

    def keep(self, made: Surrogate, number: bool) -> None:
        for surrogate, was in made.forms:
            self._forms.setdefault(surrogate.lower(), SurrogateForm(surrogate, was, number))

    def keep_initial(self, surrogate: str, original: str) -> bool:
        """A name with an initial for one with another. Says whether it means that original: not
        where the call has that initial, somebody's or a middle one."""
        if f" {surrogate[:2].lower()}" in self._taken[0]:
            return False
        form = SurrogateForm(surrogate, original, begins=True)
        return self._forms.setdefault(surrogate.lower(), form).original == original

    def choose(self, choices: Iterator[Surrogate], number: bool = False) -> str:
        """The first one that means its original alone. Raises Doubt when there is none."""
        for made in choices:
            if self._is_new(made) and not self._means_another(made):
                self.keep(made, number)
                return made.text
        raise PseudonymDoubt("no_surrogate")

    def admit(self, type_: str, made: Surrogate, remnants: Remnants, lenient: bool) -> bool:
        """Whether nothing of it is in the call, nor part of a form that is there, nor the other
        way round, and whether it tells of no original. Lenient: seven digits of a range that is
        set aside may be alike."""
        if not self._is_new(made):
            return False
        news = {surrogate.lower() for surrogate, _ in made.forms}
        if any(new in known or known in new for new in news for known in self._forms):
            if type_ != ADDRESS:
                return False
            if not news.isdisjoint(self._forms):
                return False
        if remnants.find(made.text):
            return False
        if type_ not in numerals.NUMBERS:
            return True
        forms = numerals.number_forms(type_, made.text)
        return not any(remnants.numbers.within(form, lenient) for form in forms)

    def forget(self) -> None:
        """The call is over."""
        self._taken = ("", "")
        self._forms.clear()

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


def compact(text: str) -> str:
    """Letters and digits alone."""
    return "".join(filter(str.isalnum, text))
