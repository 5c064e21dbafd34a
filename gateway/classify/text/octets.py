"""Octets as the text that they may be: UTF-8, UTF-16 or UTF-32, perhaps compressed."""

from __future__ import annotations

import codecs
import unicodedata
import zlib

TOO_LONG = "\ufffd"
"""In place of a text that inflates to more than anybody reads here."""
_SHORTEST = 6
_MOST = 65_536  # of one decoded run, compressed data included
_ROUNDS = 3  # of compressed data in compressed data
_MARKS = (  # the longer ones first: that of UTF-32LE begins like that of UTF-16LE
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF8, "utf-8"),
)
_SCRIPT_LETTERS, _BLOCKS = 12, 3
"""Octets, at least, and blocks of 256 characters, at most, of a text that is known by them."""
_HEADS = frozenset(mark[0] for mark, _ in _MARKS)
_TEXT_OCTETS = bytes((*range(0x20, 0x7F), *b"\r\n\t"))
_UNIT = {"utf-8": 1, "utf-16-le": 2, "utf-16-be": 2, "utf-32-le": 4, "utf-32-be": 4}


def decode_text(octets: bytes) -> str | None:
    """The octets as text if they are printable, as those of most texts; `TOO_LONG` where they
    inflate to more than is read."""
    inflated = _inflated(octets)
    if len(inflated) > _MOST:
        return TOO_LONG if inflated is not octets else None
    if len(inflated) < _SHORTEST:
        return None
    encoding, head = "utf-8", 0
    if 0 in inflated or inflated[0] in _HEADS:
        encoding, head = _encoding(inflated)
    body = inflated[head:]
    body = body[: len(body) - len(body) % _UNIT[encoding]]
    if encoding == "utf-8" and 0 in body and (text := _decode_script(body)) is not None:
        return text
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError:
        return _decode_single(body) or _decode_script(body)
    if text.isprintable():
        return text or None
    if sum(map(is_written, text)) >= 0.7 * len(text):  # the lengths of a tensor's elements too
        return text
    return _decode_script(body)


def is_written(character: str) -> bool:
    """Printable, white space, or invisible, as a zero-width space is."""
    if character.isprintable() or character in "\r\n\t":
        return True
    return unicodedata.category(character) == "Cf"


def _encoding(octets: bytes) -> tuple[str, int]:
    """By the byte order mark, of which the length is told too, or by the zeros of Latin text."""
    for mark, encoding in _MARKS:
        if octets.startswith(mark):
            return encoding, len(mark)
    half = len(octets) // 2
    low, high = octets[1::2].count(0) * 2 >= half, octets[0::2].count(0) * 2 >= half
    if low and high and len(octets) >= 8:
        return ("utf-32-le" if octets[0] else "utf-32-be"), 0
    if low or high:
        return ("utf-16-le" if low else "utf-16-be"), 0
    return "utf-8", 0


def _decode_single(octets: bytes) -> str | None:
    """ISO 8859-1 and its like, if nearly all of it is ASCII anyway: the digits are the same."""
    others = len(octets.translate(None, _TEXT_OCTETS))
    return octets.decode("latin-1") if others <= 0.15 * len(octets) else None


def _decode_script(octets: bytes) -> str | None:
    """UTF-16 of letters or digits that are not Latin: one octet of each two is of a few values."""
    if len(octets) < _SCRIPT_LETTERS or len(octets) % 2:
        return None
    for high, encoding in ((octets[0::2], "utf-16-be"), (octets[1::2], "utf-16-le")):
        if len(set(high)) <= _BLOCKS:
            text = octets.decode(encoding, "replace")
            if "\ufffd" not in text and all(map(is_written, text)):
                return text
    return None


def _inflated(octets: bytes) -> bytes:
    """What gzip and zlib say (RFC 1952, RFC 1950), up to one octet more than is read."""
    for _ in range(_ROUNDS):
        if not _is_compressed(octets):
            break
        try:
            octets = zlib.decompressobj(wbits=47).decompress(octets, _MOST + 1)
        except zlib.error:
            break
    return octets


def _is_compressed(octets: bytes) -> bool:
    if octets.startswith(b"\x1f\x8b"):
        return True
    return len(octets) > 2 and octets[0] & 0x8F == 8 and (octets[0] << 8 | octets[1]) % 31 == 0
