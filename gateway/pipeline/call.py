"""One call inside the pipeline: what is known of its data, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Protocol, Self

from gateway.core import timeouts
from gateway.core.deferred_error import DeferredError
from gateway.core.errors import DeadlineExceeded, GatewayError
from gateway.core.reply import InferenceReply, OneFrame
from gateway.core.trace_context import Attribute, Span, Stage
from gateway.core.types import Classification, InferenceRequest, Zone
from gateway.pipeline.attempt import RunningAttempt
from gateway.pipeline.call_account import CallAccount
from gateway.pipeline.rate_limits import QuotaReservation
from gateway.pipeline.replies import OpenCalls, ending
from gateway.pipeline.route import NotCleared


class ClassifierPort(Protocol):
    """None raises but for cancellation: what cannot be read is restricted."""

    def classify_now(self, request: InferenceRequest) -> Classification | None:
        """What is looked for in every call, where nothing has to be waited for. None: `classify`
        goes on from there."""
        ...

    async def classify(self, request: InferenceRequest) -> Classification:
        """What is looked for in every call."""
        ...

    async def complete(
        self, request: InferenceRequest, classification: Classification
    ) -> Classification:
        """And what is looked for only in a call that would leave. Never clears what is
        restricted."""
        ...


class PseudonymisedCallPort(Protocol):
    """A call that may leave in the place of a restricted one, and the way back (`pseudonyms`)."""

    @property
    def request(self) -> InferenceRequest: ...
    @property
    def classification(self) -> Classification: ...
    async def to_leave(self, zone: Zone) -> None: ...
    def restored(self, reply: InferenceReply) -> InferenceReply:
        """Of an answer that streams."""
        ...

    async def restored_whole(self, frames: OneFrame) -> tuple[OneFrame, int]:
        """An answer, and in how many places something of a surrogate is left in it."""
        ...

    def forget(self) -> None: ...


class Call:
    """`async with call:` settles its account when it fails, however that is.

    What is costly to look for in it is looked for when it is about to leave, and not at all in one
    that stays ("Clearance at the door"). A verdict can only become more restricted.
    """

    __slots__ = (
        "_classifier", "_cut", "_open", "_stage", "_task", "account", "attempt", "classification",
        "instead", "request", "share",
    )  # fmt: skip

    def __init__(
        self,
        request: InferenceRequest,
        account: CallAccount,
        classifier: ClassifierPort,
        open_calls: OpenCalls,
    ) -> None:
        """The task that runs makes it. It is among `open_calls` while `cut` may end it."""
        self.request = request
        self.account = account
        self.classification: Classification  # once it was classified
        self.attempt: RunningAttempt | None = None  # whose answer has begun
        self.instead: PseudonymisedCallPort | None = None  # what is sent in its place
        self.share: QuotaReservation | None = None  # of its key's and its tenant's limits
        self._classifier = classifier
        self._task = timeouts.running_task()
        self._open = open_calls
        self._cut: Callable[[], GatewayError] | None = None
        self._stage: Span | None = None

    async def __aenter__(self) -> Self:
        self._open[self] = None
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._open.pop(self, None)
        if error is None:
            return
        if self.instead is not None:
            self.instead.forget()
        # guard: O7.waiting-cut
        if self._cut is not None and self._was_cut(error):
            refused = DeferredError(self._cut())
            await self._fail(refused.error)
            # guard: A10.failed-call refused.again() -> refused.error
            raise refused.again() from None
        await self._fail(error)

    def cut(self, why: Callable[[], GatewayError]) -> None:
        """End it by this, and not as if its caller had left."""
        self._cut = why
        self._task.cancel()

    def _was_cut(self, error: BaseException) -> bool:
        """By `cut`, and by nobody else."""
        return isinstance(error, asyncio.CancelledError) and not self._task.uncancel()

    async def _fail(self, error: BaseException) -> None:
        if isinstance(error, GatewayError):
            self.account.vetoes = error.vetoes  # guard: P3.record-drained
        if self._stage is not None:
            self.leaves(error)
        try:
            if self.attempt is not None:
                await self.attempt.aclose()
        finally:  # cancelled once more while it closes
            self.account.settle(*ending(error))

    def enters(self, stage: Stage) -> None:
        """Its next stage begins, of a call that is sampled."""
        self.leaves()
        self._stage = self.request.trace.begin(stage)

    def leaves(self, error: BaseException | None = None) -> None:
        """Its stage ends, by this error."""
        stage, self._stage = self._stage, None
        # guard: T3.error-type type(error).__name__ -> str(error)
        ending: Mapping[Attribute, str] = {} if error is None else {"error": type(error).__name__}
        self.request.trace.end(stage, ending)

    async def classify(self) -> None:
        """Look for what is looked for in every call."""
        request = self.request
        if request.trace.sampled:
            self.enters("classify")
        classification = self._classifier.classify_now(request)
        if classification is None:
            classification = await self._in_time(self._classifier.classify(request))
        self.classification = self.account.classification = classification
        if request.trace.sampled:
            self.leaves()

    async def to_leave(self, zone: Zone) -> None:
        """Look for the rest. Raises NotCleared if the zone may not have it after all."""
        # guard: M1.unread-call
        if not self.classification.stays and not self.classification.complete:
            with self.request.trace.stage("classify"):
                scan = self._classifier.complete(self.request, self.classification)
                self.classification = self.account.classification = await self._in_time(scan)
        if not self.classification.admits(zone):  # guard: M1.known
            raise NotCleared

    async def _in_time(self, scan: Awaitable[Classification]) -> Classification:
        """A classifier keeps to the call's deadline; where not, the call still ends (D1)."""
        try:
            left_s = self.request.deadline.remaining_s()
            with timeouts.within(left_s):  # guard: D1.scan-wait -> with timeouts.within(100000.0):
                return await scan
        except TimeoutError:
            raise DeadlineExceeded("the latency budget ran out while the call was read") from None
