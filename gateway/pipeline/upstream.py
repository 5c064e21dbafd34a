"""The stream of an endpoint's answer: what came of it, and how it is closed."""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.accounting.pricing import tariff
from gateway.core.reply import Frame, GrpcMessage, ReplyStream, ServerEvent, ServerEvents
from gateway.core.types import ServedModel, Usage

_CLOSES_IN_S: Final = 0.02  # no caller waits longer for an upstream that is slow to close (D1)
_FRAMED_BYTES: Final = len(ServerEvent(b"").framed())


def total_tokens(stream: ReplyStream | None) -> int | None:
    tokens = getattr(stream, "total_tokens", None)
    return tokens if isinstance(tokens, int) else None


def estimated_usage(stream: ReplyStream | None, served: ServedModel) -> Usage | None:
    """Of an answer that states all tokens in one number: they are taken for input or for output,
    whichever is dearer."""
    total = total_tokens(stream)
    if total is None:
        return None
    prices = tariff.tariff(served)
    return Usage(total, 0) if prices.given >= prices.written else Usage(0, total)


def frame_bytes(frame: Frame) -> int:
    """What counts as moved."""
    if isinstance(frame, ServerEvents):
        return len(frame.text) - frame.number * _FRAMED_BYTES
    if isinstance(frame, GrpcMessage):
        return len(frame.message)
    return len(frame.data) if isinstance(frame, ServerEvent) else len(frame.body)


def closed_whole(stream: ReplyStream) -> bool:
    """Whether it was read to its end, and has closed itself: there is nothing to go out."""
    return getattr(stream, "closed", None) is True


def begun_closing(stream: ReplyStream) -> asyncio.Future[None] | None:
    """The close, which has begun."""
    # guard: A3.upstream-close -> return None
    return asyncio.ensure_future(stream.aclose())  # guard: S2.close-order -> return stream.aclose()


async def closed(closing: asyncio.Future[None]) -> None:
    """It goes on by itself when it takes longer, or when the caller leaves."""
    # guard: D1.close-wait without timeout=_CLOSES_IN_S
    done, _ = await asyncio.wait((closing,), timeout=_CLOSES_IN_S)
    for ended in done:
        ended.result()
