"""Tensor elements as JSON values, read strictly and written as Triton 2.51 writes them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from gateway.core.errors import MalformedBody
from gateway.protocols.oip import grisu, literals
from gateway.protocols.oip.datatypes import DATATYPES, Datatype, join, split

BINARY_ONLY = ("FP16", "BF16")
"""Datatypes that Triton neither reads from JSON nor writes to it. Other servers do write FP16."""

TRITONS_DIGITS = 50_000
"""Beyond so many floats in one tensor the digits are the quick ones, which read back the same."""

_PIECE = 64 * 1024
_WHOLE = frozenset({int}), "whole numbers"
_HOLDS: dict[str, tuple[frozenset[type], str]] = {
    **{name: _WHOLE for name in DATATYPES if "INT" in name},
    "FP32": (frozenset({int, float}), "numbers"),
    "FP64": (frozenset({int, float}), "numbers"),
    "FP16": (frozenset({int, float}), "numbers"),
    "BOOL": (frozenset({bool}), "true or false"),
    "BYTES": (frozenset({str}), "strings"),
}
"""What stands in a list of `data`, by the datatype."""


def read(data: object, datatype: Datatype, count: int) -> bytes:
    """The raw form of a JSON `data` value: flat, or nested evenly."""
    if not datatype.code and datatype.size:
        raise MalformedBody(f"{datatype.name} must be sent as binary data")
    flat = _flat(data)
    if len(flat) != count:
        raise MalformedBody(f"its shape expects {count} elements, data has {len(flat)}")
    kinds, words = _HOLDS[datatype.name]
    if not all(kinds.issuperset(map(type, piece)) for piece in _pieces(flat)):
        raise MalformedBody(f"data of datatype {datatype.name} must hold {words} only")
    if datatype.name == "BYTES":
        return b"".join([join([item.encode() for item in piece]) for piece in _pieces(flat)])
    if datatype.name == "BOOL":
        return bytes(flat)
    try:
        if datatype.name == "FP64":
            flat = [literals.as_triton_reads(item) for item in flat]
        pieces = [struct.pack(f"<{len(p)}{datatype.code}", *p) for p in _pieces(flat)]
        return b"".join(pieces)
    except (struct.error, OverflowError):
        raise MalformedBody(f"data has a number that {datatype.name} cannot hold") from None


def write(data: bytes, datatype: Datatype, count: int) -> bytes:
    """The JSON text of a tensor's `data`, the list's brackets included."""
    if datatype.name == "BYTES":
        return b"[" + b",".join(map(literals.string, split(data, count))) + b"]"
    if datatype.name == "BOOL":
        return b"[" + b",".join(b"true" if byte else b"false" for byte in data) + b"]"
    values = struct.unpack(f"<{count}{datatype.code}", data)
    if datatype.code in "fd":
        digits = grisu.digits if count <= TRITONS_DIGITS else literals.shortest
        return f"[{','.join(literals.double(value, digits) for value in values)}]".encode()
    return f"[{','.join(map(str, values))}]".encode()


def _pieces(flat: list[Any]) -> Iterator[list[Any]]:
    """So that no step over many elements keeps other threads waiting for long."""
    if len(flat) <= _PIECE:
        yield flat
        return
    for at in range(0, len(flat), _PIECE):
        yield flat[at : at + _PIECE]


def _flat(data: object) -> list[Any]:
    if not isinstance(data, list):
        raise MalformedBody("data must be a list")
    level = data
    while level and isinstance(level[0], list):
        size = len(level[0])
        if any(not isinstance(item, list) or len(item) != size for item in level):
            raise MalformedBody("data is nested unevenly")
        level = [item for inner in level for item in inner]
    return level
