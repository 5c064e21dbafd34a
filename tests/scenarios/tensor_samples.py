"""Elements of every datatype at the edges of what it holds, in raw form and as JSON values."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from gateway.protocols.oip.datatypes import DATATYPES, join

BINARY_ONLY = ("FP16", "BF16")  # Triton neither reads them from JSON nor writes them to it
_NAN, _INF = float("nan"), float("inf")
_FLOATS = (0.0, -0.0, 0.1, -2.5, 1e-5, 123456.789)
_MANY = {"BOOL": 50_000, "BYTES": 20_000}  # elements of a tensor of about 1 MB as JSON


@dataclass(frozen=True, slots=True)
class Sample:
    datatype: str
    count: int
    raw: bytes = field(repr=False)
    values: list[object] | None = field(default=None, repr=False)  # None: JSON has no such values

    @property
    def contents(self) -> str:
        """The field of InferTensorContents, or empty."""
        return DATATYPES[self.datatype].contents


def _packed(datatype: str, code: str, values: list[object]) -> Sample:
    return Sample(datatype, len(values), struct.pack(f"<{len(values)}{code}", *values), values)


def _texts(values: list[str]) -> Sample:
    return Sample("BYTES", len(values), join([v.encode() for v in values]), list(values))


def _edges(datatype: str) -> Sample:
    known = DATATYPES[datatype]
    if datatype == "BYTES":
        return _texts(["", "plain", 'quote " back \\ slash /', "\x00\n\t\x1f\x7f", "ü€😀\u2028"])
    if datatype == "BOOL":
        return _packed(datatype, "?", [True, False])
    if datatype == "FP16":
        return Sample(datatype, 4, struct.pack("<4e", 0.0, -0.0, 65504.0, 6e-8))
    if datatype == "BF16":
        return Sample(datatype, 4, bytes.fromhex("0000 0080 803f 0100"))
    if datatype == "FP32":
        return _packed(datatype, "f", [*_FLOATS, 1e-45, 1.17e-38, 3.4e38, -3.4e38, 16777217.0])
    if datatype == "FP64":
        return _packed(datatype, "d", [*_FLOATS, 5e-324, 2.2e-308, 1.7976931348623157e308])
    return _packed(datatype, known.code, [known.low, known.high, 0, 1])


def _beyond(datatype: str) -> Sample:
    """What only raw form can say; for whole numbers every bit pattern is one that JSON has."""
    if datatype == "BYTES":
        return Sample(datatype, 3, join([b"\xff\xfe", b"\x00", b"a\xc3"]))
    if datatype == "FP16":
        return Sample(datatype, 3, struct.pack("<3e", _NAN, _INF, -_INF))
    if datatype == "BF16":
        return Sample(datatype, 3, bytes.fromhex("c07f 807f 80ff"))
    if datatype in ("FP32", "FP64"):
        code = DATATYPES[datatype].code
        return Sample(datatype, 3, struct.pack(f"<3{code}", _NAN, _INF, -_INF))
    return _edges(datatype)


def _many(datatype: str) -> Sample:
    few = _edges(datatype)
    times = _MANY.get(datatype, 150_000) // few.count
    values = None if few.values is None else few.values * times
    return Sample(datatype, few.count * times, few.raw * times, values)


def _nothing(datatype: str) -> Sample:
    return Sample(datatype, 0, b"", None if datatype in BINARY_ONLY else [])


SAMPLES = {
    (datatype, kind): make(datatype)
    for kind, make in (
        ("nothing", _nothing),
        ("edges", _edges),
        ("beyond JSON", _beyond),
        ("a megabyte", _many),
    )
    for datatype in DATATYPES
}
