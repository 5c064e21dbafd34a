"""One plain spelling for characters that look or decode alike, line by line."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator, Sequence

import regex

_TAGS = range(0xE0000, 0xE0080)  # Unicode tag characters: invisible copies of ASCII
_TAG = re.compile("[\U000e0000-\U000e007f]")
_FLAG = "\U0001f3f4"  # the black flag, before tags that spell a subdivision flag (UTS #51)
_DASHES = (
    "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d\u2043\u02d7\u2796\u30fc\u301c~"
)
_SPACES = "\u2800"  # beside the category Zs: blank braille
# Letters that look like ASCII ones (Unicode confusables.txt, the Cyrillic and Greek part).
_ALIKE = dict(
    zip(
        "аеорсухіјѕһԁԛԝьАВЕКМНОРСТУХІЈЅαονρτυικΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
        "aeopcyxijshdqwbABEKMHOPCTYXIJSaovptuikABEZHIKMNOPTYX",
        strict=True,
    )
)
_LATIN = str.maketrans(_ALIKE)
_DROPPED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-"
    r"\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20e3\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    r"\U0001bca0-\U0001bca3\U000e0100-\U000e01ef]")  # fmt: skip
_MARKS = regex.compile(r"(?<=[ -~\u00a0-\u024f\u1e00-\u1eff])[\p{Mn}\p{Me}]+")
"""Marks over, under and through a Latin letter or a sign, of which no letter is made."""
_REVERSED = re.compile("[\u202e\u2067]([^\u202c\u2069\n]{1,512})")
_ALIKE_LETTER = re.compile("[" + "".join(_ALIKE) + "]")
_WORD = re.compile(r"[\w.+@-]+")
_ASCII_LETTER = re.compile(r"[A-Za-z0-9@]")
_ALIKE_CAPITALS = re.compile("[АВЕКМНОРСТУХІЈΑΒΕΖΗΙΚΜΝΟΡΤΥΧ+@.-]{1,4}")  # noqa: RUF001
"""Words of these alone, as they stand in codes of letters and digits."""
_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_PERCENT_U = re.compile(r"(?:%u[0-9A-Fa-f]{4})+")  # of ECMAScript's escape()
_QUOTED_PRINTABLE = re.compile(r"(?:=[0-9A-F]{2})+")
_SOFT_BREAK = re.compile(r"(?<=[^=])=[ \t]{0,8}\r?\n(?=[ \t]?\S)")  # RFC 2045, section 6.7
_UNITS = re.compile(r"(?:\\{1,8}u[0-9A-Fa-f]{4})+")
_POINT = re.compile(r"\\{1,8}(?:[uUx]\{([0-9A-Fa-f]{1,8})\}|U([0-9A-Fa-f]{8}))")
_OCTETS = re.compile(r"(?:\\{1,8}x[0-9A-Fa-f]{2})+|(?:\\{1,8}[0-3][0-7]{2})+")
_HEX_DIGITS = re.compile("[0-9A-Fa-f]{2,4}")
_ESCAPED_BREAK = re.compile(
    r"(?<=[0-9A-Z])([-./ ]{0,2})(?:\\{1,2}r)?\\{1,2}n([ \t]{0,12}[-./]?)(?=[0-9A-Z])"
)
_ESCAPED_SIGN = re.compile(r"\\(?=[-._/@+])")  # of Markdown and JSON
_MARKUP = re.compile(
    r"</?(?!(?:at|dot|punkt)\s?>)[A-Za-z][^<>\n]{0,400}>|\*{1,3}|__|~~|`|<!--[^<>\n]{0,400}-->"
)
_PAIRS = ("--", "..", "  ", "//", "__", "++")
_DOUBLED = {
    pair: re.compile(rf"{re.escape(pair)}(?<=[\w+]..){re.escape(pair[0])}{{0,2}}(?=\w)", re.DOTALL)
    for pair in _PAIRS
}
"""By the pair that each begins with, which `re` finds quickly. What stands beside a match is the
same behind another's, so their order makes no difference."""
_PLUSES = re.compile(r"\+\+\+{0,2}(?=\d)")  # whose beginning `re` finds quickly
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_CONTROLS = bytes(b for b in range(128) if _CONTROL.match(chr(b)))
_DIGITS = frozenset(range(10))
_SIGNS = ("%", "=", "&", "\\", "<", "*", "`", "~~")
_ENCODING = ("%", "=", "&", "\\")
_ROUNDS = 3  # of decoding inside decoded text


def hides_text(text: str) -> bool:
    """Whether invisible tag characters spell something that is not a flag."""
    if text.isascii() or not _TAG.search(text):
        return False
    flag = False
    for c in text:
        tag = ord(c) in _TAGS
        if tag and not flag:
            return True
        flag = c == _FLAG or (flag and tag)
    return False


def fold(text: str) -> str:
    """A text in its plain spelling, of which each line is one by itself; the same object when there
    is nothing to do."""
    if text.isascii() and not _may_change(text):
        return text
    return plain(decoded(text))


def decoded(text: str) -> str:
    """With nothing but percent signs, entities, escapes and the like decoded."""
    if not any(sign in text for sign in _ENCODING):
        return text
    return "\n".join(map(_decode, text.split("\n")))


def plain(text: str) -> str:
    """What is decoded, in its plain spelling."""
    if not text.isascii():
        lines = [
            line if line.isascii() else _MARKS.sub("", _plain(line)) for line in text.split("\n")
        ]
        text = "\n".join(lines)
    if not (text.isascii() and text.isprintable()):
        text = _DROPPED.sub("", text)
    if "<" in text or "*" in text or "`" in text or "__" in text or "~~" in text:
        text = _MARKUP.sub("", text)
    return collapsed(text)


def fold_lines(text: str) -> list[str] | None:
    """Each line of it; None when there is nothing to do."""
    if text.isascii() and not _may_change(text):
        return None
    return [fold(line) for line in text.split("\n")]


def changes(text: str, lines: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Runs of lines that folding changes, with the line before for context: (form, start, end).

    Only those are scanned again, so a dash in a long text does not double its cost.
    """
    at, before = 0, ""
    run: list[str] = []
    run_start = 0
    for line, folded in zip(text.split("\n"), lines, strict=True):
        if folded != line:
            if not run:
                run, run_start = ([before] if before else []), at
            run.append(folded)
        elif run:
            yield "\n".join(run), run_start, at - 1
            run = []
        before = line[-200:]
        at += len(line) + 1
    if run:
        yield "\n".join(run), run_start, at - 1


def _may_change(text: str) -> bool:
    """What costs less to ask than to fold text of ASCII."""
    for sign in _SIGNS:
        if sign in text:
            return True
    for pair in _PAIRS:
        if pair in text:
            return True
    return not text.isprintable() and _CONTROL.search(text) is not None


def unmarked(text: str) -> str:
    """A text that has nothing to decode and no tags, without its marks and control characters."""
    octets = text.encode("utf-8", "surrogatepass").translate(None, _CONTROLS)
    octets = octets.replace(b"__", b"").replace(b"~~", b"")
    return octets.translate(None, b"*`").decode("utf-8", "surrogatepass")


def collapsed(text: str) -> str:
    """With one separator where there are up to four of the same in a row."""
    if "++" in text:
        text = _PLUSES.sub("+", text)
    for pair, doubled in _DOUBLED.items():
        if pair[0] in text and pair in text:  # of one character most texts know soon
            text = doubled.sub(pair[0], text)
    return text


def without_soft_breaks(text: str) -> str:
    """The same object where there are none."""
    return _SOFT_BREAK.sub("", text) if "=" in text and "\n" in text else text


def _decode(line: str) -> str:
    for _ in range(_ROUNDS):
        before, line = line, _decode_once(line)
        if line == before:
            break
    return line


def _decode_once(line: str) -> str:
    if "\\" in line:
        line = _unescaped(line)
    if "&" in line:
        line = html.unescape(line)
    if "%" in line:
        line = _PERCENT_U.sub(lambda m: _decode_units(m[0]), line)
        line = _PERCENT.sub(lambda m: _octets(m[0], "%"), line)
    if "=" in line:
        line = _QUOTED_PRINTABLE.sub(lambda m: _octets(m[0], "="), line)
    return line


def _unescaped(line: str) -> str:
    line = _UNITS.sub(lambda m: _decode_units(m[0]), line)
    line = _POINT.sub(lambda m: _character(m[1] or m[2]), line)
    line = _OCTETS.sub(lambda m: _decode_octets(m[0]), line)
    line = _ESCAPED_BREAK.sub(r"\1\n\2", line)
    return _ESCAPED_SIGN.sub("", line)


def _character(digits: str) -> str:
    number = int(digits, 16)
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else " "


def _decode_units(escapes: str) -> str:
    """Units of UTF-16, in which a character may take two."""
    octets = bytes.fromhex("".join(_HEX_DIGITS.findall(escapes)))
    return octets.decode("utf-16-be", "replace").replace("\ufffd", " ")


def _decode_octets(escapes: str) -> str:
    if "x" in escapes:
        octets = bytes.fromhex("".join(_HEX_DIGITS.findall(escapes)))
    else:
        octets = bytes(int(digits, 8) for digits in escapes.split("\\") if digits)
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets.decode("latin-1")


def _octets(run: str, mark: str) -> str:
    """A run like %C3%A9 as text: of UTF-8, or of ISO 8859-1 where none of it is a control."""
    octets = bytes.fromhex(run.replace(mark, ""))
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        text = octets.decode("latin-1")
        return text if text.isprintable() else run


def _plain(line: str) -> str:
    """In usual characters; where a part of it is shown backwards, also as it is seen, behind a sign
    that no number goes over."""
    visible = _REVERSED.sub(lambda m: m[1][::-1], line)
    return _in_usual_characters(line) + (
        "" if visible == line else f" ; {_in_usual_characters(visible)}"
    )


def _in_usual_characters(line: str) -> str:
    if _TAG.search(line):
        line = line.translate(_VISIBLE_TAGS)
    line = _BEYOND_ASCII.sub(_common_run, unicodedata.normalize("NFKC", line))
    if _ALIKE_LETTER.search(line):
        line = _WORD.sub(lambda m: _latin(m[0]), line)
    return line


class _Common(dict[int, str]):
    """Characters as one of their kind in ASCII, each worked out when it is first met."""

    def __missing__(self, point: int) -> str:
        self[point] = folded = _common(chr(point))
        return folded


_COMMON = _Common()
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")


def _common_run(match: re.Match[str]) -> str:
    return match[0].translate(_COMMON)


_VISIBLE_TAGS = {tag: chr(tag - _TAGS.start) for tag in _TAGS if tag >= _TAGS.start + 0x20}


def _common(c: str) -> str:
    if c < "\x80":
        return c
    if c in _SPACES or unicodedata.category(c) == "Zs":
        return " "
    if c in _DASHES or unicodedata.category(c) == "Pd":
        return "-"
    number = unicodedata.numeric(c, None) if unicodedata.category(c) in ("Nd", "No") else None
    return c if number not in _DIGITS else str(int(number))


def _latin(word: str) -> str:
    """Look-alike letters in a word that has letters or digits of ASCII too, or of a few capitals;
    other words are of their script."""
    if word.isascii() or not (_ASCII_LETTER.search(word) or _ALIKE_CAPITALS.fullmatch(word)):
        return word
    return word.translate(_LATIN)
