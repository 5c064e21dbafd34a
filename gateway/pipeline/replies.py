"""A reply that streams: from the attempt that has begun to answer to the front."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from gateway.core.deferred_error import DeferredError
from gateway.core.errors import DeadlineExceeded, GatewayError, UpstreamGivenUp, UpstreamSilent
from gateway.core.reply import Frame, OneFrame
from gateway.core.types import Outcome
from gateway.endpoints.health.patience import idle_s, parting_s
from gateway.endpoints.state import AttemptTimeout, went_out_why
from gateway.pipeline.attempt import RunningAttempt
from gateway.pipeline.call_account import CallAccount
from gateway.pipeline.upstream import closed, total_tokens

_OBSERVED_EACH_S = 0.02  # gaps between frames that follow closely are observed as one


class Cuttable(Protocol):
    def cut(self, why: Callable[[], GatewayError]) -> None:
        """End it by this, and not as if its caller had left."""
        ...


OpenCalls = dict[Cuttable, None]
"""Calls whose answer has not begun, and streams, in the order in which they came."""


class OpenedReply:
    """The frames of an attempt that has begun to answer. Each comes within the deadline; closing
    cancels the upstream."""

    def __init__(self, attempt: RunningAttempt) -> None:
        attempt.begun, attempt.may_last = True, False
        self._attempt = attempt
        self._first = attempt.first
        if self._first is None and type(attempt.stream) is OneFrame:
            self._first = attempt.stream.take()
        self._done = False
        self._cut: Callable[[], GatewayError] | None = None
        self._gap_s = 0.0  # the longest since the last that was observed
        self._idle_s = 0.0  # how long a gap may be; 0: to be asked again
        self._observed_s = 0.0

    @property
    def total_tokens(self) -> int | None:
        return total_tokens(self._attempt.stream)

    def cut(self, why: Callable[[], GatewayError]) -> None:
        if self._cut is None:  # guard: O7.stream-cut
            self._cut = why
            now_s = self._attempt.clock()
            self._attempt.ends_by(now_s, now_s)

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        attempt = self._attempt
        try:
            if self._cut is not None:
                failed = DeferredError(self._cut())
            elif self._first is not None:
                first, self._first = self._first, None
                return first
            elif self._done or attempt.stream is None:
                raise StopAsyncIteration
            else:
                since_s = attempt.clock()
                with self._waits(since_s):
                    frame = await anext(attempt.stream)
                self._observe_gap(since_s)
                attempt.on_frame(frame)
                return frame
        except TimeoutError:
            failed = DeferredError(self._too_late())
        except GatewayError as exc:
            # guard: A4.first-frame -> await attempt._open(); failed = DeferredError(exc)
            # guard: A4.broken-stream DeferredError(exc) -> DeferredError(StopAsyncIteration())
            # guard: A4.commit-point -> attempt.stream = await attempt._open(); return await
            #   anext(attempt.stream)
            failed = DeferredError(exc)
        except BaseException as exc:  # noqa: BLE001 - raised below, whatever it is
            failed = DeferredError(exc)
        await self._end(failed.error)
        raise failed.again()

    async def _end(self, error: BaseException) -> None:
        """`StopAsyncIteration`: it was whole."""
        self._done = True
        if isinstance(error, StopAsyncIteration):
            closing = self._attempt.end(None)
        elif isinstance(error, GatewayError) and self._cut is None:
            closing = self._attempt.end(error)
        else:
            closing = self._attempt.end(None, "cancelled")
        try:
            if closing is not None:
                await closed(closing)
        finally:  # cancelled once more while it closes
            self._settle(*ending(error))

    async def aclose(self) -> None:
        self._done = True
        try:
            await self._attempt.aclose()
        finally:  # a caller may be cut off while the upstream closes
            # guard: A2.stream-account
            self._settle(*ending(asyncio.CancelledError()))

    def _settle(self, outcome: Outcome, reason: str) -> None:
        """Called at its end, once or more often."""

    def _observe_gap(self, since_s: float) -> None:
        """A frame has come that was waited for since then."""
        now_s = self._attempt.clock()
        self._gap_s = max(self._gap_s, now_s - since_s)
        if now_s - self._observed_s >= _OBSERVED_EACH_S:
            self._attempt.model_state.gaps.observe(self._gap_s)
            self._observed_s, self._gap_s, self._idle_s = now_s, 0.0, 0.0

    def _waits(self, now_s: float) -> AttemptTimeout:
        """For a frame, since the one before it."""
        attempt = self._attempt
        request = attempt.request
        # guard: P3.silent-stream -> if went_out_why(attempt.state, attempt.model_state) or
        #   attempt.state.drained:
        if went_out_why(attempt.state, attempt.model_state):
            idle_at_s = now_s + parting_s(attempt.model_state.gap_s)
        else:
            if not self._idle_s:
                settings = attempt.services.registry.health
                self._idle_s = idle_s(attempt.model_state.gap_s, settings)
            idle_at_s = now_s + self._idle_s
        # guard: D1.frame-wait -> return attempt.waits(idle_at_s, now_s)
        # guard: A5.stream-timeout -> return attempt.waits(request.deadline.at_s, now_s)
        # guard: D1.later-frames -> return attempt.waits(now_s + 100000.0, now_s)
        return attempt.waits(min(request.deadline.at_s, idle_at_s), now_s)

    def _too_late(self) -> GatewayError:
        attempt = self._attempt
        if self._cut is not None:
            return self._cut()
        if attempt.request.deadline.passed():
            return DeadlineExceeded("the latency budget ran out while the answer was streaming")
        if why := went_out_why(attempt.state, attempt.model_state):
            return UpstreamGivenUp("the endpoint went out while it was answering", reason=why)
        return UpstreamSilent("the endpoint has stopped in the middle of its answer")


class SettlingStream(OpenedReply):
    """
    Settles the account exactly once, however the stream ends.

    A class and not an async generator: closing a generator that was never started runs none of its
    code, so a caller who leaves before the first frame would never be accounted for.
    """

    def __init__(
        self, attempt: RunningAttempt, account: CallAccount, reason: str, open_calls: OpenCalls
    ) -> None:
        """`reason`: the code of its placement, which a stream that ends whole is counted under. It
        is among `open_calls` until it ends."""
        super().__init__(attempt)
        open_calls[self] = None
        self._account = account
        self._reason = reason
        self._open = open_calls

    def _settle(self, outcome: Outcome, reason: str) -> None:
        self._account.total_tokens = self.total_tokens
        self._account.settle(outcome, reason or self._reason)
        self._open.pop(self, None)


def ending(error: BaseException) -> tuple[Outcome, str]:
    """How a call ended that raised this. No reason: it is that of the placement."""
    if isinstance(error, StopAsyncIteration):
        return Outcome.SERVED, ""
    if isinstance(error, GatewayError):
        return error.outcome, error.reason
    if isinstance(error, asyncio.CancelledError):
        return Outcome.CANCELLED, "caller_left"
    return Outcome.FAILED, "internal"
