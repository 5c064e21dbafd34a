"""Runs of base64, base32, hex and character codes in a text, decoded when text comes out."""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gateway.classify.scanner.effort import spend
from gateway.classify.text.octets import TOO_LONG, decode_text, is_written
from gateway.classify.text.stems import Stems

SHORTEST = 11
"""Characters of a run that is looked at: eight octets in base64."""
_LONG = 16
"""Shorter runs are taken for words if there are no three digits in them."""
DIGITS_IN_BASE64 = "[MNO][DTjz][AEIMQUYcgk][w-z0-5]"
"""What three digits are in base64 where they begin at a third octet."""
_DIGITS = re.compile(DIGITS_IN_BASE64)
_RUN = "[A-Za-z0-9+/_-]"
_BASE64 = re.compile(rf"(?<!{_RUN}){_RUN}{{{SHORTEST},}}+={{0,6}}")
_WIDTH = 20  # characters of a line of base64, at least
_BREAK = r"[ \t>|\"']{0,12}+(?:\r?\n|(?:\\r)?\\n)[ \t>|\"']{0,12}+"
_WRAPPED = re.compile(rf"(?<!{_RUN}){_RUN}{{{_WIDTH},}}+(?:{_BREAK}{_RUN}++)+={{0,6}}")
"""Groups are not possessive here: before 3.11.5, Python keeps what a failed repetition of one has
taken. What follows never fails, so that nothing is tried twice."""
_BROKEN = re.compile(_BREAK)
_APART = r"(?:[:,;-]\s{0,8}+|\s{1,8}+)"  # between two octets or two codes
_HEX = re.compile(
    rf"(?<![0-9A-Za-z])(?:0[xX])?[0-9A-Fa-f]{{2}}(?:{_APART}(?:0[xX])?[0-9A-Fa-f]{{2}}){{7,}}"
    r"(?![0-9A-Za-z])"
)
_HEX_MARK = re.compile(r"0[xX]")
_BETWEEN_CODES = r"[\"']?(?:[,;]\s{0,12}+|\s{1,12}+)[\"']?"
_CODES = re.compile(rf"(?<![\w.])\d{{1,4}}(?:{_BETWEEN_CODES}\d{{1,4}}){{7,}}(?![\w.])")
_POINTS = re.compile(r"(?:U\+[0-9A-Fa-f]{4,6}[\s,;]{0,3}){7,}", re.IGNORECASE)
_LONG_RUN = re.compile(f"{_RUN}{{{_LONG},}}")
_SMALL = re.compile("[a-z+/_-]+")
"""Of a run like that, no base64, base32 or hex is made."""
_DIGIT, _SPACE = "[0-9?]", r"[\s?\x1c-\x1f]"  # in `Stems`, to which other scripts are `?`
_WRITTEN = Stems(
    (
        "|".join(_RUN * at + "[A-Z0-9]" + _RUN * (_LONG - 1 - at) for at in range(_LONG)),
        rf"[0-9A-Fa-f]{{2}}(?:(?:[:,;-]{_SPACE}{{0,8}}|{_SPACE}{{1,8}})(?:0[xX])?[0-9A-Fa-f]{{2}}){{7}}",
        rf"{_DIGIT}{{1,4}}(?:[\"']?(?:[,;]{_SPACE}{{0,12}}|{_SPACE}{{1,12}})[\"']?{_DIGIT}{{1,4}}){{7}}",
        r"[uU]\+",
    ),
    once=True,
)
"""One of them is in every text with a run that could say a word: sixteen characters of one that are
not all small, eight octets or codes in a row, a code point."""
_NO_DIGITS, _NO_HEX = re.compile(r"\D+"), re.compile(r"[^0-9A-Fa-f]+")
_SOLID_HEX = re.compile(r"[0-9A-Fa-f]+")
_BASE32 = re.compile(r"[A-Z2-7]+|(?=[a-z]*[2-7])[a-z2-7]+")
_SIGN = re.compile(r"[+/_-]")
_OPAQUE = 1024  # characters of one run that decodes to no text: a blob, which nobody has read
_WIDE = 60  # characters of a line of a blob that is broken over lines
_STEPS_A_RUN, _STEPS_A_CHARACTER = 4, 1 / 128  # of effort.py


@dataclass(frozen=True, slots=True)
class DecodedRun:
    """`text` is None when the run decodes to none; `opaque` says that nobody can have read it."""

    start: int
    end: int
    text: str | None = field(repr=False)
    opaque: bool = False


def may_hold_words(text: str) -> bool:
    """Whether a run of it could say a word: what costs a tenth of `runs` to ask."""
    written = _WRITTEN.occurring(text)
    if written != {0}:
        return bool(written)
    over_lines = False
    for run in _LONG_RUN.finditer(text):
        if _SMALL.fullmatch(run[0]) is None:
            if any(True for _ in _readings(run[0])):
                return True
            over_lines |= _BROKEN.match(text, run.end()) is not None
    return over_lines and says_something_in_lines(text)


def runs(text: str) -> Iterator[DecodedRun]:
    for match in _BASE64.finditer(text):
        spend(_STEPS_A_RUN + len(match[0]) * _STEPS_A_CHARACTER)
        for decoded in _readings(match[0]):
            yield DecodedRun(match.start(), match.end(), decoded, decoded in (None, TOO_LONG))
    for match in _WRAPPED.finditer(text):
        spend(_STEPS_A_RUN + len(match[0]) * _STEPS_A_CHARACTER)
        for decoded in _wrapped(_BROKEN.split(match[0])):
            yield DecodedRun(match.start(), match.end(), decoded, decoded in (None, TOO_LONG))
    for match in _HEX.finditer(text):
        spend(_STEPS_A_RUN + len(match[0]) * _STEPS_A_CHARACTER)
        octets = bytes.fromhex(_NO_HEX.sub("", _HEX_MARK.sub("", match[0])))
        if (decoded := decode_text(octets)) is not None:
            yield DecodedRun(match.start(), match.end(), decoded)
    listed = [(_CODES, _NO_DIGITS, 10)]
    if "U+" in text or "u+" in text:
        listed.append((_POINTS, _NO_HEX, 16))
    for expression, apart, base in listed:
        for match in expression.finditer(text):
            spend(_STEPS_A_RUN + len(match[0]) * _STEPS_A_CHARACTER)
            if (decoded := text_from_codes(_numbers(match[0], apart, base))) is not None:
                yield DecodedRun(match.start(), match.end(), decoded)


def _wrapped(lines: list[str]) -> Iterator[str | None]:
    """A run that was broken into lines of one length, the last one shorter. A word that stands on
    the next line may not belong to it. None: a blob."""
    first = 0
    while first < len(lines):
        width = len(lines[first])
        last = next((n for n in range(first, len(lines)) if len(lines[n]) != width), len(lines))
        whole = "".join(lines[first:last])
        tail = lines[last] if last < len(lines) and len(lines[last]) < width else ""
        first = last
        if width < _WIDTH or len(whole + tail) == width:
            continue
        readings = [r for joined in dict.fromkeys((whole + tail, whole)) for r in _decoded(joined)]
        yield from readings
        are_digests = _SOLID_HEX.fullmatch(whole) is not None  # one a line
        if not readings and width >= _WIDE and _is_blob(whole) and not are_digests:
            yield None


def _is_blob(run: str) -> bool:
    """Long, and of mixed characters: `aaaa...` and rules of dashes are no blobs."""
    return len(run) > _OPAQUE and len(set(run)) > 10


def _readings(run: str) -> Iterator[str | None]:
    """What it says as a whole, or else what its parts between signs say: a run in a path. None: a
    blob."""
    whole = _decoded(run)
    yield from whole
    if not whole and _SIGN.search(run):
        for part in _SIGN.split(run):
            if len(part) >= SHORTEST:
                yield from _decoded(part)
    if not whole and _is_blob(run):
        yield None


def _decoded(run: str) -> list[str]:
    """In each alphabet that it may be of, if that makes text."""
    solid = run.rstrip("=")
    if solid.startswith(("0x", "0X")):
        solid = solid[2:]
    readings: list[str | None] = []
    if len(solid) >= _LONG and len(solid) % 2 == 0 and _SOLID_HEX.fullmatch(solid):
        readings.append(decode_text(bytes.fromhex(solid)))
    if _DIGITS.search(solid) if len(solid) < _LONG else not solid.islower():
        readings.append(decode_text(_base64(solid)))
    if _BASE32.fullmatch(solid) and len(solid) >= _LONG:
        readings.append(decode_text(_base32(solid.upper())))
    return [reading for reading in readings if reading is not None]


def _base64(solid: str) -> bytes:
    if len(solid) % 4 == 1:  # no octets are so long: something stands behind it
        solid = solid[:-1]
    try:
        return base64.urlsafe_b64decode(
            solid.replace("+", "-").replace("/", "_") + "=" * (-len(solid) % 4)
        )
    except (binascii.Error, ValueError):
        return b""


def _base32(solid: str) -> bytes:
    try:
        return base64.b32decode(solid + "=" * (-len(solid) % 8))
    except (binascii.Error, ValueError):
        return b""


def text_from_codes(codes: list[int]) -> str | None:
    """The text that they spell, as octets of UTF-8 or by code points: most of them of ASCII, and
    none of them of what nobody writes."""
    if min(codes) < 9:  # octets of UTF-16
        return decode_text(bytes(codes)) if max(codes) < 256 else None
    ascii_ = sum(0x20 <= code < 0x7F for code in codes)
    if ascii_ * 2 < len(codes) or max(codes) > 0x10FFFF:
        return None
    text = "".join(map(chr, codes))
    if not all(map(is_written, text)):
        return None
    with contextlib.suppress(ValueError):
        return bytes(codes).decode()
    return text


def runs_in(text: str) -> list[str]:
    """What may be base64, base32 or hex."""
    matches: list[str] = _BASE64.findall(text)
    return matches


def has_reading(run: str) -> bool:
    """Whether it decodes to text, or is a blob."""
    return any(True for _ in _readings(run))


def says_something_in_lines(text: str) -> bool:
    return any(True for m in _WRAPPED.finditer(text) for _ in _wrapped(_BROKEN.split(m[0])))


def has_codes(text: str) -> bool:
    """Whether it holds a list of character codes that spell text."""
    matches = _CODES.finditer(text)
    return any(text_from_codes(_numbers(match[0], _NO_DIGITS, 10)) is not None for match in matches)


def _numbers(written: str, apart: re.Pattern[str], base: int) -> list[int]:
    return [int(number, base) for number in apart.split(written) if number]
