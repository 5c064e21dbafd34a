"""One byte for each character, so that a byte automaton reads any text and offsets stay characters.

ASCII is itself. Characters beyond it fall into classes that no expression of the set tells apart
(all its character sets hold the whole class or nothing of it), and each class gets one of the 128
bytes that are left. Were there more classes, the rest shares the last byte: a set then holds that
byte when it holds any of them, which over-matches and never under-matches.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import regex

_ASCII = 128
_CODE_POINTS = 0x110000
_SHORT = 64  # characters, which a loop reads as fast as an array
ALL = (1 << 256) - 1
"""Masks have a bit for each byte."""
SHARED = 1 << 255


@dataclass(frozen=True, slots=True)
class CharSet:
    """A set of characters as an expression writes it: its source, and the flags it stands under."""

    source: str
    flags: int

    def compiled(self) -> regex.Pattern[str]:
        return regex.compile(self.source, self.flags)

    @property
    def names_ascii_only(self) -> bool:
        """Whether it consists of ASCII characters and \\d, \\w, \\s. Then two characters beyond
        ASCII that agree on those three, and fold to no ASCII character, are the same to it."""
        return "\\U" not in self.source


class Alphabet:
    """The classes for one set of character sets."""

    def __init__(self, classes: bytes) -> None:
        """The class of each code point."""
        self.classes = classes
        self._western = classes[:256]

    @functools.cached_property
    def _array(self) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """The same; numpy is imported at the first long text that is not Western."""
        return np.frombuffer(self.classes, dtype=np.uint8)

    @functools.cached_property
    def _members(self) -> dict[int, list[str]]:
        """Samples of each class, for whoever compiles sets of characters."""
        return {
            byte: [chr(point) for point in _samples(self.classes, byte)]
            for byte in range(_ASCII, 256)
        }

    @classmethod
    def from_sets(cls, sets: Iterable[CharSet]) -> Alphabet:
        classes = _common().copy()
        byte = int(classes[_ASCII:].max())
        for extra in sorted({s for s in sets if not s.names_ascii_only}, key=repr):
            byte = _split(classes, _mask(extra), byte)
        return cls(classes.tobytes())

    def encode(self, text: str) -> bytes:
        if text.isascii():
            return text.encode("ascii")
        with contextlib.suppress(UnicodeEncodeError):  # a quarter of the time, where it can be
            return text.encode("latin-1").translate(self._western)
        if len(text) <= _SHORT:
            return bytes([self.classes[ord(character)] for character in text])
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        folded: bytes = self._array.take(points).tobytes()
        return folded

    def class_bytes(self, chars: CharSet) -> int:
        """The set as a bit for each byte."""
        one = chars.compiled().match
        mask = 0
        for byte in range(_ASCII):
            if one(chr(byte)):
                mask |= 1 << byte
        for byte, members in self._members.items():
            if any(one(c) for c in members):
                mask |= 1 << byte
        return mask


def _samples(classes: bytes, byte: int) -> Iterator[int]:
    """One character stands for its class, except in the shared last one."""
    place = classes.find(byte)
    while place >= 0:
        yield place
        place = classes.find(byte, place + 1) if byte == 255 else -1


@functools.cache
def _common() -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """The classes that any set of expressions needs: those of \\d, \\w and \\s, and each character
    that folds to one of ASCII (U+017F to s, U+212A to k) by itself."""
    classes = np.full(_CODE_POINTS, _ASCII, dtype=np.uint8)
    classes[:_ASCII] = np.arange(_ASCII)
    byte = _ASCII
    for source in (r"\d", r"\w", r"\s"):
        byte = _split(classes, _mask(CharSet(source, 0)), byte)
    for point in np.flatnonzero(_mask(CharSet(r"[\x00-\x7f]", regex.IGNORECASE))):
        byte += 1
        classes[point] = byte
    return classes


@functools.cache
def _beyond_ascii() -> str:
    return "".join(map(chr, range(_ASCII, _CODE_POINTS)))


def _mask(chars: CharSet) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which characters beyond ASCII the engine that Presidio uses takes to be in the set."""
    inside = np.zeros(_CODE_POINTS, dtype=np.bool_)
    for run in regex.finditer(f"(?:{chars.source})+", _beyond_ascii(), chars.flags):
        inside[run.start() + _ASCII : run.end() + _ASCII] = True
    return inside


def _split(
    classes: np.ndarray[tuple[int], np.dtype[np.uint8]],
    inside: np.ndarray[tuple[int], np.dtype[np.bool_]],
    byte: int,
) -> int:
    """Cut each class into what is inside and what is not; the highest byte in use afterwards."""
    sizes = np.bincount(classes, minlength=256)
    for there, count in enumerate(np.bincount(classes[inside], minlength=256).tolist()):
        if 0 < count < sizes[there]:
            byte = min(byte + 1, 255)
            classes[inside & (classes == there)] = byte
    return byte
