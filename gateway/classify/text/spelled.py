"""Numbers and addresses written as they are spoken.

The expressions read text in lower case, letter by letter at the same places: to ignore case costs
them five times as much (measured November 2026).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gateway.classify.scanner.effort import spend

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


def _alternatives(words: Iterable[str]) -> str:
    """As an expression that looks at each letter once: most words in a text begin like none."""
    by_letter: dict[str, list[str]] = {}
    for word in sorted(words):
        by_letter.setdefault(word[:1], []).append(word[1:])
    ends = "" in by_letter and len(by_letter) > 1
    branches = [
        re.escape(letter) + _alternatives(rest) for letter, rest in by_letter.items() if letter
    ]
    return f"(?:{'|'.join(branches)}){'?' if ends else ''}" if branches else ""


_ONE = _alternatives(_DIGIT)
_NUMBER = re.compile(rf"\b{_ONE}(?:[\s,.;-]{{1,3}}{_ONE}){{6,40}}\b")
_SEPARATED = re.compile(r"[\s,.;-]+")
_BETWEEN_ENDS = 5  # of seven words, those that have separators on both sides
_CONTEXT = 48
_STEPS_A_FORM = 10  # of effort.py

_AT = (
    r"(?:\s?[\[({<]\s?(?:at|@|ät)\s?[\])}>]\s?|\s@\s?|@\s"
    r"|\s(?:at|собака|arroba|arobase|chiocciola|małpa)\s)"
)
_DOT = r"(?:\s?[\[({<]\s?(?:dot|\.|punkt)\s?[\])}>]\s?|\s\.\s|\s(?:dot|punkt|точка|punto|kropka)\s)"
_LABEL = r"[\w+-]{1,63}+"
_ADDRESS = re.compile(
    rf"(?<!\w){_LABEL}(?:(?:\.|{_DOT}){_LABEL}){{0,4}}(?P<at>{_AT}|@)"
    rf"{_LABEL}(?:(?:\.|{_DOT}){_LABEL}){{1,6}}"
)
_BRACKETED = re.compile(r"[\[({<]\s?(?:at|@|ät|dot|\.|punkt)\s?[\])}>]")
_LONE_DOT = re.compile(r"(?<=\s)\.(?=\s)")
_DOTS = ("dot", "punkt", "точка", "punto", "kropka")
_SPOKEN_AT = re.compile(_AT)
_SPOKEN_DOT = re.compile(_DOT)
_SPOKEN_AT_AS_WRITTEN = re.compile(_AT, re.IGNORECASE)
_SPOKEN_DOT_AS_WRITTEN = re.compile(_DOT, re.IGNORECASE)


def forms(text: str) -> Iterator[tuple[str, int, int]]:
    """(derived text, start, end) for each spoken number and address."""
    lowered = lower(text)
    yield from _numbers(text, lowered)
    yield from _addresses(text, lowered)


def lower(text: str) -> str:
    """With every character in its place: of all characters U+0130 alone has two in lower case."""
    return text.replace("\u0130", "i").lower()


def _numbers(text: str, lowered: str) -> Iterator[tuple[str, int, int]]:
    words = _SEPARATED.split(lowered)
    if sum(map(_DIGIT.__contains__, words)) < _BETWEEN_ENDS:
        return
    for match in _NUMBER.finditer(lowered):
        spend(_STEPS_A_FORM)
        digits = "".join(_DIGIT[w] for w in re.findall(r"\w+", match[0]))
        before = text[max(0, match.start() - _CONTEXT) : match.start()]
        if len(digits) == 9:
            digits = f"{digits[:3]}-{digits[3:5]}-{digits[5:]}"
        yield before + digits, match.start(), match.end()


def _addresses(text: str, lowered: str) -> Iterator[tuple[str, int, int]]:
    """`name at host dot tld`. A bare word "at" is everyday English, so it counts only together
    with a spoken dot ("see you at example.com" is no address)."""
    if not _may_be_spoken(lowered):
        return
    if not _SPOKEN_AT.search(lowered) and not ("@" in lowered and _SPOKEN_DOT.search(lowered)):
        return
    for match in _ADDRESS.finditer(lowered):
        spend(_STEPS_A_FORM)
        spoken_word = match["at"].strip().isalpha()
        if spoken_word and not _SPOKEN_DOT.search(match[0]):
            continue
        written = text[match.start() : match.end()]
        address = _SPOKEN_AT_AS_WRITTEN.sub("@", written, count=1)
        address = _SPOKEN_DOT_AS_WRITTEN.sub(".", address)
        if address == written or text.startswith("(", match.end()):
            continue  # as it stands it is read anyway; a decorator or a call is no address
        yield address, match.start(), match.end()


def _may_be_spoken(lowered: str) -> bool:
    """What costs less to ask than to look for an address: every one of them has one of these."""
    if "@" in lowered or _BRACKETED.search(lowered):
        return True
    return any(dot in lowered for dot in _DOTS) or _LONE_DOT.search(lowered) is not None
