"""A second try beside the first, when the first is late (BEHAVIOURS A7).

Jeffrey Dean and Luiz André Barroso, "The Tail at Scale", CACM 56(2), 2013: send the same call to a
second server once the first has taken longer than the 95th percentile, and take whichever answers
first. Here only for calls that have no effect, and only where the second try may go anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from gateway.core.types import InferenceRequest, TensorCall


class Closable(Protocol):
    async def aclose(self) -> None: ...


T = TypeVar("T", bound=Closable)


def has_no_effect(request: InferenceRequest) -> bool:
    """Whether sending a call twice changes nothing but its cost. A sequence has state in its
    server, a stored response at its provider; a stream would be told twice."""
    if request.streamed or request.operation.stateful:
        return False
    return not has_state(request)


def has_state(request: InferenceRequest) -> bool:
    """A sequence counts its calls, in its server."""
    return isinstance(request.payload, TensorCall) and request.payload.sequence is not None


async def hedged(
    first: Coroutine[Any, Any, T],
    after_s: float,
    second: Callable[[], Awaitable[Coroutine[Any, Any, T] | None]],
) -> T:
    """What answers first. `second` is asked once `first` has taken `after_s`; None: there is none.
    The loser is cancelled and waited for, so that it is settled. Raises what the first raises when
    both fail."""
    # A task has what it raised, whose traceback has the frames that pass it on: they have not that
    # task any more.
    running: list[asyncio.Future[T]] = [asyncio.ensure_future(first)]
    try:
        await asyncio.wait(running, timeout=after_s)
        if not running[0].done() and (other := await second()) is not None:
            running.append(asyncio.ensure_future(other))
        # guard: A10.failed-task -> at = await _first_answer(running); answered =
        #   running[at].result(); running.pop(at)
        answered = running.pop(await _first_answer(running)).result()
    except BaseException:
        await _ended(running)
        raise
    try:
        await _ended(running)
    except BaseException:  # the caller left while the loser was closed: nobody gets the answer
        await answered.aclose()  # guard: A2.hedge-winner
        raise
    return answered


async def _first_answer(running: list[asyncio.Future[T]]) -> int:
    """Which one it is; the first when all have failed."""
    left = set(running)
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        for at, task in enumerate(running):
            if task in done and not task.cancelled() and task.exception() is None:
                return at
    return 0


async def _ended(losers: list[asyncio.Future[T]]) -> None:
    """Who waits may be cancelled more than once; what became of the losers is on record all the
    same before the call is settled."""
    ending, again = asyncio.ensure_future(_end(losers)), False
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            again = True  # guard: A7.loser-record -> again = True; break
    if again:
        raise asyncio.CancelledError
    ending.result()


async def _end(losers: list[asyncio.Future[T]]) -> None:
    for task in losers:  # guard: A7.loser-cancel
        task.cancel()
    for ended in await asyncio.gather(*losers, return_exceptions=True):
        if not isinstance(ended, BaseException):  # it answered in the same step
            await ended.aclose()
