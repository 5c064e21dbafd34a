"""Tensors on the wire: JSON lists and raw little-endian bytes, to and from numpy.

Open Inference Protocol v2, "Tensor Data", and Triton's binary tensor extension: a BYTES tensor is
its elements one after the other, each after its length as a 4-byte little-endian integer.
"""

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gateway.demo.cloud.errors import InvalidRequest

Array = npt.NDArray[Any]

DTYPES: dict[str, npt.DTypeLike] = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
}


def from_raw(name: str, datatype: str, shape: Sequence[int], raw: bytes) -> Array:
    count = math.prod(shape)
    if datatype == "BYTES":
        return _strings(name, split_bytes(name, raw), count, shape)
    dtype = np.dtype(_dtype(name, datatype))
    if len(raw) != count * dtype.itemsize:
        raise InvalidRequest(
            f"input '{name}' got {len(raw)} bytes, its shape and datatype need "
            f"{count * dtype.itemsize}"
        )
    return np.frombuffer(raw, dtype).reshape(shape)


def from_values(name: str, datatype: str, shape: Sequence[int], values: Sequence[Any]) -> Array:
    """Values in row-major order, nested or flat."""
    count = math.prod(shape)
    flat = list(_flattened(values))
    if datatype == "BYTES":
        strings = [value.encode() if isinstance(value, str) else value for value in flat]
        if not all(isinstance(value, bytes) for value in strings):
            raise InvalidRequest(f"input '{name}': a BYTES tensor holds strings")
        return _strings(name, strings, count, shape)
    if len(flat) != count:
        raise InvalidRequest(f"input '{name}' got {len(flat)} elements, its shape needs {count}")
    try:
        return np.array(flat, _dtype(name, datatype)).reshape(shape)
    except (ValueError, TypeError, OverflowError) as exc:
        raise InvalidRequest(f"input '{name}' holds values that are not {datatype}") from exc


def to_raw(array: Array, datatype: str) -> bytes:
    if datatype == "BYTES":
        return b"".join(struct.pack("<I", len(item)) + item for item in array.ravel())
    return np.ascontiguousarray(array, _dtype("", datatype)).tobytes()


def to_values(array: Array, datatype: str) -> list[Any]:
    if datatype == "BYTES":
        return [item.decode("utf-8", "replace") for item in array.ravel()]
    values: list[Any] = array.ravel().tolist()
    return values


def split_bytes(name: str, raw: bytes) -> list[bytes]:
    items, at = [], 0
    while at < len(raw):
        if at + 4 > len(raw):
            raise InvalidRequest(f"input '{name}': a BYTES element's length is cut off")
        (length,) = struct.unpack_from("<I", raw, at)
        if at + 4 + length > len(raw):
            raise InvalidRequest(f"input '{name}': a BYTES element is cut off")
        items.append(raw[at + 4 : at + 4 + length])
        at += 4 + length
    return items


def _strings(name: str, items: Sequence[bytes], count: int, shape: Sequence[int]) -> Array:
    if len(items) != count:
        raise InvalidRequest(f"input '{name}' got {len(items)} elements, its shape needs {count}")
    return np.array(items, dtype=object).reshape(shape)


def _flattened(values: Sequence[Any]) -> list[Any]:
    flat: list[Any] = []
    for value in values:
        if isinstance(value, list):
            flat += _flattened(value)
        else:
            flat.append(value)
    return flat


def _dtype(name: str, datatype: str) -> npt.DTypeLike:
    try:
        return DTYPES[datatype]
    except KeyError:
        raise InvalidRequest(f"input '{name}': datatype '{datatype}' is not supported") from None
