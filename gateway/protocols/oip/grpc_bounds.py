"""What a `ModelInferRequest` may be made of, looked at before it is read.

Two octets may be a tensor of a hundred, and reading them cannot give way to other calls. So a large
message is walked by its tags (protobuf's wire format) as far as what may be repeated, and refused
when there is more of it than calls need. Tensors in `raw_input_contents` are as large as a body.
"""

from __future__ import annotations

from typing import Final

from gateway.core.errors import BodyTooLarge, MalformedBody

SMALL_BYTES: Final = 8 * 1024
"""A message up to this size can cost little, whatever it is made of."""
MOST_TENSORS: Final = 4096
"""Inputs, outputs, raw contents and parameters, each repeated; all together."""
MOST_FIELDS: Final = 1 << 16
"""Of tensors and their contents: elements of type BYTES are one each."""
MOST_ELEMENTS: Final = 1 << 20
"""Numbers in typed contents."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_REQUEST, _TENSOR, _CONTENTS, _OTHER = range(4)
_INPUTS, _OUTPUTS, _INPUTS_CONTENTS, _SHAPE = 5, 6, 5, 3
_WITHIN: Final = {
    (_REQUEST, _INPUTS): _TENSOR,
    (_REQUEST, _OUTPUTS): _OTHER,
    (_TENSOR, _INPUTS_CONTENTS): _CONTENTS,
}
_WIDTHS: Final = {6: 4, 7: 8}  # of packed numbers in contents: fp32 and fp64
_LAST_PACKED: Final = 7
_LONGEST_VARINT: Final = 10
_NOT_LAST: Final = bytes(range(0x80, 0x100))  # octets of a varint behind which another comes
_MOST_SHAPE: Final = 64 * _LONGEST_VARINT


def check_request(raw: bytes) -> None:
    """Raises BodyTooLarge, or MalformedBody for what is no message at all."""
    if len(raw) > SMALL_BYTES:
        walk = _Walk(raw)
        while walk.spans:
            walk.next()


class _Walk:
    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self.spans: list[tuple[int, int, int]] = [(0, len(raw), _REQUEST)]
        self._tensors, self._fields, self._elements = MOST_TENSORS, MOST_FIELDS, MOST_ELEMENTS

    def next(self) -> None:
        raw = self._raw
        at, end, kind = self.spans.pop()
        while at < end:
            tag, at = raw[at], at + 1
            if tag >= 0x80:
                tag, at = self._varint(at - 1, end)
            self._count(kind)
            number, wire = tag >> 3, tag & 7
            if wire == _BYTES and at < end:
                size, at = raw[at], at + 1
                if size >= 0x80:
                    size, at = self._varint(at - 1, end)
                if size > end - at:
                    raise _malformed()
                if kind != _CONTENTS or number <= _LAST_PACKED:
                    self._enter(kind, number, at, at + size)
                at += size
            elif wire == _VARINT:
                _, at = self._varint(at, end)
                self._elements -= 1
            elif wire in (_FIXED32, _FIXED64):
                at += 4 if wire == _FIXED32 else 8
                self._elements -= 1
            else:
                raise _malformed()
            if at > end:
                raise _malformed()

    def _count(self, kind: int) -> None:
        if kind == _REQUEST:
            self._tensors -= 1
        self._fields -= 1
        if self._tensors < 0 or self._fields < 0:  # guard: A8.message-parts
            raise BodyTooLarge(
                "the message has more parts than can be read at once; "
                "send tensors in raw_input_contents, or fewer of them"
            )

    def _enter(self, kind: int, number: int, begins: int, ends: int) -> None:
        within = _WITHIN.get((kind, number))
        if within is not None:
            self.spans.append((begins, ends, within))
        elif kind == _TENSOR and number == _SHAPE:
            if ends - begins > _MOST_SHAPE:  # guard: A8.dimension-count
                raise MalformedBody("inputs: a shape has more dimensions than can be")
        elif kind == _CONTENTS:
            self._elements -= self._packed(number, begins, ends)
            if self._elements < 0:  # guard: A8.number-count
                raise BodyTooLarge(
                    f"contents have more than {MOST_ELEMENTS} elements; "
                    "send them in raw_input_contents"
                )

    def _packed(self, number: int, begins: int, ends: int) -> int:
        """How many numbers, or more than may be."""
        size = ends - begins
        if number in _WIDTHS:
            return size // _WIDTHS[number]
        if size > MOST_ELEMENTS * _LONGEST_VARINT:
            return size // _LONGEST_VARINT
        return len(self._raw[begins:ends].translate(None, _NOT_LAST))

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        number, shift = 0, 0
        while at < end and shift < 70:
            octet = self._raw[at]
            at += 1
            number |= (octet & 0x7F) << shift
            if octet < 0x80:
                return number, at
            shift += 7
        raise _malformed()


def _malformed() -> MalformedBody:
    return MalformedBody("the message is not a ModelInferRequest")
