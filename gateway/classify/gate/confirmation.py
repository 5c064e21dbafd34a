"""What Python asks of a text in which Hyperscan has a match that may be none: conditions on what
follows, and check digits, which no automaton reads. It takes a hundredth of the time of a scan in a
worker."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import regex

MOST_CONFIRMED = 16_384
"""Characters. Python takes too long over a longer text: what matches there is scanned."""


def is_dea_number(value: str) -> bool:
    """Whether the last digit is that of the sum of the six before it, of which every other one
    counts twice, as in Presidio."""
    digits = [int(digit) for digit in value[2:]]
    return (sum(digits[0:6:2]) + 2 * sum(digits[1:6:2])) % 10 == digits[6]


_CHECKS: Mapping[str, Callable[[str], bool]] = {"MedicalLicenseRecognizer": is_dea_number}
"""By the recognizer that makes the same check; where there is none, a match is enough."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """`expression` of `regex`, with its flags, matches wherever that of the recognizer does."""

    recognizer: str
    expression: str
    flags: int

    def holds(self, text: str) -> bool:
        """Whether the recognizer may match anywhere in the text. True for what is too long."""
        if len(text) > MOST_CONFIRMED:  # guard: C14.confirm-size
            return True
        check = _CHECKS.get(self.recognizer, bool)
        # guard: C14.confirm-overlap without overlapped=True
        matches = _compiled(self.expression, self.flags).finditer(text, overlapped=True)
        return any(check(match[0]) for match in matches)


@functools.cache
def _compiled(expression: str, flags: int) -> regex.Pattern[str]:
    return regex.compile(expression, flags)
