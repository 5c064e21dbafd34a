"""The datatypes of the protocol, and whether a tensor's shape, type and bytes agree."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gateway.core.errors import BodyTooLarge, MalformedBody, RequestRejected

MAX_RANK = 64
MAX_TENSORS = 4096  # of a call, on either side
MAX_ELEMENTS = 1 << 40  # far beyond any body, and its product with a size stays a small integer

MAX_STRINGS = 1 << 17  # of one input


@dataclass(frozen=True, slots=True)
class Datatype:
    name: str
    size: int  # bytes of one element; 0: each element says its own length
    code: str  # of the struct module; empty where it has none
    contents: str  # field of InferTensorContents; empty where gRPC has none
    low: int = 0  # the range of an integer
    high: int = 0


def _integers() -> list[Datatype]:
    integers = []
    for bits, code in ((8, "b"), (16, "h"), (32, "i"), (64, "q")):
        wide = "64" if bits == 64 else ""
        signed, unsigned = f"int{wide}_contents", f"uint{wide}_contents"
        top = 1 << bits
        integers.append(Datatype(f"INT{bits}", bits // 8, code, signed, -top // 2, top // 2 - 1))
        integers.append(Datatype(f"UINT{bits}", bits // 8, code.upper(), unsigned, 0, top - 1))
    return integers


DATATYPES = {
    datatype.name: datatype
    for datatype in (
        Datatype("BOOL", 1, "?", "bool_contents"),
        *_integers(),
        Datatype("FP16", 2, "e", ""),
        Datatype("BF16", 2, "", ""),
        Datatype("FP32", 4, "f", "fp32_contents"),
        Datatype("FP64", 8, "d", "fp64_contents"),
        Datatype("BYTES", 0, "", "bytes_contents"),
    )
}

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,47}")
_DIGITS = re.compile(r"[0-9]{5}")
_WHOLE = frozenset({int})
_NOT_WHOLE = "shape must hold whole numbers that are not negative"


def label(kind: str, at: int, name: object) -> str:
    """How messages call a tensor. A name is free text of the caller: only one that looks like
    an identifier is repeated (C12)."""
    return f"{kind}[{at}] '{name}'" if is_identifier(name) else f"{kind}[{at}]"


def is_identifier(name: object) -> bool:
    return (
        isinstance(name, str)
        and _IDENTIFIER.fullmatch(name) is not None
        and not _DIGITS.search(name)
    )


def tensor_error(error: RequestRejected, kind: str, at: int, name: object) -> RequestRejected:
    """What is wrong with a tensor, said of the one that it is wrong with: the checks below do not
    know which that is."""
    return type(error)(f"{label(kind, at, name)}: {error.message}")


def check_count(tensors: Sequence[Any], kind: str) -> None:
    """Raises MalformedBody for more tensors than a call may have."""
    if len(tensors) > MAX_TENSORS:
        raise MalformedBody(f"{kind}: a call may have {MAX_TENSORS} tensors, this has more")


def find(name: object) -> Datatype:
    datatype = DATATYPES.get(name) if isinstance(name, str) else None
    if datatype is None:
        raise MalformedBody(f"datatype must be one of {', '.join(DATATYPES)}")
    return datatype


def element_count(shape: Sequence[Any]) -> int:
    """Elements of a tensor. Every dimension must be a whole number that is not negative."""
    if len(shape) > MAX_RANK:
        raise MalformedBody(f"shape has {len(shape)} dimensions, at most {MAX_RANK} can be")
    if not _WHOLE.issuperset(map(type, shape)):  # true and false are none
        raise MalformedBody(_NOT_WHOLE)
    if shape and not 0 <= min(shape) <= max(shape) <= MAX_ELEMENTS:
        raise MalformedBody(_NOT_WHOLE)
    count: int = math.prod(shape)
    if count > MAX_ELEMENTS:
        raise MalformedBody("shape has too many elements")
    return count


def check_bytes(data: bytes, datatype: Datatype, count: int) -> None:
    """Raises MalformedBody unless `data` is exactly `count` elements in raw form."""
    if not datatype.size:
        split(data, count)
    elif len(data) != count * datatype.size:
        raise MalformedBody(
            f"byte size mismatch: its shape and datatype {datatype.name} "
            f"expect {count * datatype.size} bytes, got {len(data)}"
        )


def check_strings(datatype: Datatype, count: int) -> None:
    """Of an input: each element is read by itself. Raises BodyTooLarge."""
    if not datatype.size and count > MAX_STRINGS:  # guard: A8.string-count
        raise BodyTooLarge(
            f"has more than {MAX_STRINGS} elements of type BYTES; send fewer at once"
        )


def split(data: bytes, count: int) -> list[bytes]:
    """The elements of a BYTES tensor, each behind its 4-byte little-endian length."""
    elements: list[bytes] = []
    at, end = 0, len(data)
    while at < end and len(elements) <= count:
        if at + 4 > end:
            raise MalformedBody(f"element {len(elements)} has an incomplete length")
        (size,) = _LENGTH.unpack_from(data, at)
        at += 4
        if size > end - at:
            raise MalformedBody(
                f"element {len(elements)} says {size} bytes, only {end - at} are left"
            )
        elements.append(data[at : at + size])
        at += size
    if len(elements) != count:
        more = "more" if len(elements) > count else str(len(elements))
        raise MalformedBody(f"its shape expects {count} BYTES elements, got {more}")
    return elements


def join(elements: Sequence[bytes]) -> bytes:
    """The raw form of a BYTES tensor."""
    parts: list[bytes] = []
    for element in elements:
        parts.append(_LENGTH.pack(len(element)))
        parts.append(element)
    return b"".join(parts)


_LENGTH = struct.Struct("<I")
