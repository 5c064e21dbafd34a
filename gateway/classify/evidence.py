"""Values that prove by themselves that a text restricts, found in the gateway's own process.

A text that the gate does not clear would go to a worker, which stops at the first finding that
restricts. Where that is an e-mail address, a card number, a social security number or an account
number by its shape and its check digits, the same expression and the same check say so here, and
the text need not go anywhere. What is not found here proves nothing: only the gate and a whole scan
clear a text. Expressions and checks are those of the identifiers, which take them from here:
Presidio is not loaded in this process.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import regex
from stdnum import iban

from gateway.classify.cards import is_card_number
from gateway.classify.profile import Profile

FLAGS = re.IGNORECASE | re.MULTILINE | re.DOTALL

_LABEL = r"[\w-]{1,63}"
_FILE = r"(?:png|jpe?g|gif|svg|webp|js|ts|tsx|css|py|html?|json|yaml|md|txt)"
ADDRESS = (
    r"(?<![\w.+-])(?!git@)\w[\w.+'%~&*!$^-]{0,63}@"
    rf"(?:{_LABEL}\.){{1,8}}(?!{_FILE}\b)(?:[^\W\d_]{{2,63}}"
    rf"|xn--[a-z0-9-]{{2,59}})\b(?!\()"
)
ADDRESS_SCORE = 0.6
CARD_IN_GROUPS = (
    r"(?<![\d-])\d{4}[ .-]?\d{4}[ .-]?\d{4}(?:[ .-]?\d{1,4}(?:[ .-]?\d{1,3})?)?(?![\d-])"
    r"|(?<![\d-])\d{4}[ .-]?\d{6}[ .-]?\d{4,5}(?![\d-])"
    r"|(?<![\d-])\d{6}[ .-]\d{10,13}(?![\d-])"
)
IBAN = r"(?<![A-Z0-9])[A-Z]{2}[ -]?\d\d(?:[ -]?[A-Z0-9]){11,30}"
SOCIAL_SECURITY = r"(?<![\w.,+/-])\d{3}(?:-\d\d-|\.\d\d\.| \d\d )\d{4}(?!\w|-\d{3}|[.,]\d)"
SOCIAL_SECURITY_SCORE = 0.5

_MOST = 32
"""Places that are looked at, of each kind; a text with more goes to a worker."""
_LOCAL, _DOMAIN = 65, 640
"""Characters before and behind the @ in which an address lies."""
_BEHIND = 8  # characters behind a number that its expression looks at, and some more
# With `regex`, which passes over text without digits five times as fast as `re`; so what stands
# before the digits is asked for behind them.
_NUMBER = regex.compile(r"[0-9][0-9 .-]{7,}[0-9]")
_ACCOUNT = regex.compile(r"[0-9]{2}(?:(?<=[A-Za-z]{2}..)|(?<=[A-Za-z]{2}[ -]..))[ -]?[A-Za-z0-9]")
_ACCOUNT_CHARS = 4 + 2 * 31
_DIGITS = "0123456789"
_LONGEST = 254  # characters: of what surely stands whole in one of the windows of a scan
_TELLING = 16  # shorter Maestro numbers have half of their range in common with everything else
_NO_DIGITS = re.compile(r"\D+")
_MAESTRO = re.compile(r"50|5[6-8]|6304|6390|67|0604")


_BETWEEN_DIGITS = str.maketrans("", "", " .-")


def _digits(value: str) -> str:
    digits = value.translate(_BETWEEN_DIGITS)
    return digits if digits.isdecimal() else _NO_DIGITS.sub("", value)


def is_sure_card(value: str) -> bool | None:
    """None: a number that a card may have, and much else."""
    digits = _digits(value)
    if not is_card_number(digits):
        return False
    return None if len(digits) < _TELLING and _MAESTRO.match(digits) else True


def may_be_social_security(value: str) -> bool:
    """No number of nine has a check digit; what no area, group or serial can be is none."""
    digits = _digits(value)
    area, group, serial = digits[:3], digits[3:5], digits[5:]
    return area not in ("000", "666") and group != "00" and serial != "0000"


_SHORTEST = 15  # Norway
_AS_NUMBERS = str.maketrans({chr(ord("A") + at): str(at + 10) for at in range(26)})


def iban_in(value: str) -> int | None:
    """How many characters at the head of `value` are a valid account number."""
    compact = ""
    for at, character in enumerate(value, 1):
        if character.isalnum():
            compact += character
            whole = at == len(value) or not value[at].isalnum()
            if len(compact) >= _SHORTEST and whole and _checks(compact) and iban.is_valid(compact):
                return at
    return None


def _checks(compact: str) -> bool:
    """ISO 7064, MOD 97-10, before the country's structure is asked for, which takes far longer.
    What is not ASCII is left to that."""
    if not compact.isascii():
        return True
    return int((compact[4:] + compact[:4]).upper().translate(_AS_NUMBERS)) % 97 == 1


@dataclass(frozen=True, slots=True)
class _Kind:
    """`recognizer` of the scanner finds the same; `proven` is the length of the value at the head
    of a match, or nothing."""

    recognizer: str
    type: str
    score: float
    expression: regex.Pattern[str]
    places: Callable[[str], Iterator[tuple[int, int]]]
    proven: Callable[[str], int | None]


def _of_addresses(text: str) -> Iterator[tuple[int, int]]:
    at = text.find("@")
    while at >= 0:
        yield max(0, at - _LOCAL), at + _DOMAIN
        at = text.find("@", at + 1)


def _of_numbers(text: str) -> Iterator[tuple[int, int]]:
    return ((found.start(), found.end() + _BEHIND) for found in _NUMBER.finditer(text))


def _of_accounts(text: str) -> Iterator[tuple[int, int]]:
    for found in _ACCOUNT.finditer(text):
        country = found.start() - (2 if text[found.start() - 1].isalpha() else 3)
        yield country, country + _ACCOUNT_CHARS + _BEHIND


def _whole(value: str) -> int | None:
    return len(value)


def _card(value: str) -> int | None:
    return len(value) if is_sure_card(value) else None


def _social_security(value: str) -> int | None:
    return len(value) if may_be_social_security(value) else None


def _compiled(expression: str) -> Any:
    return regex.compile(expression, FLAGS)


_KINDS = (
    _Kind(
        *("AnyDomainEmail", "EMAIL_ADDRESS", ADDRESS_SCORE),
        *(_compiled(ADDRESS), _of_addresses, _whole),
    ),
    _Kind(
        *("SocialSecurityNumber", "US_SSN", SOCIAL_SECURITY_SCORE),
        *(_compiled(SOCIAL_SECURITY), _of_numbers, _social_security),
    ),
    _Kind(*("AnyCard", "CREDIT_CARD", 1.0), *(_compiled(CARD_IN_GROUPS), _of_numbers, _card)),
    _Kind(*("AnyIban", "IBAN_CODE", 1.0), *(_compiled(IBAN), _of_accounts, iban_in)),
)


class Evidence:
    """`found` names a type only if a scan of the text would find one that restricts too."""

    def __init__(self) -> None:
        """Nothing is proof before `arm`."""
        self._kinds: tuple[_Kind, ...] = ()
        self._allowed: frozenset[str] = frozenset()

    def arm(self, recognizers: Collection[str], allowed: Collection[str]) -> None:
        """`recognizers` are the classes that the scanner runs; `allowed` are values that do not
        restrict."""
        self._kinds = tuple(kind for kind in _KINDS if kind.recognizer in recognizers)
        self._allowed = frozenset(allowed)

    @staticmethod
    def likely(text: str) -> bool:
        """Whether a look is worth its time before the gate is asked, which then need not be: a text
        with an address or a long number is rarely clear. For most texts, which have neither, this
        costs next to nothing."""
        if "@" in text:
            return True
        return any(map(text.__contains__, _DIGITS)) and _NUMBER.search(text) is not None

    def found(self, text: str, profile: Profile) -> str | None:
        """The type of a value in `text` that restricts by this profile, if there is proof of one.
        None proves nothing."""
        looked: dict[object, list[tuple[int, int]]] = {}
        for kind in self._kinds:
            if kind.type not in profile.types or kind.score < profile.threshold:
                continue
            if (places := looked.get(kind.places)) is None:
                places = looked[kind.places] = list(itertools.islice(kind.places(text), _MOST))
            for start, end in places:
                if self._proves(kind, text, start, min(end, len(text))):
                    return kind.type
        return None

    def _proves(self, kind: _Kind, text: str, start: int, end: int) -> bool:
        match = kind.expression.search(text, start, end)
        if match is None or match.end() - match.start() > _LONGEST:
            return False
        if match.end() == end < len(text):  # cut off here, and perhaps not where it ends
            return False
        length = kind.proven(match[0])
        return length is not None and match[0][:length] not in self._allowed
