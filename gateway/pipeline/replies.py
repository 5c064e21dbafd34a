"""A reply that streams: from the attempt that has begun to answer to the front."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from gateway.core.deferred_error import DeferredError
from gateway.core.errors import DeadlineExceeded, GatewayError, UpstreamGivenUp, UpstreamSilent
from gateway.core.reply import Frame, OneFrame, Receiver
from gateway.core.types import Outcome
from gateway.endpoints.state import AttemptTimeout, went_out_why
from gateway.pipeline.attempt import RunningAttempt
from gateway.pipeline.call_account import CallAccount
from gateway.pipeline.upstream import closed, total_tokens

_OBSERVED_EACH_S = 0.1  # of frames that follow closely, the gap before one of them is observed


class Cuttable(Protocol):
    def cut(self, why: Callable[[], GatewayError]) -> None:
        """End it by this, and not as if its caller had left."""
        ...


OpenCalls = dict[Cuttable, None]
"""Calls whose answer has not begun, and streams, in the order in which they came."""


class OpenedReply:
    """The frames of an attempt that has begun to answer: receives them of its endpoint, and
    delivers them. Each comes within the deadline; closing cancels the upstream."""

    def __init__(self, attempt: RunningAttempt) -> None:
        attempt.begun, attempt.may_last = True, False
        if attempt.first is None and type(attempt.stream) is OneFrame:
            attempt.first = attempt.stream.take()
        self._attempt = attempt
        self._receiver: Receiver[Frame] | None = None
        self._done = False
        self._left = False  # its receiver takes no more
        self._cut: Callable[[], GatewayError] | None = None
        self._observes_at_s = 0.0

    @property
    def total_tokens(self) -> int | None:
        return total_tokens(self._attempt.stream)

    def cut(self, why: Callable[[], GatewayError]) -> None:
        if self._cut is None:  # guard: O7.stream-cut
            self._cut = why
            now_s = self._attempt.clock()
            self._attempt.ends_by(now_s, now_s)

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        if self._done:
            return
        attempt, self._receiver = self._attempt, receiver
        failed: DeferredError | None = None
        try:
            first, attempt.first = attempt.first, None
            if first is not None and not receiver.put(first):
                await self.room()
            stream = attempt.stream
            if stream is not None:
                with self._waits():
                    await stream.deliver(self)
        except TimeoutError:
            failed = DeferredError(self._too_late())
        except BaseException as exc:  # noqa: BLE001 - raised below, whatever it is
            # guard: A4.first-frame -> await attempt._open(); failed = DeferredError(exc)
            # guard: A4.broken-stream -> failed = None
            # guard: A4.commit-point -> attempt.stream = await attempt._open(); return await
            #   attempt.stream.deliver(receiver)
            failed = DeferredError(exc)
        self._receiver = None  # which has this
        await self._end(None if failed is None else failed.error)
        if failed is not None:
            raise failed.again()

    async def _end(self, error: BaseException | None) -> None:
        """`None`: it was whole."""
        self._done = True
        if self._left:
            error = asyncio.CancelledError()
        if error is None:
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

    # A receiver of frames

    def put(self, frame: Frame) -> bool:
        attempt, receiver = self._attempt, self._receiver
        now_s = attempt.clock()
        if now_s >= self._observes_at_s or not attempt.may_last:
            self._observe(now_s)
        attempt.heard_s = now_s
        attempt.on_frame(frame)
        return receiver is not None and receiver.put(frame)

    async def room(self) -> None:
        """Meanwhile, nobody waits for the endpoint."""
        attempt, receiver = self._attempt, self._receiver
        attempt.rests()
        self._left = True
        if receiver is not None:
            await receiver.room()
        self._left = False
        self._waits()

    def _observe(self, now_s: float) -> None:
        """The endpoint is heard."""
        attempt = self._attempt
        answers = attempt.model_state.health.answers
        answers.heard(attempt)
        answers.claim(attempt, now_s)
        attempt.model_state.gaps.observe(now_s - attempt.heard_s)
        attempt.heard_s, self._observes_at_s = now_s, now_s + _OBSERVED_EACH_S
        if not attempt.may_last and self._cut is None:  # its endpoint went out
            attempt.last_check()

    def _waits(self) -> AttemptTimeout:
        """For the next frame, from now on."""
        if self._cut is not None:
            raise self._cut()
        attempt = self._attempt
        now_s = attempt.heard_s = attempt.clock()
        attempt.last_check()
        return attempt.waits(attempt.ends_s, now_s)

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


def ending(error: BaseException | None) -> tuple[Outcome, str]:
    """How a call ended that raised this. No reason: it is that of the placement."""
    if error is None:
        return Outcome.SERVED, ""
    if isinstance(error, GatewayError):
        return error.outcome, error.reason
    if isinstance(error, asyncio.CancelledError):
        return Outcome.CANCELLED, "caller_left"
    return Outcome.FAILED, "internal"
