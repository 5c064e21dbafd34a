"""Numbers and addresses written as they are spoken."""

from __future__ import annotations

import re
from collections.abc import Iterator

_WORDS = {
    "en": "zero one two three four five six seven eight nine",
    "de": "null eins zwei drei vier fünf sechs sieben acht neun",
    "es": "cero uno dos tres cuatro cinco seis siete ocho nueve",
    "fr": "zéro un deux trois quatre cinq six sept huit neuf",
    "it": "zero uno due tre quattro cinque sei sette otto nove",
    "pt": "zero um dois três quatro cinco seis sete oito nove",
    "nl": "nul een twee drie vier vijf zes zeven acht negen",
    "pl": "zero jeden dwa trzy cztery pięć sześć siedem osiem dziewięć",
}
_DIGIT = {w: str(i) for words in _WORDS.values() for i, w in enumerate(words.split())}
_DIGIT["oh"] = "0"
_ONE = "(?:" + "|".join(sorted(map(re.escape, _DIGIT), key=len, reverse=True)) + ")"
_NUMBER = re.compile(rf"\b{_ONE}(?:[\s,.;-]{{1,3}}{_ONE}){{6,40}}\b", re.IGNORECASE)
_SEPARATED = re.compile(r"[\s,.;-]+")
_BETWEEN_ENDS = 5  # of seven words, those that have separators on both sides
_CONTEXT = 48

_AT = (
    r"(?:\s?[\[({<]\s?(?:at|@|ät)\s?[\])}>]\s?|\s@\s?|@\s"
    r"|\s(?:at|собака|arroba|arobase|chiocciola|małpa)\s)"
)
_DOT = r"(?:\s?[\[({<]\s?(?:dot|\.|punkt)\s?[\])}>]\s?|\s\.\s|\s(?:dot|punkt|точка|punto|kropka)\s)"
_LABEL = r"[\w+-]{1,63}"
_ADDRESS = re.compile(
    rf"(?<!\w){_LABEL}(?:(?:\.|{_DOT}){_LABEL}){{0,4}}(?P<at>{_AT}|@)"
    rf"{_LABEL}(?:(?P<dot>\.|{_DOT}){_LABEL}){{1,6}}",
    re.IGNORECASE,
)
_BRACKETED = re.compile(r"[\[({<]\s?(?:at|@|ät|dot|\.|punkt)\s?[\])}>]", re.IGNORECASE)
_LONE_DOT = re.compile(r"(?<=\s)\.(?=\s)")
_DOTS = ("dot", "punkt", "точка", "punto", "kropka")
_SPOKEN_AT = re.compile(_AT, re.IGNORECASE)
_SPOKEN_DOT = re.compile(_DOT, re.IGNORECASE)


def forms(text: str) -> Iterator[tuple[str, int, int]]:
    """(derived text, start, end) for each spoken number and address."""
    yield from _numbers(text)
    yield from _addresses(text)


def _numbers(text: str) -> Iterator[tuple[str, int, int]]:
    words = _SEPARATED.split(text.lower())
    if sum(map(_DIGIT.__contains__, words)) < _BETWEEN_ENDS:
        return
    for match in _NUMBER.finditer(text):
        digits = "".join(_DIGIT[w] for w in re.findall(r"\w+", match[0].lower()))
        before = text[max(0, match.start() - _CONTEXT) : match.start()]
        if len(digits) == 9:
            digits = f"{digits[:3]}-{digits[3:5]}-{digits[5:]}"
        yield before + digits, match.start(), match.end()


def _addresses(text: str) -> Iterator[tuple[str, int, int]]:
    """`name at host dot tld`. A bare word "at" is everyday English, so it counts only together
    with a spoken dot ("see you at example.com" is no address)."""
    if not _may_be_spoken(text):
        return
    if not _SPOKEN_AT.search(text) and not ("@" in text and _SPOKEN_DOT.search(text)):
        return
    for match in _ADDRESS.finditer(text):
        spoken_word = match["at"].strip().isalpha()
        if spoken_word and not _SPOKEN_DOT.search(match[0]):
            continue
        address = _SPOKEN_DOT.sub(".", _SPOKEN_AT.sub("@", match[0], count=1))
        if address == match[0] or text.startswith("(", match.end()):
            continue  # as it stands it is read anyway; a decorator or a call is no address
        yield address, match.start(), match.end()


def _may_be_spoken(text: str) -> bool:
    """What costs less to ask than to look for an address: every one of them has one of these."""
    if "@" in text or _BRACKETED.search(text):
        return True
    lowered = text.lower()
    return any(dot in lowered for dot in _DOTS) or _LONE_DOT.search(text) is not None
