"""Keys, column heads and labels that announce a part of a person's name, in eight languages.

They are read in folded text: lower case, without accents, one character for one. `firstName`,
`first_name`, `FIRST-NAME`, `patient.name.given` and "First name" are the same key; what goes on
(`first_name_label`, `firstNameMaxLength`) is another one, and announces nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from gateway.classify.text.stems import Stems


class NamePart(Enum):
    """Which part of a name a key announces."""

    GIVEN = "given"
    FAMILY = "family"
    NAME = "name"  # either, or the whole
    FULL = "full"


_S = r"[ _.\-]?"
_LINK = r"(?: (?:of|des|der|du|de la|del|della|do|da|van de|van)(?: the)?)?"
_PATIENT = r"(?:patients?|patienten|patientin|pacientes?|pazient[ei]|pacjenta|pacjentki)"
_FULL = (
    rf"full{_S}name|complete{_S}name|legal{_S}name|name{_S}and{_S}surname|first{_S}and{_S}last{_S}name"
    rf"|patients?{_S}name|name{_LINK} {_PATIENT}|patienten{_S}name|patientname"
    rf"|vor{_S}(?:-{_S})?und{_S}(?:nach|zu)name|vollstandiger{_S}name|vollername"
    rf"|nom{_S}complet|nom{_S}et{_S}prenoms?|prenoms?{_S}et{_S}nom|nom{_LINK} {_PATIENT}"
    rf"|nombre{_S}completo|nombres?{_S}y{_S}apellidos?|apellidos?{_S}y{_S}nombres?"
    rf"|nombre{_LINK} {_PATIENT}|nome{_S}completo|nome{_S}e{_S}cognome|cognome{_S}e{_S}nome"
    rf"|nome{_S}e{_S}(?:apelido|sobrenome)|nome{_LINK} {_PATIENT}"
    rf"|volledige{_S}naam|voor{_S}-?{_S}en{_S}achternaam|naam{_LINK} {_PATIENT}"
    rf"|imie{_S}i{_S}nazwisko|nazwisko{_S}i{_S}imie|imie{_S}nazwisko"
)
_GIVEN = (
    rf"first{_S}?names?|given{_S}names?|fore{_S}names?|christian{_S}names?|middle{_S}names?|fname|mname"
    rf"|givn|vornamen?s?|rufname"
    rf"|prenoms?"
    rf"|nombre{_S}de{_S}pila|(?:primer|segundo){_S}nombre|nombres?"
    rf"|nome{_S}proprio|(?:primeiro|primo|secondo|segundo){_S}nome|prenome|nomes?"
    rf"|voorna(?:am|men)|roepnaam"
    rf"|imie(?:nia|niem|niu)?|imion[ay]?|mam na imie|na imie mi"
)
_FAMILY = (
    rf"last{_S}names?|family{_S}names?|sur{_S}names?|maiden{_S}name|lname|surn"
    rf"|nachnamen?s?|familiennamen?s?|zuname|geburtsname"
    rf"|nom{_S}de{_S}famille|nom{_S}d.?usage|nom{_S}(?:de{_S})?naissance|nom{_S}marital"
    rf"|nom{_S}de{_S}jeune{_S}fille|noms?"
    rf"|(?:primer|segundo){_S}apellido|apellidos?(?:{_S}(?:paterno|materno))?"
    rf"|cognom[ei]|apelidos?|sobrenomes?|nome{_S}(?:de{_S})?familia|ultimo{_S}nome"
    rf"|achterna(?:am|men)|familienaam|geboortenaam"
    rf"|nazwisk(?:o|a|iem|u)(?:{_S}(?:rodowe|panienskie))?"
)
_WEAK_GIVEN = "first|given|middle|gn|forenames?"
_WEAK_FAMILY = "last|family|sn"
_NAME = (
    "name|naam|my name is|ich heisse|je m.?appelle|me llamo|mi chiamo|chamo-?me|me chamo|ik heet"
    "|nazywam sie"
)
_BEARER = "patiente?n?(?:in)?|pacientes?|pazient[ei]|pacjent(?:ka)?"
_GLUED = re.compile(
    "firstname|lastname|givenname|familyname|surname|vorname|nachname|voornaam|achternaam"
)
"""Keys that are no other words' endings: `patientfirstname` has no border inside."""

_KEY = re.compile(
    rf"(?:(?P<full>{_FULL})|(?P<family>{_FAMILY})|(?P<given>{_GIVEN})"
    rf"|(?P<weak_family>{_WEAK_FAMILY})|(?P<weak_given>{_WEAK_GIVEN})|(?P<name>{_NAME})|(?P<bearer>{_BEARER}))"
    r"(?=(?:[_-]?\d{1,2})?(?![^\W_]|_[^\W_]|-[^\W\d_]))(?:[_-]?\d{1,2})?"
)
_PARTS = {
    "full": (NamePart.FULL, True),
    "family": (NamePart.FAMILY, True),
    "given": (NamePart.GIVEN, True),
    "weak_family": (NamePart.FAMILY, False),
    "weak_given": (NamePart.GIVEN, False),
    "name": (NamePart.NAME, False),
    "bearer": (NamePart.NAME, True),
}
_WRITTEN = Stems((_FULL, _FAMILY, _GIVEN, _WEAK_FAMILY, _WEAK_GIVEN, _NAME, _BEARER))
"""Keys, and longer words that they begin or end; `_KEY`, which costs more, looks no further."""
_LONGEST = 60  # characters of a key, and some more


@dataclass(frozen=True, slots=True)
class Key:
    """`strong`: nothing but a person has it."""

    part: NamePart
    strong: bool
    start: int
    end: int


def _table() -> dict[int, str]:
    """Letters with marks, each by its own letter; what has no single one stays."""
    table = {}
    for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00)):
        letter = unicodedata.normalize("NFD", chr(code))[0].lower()
        if letter.isascii() and letter.isalpha():
            table[code] = letter
    table.update({ord("ł"): "l", ord("Ł"): "l", ord("ø"): "o", ord("Ø"): "o", ord("đ"): "d"})
    table.update({ord("İ"): "i", 0x131: "i", ord("ß"): "s"})
    return table


_LETTERS = _table()
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")


def folded(text: str) -> str:
    """The text in lower case without accents, as long as it was."""
    if text.isascii():
        return text.lower()
    plain = _BEYOND_ASCII.sub(lambda run: run[0].translate(_LETTERS), text)
    lower = plain.lower()
    return lower if len(lower) == len(plain) else "".join(c.lower()[:1] or c for c in plain)


def keys(text: str, plain: str) -> Iterator[Key]:
    """The keys in a text, in order; `plain` is the text folded."""
    end = 0
    for first, last, _ in _WRITTEN.find(plain):
        if last <= end:
            continue
        if first >= end:
            match = _KEY.match(plain, first, first + _LONGEST)
        else:
            match = _KEY.search(plain, end, last + _LONGEST)
        if match is not None:
            start, end = match.span()
            if _begins(text, plain, start, match[0]):
                part, strong = _PARTS[str(match.lastgroup)]
                yield Key(part, strong, start, end)


def match_key(cell: str) -> Key | None:
    """The key that a whole cell is, `Patient first name` too."""
    plain = folded(cell).strip(" \"'`[]*:\r\ufeff")
    last = None
    for key in keys(plain, plain):
        if key.end == len(plain):
            last = key
    return last


def is_key(value: str) -> bool:
    """Whether a value is the name of a field, or speaks of one."""
    plain = folded(value)
    return any(key.strong or key.end - key.start == len(plain) for key in keys(value, plain))


def _begins(text: str, plain: str, start: int, key: str) -> bool:
    if start == 0 or not plain[start - 1].isalnum():
        return True
    if text[start].isupper() and not text[start - 1].isupper():
        return True
    return _GLUED.match(key) is not None
