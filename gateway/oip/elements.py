"""Tensor elements as JSON values, read strictly and written as Triton 2.51 writes them."""

from __future__ import annotations

import struct
from typing import Any

from gateway.errors import MalformedBody
from gateway.oip import grisu, literals
from gateway.oip.datatypes import Datatype, join, split

BINARY_ONLY = ("FP16", "BF16")
"""Datatypes that Triton neither reads from JSON nor writes to it. Other servers do write FP16."""

TRITONS_DIGITS = 50_000
"""Beyond so many floats in one tensor the digits are the quick ones, which read back the same."""

_INTEGERS: set[type] = {int}
_NUMBERS: set[type] = {int, float}
_BOOLS: set[type] = {bool}
_STRINGS: set[type] = {str}


def read(data: object, datatype: Datatype, count: int, where: str) -> bytes:
    """The raw form of a JSON `data` value: flat, or nested evenly."""
    if not datatype.code and datatype.size:
        raise MalformedBody(f"{where}: {datatype.name} must be sent as binary data")
    flat = _flat(data, where)
    if len(flat) != count:
        raise MalformedBody(f"{where}: its shape expects {count} elements, data has {len(flat)}")
    kinds = set(map(type, flat))
    if datatype.name == "BYTES":
        _need(kinds, _STRINGS, datatype, "strings", where)
        return join([item.encode() for item in flat])
    if datatype.name == "BOOL":
        _need(kinds, _BOOLS, datatype, "true or false", where)
        return bytes(flat)
    if datatype.name.startswith(("INT", "UINT")):
        _need(kinds, _INTEGERS, datatype, "whole numbers", where)
    else:
        _need(kinds, _NUMBERS, datatype, "numbers", where)
    try:
        if datatype.name == "FP64":
            flat = [literals.as_triton_reads(item) for item in flat]
        return struct.pack(f"<{count}{datatype.code}", *flat)
    except (struct.error, OverflowError):
        raise MalformedBody(
            f"{where}: data has a number that {datatype.name} cannot hold"
        ) from None


def write(data: bytes, datatype: Datatype, count: int, where: str) -> bytes:
    """The JSON text of a tensor's `data`, the list's brackets included."""
    if datatype.name == "BYTES":
        return b"[" + b",".join(map(literals.string, split(data, count, where))) + b"]"
    if datatype.name == "BOOL":
        return b"[" + b",".join(b"true" if byte else b"false" for byte in data) + b"]"
    found = struct.unpack(f"<{count}{datatype.code}", data)
    if datatype.code in "fd":
        digits = grisu.digits if count <= TRITONS_DIGITS else literals.shortest
        return f"[{','.join(literals.double(value, digits) for value in found)}]".encode()
    return f"[{','.join(map(str, found))}]".encode()


def _flat(data: object, where: str) -> list[Any]:
    if not isinstance(data, list):
        raise MalformedBody(f"{where}: data must be a list")
    level = data
    while level and isinstance(level[0], list):
        size = len(level[0])
        if any(not isinstance(item, list) or len(item) != size for item in level):
            raise MalformedBody(f"{where}: data is nested unevenly")
        level = [item for inner in level for item in inner]
    return level


def _need(kinds: set[type], allowed: set[type], datatype: Datatype, what: str, where: str) -> None:
    if not kinds <= allowed:
        raise MalformedBody(f"{where}: data of datatype {datatype.name} must hold {what} only")
