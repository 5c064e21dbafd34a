"""Calls that tell of somebody twice: once as a finder would see it, and once in another form."""

from __future__ import annotations

import base64
import html
import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from urllib.parse import quote

from gateway.core.types import JsonDocument

NAMES = (
    "Maria Keller", "J\u00fcrgen M\u00fcller", "\u0141ukasz Kowalski", "Agnieszka Kowalska",
    "Marek Nowak",
    "Patrick O'Brien", "Jean-Pierre Dubois", "Fran\u00e7oise Lef\u00e8vre", "Giulia D'Angelo",
    "Jos\u00e9 Garc\u00eda M\u00e1rquez", "Jo\u00e3o Gon\u00e7alves", "Sanne de Vries",
    "Anna-Lena Sch\u00f6nfeld",
    "Thomas J. Whitfield", "Ewa Zieli\u0144ska", "Tomasz Wi\u015bniewski",
    "S\u00f8ren Kj\u00e6rgaard",
    "Zo\u00eb Ashworth", "Pedro Mu\u00f1oz", "Pawe\u0142 D\u0105browski",
)  # fmt: skip

_LETTERS = str.maketrans(
    {"\u0142": "l", "\u0141": "L", "\u00f8": "o", "\u00e6": "ae", "\u00df": "ss", "\u0111": "d"}
)
_UMLAUTS = str.maketrans(
    {"\u00e4": "ae", "\u00f6": "oe", "\u00fc": "ue", "\u00d6": "Oe", "\u00f8": "oe"}
)


def bare(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text.translate(_LETTERS))
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def family(name: str) -> str:
    return name.split()[-1]


def given(name: str) -> str:
    return name.split()[0]


def login(name: str) -> str:
    return re.sub("['-]", "", bare(given(name))[0] + bare(family(name))).lower()


def in_polish(word: str) -> str:
    for ending, other in (("ska", "skiej"), ("a", "y"), ("ek", "kiem"), ("ski", "skiego")):
        if word.endswith(ending):
            return word[: -len(ending)] + other
    return word + "owi"


FORMS: dict[str, Callable[[str], str]] = {
    "family": family,
    "given": given,
    "lower": str.lower,
    "upper": str.upper,
    "family lower": lambda name: family(name).lower(),
    "English genitive": lambda name: f"{family(name)}'s",
    "typographic genitive": lambda name: f"{given(name)}\u2019s",
    "German genitive": lambda name: f"{family(name)}s",
    "Polish case": lambda name: in_polish(family(name)),
    "Polish case of the given name": lambda name: in_polish(given(name)),
    "bare": bare,
    "umlauts": lambda name: name.translate(_UMLAUTS),
    "login": lambda name: f"{login(name)}7",
    "handle": lambda name: f"@{login(name)}",
    "box": lambda name: ".".join(re.sub("['-]", "", bare(n)).lower() for n in name.split()[:2]),
    "one word": lambda name: re.sub("[ '.-]", "", bare(name)).lower(),
    "identifier": lambda name: f"get{bare(family(name)).replace(chr(39), '')}Record",
    "file": lambda name: f"cv_{bare(family(name)).replace(chr(39), '')}_2024.pdf",
    "path": lambda name: f"https://x.example/in/{bare(name).lower().replace(' ', '-')}",
    "query": lambda name: f"https://x.example/?q={quote(name)}",
    "form": lambda name: f"q={name.replace(' ', '+')}",
    "no-break hyphen": lambda name: name.replace("-", "\u2011").replace("'", "\u2019"),
    "other apostrophe": lambda name: name.replace("-", "\u2013").replace("'", "\u02bc"),
    "spaces for hyphens": lambda name: name.replace("-", " ").replace("'", "`"),
    "new line in JSON": lambda name: '{"t":"Dear\\n' + family(name) + '\\nbye"}',
    "escaped JSON": lambda name: json.dumps({"name": name}),
    "zero width": lambda name: family(name)[:2] + "\u200b" + family(name)[2:],
    "soft hyphen": lambda name: family(name)[:3] + "\u00ad" + family(name)[3:],
    "references": lambda name: name.encode("ascii", "xmlcharrefreplace").decode(),
    "decomposed": lambda name: unicodedata.normalize("NFD", name),
    "full width": lambda name: "".join(
        chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in family(name)
    ),
    "spaced": lambda name: " ".join(bare(family(name)).replace("'", "")),
    "base64": lambda name: base64.b64encode(f"{name} was here".encode()).decode(),
    "family first": lambda name: f"{family(name)}, {given(name)}",
    "initial": lambda name: f"{given(name)[0]}. {family(name)}",
    "middle initial": lambda name: f"{given(name)} K. {family(name)}",
}

NUMBERS: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    "card": ("CREDIT_CARD", "4539 1488 0343 6467", ("6467", "x6467", "************6467",
             "4539148803436467", "4539-1488-0343-6467", "0343 6467", "436467", "(6467)"),
             ("6467", "436467", "45391488")),
    "account": ("IBAN_CODE", "DE89 3704 0044 0532 0130 00", ("0532013000", "532013000",
                "de89370400440532013000", "370400440532013000", "DE89-3704-0044-0532-0130-00"),
                ("532013000", "013000")),
    "account in the middle": ("IBAN_CODE", "FR76 3000 6000 0112 3456 7890 189",
                              ("12345678901", "0112 3456 7890 1"), ("12345678", "345678901")),
    "mobile": ("PHONE_NUMBER", "+49 176 83241597", ("017683241597", "0176/83241597", "83241597",
               "004917683241597", "(0176) 832 41597", "0176 832-41597"), ("3241597", "241597")),
    "landline": ("PHONE_NUMBER", "+44 20 7183 8751", ("020 7183 8751", "02071838751", "7183 8751",
                 "+44 (0)20 7183 8751"), ("1838751", "838751")),
    "American": ("PHONE_NUMBER", "+1 (646) 234-7788", ("646-234-7788", "6462347788", "234-7788"),
                 ("2347788", "347788")),
    "Polish": ("PHONE_NUMBER", "+48 512 345 678", ("512345678", "512-345-678", "0512 345 678"),
               ("2345678", "345678")),
    "social": ("US_SSN", "536-90-4399", ("536904399", "536 90 4399", "4399"), ("4399", "904399")),
    "e-mail": ("EMAIL_ADDRESS", "tomek.kowalczyk8@posteo.de", ("tomek.kowalczyk8", "@kowalczyk",
               "TOMEK.KOWALCZYK8", "tomek_kowalczyk", "Kowalczyks"), ("kowalczyk", "tomek")),
    "address": ("STREET_ADDRESS", "Lindenstra\u00dfe 17, 80331 M\u00fcnchen", ("Lindenstr. 17",
                "80331", "LINDENSTRASSE", "the Lindenstra\u00dfe"), ("linden", "80331")),
}  # fmt: skip
"""Type, value, other forms of it, and what must not be in the cloud."""


@dataclass(frozen=True, slots=True)
class Told:
    """A call; the value in it that a finder sees; and what must be nowhere in what is sent."""

    label: str
    document: JsonDocument = field(repr=False)
    type: str
    value: str = field(repr=False)
    roots: tuple[str, ...] = field(repr=False)


def calls(random: Random) -> Iterator[Told]:
    """Every name in every form, and every number, each at a place of its own."""
    for name in NAMES:
        for label, form in FORMS.items():
            first = f"Please write to {name} about the invoice."
            document = _document(first, form(name), random)
            yield Told(f"{label} of {name}", document, "PERSON", name, roots_of(name))
    for label, (type_, value, others, roots) in NUMBERS.items():
        for other in others:
            document = _document(f"Mine is {value}, please.", other, random)
            yield Told(f"{label} as {other}", document, type_, value, roots)


def _document(first: str, other: str, random: Random) -> JsonDocument:
    second = random.choice(("Also {} is here.", "see {}", "({})", "x={};", "{}")).format(other)
    arguments = {"name": "f", "arguments": json.dumps({"q": second}, ensure_ascii=False)}
    places: tuple[JsonDocument, ...] = (
        {"messages": [_user(f"{first} {second}")]},
        {"messages": [_user(first), {"role": "assistant", "content": "ok"}, _user(second)]},
        {"messages": [{"role": "system", "content": second}, _user(first)]},
        {"messages": [_user(first), {"role": "assistant", "tool_calls": [
            {"id": "t1", "type": "function", "function": arguments}]}]},
        {"messages": [_user(first)], "user": other},
        {"messages": [_user(first)], "metadata": {"note": second}},
        {"messages": [_user([{"type": "text", "text": first}, {"type": "text", "text": second}])]},
        {"prompt": [first, second], "suffix": "end"},
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": second}]}],
         "instructions": first},
    )  # fmt: skip
    return {"model": "m", **random.choice(places)}


def _user(content: object) -> JsonDocument:
    return {"role": "user", "content": content}


def roots_of(name: str) -> tuple[str, ...]:
    """What of a name is in all of its inflections."""
    words = {fold(word) for form in (name, name.translate(_UMLAUTS)) for word in
             re.split(r"[\s.-]+", form)}  # fmt: skip
    long = (word for word in words if len(word) > 3)
    return tuple(w[:-1] if w[-1] in "ae" and len(w) > 5 else w for w in long)


def fold(text: str) -> str:
    """Letters and digits alone, in the plainest spelling: written for this test."""
    for _ in range(2):
        text = re.sub(r"\\+u([0-9a-fA-F]{4})", lambda m: chr(int(m[1], 16)), text)
        text = re.sub(r"(?:%[0-9A-Fa-f]{2})+", _octets, text)
        text = html.unescape(text)
    plain = bare(unicodedata.normalize("NFKC", text).casefold())
    return "".join(filter(str.isalnum, plain))


def _octets(run: re.Match[str]) -> str:
    return bytes.fromhex(run[0].replace("%", "")).decode("utf-8", "replace")


def decoded(text: str) -> str:
    """The text with what its runs of base64 say behind it."""
    said = [text]
    for run in re.findall(r"[A-Za-z0-9+/]{16,}={0,2}", text):
        try:
            said.append(base64.b64decode(run + "=" * (-len(run) % 4)).decode())
        except ValueError:
            continue
    return "\n".join(said)
