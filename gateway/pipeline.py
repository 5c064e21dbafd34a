"""The life of one call, in the order in which it happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from gateway.accounting.account import Accounts, CallAccount
from gateway.admission import Admission
from gateway.dispatch import Dispatcher, OpenedReply
from gateway.errors import Draining, Forbidden, GatewayError
from gateway.routing.policy import Policy
from gateway.types import (
    Classification,
    Decision,
    EndpointState,
    Frame,
    InferenceReply,
    InferenceRequest,
    OneFrame,
    Outcome,
    Placement,
)

_READ = frozenset({"clear", "entities"})  # reasons of a verdict that rests on a whole scan


class Classifier(Protocol):
    async def classify(self, request: InferenceRequest) -> Classification:
        """Never raises but for cancellation: what cannot be read is restricted."""
        ...


class States(Protocol):
    def snapshot(self, request: InferenceRequest, restricted: bool) -> Sequence[EndpointState]: ...


@dataclass(frozen=True, slots=True)
class Explanation:
    """What would be done with a call, and on what grounds (O3)."""

    found: Classification
    states: Sequence[EndpointState]
    decision: Decision | None
    refusal: GatewayError | None


class Pipeline:
    def __init__(
        self,
        admission: Admission,
        classifier: Classifier,
        states: States,
        policy: Policy,
        dispatcher: Dispatcher,
        accounts: Accounts,
        block_unknown: bool = False,
    ) -> None:
        self._admission = admission
        self._classifier = classifier
        self._states = states
        self._policy = policy
        self._dispatcher = dispatcher
        self._accounts = accounts
        self._block_unknown = block_unknown
        self._open: set[SettlingStream] = set()
        self._waiting: set[asyncio.Task[object]] = set()
        self._cutting = False

    async def handle(self, request: InferenceRequest) -> InferenceReply:
        account = self._accounts.open(request)
        try:
            account.holds(self._admission.enter(request))
            with self._cuttable():
                found = await self._classifier.classify(request)
                account.classified(found)
                decision = account.decision = self._decide(request, found)
                opened = await self._dispatcher.send(request, found, decision, account)
        except BaseException as exc:
            account.settle(*ending(exc))
            raise
        return await self._release(request, found, decision, opened, account)

    async def explain(self, request: InferenceRequest) -> Explanation:
        """The verdict and the decision that `handle` would come to now; nothing is sent."""
        found = await self._classifier.classify(request)
        states = self._states.snapshot(request, found.restricted)
        try:
            return Explanation(found, states, self._decide(request, found), None)
        except GatewayError as refusal:
            return Explanation(found, states, None, refusal)

    def cut(self) -> None:
        """End every call that is still open, with a reason (O7)."""
        self._cutting = True
        for task in tuple(self._waiting):
            task.cancel()
        for stream in tuple(self._open):
            stream.cut(_stopping())

    @contextmanager
    def _cuttable(self) -> Iterator[None]:
        """A call in here ends by Draining when `cut` cancels it, not as if its caller had left."""
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if self._cutting and task.uncancel() == 0:
                raise _stopping() from None
            raise
        finally:
            self._waiting.discard(task)

    def _decide(self, request: InferenceRequest, found: Classification) -> Decision:
        if self._block_unknown and found.reason not in _READ:
            raise Forbidden(
                "this call could not be read for personal data and is refused",
                reason="unknown_blocked",
            )
        states = self._states.snapshot(request, found.restricted)
        return self._policy.decide(request, found, states)

    async def _release(
        self,
        request: InferenceRequest,
        found: Classification,
        decision: Decision,
        opened: OpenedReply,
        account: CallAccount,
    ) -> InferenceReply:
        """Let the answer go, its record written first."""
        try:
            placement = Placement(
                zone=opened.endpoint.zone,
                endpoint=opened.endpoint.name,
                reason=decision.reason if not account.attempts else "failover",
                attempts=len(account.attempts) + 1,
                sensitivity=found.sensitivity,
                classify_s=found.classify_s,
            )
            if request.streamed:
                account.record_before_release(opened.so_far())
                stream = SettlingStream(opened, account, self._open.discard)
                self._open.add(stream)
                return InferenceReply(placement, stream)
            only = await anext(opened)
            await opened.served_whole()
            account.total_tokens = opened.total_tokens
            account.settle(Outcome.SERVED, placement.reason)
            return InferenceReply(placement, OneFrame(only))
        except BaseException as exc:
            try:
                await opened.aclose()
            finally:  # cancelled once more while it closes
                account.settle(*ending(exc))
            raise


def _stopping() -> Draining:
    return Draining("this gateway is stopping; call again", retry_after_s=1.0)


def ending(exc: BaseException) -> tuple[Outcome, str]:
    """How a call ended that raised this."""
    if isinstance(exc, GatewayError):
        return exc.outcome, exc.reason
    if isinstance(exc, asyncio.CancelledError):
        return Outcome.CANCELLED, "caller_left"
    return Outcome.FAILED, "internal"


class SettlingStream:
    """
    Pass frames on and settle the account exactly once, however the stream ends.

    A class and not an async generator: closing a generator that was never started runs none of its
    code, so a caller who leaves before the first frame would never be accounted for.
    """

    def __init__(
        self,
        opened: OpenedReply,
        account: CallAccount,
        on_end: Callable[[SettlingStream], None],
    ) -> None:
        self._opened = opened
        self._account = account
        self._on_end = on_end
        self._cut: asyncio.Future[GatewayError] = asyncio.get_running_loop().create_future()

    def cut(self, why: GatewayError) -> None:
        if not self._cut.done():
            self._cut.set_result(why)

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        try:
            return await self._next_or_cut()
        except StopAsyncIteration:
            self._settle(Outcome.SERVED, "served")
            raise
        except BaseException as exc:
            try:
                await self._opened.aclose()
            finally:  # cancelled once more while it closes
                self._settle(*ending(exc))
            raise

    async def _next_or_cut(self) -> Frame:
        frame = asyncio.ensure_future(anext(self._opened))
        try:
            await asyncio.wait((frame, self._cut), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not frame.done():
                frame.cancel()
                await asyncio.wait((frame,))
        if self._cut.done():
            raise self._cut.result()
        return frame.result()

    async def aclose(self) -> None:
        try:
            await self._opened.aclose()
        finally:  # a caller may be cut off while the upstream closes
            self._settle(Outcome.CANCELLED, "caller_left")

    def _settle(self, outcome: Outcome, reason: str) -> None:
        self._account.total_tokens = self._opened.total_tokens
        self._account.settle(outcome, reason)
        self._on_end(self)
