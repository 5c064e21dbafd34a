"""The text and the numbers that the tensors of a call may be.

A tensor that its model's owner calls clear can still spell something: code units of ASCII, UTF-8,
UTF-16 or UTF-32, one an element or packed into wider ones; a number of one digit an element, of
groups of four, or whole in one element. That is looked for in a call that would leave, before it
does. Values of pictures, vectors and features happen to be printable and short too, so what is
taken for text has words, and what is taken for a number stands by itself: between elements of
another kind, in a row of its own, or before the zeros that fill a row up.

Not undone: BOOL tensors as bits, text in a code of the caller's own (scaled, shuffled, compressed,
ids of a vocabulary).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gateway.classify.tensor_inputs.tensor_numbers import Integers, digits_in, numbers_in
from gateway.classify.tensor_inputs.tensor_text import (
    LEAST_ALONE,
    NEAR,
    NUMBER,
    REGION,
    WORD,
    Points,
    code_points,
    other_scripts,
    points_text,
    reads,
    stands,
    texts_in,
)
from gateway.classify.text.collect import OVER_CAP, Unscannable
from gateway.core.types import Parameter, Tensor, TensorCall

__all__ = ["MOST_BYTES", "spelled_texts"]

MOST_BYTES = 4 * 1024 * 1024
"""Of all tensors of one call that are read: more is not known, hence restricted."""

_NONE = -1  # in the place of an element that is no whole number, or no number of these
_INTEGERS = {
    f"{sign}INT{8 * size}": np.dtype(f"<{code}{size}")
    for sign, code in (("", "i"), ("U", "u"))
    for size in (1, 2, 4, 8)
} | {"BOOL": np.dtype("u1")}
_FLOATS: dict[
    str, tuple[np.dtype[Any], int]
] = {  # and up to which number each whole number is one of theirs
    "FP16": (np.dtype("<f2"), 2**11),
    "FP32": (np.dtype("<f4"), 2**24),
    "FP64": (np.dtype("<f8"), 2**53),
}
_BF16_EXACT = 2**8
_OCTETS = frozenset({"INT8", "UINT8", "BOOL"})
_SMALL = 4096  # elements of a tensor whose columns are read, too
_PICTURE = 256  # elements from which on neighbours may be alike because they are of a picture
_PLAIN = rb"\t\n\r\x20-\x7e"
_UTF8 = re.compile(
    rb"(?:[%b]|[\xc3-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}){5,}"
    % _PLAIN
)
_WIDE = [  # of UTF-16 and UTF-32, and of elements of 64 bits, whatever their order
    re.compile(rb"(?:\x00{%d}[%b]){3,}" % (zeros, _PLAIN)) for zeros in (1, 3, 7)
]
_FOURS = re.compile(rb"(?s:(?:.[\x03-\xd7]\x00\x00){4}|(?:\x00\x00[\x03-\xd7].){4})")
_ORDINARY = bytes(range(0x30, 0x3A)) + bytes(range(0x41, 0x5B)) + bytes(range(0x61, 0x7B)) + b" \n"
_ORDINARY += bytes(range(0x80, 0x100)) + b",.-'@"
_NOT_PLAIN = bytes(c for c in range(256) if not (0x20 <= c < 0x7F or c in b"\t\n\r"))
_OCTET_KINDS = bytes(  # plain, one behind the first, the first of two, of three; others
    ord("a") if c not in _NOT_PLAIN else ord("c") if 0x80 <= c < 0xC0 else ord("d")
    if 0xC3 <= c < 0xE0 else ord("e") if 0xE0 <= c < 0xF0 else 0 for c in range(256)
)  # fmt: skip
_UTF8_BEGINS = re.compile(rb"a{7}|(?:dc|ecc){4}")
_BOUNDS = (b"", b"\0", b"\0\0")
_PIECE = re.compile(r"[\d .-]+")  # of a number


def spelled_texts(call: TensorCall, max_bytes: int) -> list[str]:
    """What its tensors, shapes and parameters may say, beside what the first look has read.
    Raises Unscannable."""
    if sum([len(tensor.data) for tensor in call.inputs]) > MOST_BYTES:
        raise Unscannable(OVER_CAP)
    texts: dict[str, None] = {}  # each once
    room = max_bytes
    for text in _all(call):
        if text not in texts:
            room -= len(text.encode("utf-8", "replace"))
            if room < 0:
                raise Unscannable(OVER_CAP)
            texts[text] = None
    return [*texts]


def _all(call: TensorCall) -> Iterator[str]:
    numbers = [*_numbers(call.parameters.values())]
    for output in call.outputs:
        numbers += _numbers(output.parameters.values())
    for tensor in call.inputs:
        numbers += _numbers(tensor.parameters.values())
        if len(tensor.shape) > 1:
            yield from _elements(_whole_numbers(tensor.shape), social=False)
        yield from _tensor(tensor)
    if numbers:
        yield from _elements(_whole_numbers(numbers))
    names = [output.name for output in call.outputs]
    if len(names) > 1 and all(map(_PIECE.fullmatch, names)):
        yield " ".join(names)


def _numbers(values: Iterable[Parameter]) -> Iterator[int]:
    for value in values:
        if isinstance(value, bool | str) or not math.isfinite(value):
            continue
        if value == int(value):
            yield int(value)


def _whole_numbers(numbers: Sequence[int]) -> Integers:
    """One row."""
    fit = [n if 0 <= n < 2**63 else _NONE for n in numbers]
    return np.array([fit], np.int64)


def _tensor(tensor: Tensor) -> Iterator[str]:
    kind, data = tensor.datatype, tensor.data
    if kind == "BYTES":
        yield from _byte_texts(data)
        return
    rows = _rows(tensor)
    if rows is not None:
        yield from _elements(rows, text=kind not in _OCTETS or rows.size <= _SMALL)
        if len(rows) > 1 and rows.size <= _SMALL and rows.shape[1] > 1:
            columns = np.ascontiguousarray(rows.T)
            yield from _code_points(columns)
            yield from digits_in(columns)
    if kind == "UINT64":
        given = np.frombuffer(data, _INTEGERS[kind])
        yield from map(str, given[given >= 2**63].tolist())
    yield from _octets(data)
    if kind in _OCTETS:
        yield from _wide(data)


def _rows(tensor: Tensor) -> Integers | None:
    """Its elements, a row for each step of the axes before the last; None where none is whole."""
    kind = tensor.datatype
    rows = _whole(kind, tensor.data) if kind in _INTEGERS else _whole_floats(kind, tensor.data)
    if not rows.size or not (rows >= 0).any():
        return None
    axes = [size for size in tensor.shape if size != 1]
    return rows.reshape(-1, axes[-1] if axes else 1)


def _whole(kind: str, data: bytes) -> Integers:
    given = np.frombuffer(data, _INTEGERS[kind])
    if kind == "UINT64":
        return np.where(given < 2**63, given, 0).astype(np.int64)
    return given.astype(np.int64)


def _whole_floats(kind: str, data: bytes) -> Integers:
    if kind == "BF16":
        halves = np.frombuffer(data, "<u2").astype(np.uint32) << np.uint32(16)
        floats: npt.NDArray[np.floating[Any]] = halves.view(np.float32)
        exact = _BF16_EXACT
    else:
        dtype, exact = _FLOATS[kind]
        floats = np.frombuffer(data, dtype)
    fits = (floats >= 0) & (floats <= exact)
    if not fits.any():
        return np.full(floats.shape, _NONE, np.int64)
    plain = np.where(fits, floats, _NONE).astype(np.float64)
    integers = plain.astype(np.int64)
    return np.where(integers == plain, integers, _NONE)


def _elements(rows: Integers, *, text: bool = True, social: bool = True) -> Iterator[str]:
    """What elements say as numbers, and with `text` as code points."""
    if text:
        yield from _code_points(rows)
    yield from numbers_in(rows, social=social)


def _code_points(rows: Integers) -> Iterator[str]:
    points = code_points(rows)
    if np.count_nonzero(points) < LEAST_ALONE:
        return
    yield from texts_in(points_text(points.ravel()), small=points.size <= _PICTURE)
    yield from other_scripts(points.ravel())
    if len(rows) > 1:
        yield from _short_rows(points)


def _short_rows(points: Points) -> Iterator[str]:
    """Words that stand in rows of their own, which are filled up with zeros."""
    words = []
    for row in points[:_SMALL]:
        text = points_text(row[: 2 * _SMALL]).rstrip("\0 ") if row[0] else ""
        if len(text) < 2 or not WORD.fullmatch(text.replace(" ", "a")):
            break
        words.append(text)
    joined = " ".join(words)
    if len(words) > 1 and reads(joined):
        yield joined


def _octets(data: bytes) -> Iterator[str]:
    """What the bytes say themselves, whatever the elements are, from any place on."""
    if len(data) <= _SMALL:
        yield from _utf8(data, 0, len(data))
        return
    end = 0
    for place in _UTF8_BEGINS.finditer(data.translate(_OCTET_KINDS)):
        if place.start() >= end:
            start, end = max(0, place.start() - NEAR, end), place.end() + REGION
            yield from _utf8(data, start, end)


def _utf8(data: bytes, start: int, end: int) -> Iterator[str]:
    small = len(data) <= _PICTURE
    for match in _UTF8.finditer(data, start, end):
        run, first, last = match[0], match.start(), match.end()
        if len(run.translate(None, _ORDINARY)) > 0.2 * len(run):
            around = data[max(0, first - 1) : last + 1].decode("latin-1")
            for number in NUMBER.finditer(around):
                if stands(number, around, small):
                    yield number[0]
            continue
        try:
            text = run.decode("utf-8")
        except UnicodeDecodeError:
            continue
        bounded = small and data[max(0, first - 1) : first] + data[last : last + 1] in _BOUNDS
        yield from texts_in(text if bounded else text + "\x01", small=small)
        if not text.isascii():
            yield from other_scripts(np.frombuffer(text.encode("utf-32-le"), "<u4"))


def _wide(data: bytes) -> Iterator[str]:
    """Code units of more than one byte, from any byte on, in either order."""
    if b"\0" in data:
        for pattern in _WIDE:
            for match in pattern.finditer(data):
                first = data[match.start() - 1 : match.start()].translate(None, _NOT_PLAIN)
                text = (first + match[0].replace(b"\0", b"")).decode("ascii")
                yield from texts_in(text, small=len(data) <= _PICTURE)
    for size in (2, 4) if _FOURS.search(data) else (2,):
        for start in range(size):
            end = len(data) - (len(data) - start) % size
            for order in "<>" if end - start >= size * LEAST_ALONE else "":
                units = np.frombuffer(data[start:end], f"{order}u{size}").astype(np.int64)
                yield from other_scripts(code_points(units), picture=len(data) > _PICTURE)


def _byte_texts(data: bytes) -> Iterator[str]:
    """Elements that are no UTF-8, or have zeros in them; what others say is read as it stands."""
    at = 0
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        element = data[at + 4 : at + 4 + size]
        at += 4 + size
        if not element.isascii() or b"\0" in element:
            yield from _octets(element)
            yield from _wide(element)
            octets = np.frombuffer(element, np.uint8).astype(np.int64)
            if octets.size:
                yield from _elements(octets.reshape(1, -1))
