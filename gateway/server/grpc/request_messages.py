"""The messages of a request: framed as gRPC frames them, and perhaps compressed."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from gateway.core.errors import BodiesFull, BodyTooLarge, GatewayError
from gateway.core.held_bytes import BodyShare, HeldBytes
from gateway.protocols.http2.exchange import Http2Exchange
from gateway.protocols.http2.message import (
    PREFIX_BYTES,
    GrpcStatusError,
    read_prefix,
    too_large,
)
from gateway.server import compression

_SHARES = 64  # of messages of one stream, inflated, of which answers may still be made
_CODINGS = ("gzip", "deflate")


async def large_message(exchange: Http2Exchange) -> bytes | None:
    """The one message of a request that came in pieces, which are copied once; None where it is
    compressed. Raises GrpcStatusError."""
    pieces, exchange.large = exchange.large, None
    assert pieces is not None
    size = pieces.size - PREFIX_BYTES
    if read_prefix(pieces.first(PREFIX_BYTES)) == (0, size) and size <= exchange.serving.max_bytes:
        pieces.cut(PREFIX_BYTES)
        return await pieces.take_aside()
    exchange.message = await pieces.take_aside()
    return plain_message(exchange)


def plain_message(exchange: Http2Exchange) -> bytes | None:
    """The same of one that came at once."""
    whole, most = exchange.message, exchange.serving.max_bytes
    compressed, length = read_prefix(whole) if len(whole) >= PREFIX_BYTES else (0, -1)
    if length != len(whole) - PREFIX_BYTES:
        raise GrpcStatusError("INTERNAL", "the request is not one message")
    if compressed:
        return None
    if length > most:
        raise GrpcStatusError("RESOURCE_EXHAUSTED", too_large(length, most))
    return whole[PREFIX_BYTES:]


async def messages(
    exchange: Http2Exchange, read: Any, held: HeldBytes, shares: deque[BodyShare]
) -> AsyncIterator[Any]:
    """`shares`: of the last ones that were inflated, which may not be answered yet."""
    while (whole := await exchange.next()) is not None:
        if whole[0]:
            if len(shares) >= _SHARES:
                shares.popleft().close()
            shares.append(BodyShare(held, exchange.caller))
            message = await inflated(whole, exchange, shares[-1])
        else:
            message = whole[PREFIX_BYTES:]
        yield message if read is None else read(message)


async def inflated(whole: bytes, exchange: Http2Exchange, share: BodyShare) -> bytes:
    """Of a message that is compressed; `share` is for what comes out."""
    encoding = exchange.head.encoding
    if encoding in ("", "identity"):
        raise GrpcStatusError(
            "INTERNAL", "a message is compressed, and grpc-encoding does not say how"
        )
    message, most = whole[PREFIX_BYTES:], exchange.serving.max_bytes
    try:
        compression.check(encoding)
        return await compression.inflated(message, encoding, most, share)
    except BodiesFull:
        raise
    except BodyTooLarge as exc:
        words = f"Received message larger than max: {exc.message}"
        raise GrpcStatusError("RESOURCE_EXHAUSTED", words) from None
    except GatewayError as exc:
        raise GrpcStatusError(
            "UNIMPLEMENTED" if encoding not in _CODINGS else "INTERNAL", exc.message
        ) from None
