"""The stream of an endpoint's answer: its outcome, how long it may be silent, how it ends."""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.accounting.pricing import tariff
from gateway.config import HealthSettings
from gateway.core.reply import Frame, GrpcMessage, ReplyStream, ServerEvent, ServerEvents
from gateway.core.types import ServedModel, Usage
from gateway.endpoints.health.patience import idle_s, parting_s
from gateway.endpoints.state import EndpointState, ModelState, went_out_why

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


def silent_until_s(
    state: EndpointState,
    model_state: ModelState,
    health: HealthSettings,
    deadline_s: float,
    heard_s: float,
) -> float:
    """When a stream is given up that has sent nothing since `heard_s`."""
    # guard: P3.silent-stream -> if went_out_why(state, model_state) or state.drained:
    if went_out_why(state, model_state):
        silent_s = parting_s(model_state.gap_s)
    else:
        silent_s = idle_s(model_state.gap_s, health)
    # guard: D1.frame-wait -> return heard_s + silent_s
    # guard: A5.stream-timeout -> return deadline_s
    # guard: D1.later-frames -> return heard_s + 100000.0
    return min(deadline_s, heard_s + silent_s)


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
