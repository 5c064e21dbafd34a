"""Runs of base64, base32, hex and character codes in a text, decoded when text comes out."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from gateway.classify.effort import spend

_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{16,}={0,2}")
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:[0-9A-Fa-f]{2}[ :,]){7,}[0-9A-Fa-f]{2}(?![0-9A-Za-z])")
_CODES = re.compile(r"(?<![\w.])\d{2,3}(?:, ?\d{2,3}){7,}(?![\w.])")
_SOLID_HEX = re.compile(r"[0-9A-Fa-f]+")
_BASE32 = re.compile(r"[A-Z2-7]+=*")
_OPAQUE = 1024  # characters of one run that decodes to no text: a blob, which nobody has read
_MAX_TEXT = 65_536  # of one decoded run, compressed data included
_STEPS_A_RUN = 4  # of effort.py


@dataclass(frozen=True, slots=True)
class Run:
    """`text` is None when the run decodes to none; `opaque` says that it is too long to ignore."""

    start: int
    end: int
    text: str | None = field(repr=False)
    opaque: bool = False


def runs(text: str) -> Iterator[Run]:
    for match in _BASE64.finditer(text):
        spend(_STEPS_A_RUN)
        decoded = _decoded(match[0])
        if decoded is not None or _blob(match[0]):
            yield Run(match.start(), match.end(), decoded, _blob(match[0]))
    for match in _HEX.finditer(text):
        spend(_STEPS_A_RUN)
        octets = bytes.fromhex(re.sub("[ :,]", "", match[0]))
        if (decoded := _text(octets)) is not None:
            yield Run(match.start(), match.end(), decoded)
    for match in _CODES.finditer(text):
        spend(_STEPS_A_RUN)
        codes = [int(code) for code in match[0].split(",")]
        if all(0x20 <= code < 0x7F for code in codes):
            yield Run(match.start(), match.end(), bytes(codes).decode())


def _blob(run: str) -> bool:
    """Long, and of mixed characters: `aaaa...` and rules of dashes are no blobs."""
    return len(run) > _OPAQUE and len(set(run)) > 10


def _decoded(run: str) -> str | None:
    solid = run.rstrip("=")
    if len(solid) % 2 == 0 and _SOLID_HEX.fullmatch(solid):
        if solid.isdigit():
            return None  # a number, and scanned as one
        return _text(bytes.fromhex(solid))
    if not solid.islower() and (found := _text(_base64(solid))) is not None:
        return found
    if _BASE32.fullmatch(run):
        return _text(_base32(solid))
    return None


def _base64(solid: str) -> bytes:
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


def _text(octets: bytes) -> str | None:
    """The octets as text if they are: UTF-8 or UTF-16 and printable, perhaps under gzip."""
    octets = _inflated(octets)
    if len(octets) < 6 or len(octets) > _MAX_TEXT:
        return None
    encoding = "utf-16-le" if octets[1::2].count(0) * 2 >= len(octets) - 1 else "utf-8"
    try:
        text = octets.decode(encoding)
    except UnicodeDecodeError:
        return None
    if text.isprintable():
        return text
    printable = sum(c.isprintable() or c in "\r\n\t" for c in text)
    return text if printable >= 0.7 * len(text) else None  # the lengths of a tensor's elements too


def _inflated(octets: bytes) -> bytes:
    if not octets.startswith((b"\x1f\x8b", b"\x78\x01", b"\x78\x9c", b"\x78\xda")):
        return octets
    try:
        return zlib.decompressobj(wbits=47).decompress(octets, _MAX_TEXT + 1)
    except zlib.error:
        return octets


def says_something(text: str) -> bool:
    """Whether it holds a run of base64, base32 or hex that decodes to text, or is a blob."""
    return any(_decoded(m[0]) is not None or _blob(m[0]) for m in _BASE64.finditer(text))


def has_codes(text: str) -> bool:
    return _CODES.search(text) is not None
