"""Street addresses, word by word: the words that say what a thing is stay, its name does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

_ADDRESS = re.compile(r"(?=.*\d)[\w .,'\u2019/\\#()\n\r\u2010-\u2013-]{5,160}", re.DOTALL)
_TOKEN = re.compile(
    r"(?P<escape>\\+[bfnrt])|(?P<post>[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}\b)"
    r"|(?P<code>(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{3,})|(?P<number>[0-9]+)"
    r"|(?P<word>[^\W\d_]+(?:['\u2019][^\W\d_]+)*)"
)
_KINDS = frozenset(
    (  # noqa: SIM905 - as a list, a line for each language
        "street avenue road drive lane boulevard court terrace parkway highway crescent gardens "
        "grove mews place square close circle trail way walk row alley loop plaza rise ridge pike "
        "path broadway view quay heights ave blvd pkwy hwy cres apt apartment suite ste flat unit "
        "room floor box north south east west usa "
        "postfach straße strasse str weg gasse allee platz ring damm ufer chaussee stiege haus "
        "rue chemin impasse quai cours route passage sentier villa cité cite faubourg résidence "
        "lotissement montée ruelle voie bis ter appartement étage bâtiment cedex "
        "calle avenida avda paseo plaza carretera camino ronda piso puerta izquierda derecha "
        "via viale piazza piazzale corso vicolo strada contrada interno scala "
        "rua travessa praça estrada alameda rodovia largo andar "
        "straat laan gracht kade dreef singel plein plantsoen bus "
        "ulica ulicy aleja aleje alei plac placu osiedle osiedlu rondo skwer "
        "the and les las los del dos das der die den dem des aux sur van von zum zur dell della "
        "delle degli germany france spain italy portugal poland austria switzerland england "
        "deutschland españa italia polska nederland belgium"
    ).split()
)
_COMPOUND = re.compile(
    r"(?P<name>[^\W\d_]{3,}?)(?P<kind>straße|strasse|str|gasse|allee|chaussee|straat|laan|gracht"
    r"|kade|dreef|singel|steeg|plein|plantsoen|gatan|gata|vägen|veien|vej|weg|platz|damm|ufer|ring)",
    re.IGNORECASE,
)
_SHORTENED = ("strasse", "str")
_POSTCODE = 5  # digits
_LEAST = 3  # letters of a word that is a name

Renamed = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class NewAddress:
    """An address of the same form, and pieces of both that say the same."""

    text: str = field(repr=False)
    pieces: tuple[tuple[str, str], ...] = field(repr=False)


def is_address(text: str) -> bool:
    return _ADDRESS.fullmatch(text) is not None and any(True for _ in address_words(text))


def address_words(address: str) -> Iterator[str]:
    """The words of an address that are names of streets and towns."""
    for token in _TOKEN.finditer(address):
        if token["word"] and (word := _named(token["word"])):
            yield word


def compounds(address: str) -> Iterator[tuple[str, str]]:
    """Names of streets in one word with what they are, and other spellings of that word."""
    for token in _TOKEN.finditer(address):
        if token["word"] and (compound := _COMPOUND.fullmatch(token["word"])):
            for kind in dict.fromkeys((compound["kind"].lower(), *_SHORTENED)):
                yield compound["name"], compound["name"] + kind


def postcodes(address: str) -> Iterator[str]:
    """The codes of an address that say where it is by themselves."""
    for token in _TOKEN.finditer(address):
        if token["post"] or (token["number"] and len(token[0]) >= _POSTCODE):
            yield token[0]


def renamed(address: str, name: Renamed, random: Random) -> NewAddress:
    """The address with other names and numbers. `name` gives the new name for a word. A number is
    part of the piece up to the nearest name, since by itself it says nothing."""
    tokens: list[tuple[int, int, str, str, bool]] = []  # in the old text; old, new; is it a name
    for token in _TOKEN.finditer(address):
        if token["escape"]:
            continue
        if token["word"]:
            if word := _named(token["word"]):
                start = token.start() + token[0].index(word)
                tokens.append((start, start + len(word), word, name(word), True))
        else:
            new = _other_number(token[0], random)
            tokens.append((*token.span(), token[0], new, False))
    return NewAddress(_rebuilt(address, tokens, 0, len(address)), tuple(_pieces(address, tokens)))


def _pieces(
    address: str, tokens: list[tuple[int, int, str, str, bool]]
) -> Iterator[tuple[str, str]]:
    names = [(start, end) for start, end, _, _, is_name in tokens if is_name]
    for start, end, old, new, is_name in tokens:
        if is_name:
            continue
        if len(new) > _LEAST:  # a postcode
            yield new, old
            if " " in new:
                yield new.replace(" ", ""), old.replace(" ", "")
        for first, last in sorted(names, key=lambda n: min(abs(n[0] - end), abs(start - n[1])))[:2]:
            a, b = min(start, first), max(end, last)
            if b - a < 48:
                yield _rebuilt(address, tokens, a, b), address[a:b]


def _rebuilt(
    address: str, tokens: list[tuple[int, int, str, str, bool]], start: int, end: int
) -> str:
    pieces, at = [], start
    for first, last, _, new, _ in tokens:
        if start <= first and last <= end:
            pieces += [address[at:first], new]
            at = last
    return "".join((*pieces, address[at:end]))


def _named(word: str) -> str:
    """The part of a word that is a name, or nothing."""
    if word.lower() in _KINDS or len(word) < _LEAST or (len(word) == 3 and word.isupper()):
        return ""
    compound = _COMPOUND.fullmatch(word)
    return compound["name"] if compound else word


def _other_number(number: str, random: Random) -> str:
    """House numbers have three digits then, so that they stand out; postcodes keep their length."""
    if number.isdigit() and len(number) <= _LEAST:
        return str(random.randrange(101, 1000))
    return "".join(_alike(c, random) for c in number)


def _alike(c: str, random: Random) -> str:
    if c.isdigit():
        return random.choice("0123456789")
    if not c.isalpha():
        return c
    return random.choice("ZQXJ") if c.isupper() else random.choice("zqxj")
