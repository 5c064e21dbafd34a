# ruff: noqa: E501, SIM905 - tables of words
"""What a token of a text looks like, in two letters: what it could be in a name, and what it says
of the language.

| first letter | token |
|---|---|
| G, Y | capitalised, a given name; Y if it is an everyday word too |
| N | capitalised, a surname or in no vocabulary |
| L, B, W | capitalised, a place, a place and a surname, a month or a day |
| C, D, F | capitalised, another word; D if it may be a surname too, F if it is one of the most frequent |
| I, M, J | one capital; M begins a title (`M.`), J is a word (`I`, `A`) |
| g, h, n, s, r | small, a given name, one that is an everyday word too, a surname, a surname that is a word too, in no vocabulary |
| m, c, i, x | small, a word, one of the most frequent, one letter, a word of chats |
| p, P | a particle of names; P if it is capitalised and may be a surname |
| T, t | a title, capitalised or small |
| S, z | a word of streets; z if it is small and another word too |
| d, k | digits; letters and digits |
| . , - ' @ # _ \\| ; " ! | these signs; @ and # with a space behind them are / |
| /, newline, space | other signs; white space |

The second letter is a capital where a space stands before the word: e is an everyday English word, o
one of a language that the model does not know, a and b the same with a capital, u in no vocabulary,
x no small word, v another one, and - no word at all. White space has a space where it holds the end of a line, else _.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Protocol

from gateway.classify.names import rules
from gateway.classify.names.model.languages import PLACEHOLDERS
from gateway.classify.names.model.lexicon import Lexicon

TOKEN = re.compile(
    r" ?(?:[A-Za-z0-9]++(?![^\x00-\x7f])|[^\W_]+(?:[\u0300-\u036f]+[^\W_]*)*)"
    r"|[@#] ?|[^\w\s]|_|\s+?(?= ?[^\W_])|\s+"
)
"""All of a text, piece by piece: the words of words.py with the space before them, signs, white
space. Those of ASCII stand first because `re` reads them at half the price."""

_MOST_TOKENS = 50_000
_LONGEST = 40  # characters of a word that count, as in features.py
_LONGEST_PROSE = 20  # as in languages.py
_SIGNS = frozenset(".,-'@#_|;\"!")

_TITLES = frozenset(
    (
        "president king queen prince princess pope saint uncle aunt lil dj mc coach chef senator sen "
        "governor gov rep minister chancellor mayor mm"
    ).split()
)
"""Beside those that rules.py takes for titles: what stands before names of one word in prose, which
the model takes for a part of them."""
_PARTICLES = frozenset(
    (
        "abd abu al bin da das de del della den der des di do dos du e el ibn ii iii jr la las le les "
        "lo los san ten ter van vom von y zu zum zur"
    ).split()
)
_STREETS = frozenset(
    (
        "street st avenue ave av road rd lane ln drive dr boulevard blvd highway hwy court ct terrace "
        "crescent parkway pkwy square sq place pl close suite ste apt unit box psc way gate"
        " straße strasse str weg platz allee gasse damm ring ufer steig chaussee"
        " rue chemin impasse allée quai route cours"
        " calle avenida avda plaza paseo camino carretera ronda"
        " via viale piazza corso vicolo largo strada"
        " rua travessa praça estrada alameda straat laan plein gracht kade dijk singel steeg"
        " ul ulica ulicy aleja aleje alei os osiedle osiedlu plac rondo utca"
    ).split()
)
_ALSO_WORDS = frozenset(
    "st dr court place close square way drive unit via ring largo route cours os pl av gate".split()
)
"""Words of streets that are other words in small letters."""
_STREET_ENDS = tuple(
    (
        "straße strasse str straat laan weg gasse platz plein gracht allee kade dijk singel damm ufer"
    ).split()
)
_CALENDAR = frozenset(
    (
        "january february march april may june july august september october november december jan "
        "feb mar apr jun jul aug sep sept oct nov dec monday tuesday wednesday thursday friday "
        "saturday sunday januar februar märz mai juni juli oktober dezember janvier février mars "
        "avril juin juillet août septembre octobre novembre décembre enero febrero marzo abril mayo "
        "junio julio agosto septiembre octubre noviembre diciembre gennaio febbraio aprile maggio "
        "giugno luglio settembre ottobre dicembre janeiro fevereiro março maio junho julho setembro "
        "outubro novembro dezembro januari februari maart mei augustus"
    ).split()
)
_CHAT = frozenset(
    (
        "lol lmao omg wtf rt gonna wanna gotta im ive dont cant aint ur thx pls plz idk ikr smh tbh "
        "bro dude haha hahaha xx xoxo yall cuz tho btw"
    ).split()
)
_SMALL_HEAD = re.compile(
    r"(?:de|van|von|di|da|du|le|la|mc|mac|fitz|ter|ten|der|del|den|st|o|d|l)[A-Z]"
)
"""`deVries`, and no `userName`."""
_RARE, _KNOWN, _COMMON, _EVERYDAY = 2, 3, 4, 5
"""Frequencies of the lexicon, up to which a name is no word, a small surname counts, a word may be a
part of a name, and a name that is a word too counts."""
_WORLDWIDE = 6  # of the eight languages: a name is known in most of them, a word of one in few
_EVERYWHERE = 8  # `john` is as common as `line`
_NAME_LETTERS = 3  # small ones in a capitalised word with digits in it: `W3idenfeller`


class Everyday(Protocol):
    """Which small words tell a language."""

    def letter(self, word: str) -> str:
        """e, o or v."""
        ...


class TokenKinds(dict[str, str]):
    """The two letters of each token, worked out when it is first met. Bounded: of the 50,000 tokens
    met last."""

    def __init__(self, lexicon: Lexicon, everyday: Everyday | None) -> None:
        """`everyday`: None where every language is read."""
        super().__init__()
        self._lexicon = lexicon
        self._everyday = everyday

    def __missing__(self, token: str) -> str:
        word = token.lstrip(" ")
        if not word or not word[0].isalnum():
            letters = _sign(token)
        else:
            word = unicodedata.normalize("NFC", word[:_LONGEST])
            second = self._language(word)
            letters = self._kind(word) + (second.upper() if token[0] == " " else second)
        if len(token) <= _LONGEST:
            if len(self) >= _MOST_TOKENS:
                self.clear()
            self[token] = letters
        return letters

    def _kind(self, word: str) -> str:
        if word.isdigit():
            return "d"
        lower = word.lower()
        if any(c.isdigit() for c in word):
            return (
                "N" if word[0].isupper() and sum(map(str.islower, word)) >= _NAME_LETTERS else "k"
            )
        if len(word) == 1:
            return _letter(word, lower)
        if lower in _PARTICLES:
            if not word[0].isupper():
                return "p"
            return "G" if lower in rules.ALSO_GIVEN else "P" if lower in rules.ALSO_FAMILY else "p"
        if lower in _TITLES or rules.is_title_word(word):
            return "t" if word.islower() else "T"
        if lower in _STREETS:
            return "z" if word.islower() and lower in _ALSO_WORDS else "S"
        if len(word) > _EVERYDAY and lower.endswith(_STREET_ENDS):
            return "S"
        return self._small(word) if word.islower() else self._capitalised(word, lower)

    def _small(self, word: str) -> str:
        if word in _CHAT:
            return "x"
        known = self._lexicon.find(word)
        if known.given >= _RARE and known.frequency <= _EVERYDAY:
            worldwide = known.languages >= (
                _WORLDWIDE if known.frequency <= _COMMON else _EVERYWHERE
            )
            return "g" if known.frequency <= _RARE or worldwide else "h"
        if not known.frequency or (known.surname and known.frequency <= _KNOWN):
            is_surname = known.surname >= _RARE or (known.surname and known.frequency < _RARE)
            return "n" if known.given or is_surname else "r"
        if known.given and known.frequency <= _KNOWN:
            return "h"
        if known.surname >= _RARE and known.frequency <= _COMMON:
            return "s"
        return "c" if known.frequency >= _EVERYDAY else "m"

    def _capitalised(self, word: str, lower: str) -> str:
        head = word[0]
        if not head.isupper() and head.lower() != head.upper() and not _SMALL_HEAD.match(word):
            return "c"  # of code: `userName`
        if not (word.isupper() or word[1:].islower()) and sum(map(str.isupper, word)) > _RARE:
            return "C"
        if lower in _CALENDAR:
            return "W"
        known = self._lexicon.find(word)
        if known.place and known.given < _RARE:
            return "B" if known.surname >= _RARE else "L"
        if known.given:
            usual = known.languages >= _WORLDWIDE or known.surname > _RARE
            rare = known.frequency <= _RARE or (usual and known.frequency <= _EVERYDAY)
            return "G" if rare else "Y"
        if not known.frequency or known.surname >= _RARE:
            return "N"
        if known.surname and known.frequency <= _KNOWN:
            return "N"
        if known.frequency > _COMMON:
            return "F"
        return "D" if known.surname or not word.isascii() else "C"

    def _language(self, word: str) -> str:
        if not word.isalpha() and not _without_marks(word).isalpha():
            return "-"
        if self._everyday is None:
            return "v"
        letter = self._everyday.letter(word.lower())
        if letter != "v":
            return letter if word.islower() else {"e": "a", "o": "b"}[letter]
        if not word.islower() or not 1 < len(word) <= _LONGEST_PROSE or word in PLACEHOLDERS:
            return "x"
        if len(word) > _RARE and not self._lexicon.find(word).frequency:
            return "u"
        return "v"


def _sign(token: str) -> str:
    if token.isspace():
        return "\n " if "\n" in token else " _"
    if token in _SIGNS:
        return token + "-"
    return "'-" if token == "\u2019" else "/-"


def _letter(word: str, lower: str) -> str:
    if not word.isupper():
        return "p" if lower in _PARTICLES else "i"
    return "M" if word in "MDP" else "J" if word in "IA" else "I"


def _without_marks(word: str) -> str:
    return "".join(c for c in word if not unicodedata.combining(c))
