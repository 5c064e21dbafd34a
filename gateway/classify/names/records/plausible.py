# ruff: noqa: SIM905 - tables of words
"""Whether a value under a key may be a person's name, or a part of one."""

from __future__ import annotations

import functools
import operator
import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gateway.classify.names.model.card import WEIGHTS
from gateway.classify.names.records.keys import folded

if TYPE_CHECKING:
    from gateway.classify.names.model.lexicon import Lexicon, WordSet

LONGEST = 60  # characters of a part of a name, title and all
_MOST_WORDS = 6
_EVERYDAY = 2
"""The frequency from which on a word that nobody is called counts as an everyday one."""
_COMMON = 3
"""The same for a word behind a name, of 7: 2 has Boeing and Bamberg in it."""
_NOUNS = 3
"""Nouns in a row, none of them a given name, before they are no name."""

_LETTERS = r"[^\W\d_]++(?:[\u0300-\u036f]++[^\W\d_]*+)*+"
_WORD = re.compile(rf"{_LETTERS}(?:['\u2019\u02bc`\u00b4-]{{1,2}}{_LETTERS})*")
_VALUE = re.compile(
    rf"(?:{_LETTERS}|['\u2019\u02bc`\u00b4-]{{1,2}}(?=[^\W\d_])|(?<=[^\W\d_])\.(?=[\s-]|$)"
    r"|(?<![^\W\d_][^\W\d_])\.(?=[^\W\d_])|\s{1,3})+"
)
_CAMEL = re.compile(r"[a-z]")
_MIXED = re.compile(r"(?:de|van|von|di|da|du|le|la|mc|mac|fitz|ter|ten|der|del|den|st|o|d|l)[A-Z]")
_PARTICLES = frozenset(
    [
        "al",
        "bin",
        "da",
        "das",
        "de",
        "del",
        "della",
        "den",
        "der",
        "des",
        "di",
        "do",
        "dos",
        "du",
        "e",
        "el",
        "i",
        "ibn",
        "la",
        "las",
        "le",
        "les",
        "lo",
        "los",
        "of",
        "san",
        "st",
        "te",
        "ten",
        "ter",
        "the",
        "und",
        "van",
        "vom",
        "von",
        "y",
        "zu",
        "zum",
        "zur",
    ]
)
_STANDING_IN = frozenset(
    # types and marks of code, schemas and forms
    "string str text char varchar nvarchar varchar2 int integer float bool boolean null none nil"
    " undefined nan true false required optional unique primary index any object array list enum"
    " number date datetime uuid email phone address age city field fields column columns key keys"
    " label title type value values default input output data row rows record records entity name"
    " names first last given family middle full second self this that return returns print select"
    " from where and or not like order by asc desc limit insert into update set props state params"
    " query request response body form unknown empty missing blank example sample samples test"
    " tests testing tester dummy mock fake faker placeholder foo bar baz qux lorem ipsum dolor xxx"
    " xxxx abc xyz tbd todo na anonymous redacted removed hidden masked deleted enter your please"
    " user users customer client person employee contact admin guest nobody somebody"
    # the same in the other languages
    " unbekannt leer beispiel muster pflichtfeld eingeben bitte benutzer kunde feld spalte wert"
    " inconnu vide exemple obligatoire champ valeur utilisateur saisir desconocido vacio ejemplo"
    " obligatorio campo valor usuario sconosciuto vuoto esempio obbligatorio valore utente"
    " desconhecido vazio exemplo obrigatorio usuario onbekend leeg voorbeeld verplicht waarde"
    " gebruiker nieznany nieznane puste przyklad wymagane pole wartosc uzytkownik"
    # what such fields are called elsewhere
    " etunimi sukunimi fornamn efternamn fornavn etternavn jmeno prijmeni krestni keresztnev"
    " vezeteknev utonev ime prezime ad soyad soyadi adi prenume nume meno priezvisko vards uzvards"
    " vardas pavarde eesnimi perekonnanimi nama depan belakang jina ten ho".split()
)
"""What stands in such fields and is nobody: folded."""


def split_words(value: str) -> list[str]:
    return _WORD.findall(value)


def is_name_like(value: str, *, family: bool = False) -> bool:
    """Whether it has the form of a name: words of letters, not too many, and not all of them words
    that stand in for one. Initials are a given name, and no family name."""
    if not 0 < len(value) <= LONGEST or _VALUE.fullmatch(value) is None:
        return False
    words = split_words(value)
    if not 0 < len(words) <= _MOST_WORDS or any(map(_is_code, words)):
        return False
    if family and max(map(len, words)) < 2:
        return False
    plain = [folded(word) for word in words]
    return not all(word in _STANDING_IN or word in _PARTICLES for word in plain)


def is_dull(value: str) -> bool:
    """Whether no word of it is likelier a name than an everyday word: the names model is asked."""
    return all(map(_is_everyday, split_words(value)))


def stands_in(value: str) -> bool:
    """Whether a word of it is one that stands where a name would."""
    return any(folded(word) in _STANDING_IN for word in split_words(value))


def is_common_word(word: str) -> bool:
    """Whether it is common in a language and known as no name: of no person and of no place."""
    known = _lexicon().find(unicodedata.normalize("NFC", word))
    return known.frequency >= _COMMON and not (known.given or known.surname or known.place)


def are_words(words: Sequence[str]) -> bool:
    """Whether what stands where a name might is a phrase of everyday words: of a language that
    names are not looked for in ("Yapay Zeka Nedir"), or nouns in a row ("Fabrik Umzug Halle")."""
    if len(words) == 1:
        return words[0].islower() and _is_foreign(words[0])
    if any(len(word) == 1 for word in words):
        return False
    foreign = list(map(_is_foreign, words))
    common = list(map(is_common_word, words))
    if any(foreign) and all(map(operator.or_, foreign, common)):
        return True
    if len(words) < _NOUNS or not all(word[:1].isupper() for word in words):
        return False
    facts = [_lexicon().find(unicodedata.normalize("NFC", word)) for word in words]
    plain = [f.frequency >= _EVERYDAY and not (f.surname or f.place) for f in facts]
    return not any(f.given for f in facts) and sum(plain) >= 2


def _is_foreign(word: str) -> bool:
    lower = unicodedata.normalize("NFC", word).lower().replace("i\u0307", "i")
    return _foreign_words().has(lower)


def is_noun(word: str) -> bool:
    """Whether it is common in one language alone and nobody's name, as `Hinweise` and `Stärke`:
    the famous are common in several."""
    known = _lexicon().find(unicodedata.normalize("NFC", word))
    return is_common_word(word) and known.languages <= 1


def is_place(word: str) -> bool:
    known = _lexicon().find(unicodedata.normalize("NFC", word))
    return bool(known.place) and not known.given and known.surname < 2


def is_given(word: str) -> bool:
    """Whether it is widely known as a given name, and less so as a surname."""
    known = _lexicon().find(unicodedata.normalize("NFC", word))
    return known.given >= 2 and known.given > known.surname


def is_family(word: str) -> bool:
    """Whether it is widely known as a surname, and less so as a given name."""
    known = _lexicon().find(unicodedata.normalize("NFC", word))
    return known.surname >= 2 and known.surname > known.given


def _is_code(word: str) -> bool:
    """`userName`, and no `McDonald` or `deVries`."""
    return any(
        _CAMEL.match(part) is not None and not part.islower() and not _MIXED.match(part)
        for part in re.split(r"['\u2019\u02bc`\u00b4-]+", word)
    )


def _is_everyday(word: str) -> bool:
    plain = folded(word)
    if plain in _PARTICLES or plain in _STANDING_IN:
        return True
    for part in re.split(r"['\u2019\u02bc`\u00b4-]+", word):
        known = _lexicon().find(unicodedata.normalize("NFC", part))
        if known.frequency < _EVERYDAY or known.given or known.surname or known.place:
            return False
    return True


@functools.lru_cache(1)
def _foreign_words() -> WordSet:
    from gateway.classify.names.model.lexicon import WordSet  # numpy, as below

    return WordSet.load(WEIGHTS / "foreign.npz")


@functools.lru_cache(1)
def _lexicon() -> Lexicon:
    from gateway.classify.names.model.lexicon import Lexicon  # numpy, for whoever looks for names

    return Lexicon.load(WEIGHTS / "lexicon.npz")
