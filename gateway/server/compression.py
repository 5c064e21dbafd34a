"""gzip and deflate, both ways. Inflating is bounded in memory by the cap on what comes out, and
gives way to other calls between pieces, so that a bomb costs its sender a refusal and nobody time.
What comes out is of the budget of all bodies, and bounded by what went in.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Callable
from typing import Protocol

from gateway.core.errors import BodiesFull, BodyTooLarge, MalformedBody, UnsupportedMedia
from gateway.core.held_bytes import BodyShare

_WINDOWS = {"gzip": 31, "deflate": 15}  # of zlib: 16 more means the gzip framing
_PIECE = 1 << 18
_SLICE = 1 << 16  # of what goes in: zlib copies what it has not read, each time
_FREE_BYTES = 16 << 20  # whatever came
_MOST_RATIO = 16  # of what comes out to what came, beyond that
_IN_PLACE = 1 << 16  # compressing more than this leaves the event loop
_OFFER = re.compile(r"\s*(\*|[a-z0-9-]+)\s*(?:;\s*q=([01](?:\.[0-9]{0,3})?)\s*)?", re.IGNORECASE)


class _Inflate(Protocol):
    """What `zlib.decompressobj` gives."""

    def decompress(self, data: bytes, max_length: int = 0, /) -> bytes: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def eof(self) -> bool: ...


def check(encoding: str) -> None:
    """Refuse a `content-encoding` that cannot be read, before the body is."""
    if encoding not in ("", "identity", *_WINDOWS):
        raise UnsupportedMedia("content-encoding: send gzip, deflate, or no encoding")


async def inflated(
    body: bytes, encoding: str, max_bytes: int, share: BodyShare | None = None
) -> bytes:
    """The body without its encoding; `share` is what it holds of the budget. Raises MalformedBody,
    BodyTooLarge, or BodiesFull."""
    if encoding in ("", "identity"):
        return body
    stream: _Inflate = zlib.decompressobj(_WINDOWS[encoding])
    pieces: list[bytes] = []
    size, at, todo = 0, 0, b""
    try:
        while not stream.eof:
            if not todo:
                todo = body[at : at + _SLICE]
                at += _SLICE
            ended = at >= len(body)
            piece = stream.decompress(todo, _PIECE)
            todo = stream.unconsumed_tail
            size += len(piece)
            _check_size(size, len(body), max_bytes)
            if share is not None and not share.take(len(piece)):  # guard: A8.inflated-budget
                raise BodiesFull
            if not piece and not todo and ended and not stream.eof:
                raise _cut_short(body, encoding)
            if piece:
                pieces.append(piece)
            await asyncio.sleep(0)
    except zlib.error:
        raise _another(encoding) from None
    if stream.unused_data or at < len(body):
        raise MalformedBody(f"the body goes on after its {encoding} stream has ended")
    return b"".join(pieces)


def _check_size(size: int, length: int, max_bytes: int) -> None:
    """Raises BodyTooLarge."""
    if size > max_bytes:
        raise BodyTooLarge(f"the body inflates to more than {max_bytes} bytes")
    if size > _FREE_BYTES and size > length * _MOST_RATIO:  # guard: A8.inflate-ratio
        raise BodyTooLarge(
            f"the body inflates to more than {_MOST_RATIO} times its size; send it as it is"
        )


def _cut_short(body: bytes, encoding: str) -> MalformedBody:
    """zlib judges the first two bytes together, and waits for the second of them."""
    if len(body) == 1 and not _STARTS[encoding](body[0]):
        return _another(encoding)
    return MalformedBody(f"the body ends before its {encoding} stream does")


def _another(encoding: str) -> MalformedBody:
    return MalformedBody(f"the body is not {encoding}, which content-encoding says")


_STARTS: dict[str, Callable[[int], bool]] = {
    "gzip": lambda first: first == 0x1F,  # RFC 1952, section 2.3.1
    "deflate": lambda first: first & 0x0F == 8,  # RFC 1950, section 2.2
}


def chosen(accept_encoding: str) -> str:
    """The encoding that the client likes best of ours; empty for none. `*` asks for none."""
    best, liked = "", 0.0
    for offer in accept_encoding.split(","):
        match = _OFFER.fullmatch(offer)
        if match is None or match[1].lower() not in _WINDOWS:
            continue
        weight = float(match[2] or 1)
        if weight > liked:
            best, liked = match[1].lower(), weight
    return best


async def deflated(body: bytes, encoding: str) -> bytes:
    if len(body) <= _IN_PLACE:
        return _deflated(body, encoding)
    return await asyncio.to_thread(_deflated, body, encoding)


def _deflated(body: bytes, encoding: str) -> bytes:
    stream = zlib.compressobj(wbits=_WINDOWS[encoding])
    return stream.compress(body) + stream.flush()
