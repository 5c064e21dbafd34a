"""One surrogate for each value of a call, and for each part of a name and of an address.

The same original has the same surrogate wherever it stands, in capitals too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from gateway.classify.pseudonyms import PseudonymDoubt
from gateway.classify.pseudonyms.forms import SurrogateForms
from gateway.classify.pseudonyms.remnants import Remnants
from gateway.classify.pseudonyms.surrogates import Surrogate, invented
from gateway.classify.pseudonyms.values import numerals

_DRAWS = 64  # until a surrogate is found that is nowhere in the call
_LENIENT = 32  # of these, from which seven digits of a range that is set aside may be alike

Draw = Callable[[], Surrogate | None]


class DrawnSurrogates:
    """Nothing of it is ever shown: it has no repr of its own, and its errors have no content."""

    def __init__(self, forms: SurrogateForms, random: Random) -> None:
        self._forms = forms
        self._random = random
        self._surrogates: dict[str, str] = {}  # original, or part of one -> surrogate
        self._folded: dict[str, str] = {}  # without its case -> the spelling that came first
        self.remnants = Remnants({})
        """What tells of an original, and may be in no surrogate."""

    def __contains__(self, original: str) -> bool:
        return original in self._surrogates

    def find(self, original: str) -> str | None:
        return self._surrogates.get(original) or self._in_other_case(original)

    def add(self, original: str, surrogate: str) -> None:
        self._surrogates[original] = surrogate
        self._folded.setdefault(original.casefold(), original)

    def one(self, type_: str, original: str, draw: Draw) -> str:
        """The surrogate of a value, drawn if there is none yet. Raises Doubt when none fits."""
        known = self.find(original)
        if known is not None:
            return known
        number = type_ in numerals.NUMBERS
        for drawn in range(_DRAWS):
            made = draw()
            if made is None:
                break
            if self._forms.admit(type_, made, self.remnants, lenient=drawn >= _LENIENT):
                self.add(original, made.text)
                self._forms.keep(made, number)
                if number:
                    self.remnants.numbers.forgive(numerals.number_forms(type_, made.text))
                return made.text
        raise PseudonymDoubt("no_surrogate")

    def word(self, type_: str, word: str, names: Sequence[str]) -> str:
        """Of a word, one of these, in the same case."""

        def draw() -> Surrogate:
            name = self._random.choice(names)
            if len(self._surrogates) > len(names) // 2:
                name = invented(self._random)
            return Surrogate(name := match_case(word, name), ((name, word),))

        return self.one(type_, word, draw)

    def forget(self) -> None:
        """The call is over."""
        self._surrogates.clear()
        self._folded.clear()
        self.remnants = Remnants({})

    def _in_other_case(self, original: str) -> str | None:
        first = self._folded.get(original.casefold())
        if first is None:
            return None
        surrogate = self._surrogates[first]
        for case in (str.upper, str.lower):
            if case(first) == original and case(surrogate) != surrogate:
                return case(surrogate)
        return None


def match_case(written: str, name: str) -> str:
    if len(written) > 1 and written.isupper():
        return name.upper()
    return name.lower() if written.islower() else name
