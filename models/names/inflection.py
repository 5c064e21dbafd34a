"""Polish names in the cases of the language: `inflect("Jan", "Nowak", "gen")` is Jana Nowaka."""

from __future__ import annotations

from collections.abc import Callable

VOWELS = "aąeęioóuy"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MEN_IN_A = _words("Barnaba Bonawentura Dyzma Jarema Kosma Kuba Luca Musa Mustafa Nikita Sasza")
WOMEN = _words("Carmen Dolores Ingrid Inez Ines Karen Margaret Miriam Rut Ruth Judith")
# Given names that are declined like adjectives.
ADJECTIVES = _words(
    "Jerzy Antoni Ignacy Konstanty Walenty Wincenty Cezary Hilary Maurycy Alojzy Ambroży "
    "Gerwazy Idzi Jacenty Innocenty Bonifacy"
)
STEMS = {
    "Aleksander": "Aleksandr",
    "Kacper": "Kacpr",
    "Paweł": "Pawł",
    "Gaweł": "Gawł",
    "Wróbel": "Wróbl",
    "Kozioł": "Kozł",
    "Kozieł": "Kozł",
    "Mróz": "Mroz",
    "Sokół": "Sokoł",
    "Marzec": "Marc",
    "Gołąb": "Gołębi",
    "Jastrząb": "Jastrzębi",
    "Stępień": "Stępni",
    "Kwiecień": "Kwietni",
}
SOFT = {"ń": "ni", "ś": "si", "ć": "ci", "ź": "zi"}
HARD = {"c": "ć", "n": "ń", "s": "ś", "z": "ź"}  # what is soft before ie and before a consonant
# How a stem ends before the e of the locative: the longest that fits counts.
BEFORE_E = {
    "ch": "sz",
    "st": "ści",
    "zd": "ździ",
    "łł": "ll",
    "sł": "śl",
    "d": "dzi",
    "g": "dz",
    "h": "ż",
    "k": "c",
    "ł": "l",
    "r": "rz",
    "t": "ci",
} | {letter: letter + "i" for letter in "bfmnpsvwz"}
HARDENED = ("c", "cz", "dz", "rz", "sz", "ż")  # take u with men and y with women


def _before_e(stem: str) -> str | None:
    for length in (2, 1):
        if stem[-length:] in BEFORE_E:
            return stem[:-length] + BEFORE_E[stem[-length:]] + "e"
    return None


def _adjective(word: str, case: str) -> str:
    """Nowy, Kowalski: a man's name."""
    stem = word if word.endswith("i") else word[:-1]
    narrow = word + "m"  # Kowalskim, Nowym
    return {"gen": stem + "ego", "acc": stem + "ego", "dat": stem + "emu"}.get(case, narrow)


def _adjective_woman(word: str, case: str) -> str:
    link = "i" if word[-2] in "kg" else ""
    return word[:-1] + {"acc": "ą", "ins": "ą"}.get(case, link + "ej")


def _noun_in_a(stem: str, case: str, given: bool) -> str:
    """Anna, Duda, Kościuszko, each without its last letter; women and men alike."""
    if case in ("acc", "ins"):
        return stem + ("ę" if case == "acc" else "ą")
    if stem.endswith("i"):  # Kasia has Kasi, Maria has Marii
        short = not given or stem[-2] in "scz" or stem in ("Ani", "Hani", "Frani", "Broni")
        return stem if short else stem + "i"
    if stem.endswith("j"):
        return stem[:-1] + "i" if stem[-2] in VOWELS else stem + "i"
    if stem.endswith("l"):
        return stem + "i"
    if stem.endswith(HARDENED):
        return stem + "y"
    if case == "gen":
        return stem + ("i" if stem[-1] in "kg" else "y")
    return _before_e(stem) or stem + "a"


def _stem(word: str) -> str:
    """What a man's name keeps before an ending: Marek has Mark-, Krawiec Krawc-."""
    if word in STEMS:
        return STEMS[word]
    head, tail = word[:-2], word[-2:]
    if tail in ("ek", "ec") and any(letter in VOWELS for letter in head.rstrip("i").lower()):
        if head.endswith("i"):
            head = head[:-1]
            head = head[:-1] + HARD.get(head[-1], head[-1])
        if head[-1] not in VOWELS:
            return head + tail[1]
    return word[:-1] + SOFT.get(word[-1], word[-1])


def _noun(word: str, case: str) -> str:
    """A man's name that ends in a consonant."""
    stem = _stem(word)
    if case == "loc":
        if stem.endswith((*HARDENED, "i", "j", "l", "k", "g", "h")):
            return stem + "u"
        return _before_e(stem) or word
    link = "i" if stem[-1] in "kg" else ""
    return stem + {"dat": "owi", "ins": link + "em"}.get(case, "a")


def _given(word: str, woman: bool, case: str) -> str:
    if word.endswith("a"):
        return _noun_in_a(word[:-1], case, given=True)
    if woman:
        return word
    if word in ADJECTIVES:
        return _adjective(word, case)
    if word.endswith("ko"):  # Mieszko
        return _noun(word[:-1], case)
    return word if word[-1] in VOWELS + "éqx" else _noun(word, case)


def _surname(word: str, woman: bool, case: str) -> str:
    if woman:
        noun = word.endswith("ska") and word[-4:-3] in VOWELS and len(word) < 7  # Gąska, not Górska
        if not noun and word.endswith(("ska", "cka", "dzka", "owa")):
            return _adjective_woman(word, case)
        return _noun_in_a(word[:-1], case, given=False) if word.endswith("a") else word
    if word.endswith("a") or (word.endswith(("ko", "ło")) and len(word) > 3):
        return _noun_in_a(word[:-1], case, given=False)
    if word.endswith(("ki", "gi", "ni")) or (
        word.endswith("y") and word[-2] not in VOWELS and not word.endswith(("phy", "edy"))
    ):
        return _adjective(word, case)
    return word if word[-1] in VOWELS + "éqx" else _noun(word, case)


def _each(name: str, change: Callable[[str], str]) -> str:
    """Every part of a name, between spaces and hyphens; capitals stay capitals."""
    if "-" in name or " " in name:
        mark = " " if " " in name else "-"
        return mark.join(_each(part, change) for part in name.split(mark))
    if len(name) < 3 or not name.isalpha() or name.islower():
        return name
    return change(name.capitalize()).upper() if name.isupper() else change(name)


def inflect(given: str, surname: str, case: str) -> tuple[str, str]:
    """A Polish name in a case: gen, dat, acc, ins or loc; any other case leaves it as it is.

    Either part may be empty. The given name tells women from men, and a surname in -ska where it
    does not; a surname alone is a man's unless it ends so. What is not known stays unchanged.
    """
    if case not in ("gen", "dat", "acc", "ins", "loc"):
        return given, surname
    first = given.split()[0].capitalize() if given.split() else ""
    woman = (
        (first.endswith("a") and first not in MEN_IN_A)
        or first in WOMEN
        or (not first.endswith("a") and surname.lower().endswith(("ska", "cka", "dzka")))
    )
    return (
        _each(given, lambda word: _given(word, woman, case)),
        _each(surname, lambda word: _surname(word, woman, case)),
    )
