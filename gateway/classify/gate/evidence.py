"""Values that prove by themselves that a text restricts, found in the gateway's own process.

A text that the gate does not clear would go to a worker, which stops at the first finding that
restricts. Where that is an e-mail address, a card number, a social security number or an account
number by its shape and its check digits, the same expression and the same check say so here, and
the text need not go anywhere. What is not found here proves nothing: only the gate and a whole scan
clear a text. Expressions and checks are those of the identifiers, which take them from here:
Presidio is not loaded in this process.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import regex
from stdnum import iban, numdb
from stdnum.exceptions import ValidationError
from stdnum.util import get_cc_module

from gateway.classify.profile import Profile
from gateway.classify.scanner.cards import is_card_number

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
_NO_START = r"[0-9]*+(*SKIP)(*FAIL)"
"""The last alternative of an expression whose matches never start behind a digit: the rest of a run
of digits need not be tried one by one, of which a text may hold a hundred thousand."""
# With `regex`, which passes over text without digits five times as fast as `re`; so what stands
# before the digits is asked for behind them.
_NUMBER = regex.compile(r"[0-9][0-9 .-]{7,}[0-9]")
_LONG_NUMBER = regex.compile(r"[0-9][0-9 .-]{7,}?[0-9]")  # whether there is one
_IN_THREE = re.compile(r"([-. ])..\1")  # the second part of a number of three
_ACCOUNT = regex.compile(
    rf"[0-9]{{2}}(?:(?<=[A-Za-z]{{2}}(?:[ -]|)..)[ -]?[A-Za-z0-9]|{_NO_START})"
)
_ACCOUNT_CHARS = 4 + 2 * 31
_DIGITS = "0123456789"
_Places = Sequence[tuple[int, int]]  # from where to where to look
_NOWHERE: _Places = ()
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
_GROUP = re.compile(r"[^\W_]+")
_STRUCTURAL = re.compile(r"(\d+)!([nac])")  # the SWIFT registry's: so many digits, letters, either
_CHARACTERS = {"n": "[0-9]", "a": "[A-Z]", "c": "[A-Z0-9]"}


def iban_in(value: str) -> int | None:
    """How many characters at the head of `value` are a valid account number."""
    compact = ""
    for group in _GROUP.finditer(value):
        compact += group[0]
        if len(compact) >= _SHORTEST and _checks(compact) and _has_country_form(compact):
            return group.end()
    return None


def _has_country_form(compact: str) -> bool:
    """What `iban.is_valid` says once the check digits are known to be right, without reading the
    registry anew for each number."""
    if not compact.isascii():
        return iban.is_valid(compact)
    number = compact.upper()
    structure, module = _country(number[:2])
    if structure is None or not structure.fullmatch(number, 4):  # guard: C14.account-form minus 2
        return False
    if module is None:
        return True
    try:
        module.validate(number)
    except ValidationError:
        return False
    return True


@functools.lru_cache(26 * 26)
def _country(code: str) -> tuple[re.Pattern[str] | None, Any]:
    """How account numbers of a country are made, and its own check, if they have one."""
    known = numdb.get("iban").info(code)[0][1]
    if not known:
        return None, None
    parts = _STRUCTURAL.findall(known["bban"])
    expression = "".join(f"{_CHARACTERS[kind]}{{{count}}}" for count, kind in parts)
    return re.compile(expression), get_cc_module(code, "iban")


def _checks(compact: str) -> bool:
    """ISO 7064, MOD 97-10, before the country's structure is asked for, which takes far longer.
    What is not ASCII is left to that."""
    if not compact.isascii():
        return True
    return int((compact[4:] + compact[:4]).upper().translate(_AS_NUMBERS)) % 97 == 1


@dataclass(frozen=True, slots=True)
class _EvidenceKind:
    """`recognizer` of the scanner finds the same; `proven` is the length of the value at the head
    of a match, or nothing. Nothing matches without a `sign`, which costs a tenth to look for."""

    recognizer: str
    type: str
    score: float
    expression: regex.Pattern[str]
    places: Callable[[str], _Places]
    proven: Callable[[str], int | None]
    sign: re.Pattern[str] | None = None


def _address_places(text: str) -> _Places:
    places: list[tuple[int, int]] = []
    at = text.find("@")
    while at >= 0 and len(places) < _MOST:
        places.append((max(0, at - _LOCAL), at + _DOMAIN))
        at = text.find("@", at + 1)
    return places


def _number_places(text: str) -> _Places:
    matches = itertools.islice(_NUMBER.finditer(text), _MOST)
    return [(number.start(), number.end() + _BEHIND) for number in matches]


def _account_places(text: str) -> _Places:
    places: list[tuple[int, int]] = []
    for match in itertools.islice(_ACCOUNT.finditer(text), _MOST):
        country = match.start() - (2 if text[match.start() - 1].isalpha() else 3)
        places.append((country, country + _ACCOUNT_CHARS + _BEHIND))
    return places


def _card(value: str) -> int | None:
    # guard: C14.check-digits -> return len(value)
    return len(value) if is_sure_card(value) else None


def _social_security(value: str) -> int | None:
    return len(value) if may_be_social_security(value) else None


def _compiled(expression: str) -> Any:
    return regex.compile(expression, FLAGS)


def _compile_digits(expression: str) -> Any:
    """What never starts behind a digit."""
    return _compiled(rf"(?:{expression})|{_NO_START}")


_KINDS = (
    _EvidenceKind(
        *("AnyDomainEmail", "EMAIL_ADDRESS", ADDRESS_SCORE),
        *(_compiled(ADDRESS), _address_places, len),
    ),
    _EvidenceKind(
        *("SocialSecurityNumber", "US_SSN", SOCIAL_SECURITY_SCORE),
        *(_compile_digits(SOCIAL_SECURITY), _number_places, _social_security),
        sign=_IN_THREE,
    ),
    _EvidenceKind(
        *("AnyCard", "CREDIT_CARD", 1.0), *(_compile_digits(CARD_IN_GROUPS), _number_places, _card)
    ),
    _EvidenceKind(  # which begins with its place
        *("AnyIban", "IBAN_CODE", 1.0), *(_compiled(rf"\G{IBAN}"), _account_places, iban_in)
    ),
)


class Evidence:
    """`find` names a type only if a scan of the text would find one that restricts too."""

    def __init__(self) -> None:
        """Nothing is proof before `arm`."""
        self._kinds: tuple[_EvidenceKind, ...] = ()
        self._allowed: frozenset[str] = frozenset()
        self._profile: Profile | None = None  # of the last text
        self._restricting: tuple[_EvidenceKind, ...] = ()  # by that

    def arm(self, recognizers: Collection[str], allowed: Collection[str]) -> None:
        """`recognizers` are the classes that the scanner runs; `allowed` are values that do not
        restrict."""
        # guard: C14.scanned-types -> self._kinds = _KINDS
        self._kinds = tuple(kind for kind in _KINDS if kind.recognizer in recognizers)
        self._allowed = frozenset(allowed)
        self._profile, self._restricting = None, ()

    @staticmethod
    def likely(text: str) -> bool:
        """Whether a look is worth its time before the gate is asked, which then need not be: a text
        with an address or a long number is rarely clear. For most texts, which have neither, this
        costs next to nothing."""
        if "@" in text:
            return True
        return any(map(text.__contains__, _DIGITS)) and _LONG_NUMBER.search(text) is not None

    def find(self, text: str, profile: Profile) -> str | None:
        """The type of a value in `text` that restricts by this profile, if there is proof of one.
        None proves nothing."""
        if profile is not self._profile:  # guard: C14.profile-identity -> if self._profile is None:
            self._select(profile)
        finder, places, size = None, _NOWHERE, len(text)
        for kind in self._restricting:
            if kind.places is not finder:
                finder = kind.places
                places = finder(text)
            sign = kind.sign
            for start, end in places:
                if sign is not None and sign.search(text, start, end) is None:
                    continue
                match = kind.expression.search(text, start, end)
                if match is None:
                    continue
                first, last = match.span()
                if last - first > _LONGEST or last == end < size:
                    continue  # cut off by the place, and perhaps not where it ends
                value = match[0]
                length = kind.proven(value)
                # guard: C14.allowlist minus 2
                if length is not None and value[:length] not in self._allowed:
                    return kind.type
        return None

    def _select(self, profile: Profile) -> None:
        # guard: C14.caller-types -> self._profile, self._restricting = (profile, tuple((kind for
        #   kind in self._kinds if True)))
        self._profile, self._restricting = (
            profile,
            tuple(
                kind
                for kind in self._kinds
                if kind.type in profile.types and kind.score >= profile.threshold
            ),
        )
