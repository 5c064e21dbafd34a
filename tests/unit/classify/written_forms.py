"""Every documented form (docs/reference/detection.md, "Encodings that are undone") as a function of
a text, and the values that are written in it: one sample of each type, and another one that was
never seen."""

from __future__ import annotations

import base64
import gzip
import json
import quopri
import random
import re
import textwrap
import urllib.parse
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gateway.classify import canaries
from gateway.classify.profile import HIDDEN_TEXT, PROFILES
from gateway.config import ClassifySettings

Form = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Value:
    """A value of an entity type, and the words that stand before it."""

    kind: str
    label: str
    written: str

    @property
    def text(self) -> str:
        return self.label + self.written

    @property
    def digits(self) -> str:
        return "".join(filter(str.isdigit, self.written))

    @property
    def is_number(self) -> bool:
        """Digits alone, but for separators and for letters at its head."""
        return re.fullmatch(r"\+?[A-Z]*[-. /\d]+", self.written) is not None


def value_of(kind: str, text: str) -> Value:
    """The words before the first word with a digit are the label."""
    words = text.split(" ")
    first = next((at for at, word in enumerate(words) if any(map(str.isdigit, word))), 0)
    label = " ".join([*words[:first], ""])
    return Value(kind, label, text[len(label) :])


def samples() -> tuple[Value, ...]:
    """One of every type that restricts in some profile, as the scanner's own samples have them."""
    every = canaries.positives(ClassifySettings(languages=["en", "it"]), PROFILES["strict"])
    return tuple(value_of(kind, text) for kind, text in every if kind != HIDDEN_TEXT)


def others(
    values: Iterable[Value], seed: int, kinds_in: Callable[[str], set[str]]
) -> tuple[Value, ...]:
    """For each value another one of its type with other digits: `kinds_in` says which types are in
    a text, so that check digits are right."""
    dice, made = random.Random(seed), []
    for value in values:
        for _ in range(3000):
            written = re.sub(r"\d", lambda _: str(dice.randrange(10)), value.written)
            if written != value.written and value.kind in kinds_in(value.label + written):
                made.append(Value(value.kind, value.label, written))
                break
    return tuple(made)


# Forms of a whole text, whatever is in it.

_ENCODINGS: Mapping[str, Callable[[str], bytes]] = {
    "UTF-8": lambda t: t.encode(),
    "UTF-8 with BOM": lambda t: t.encode("utf-8-sig"),
    "UTF-16LE": lambda t: t.encode("utf-16-le"),
    "UTF-16BE": lambda t: t.encode("utf-16-be"),
    "UTF-16LE with BOM": lambda t: b"\xff\xfe" + t.encode("utf-16-le"),
    "UTF-16BE with BOM": lambda t: b"\xfe\xff" + t.encode("utf-16-be"),
    "UTF-32LE": lambda t: t.encode("utf-32-le"),
    "UTF-32BE with BOM": lambda t: b"\0\0\xfe\xff" + t.encode("utf-32-be"),
}  # fmt: skip


def _b64(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


def _b64url(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).decode().rstrip("=")


def _b32(octets: bytes) -> str:
    return base64.b32encode(octets).decode()


_ALPHABETS: Mapping[str, Callable[[bytes], str]] = {
    "base64": _b64,
    "base64 without padding": lambda o: _b64(o).rstrip("="),
    "base64url": _b64url,
    "base32": _b32,
    "base32 without padding": lambda o: _b32(o).rstrip("="),
    "hex": bytes.hex,
    "hex in capitals": lambda o: o.hex().upper(),
    "hex with 0x": lambda o: "0x" + o.hex(),
}
_PAIRS: Mapping[str, Callable[[bytes], str]] = {
    "spaces": lambda o: o.hex(" "),
    "colons": lambda o: o.hex(":").upper(),
    "dashes": lambda o: o.hex("-"),
    "commas and spaces": lambda o: o.hex(",").replace(",", ", "),
    "0x": lambda o: ", ".join(f"0x{b:02x}" for b in o),
    "0X and spaces": lambda o: " ".join(f"0X{b:02X}" for b in o),
    "lines of 16": lambda o: "\n".join(o[at : at + 16].hex(" ") for at in range(0, len(o), 16)),
}
_LONG_BEFORE = "These notes are long enough to need more than one line of the encoding; then "


def _in_lines(width: int, between: str) -> Form:
    """A long text in base64 with line breaks, at every one of which the value may stand."""
    return lambda t: between.join(textwrap.wrap(_b64((_LONG_BEFORE + t).encode()), width))


def _with_signs(t: str) -> str:
    """Base64 with `++` and `//` in it: octets of UTF-8 that make these."""
    encoded = _b64(("\u07ef\u07bf\u0bef " + t + " \uffff\uffef").encode())
    return encoded


def _each(write: Callable[[str], str]) -> Form:
    return lambda t: "".join(map(write, t))


def _utf16(t: str, unit: str) -> str:
    octets = t.encode("utf-16-be")
    units = (int.from_bytes(octets[at : at + 2], "big") for at in range(0, len(octets), 2))
    return "".join(unit.format(point) for point in units)


def _moved(by: int, among: str = "0123456789") -> Form:
    return _each(lambda c: chr(ord(c) + by) if c in among else c)


def _digits_as(signs: str) -> Form:
    return lambda t: t.translate(dict(zip(map(ord, "0123456789"), signs, strict=True)))


def _between(mark: str) -> Form:
    return lambda t: mark.join(t)


def _behind_digits(mark: str) -> Form:
    return _each(lambda c: c + mark if c.isdigit() else c)


_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
_CYRILLIC = str.maketrans("aeopcxABEKMHOPCTX", "аеорсхАВЕКМНОРСТХ")  # noqa: RUF001
_GREEK = str.maketrans("oABEHIKMNOPTX", "οΑΒΕΗΙΚΜΝΟΡΤΧ")  # noqa: RUF001
_NAMED = {"@": "&commat;", ".": "&period;", "-": "&#45;", " ": "&nbsp;", "/": "&sol;"}


def _gzip(t: str) -> bytes:
    return gzip.compress(t.encode(), mtime=0)


def _middle(mark_left: str, mark_right: str) -> Form:
    """Marks around the second half of each word with a digit."""

    def form(t: str) -> str:
        words = t.split(" ")
        return " ".join(
            w[: len(w) // 2] + mark_left + w[len(w) // 2 :] + mark_right
            if any(map(str.isdigit, w)) else w
            for w in words
        )  # fmt: skip

    return form


_ZEROS = (*(0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xBE6, 0xE50, 0x1040, 0x17E0, 0x1D7D8, 0x1FBF0),)
_MARKS = (
    "\u0300\u0301\u0305\u0308\u0332\u0335\u0336\u0337\u0338\u035f\u0360\u036f\u0483\u0489"
    "\u1ab0\u1ac5\u1dc4\u1dff\u20d2\u20dd\u20e0\u20e3\u20e5\ufe0f\ufe20\ufe2f"
    "\u05b0\u064b\u0951\u3099"
)


def _encoded(write: Callable[[bytes], str], encode: Callable[[str], bytes]) -> Form:
    return lambda t: write(encode(t))


def _zlib(level: int) -> Callable[[str], bytes]:
    return lambda t: zlib.compress(t.encode(), level)


def _codes(between: str) -> Form:
    return lambda t: between.join(str(ord(c)) for c in t)


WHOLE: Mapping[str, Form] = {
    "as it is": str,
    **{
        f"{alphabet} of {encoding}": _encoded(write, encode)
        for encoding, encode in _ENCODINGS.items()
        for alphabet, write in _ALPHABETS.items()
    },
    **{f"pairs of hex, {name}": _encoded(write, str.encode) for name, write in _PAIRS.items()},
    "base64 in lines of 76": _in_lines(76, "\r\n"),
    "base64 in lines of 64": _in_lines(64, "\n"),
    "base64 in quoted lines": _in_lines(76, "\n> "),
    "base64 in indented lines": _in_lines(60, "\n    "),
    "base64 in lines, escaped": _in_lines(76, "\\n"),
    "base64 with ++ and //": _with_signs,
    "base64url with -- and __": lambda t: _with_signs(t).replace("+", "-").replace("/", "_"),
    "base64 with escaped slashes": lambda t: _with_signs(t).replace("/", "\\/"),
    "base64 with percent": lambda t: urllib.parse.quote(_with_signs(t), safe=""),
    "base64 of gzip": lambda t: _b64(_gzip(t)),
    "base64url of gzip": lambda t: _b64url(_gzip(t)),
    "base64 of gzip of UTF-16": lambda t: _b64(gzip.compress(t.encode("utf-16"), mtime=0)),
    "base64 of gzip in lines": lambda t: "\n".join(
        textwrap.wrap(_b64(_gzip(_LONG_BEFORE + t)), 76)
    ),
    "hex of gzip": lambda t: _gzip(t).hex(),
    "base32 of gzip": lambda t: _b32(_gzip(t)),
    **{
        f"base64 of zlib, level {level}": _encoded(_b64, _zlib(level))
        for level in (0, 1, 2, 6, 9)
    },
    **{
        f"character codes, {name}": _codes(between)
        for name, between in {
            "commas": ",", "commas and spaces": ", ", "spaces": " ", "semicolons": ";",
            "lines": "\n", "commas and lines": ",\n",
        }.items()
    },
    "character codes, a list": lambda t: json.dumps([ord(c) for c in t]),
    "character codes in hex, a list": lambda t: "[" + ", ".join(hex(ord(c)) for c in t) + "]",
    "code points": lambda t: " ".join(f"U+{ord(c):04X}" for c in t),
    "percent": lambda t: "".join(f"%{b:02X}" for b in t.encode()),
    "percent in small letters": lambda t: "".join(f"%{b:02x}" for b in t.encode()),
    "percent where needed": lambda t: urllib.parse.quote(t, safe=""),
    "percent twice": lambda t: urllib.parse.quote(urllib.parse.quote(t, safe=""), safe=""),
    "percent u": lambda t: _utf16(t, "%u{:04X}"),
    "entities": _each(lambda c: f"&#{ord(c)};"),
    "entities without semicolon": _each(lambda c: f"&#{ord(c)}"),
    "entities with zeros": _each(lambda c: f"&#{ord(c):07d};"),
    "entities in hex": _each(lambda c: f"&#x{ord(c):x};"),
    "entities in capital hex": _each(lambda c: f"&#X{ord(c):X};"),
    "entities with names": _each(lambda c: _NAMED.get(c, c)),
    "entities twice": _each(lambda c: f"&amp;#{ord(c)};"),
    "escapes u": lambda t: _utf16(t, "\\u{:04x}"),
    "escapes u in capitals": lambda t: _utf16(t, "\\u{:04X}"),
    "escapes u, doubled": lambda t: _utf16(t, "\\\\u{:04x}"),
    "escapes u in braces": _each(lambda c: f"\\u{{{ord(c):x}}}"),
    "escapes U": _each(lambda c: f"\\U{ord(c):08x}"),
    "escapes U in braces": _each(lambda c: f"\\U{{{ord(c):x}}}"),
    "escapes x": lambda t: "".join(f"\\x{b:02x}" for b in t.encode()),
    "escapes x in braces": _each(lambda c: f"\\x{{{ord(c):x}}}"),
    "escapes in octal": lambda t: "".join(f"\\{b:03o}" for b in t.encode()),
    "quoted-printable": lambda t: "".join(f"={b:02X}" for b in t.encode()),
    "quoted-printable as mail": lambda t: quopri.encodestring(t.encode()).decode(),
    "quoted-printable, soft breaks": lambda t: "=\n".join(
        quopri.encodestring(t[at : at + 5].encode()).decode() for at in range(0, len(t), 5)
    ),
    "full width": _moved(0xFEE0, _PRINTABLE),
    "mathematical": _moved(0x1D7CE - 0x30),
    "mathematical, monospace": _moved(0x1D7F6 - 0x30),
    "circled": _digits_as("⓪①②③④⑤⑥⑦⑧⑨"),
    "circled, negative": _digits_as("⓿❶❷❸❹❺❻❼❽❾"),
    "circled, sans-serif": _digits_as("🄋➀➁➂➃➄➅➆➇➈"),
    "superscript": _digits_as("⁰¹²³⁴⁵⁶⁷⁸⁹"),
    "subscript": _digits_as("₀₁₂₃₄₅₆₇₈₉"),
    **{
        f"digits from U+{zero:04X}": _moved(zero - 0x30)
        for zero in _ZEROS
    },
    "Cyrillic letters": lambda t: t.translate(_CYRILLIC),
    "Greek letters": lambda t: t.translate(_GREEK),
    **{
        f"U+{ord(mark):04X} between": _between(mark)
        for mark in "\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e\u034f\u2063\u200e"
    },
    **{
        f"U+{ord(mark):04X} behind digits": _behind_digits(mark)
        for mark in _MARKS
    },
    "struck through, all": _each(lambda c: c + "\u0336"),
    "underlined, all": _each(lambda c: c + "\u0332"),
    "keycaps": _behind_digits("\ufe0f\u20e3"),
    "spaces, no-break": lambda t: t.replace(" ", "\u00a0"),
    "spaces, thin": lambda t: t.replace(" ", "\u2009"),
    "dashes, no-break": lambda t: t.replace("-", "\u2011"),
    "dashes, en": lambda t: t.replace("-", "\u2013"),
    "dashes, minus": lambda t: t.replace("-", "\u2212"),
    "reversed": lambda t: f"\u202e{t[::-1]}\u202c",
    "reversed, isolated": lambda t: f"\u2067{t[::-1]}\u2069",
    "tags": _middle("<b>", "</b>"),
    "tags with attributes": _middle('<span class="x1" style="color:#c00">', "</span>"),
    "tags with long attributes": _middle(f'<span style="{"color: red; " * 20}">', "</span>"),
    "comments": _middle("<!-- a note -->", ""),
    "bold": _middle("**", "**"),
    "bold, underscores": _middle("__", "__"),
    "code": _middle("`", "`"),
    "struck, Markdown": _middle("~~", "~~"),
    "Markdown's escapes": lambda t: re.sub(r"(?=[-._@+/])", r"\\", t),
    "separators doubled": lambda t: re.sub(r"[-./ +_]", lambda m: 2 * m[0], t),
    "separators tripled": lambda t: re.sub(r"[-. ]", lambda m: 3 * m[0], t),
    "JSON in JSON": lambda t: json.dumps({"note": json.dumps({"text": t})}),
}  # fmt: skip


# Forms of a number alone.


def _between_digits(mark: str) -> Form:
    return lambda n: re.sub(r"(?<=\d)(?=\d)", mark, n)


def _only_digits(between: str, size: int = 1) -> Form:
    def form(n: str) -> str:
        head = n[: len(n) - len(n.lstrip("+ABCDEFGHIJKLMNOPQRSTUVWXYZ"))]
        digits = "".join(filter(str.isdigit, n))
        return head + between.join(digits[at : at + size] for at in range(0, len(digits), size))

    return form


def _broken(n: str, separator: str) -> str:
    return re.sub(r"[-. /]", separator, n)


def _broken_inside(n: str) -> str:
    """Over three lines, inside of groups, the separators kept."""
    third = -(-len(n) // 3)
    breaks = [_inside(n, third), _inside(n, 2 * third)]
    return n[: breaks[0]] + "\n" + n[breaks[0] : breaks[1]] + "\n" + n[breaks[1] :]


def _inside(n: str, at: int) -> int:
    """The first place from there on that has no separator on either side."""
    while not n[at - 1 : at + 1].isalnum():
        at += 1
    return at


DIGITS: Mapping[str, Form] = {
    "one by one, spaces": _between_digits(" "),
    "one by one, dashes": _between_digits("-"),
    "one by one, points": _between_digits("."),
    "one by one, underscores": _between_digits("_"),
    "one by one, spaced dashes": _between_digits(" - "),
    "one by one, lines": _between_digits("\n"),
    "one by one, bars": _between_digits("|"),
    "digits alone, spaces": _only_digits(" "),
    "digits alone, slashes": _only_digits("/"),
    "digits alone, middle dots": _only_digits("\u00b7"),
    "groups of two": _only_digits(" ", 2),
    "groups of three": _only_digits("-", 3),
    "groups of five": _only_digits(" ", 5),
    "over lines": lambda n: _broken(n, "\n"),
    "over lines, CRLF": lambda n: _broken(n, "\r\n"),
    "over lines, separators kept": lambda n: re.sub(r"(?<=[-. /])", "\n", n),
    "over lines, separators in front": lambda n: re.sub(r"(?=[-. /])", "\n", n),
    "over lines, broken inside": _broken_inside,
    "over lines, indented": lambda n: _broken_inside(n).replace("\n", "\n  "),
    "over lines, escaped": lambda n: _broken_inside(n).replace("\n", "\\n"),
}
"""The letters of a value stay where they are."""

NUMBER_WORDS: Mapping[str, str] = {
    "English": "zero one two three four five six seven eight nine",
    "German": "null eins zwei drei vier fünf sechs sieben acht neun",
    "Spanish": "cero uno dos tres cuatro cinco seis siete ocho nueve",
    "French": "zéro un deux trois quatre cinq six sept huit neuf",
    "Italian": "zero uno due tre quattro cinque sei sette otto nove",
    "Portuguese": "zero um dois três quatro cinco seis sete oito nove",
    "Dutch": "nul een twee drie vier vijf zes zeven acht negen",
    "Polish": "zero jeden dwa trzy cztery pięć sześć siedem osiem dziewięć",
}


def spelled(language: str, between: str = " ") -> Form:
    words = NUMBER_WORDS[language].split()

    def form(n: str) -> str:
        head = n[: len(n) - len(n.lstrip("+ABCDEFGHIJKLMNOPQRSTUVWXYZ"))]
        return head + " " * bool(head) + between.join(words[int(d)] for d in n if d.isdigit())

    return form


SPELLED: Mapping[str, Form] = {
    **{language: spelled(language) for language in NUMBER_WORDS},
    "English, dashes": spelled("English", "-"),
    "English, commas": spelled("English", ", "),
    "German, lines": spelled("German", "\n"),
}
LISTS: Mapping[str, Form] = {
    "digits as numbers": lambda n: json.dumps([int(d) for d in n if d.isdigit()]),
    "digits as numbers, tight": lambda n: "[" + ",".join(d for d in n if d.isdigit()) + "]",
    "digits as strings": lambda n: json.dumps([d for d in n if d.isdigit()]),
    "digits as strings, tight": lambda n: "['" + "','".join(d for d in n if d.isdigit()) + "']",
    "digits, indented": lambda n: json.dumps([int(d) for d in n if d.isdigit()], indent=2),
    "fours as numbers": lambda n: json.dumps([int(f) for f in fours(n)]),
    "fours as strings": lambda n: json.dumps(fours(n)),
    "fours as strings, indented": lambda n: json.dumps(fours(n), indent=2),
}


def fours(number: str) -> list[str]:
    digits = "".join(filter(str.isdigit, number))
    return [digits[at : at + 4] for at in range(0, len(digits), 4)]


def _spoken(at: str, dot: str) -> Form:
    return lambda t: t.replace("@", at).replace(".", dot)


MAIL: Mapping[str, Form] = {
    f"{at.strip()} {dot.strip()}": _spoken(at, dot)
    for at, dot in (
        *((" [at] ", " [dot] "), ("[at]", "[dot]"), (" (at) ", " (dot) "), ("(at)", ".")),
        *((" {at} ", " {dot} "), (" at ", " dot "), (" AT ", " DOT "), (" @ ", " . ")),
        *((" <at> ", " <dot> "), ("[@]", "[.]"), (" arroba ", " punto "), (" at ", " punkt ")),
        *((" chiocciola ", " punto "), (" małpa ", " kropka "), (" [ät] ", " [punkt] ")),
        *((" arobase ", " . "), (" собака ", " точка ")),
    )
}


def compact(number: str) -> str:
    """In one piece, behind the letters at its head."""
    return _only_digits("")(number)


def gzip_in_lines(text: str) -> str:
    return WHOLE["base64 of gzip in lines"](text)


def base64_of(octets: bytes) -> str:
    return _b64(octets)


def in_lines_of_76(octets: bytes) -> str:
    return "\n".join(textwrap.wrap(_b64(octets), 76))
