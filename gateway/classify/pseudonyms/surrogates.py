"""What stands in the place of a value: another of the same format, which belongs to nobody.

They come from what is set aside for such use: RFC 2606 domains, 555-01xx and other numbers kept for
drama, RFC 5737, 3849 and 7042 addresses, card numbers of the test range 400000, social security
numbers of area 666, which is never given out, NHS numbers from 999 and insurance numbers from QQ.
IBANs name a bank of zeros. A medical record number means something within one hospital alone; there
any other number will do.

A maker returns None for a value whose form it does not know: its span may be that of a decoded or
derived form, and what cannot be rebuilt is not replaced.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from urllib.parse import quote

from gateway.classify.pseudonyms.values.lists import MAILBOXES, SYLLABLES
from gateway.classify.pseudonyms.values.numerals import LAST, country_code, only_digits, phone_forms


@dataclass(frozen=True, slots=True)
class Surrogate:
    """A surrogate, and the forms in which an answer may use it, with the original's in that form.

    Surrogates are ASCII without quotes and backslashes, and so are the originals but for letters of
    other scripts: both can stand in JSON within a string, however deep.
    """

    text: str = field(repr=False)
    forms: tuple[tuple[str, str], ...] = field(repr=False)


Maker = Callable[[str, Random], Surrogate | None]

_SEPARATORS = re.compile(r"[ .()/\u2010-\u2015-]")
_EMAIL = re.compile(r"[\w.+%'-]{1,64}@[\w-]+(?:\.[\w-]+)+")
_PHONE = re.compile(r"\(?\+?[\d .()/-]{5,24}\d", re.ASCII)
_CARD = re.compile(r"\d(?:[ -]?\d){11,18}", re.ASCII)
_IBAN = re.compile(r"[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]){11,30}", re.ASCII)
_SSN = re.compile(r"\d{3}([ .-]?)\d{2}\1\d{4}", re.ASCII)
_MAC = re.compile(r"[0-9A-Fa-f]{2}(?:([:-])[0-9A-Fa-f]{2})(?:\1[0-9A-Fa-f]{2}){4}", re.ASCII)
_NHS = re.compile(r"\d{3}[ -]?\d{3}[ -]?\d{4}", re.ASCII)
_NINO = re.compile(r"[A-Za-z]{2} ?(?:\d{2} ?){3}[A-Da-d]?", re.ASCII)
_HANDLE = re.compile(r"(?P<at>@?)[\w.-]{2,40}")
_RECORD = re.compile(
    r"(?P<label>[A-Za-z .:#-]{0,40}?)(?P<value>(?:[A-Z]{1,4}-?)?\d{4,12})", re.ASCII
)

_AREAS = (
    *(201, 202, 212, 213, 303, 305, 312, 404, 415, 503),
    *(512, 602, 615, 617, 702, 713, 805, 816, 901, 917),
)
_ENDINGS = ("example.com", "example.net", "example.org")


def invented(random: Random) -> str:
    """A name of nobody and no place, where the lists have no more."""
    return "".join(random.choice(syllables) for syllables in SYLLABLES)


def value_surrogate(original: str, surrogate: str) -> Surrogate:
    """The value as it is, without its separators, and as URLs and some JSON writers put it."""
    forms = {surrogate: original}
    compact = _SEPARATORS.sub("", surrogate)
    if compact != surrogate and any(c.isdigit() for c in surrogate) and "@" not in surrogate:
        forms[compact] = _SEPARATORS.sub("", original)
    for form in (quote(surrogate, safe=""), _json_escaped(surrogate)):
        if form not in forms:
            forms[form] = quote(original, safe="") if "%" in form else original
    return Surrogate(surrogate, tuple(forms.items()))


def _json_escaped(text: str) -> str:
    return text.replace("@", "\\u0040").replace("+", "\\u002b")


def _email(original: str, random: Random) -> Surrogate | None:
    if not _EMAIL.fullmatch(original):
        return None
    box = f"{random.choice(MAILBOXES)}{random.randrange(100, 1000)}"
    made = value_surrogate(original, f"{box}@{random.choice(_ENDINGS)}")
    return Surrogate(made.text, (*made.forms, (box, original.partition("@")[0])))


def _phone(original: str, random: Random) -> Surrogate | None:
    digits = only_digits(original)
    if not _PHONE.fullmatch(original) or not 7 <= len(digits) <= 15:
        return None
    made = value_surrogate(original, _other_phone(original, digits, random))
    dialled = zip(phone_forms(made.text), phone_forms(original), strict=False)
    return Surrogate(made.text, tuple({**dict(made.forms), **dict(dialled)}.items()))


def _other_phone(original: str, digits: str, random: Random) -> str:
    international = "+" in original or original.startswith("00")
    dialled = digits.removeprefix("00") if international else digits
    surrogate = _drama(dialled, random) if international else _domestic(digits, random)
    if len(surrogate) != len(dialled):
        head = country_code(dialled) if international else "0"[: digits.startswith("0")]
        surrogate = _unassigned(head, len(dialled), random)
    return in_layout(original, "00" + surrogate if dialled != digits else surrogate)


def _unassigned(head: str, length: int, random: Random) -> str:
    """No national number begins with two zeros (ITU-T E.164): they would dial another country."""
    return head + "00" + _random_digits(length - len(head) - 2, random)


def _drama(digits: str, random: Random) -> str:
    """Numbers kept for film and radio: those of Ofcom, BNetzA and ARCEP, and 555-01xx."""
    if digits.startswith("44"):
        return f"447700900{random.randrange(1000):03}"
    if digits.startswith("49"):
        return f"493023125{random.randrange(1000):03}"
    if digits.startswith("33"):
        return f"3319900{random.randrange(10000):04}"
    return "1" + _american(random) if digits.startswith("1") else ""


def _american(random: Random) -> str:
    return f"{random.choice(_AREAS)}55501{random.randrange(100):02}"


def _domestic(digits: str, random: Random) -> str:
    if len(digits) == 7:
        return f"55501{random.randrange(100):02}"
    if len(digits) == 11 and digits.startswith("07"):
        return f"07700900{random.randrange(1000):03}"
    if len(digits) == 11 and digits.startswith("02"):
        return f"02079460{random.randrange(1000):03}"  # Ofcom, London
    if len(digits) == 10 and digits.startswith("0"):
        return f"019900{random.randrange(10000):04}"  # ARCEP
    if digits.startswith("0"):
        return f"03023125{random.randrange(1000):03}"  # BNetzA, Berlin
    if len(digits) == 11 and digits.startswith("1"):
        return "1" + _american(random)
    return _american(random) if len(digits) == 10 else ""


def _card(original: str, random: Random) -> Surrogate | None:
    if not _CARD.fullmatch(original):
        return None
    length = len(only_digits(original))
    body = "400000" + _random_digits(length - 7, random)
    return _with_last(original, in_layout(original, body + _luhn(body)))


def _with_last(original: str, surrogate: str) -> Surrogate:
    """Also by the four digits at the end, as people call a card."""
    made = value_surrogate(original, surrogate)
    last = (only_digits(surrogate)[-LAST:], only_digits(original)[-LAST:])
    return Surrogate(made.text, (*made.forms, last))


def _luhn(body: str) -> str:
    """ISO/IEC 7812-1, annex B."""
    total = 0
    for at, digit in enumerate(reversed(body)):
        value = int(digit) * (2 if at % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    return str(-total % 10)


def _iban(original: str, random: Random) -> Surrogate | None:
    if not _IBAN.fullmatch(original):
        return None
    plain = _SEPARATORS.sub("", original).upper()
    country, account = (
        plain[:2],
        "".join(_zero_bank(c) if at < 4 else _alike(c, random) for at, c in enumerate(plain[4:])),
    )
    as_number = "".join(str(int(c, 36)) for c in f"{account}{country}00")
    made = f"{country}{98 - int(as_number) % 97:02}{account}"  # ISO 13616, ISO 7064 MOD 97-10
    return _with_last(original, in_layout(original, made))


def _zero_bank(c: str) -> str:
    return "0" if c.isdigit() else "X"


def _social_security(original: str, random: Random) -> Surrogate | None:
    if not _SSN.fullmatch(original):
        return None
    made = f"666{random.randrange(1, 100):02}{random.randrange(1, 10000):04}"
    return _with_last(original, in_layout(original, made))


def _ip(original: str, random: Random) -> Surrogate | None:
    try:
        version = ipaddress.ip_address(original).version
    except ValueError:
        return None
    if version == 4:
        net = random.choice(("192.0.2", "198.51.100", "203.0.113"))  # RFC 5737
        return Surrogate(made := f"{net}.{random.randrange(101, 255)}", ((made, original),))
    made = f"2001:db8:{random.randrange(0x1000, 0x10000):x}::{random.randrange(0x1000, 0x10000):x}"
    return Surrogate(made, ((made, original),))


def _mac(original: str, random: Random) -> Surrogate | None:
    if not (match := _MAC.fullmatch(original)):
        return None
    made = f"00:00:5E:00:53:{random.randrange(256):02X}".replace(":", match[1])  # RFC 7042
    made = made.lower() if original.islower() else made
    return Surrogate(made, ((made, original),))


def _health_service(original: str, random: Random) -> Surrogate | None:
    if not _NHS.fullmatch(original):
        return None
    while True:
        body = "999" + _random_digits(6, random)
        check = 11 - sum((10 - at) * int(c) for at, c in enumerate(body)) % 11
        if check != 10:
            return value_surrogate(original, in_layout(original, body + str(check % 11)))


def _insurance(original: str, random: Random) -> Surrogate | None:
    if not _NINO.fullmatch(original):
        return None
    made = f"QQ{_random_digits(6, random)}{original[-1].upper()}"
    return value_surrogate(original, in_layout(original, made[: len(original.replace(" ", ""))]))


def unlabelled(type_: str, original: str) -> tuple[str, str]:
    """The label that a finding may begin with, which stays, and the value."""
    match = _RECORD.fullmatch(original) if type_ == "MEDICAL_RECORD" else None
    return ("", original) if match is None else (match["label"], match["value"])


def _record(original: str, random: Random) -> Surrogate | None:
    if not _RECORD.fullmatch(original):
        return None
    made = "".join(_alike(c, random) for c in original)
    return Surrogate(made, ((made, original),))


def _handle(original: str, random: Random) -> Surrogate | None:
    match = _HANDLE.fullmatch(original)
    if match is None:
        return None
    made = f"{match['at']}{random.choice(MAILBOXES)}{random.randrange(100, 1000)}"
    return Surrogate(made, ((made, original),))


MAKERS: dict[str, Maker] = {
    "CREDIT_CARD": _card,
    "EMAIL_ADDRESS": _email,
    "IBAN_CODE": _iban,
    "IP_ADDRESS": _ip,
    "MAC_ADDRESS": _mac,
    "MEDICAL_RECORD": _record,
    "PHONE_NUMBER": _phone,
    "UK_NHS": _health_service,
    "UK_NINO": _insurance,
    "US_SSN": _social_security,
    "USERNAME": _handle,
}
"""Names of people and of places are made of lists, part by part (`ledger`). All other types have no
surrogate: a secret must not be guessed at, and for most identity numbers nothing is set aside."""


def _random_digits(count: int, random: Random) -> str:
    return "".join(random.choice("0123456789") for _ in range(count))


def _alike(c: str, random: Random) -> str:
    if c.isdigit():
        return random.choice("0123456789")
    return random.choice("ABCDEFGHJKLMNPQRSTUVWXYZ") if c.isalpha() else c


def in_layout(original: str, characters: str) -> str:
    """The characters, grouped as the original's letters and digits are."""
    rest = iter(characters)
    return "".join(next(rest) if c.isalnum() else c for c in original)
