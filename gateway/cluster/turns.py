"""One queue for the workers of one machine: a worker asks the owner for a turn at a server, and
sends the call there itself.

Between machines a call goes with the question (`forward`), which saves a round trip. Here a round
trip is a fraction of a millisecond, and to pass on calls and answers would make the owner do half
of the work of all workers. Nothing of a call's content is in what is said here.

What the owner says is not believed blindly: a server that it names must be of the call's own group,
and only a call that may leave is sent away. An owner that is not there, or that has other settings,
is done without: the call enters this worker's own queue. Two queues place calls worse while they
last, and nothing else.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Any, Protocol

from gateway.accounting.metrics import Metrics
from gateway.cluster.failures import code, packed, raised
from gateway.cluster.messages import CloudEstimate
from gateway.cluster.peer_clouds import PeerClouds, cloud_estimate
from gateway.core.deadline import Clock, Deadline
from gateway.core.errors import DeadlineExceeded, GatewayError
from gateway.core.timeouts import within
from gateway.core.types import InferenceRequest
from gateway.endpoints.queueing.entry import QueueEntry
from gateway.scheduling.calls import FREELY, NEVER, QueuedCall
from gateway.scheduling.queue import Grant, NoServer, Spilled
from gateway.scheduling.queues import ModelQueues

log = logging.getLogger(__name__)

_LAST_WORD_S = 0.02  # longer than the call's budget: the owner says itself that it ran out
Words = dict[str, Any]
Send = Callable[[Words], None]


class OwnerGone(Exception):
    """There is no owner who decides on this call."""


class OwnerLine(Protocol):
    """The way to the owner. `send` raises OwnerGone when nobody is there."""

    @property
    def open(self) -> bool: ...
    def send(self, words: Words) -> None: ...


class OwnerTurn:
    """A turn in the owner's queue. Given back exactly once."""

    door: None = None  # it goes by the server's own
    __slots__ = ("_give_back", "_released", "queued_s", "server")

    def __init__(self, server: str, queued_s: float, give_back: Callable[[bool], None]) -> None:
        self.server, self.queued_s = server, queued_s
        self._give_back = give_back
        self._released = False

    def release(self, answered: bool) -> None:
        if not self._released:
            self._released = True
            self._give_back(answered)


class TurnRequests:
    """A worker's side, for all versions of its settings."""

    def __init__(self, line: OwnerLine, clock: Clock) -> None:
        self._line, self._clock = line, clock
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Words]] = {}

    @property
    def open(self) -> bool:
        return self._line.open

    async def turn(self, call: QueuedCall, words: Words, deadline: Deadline) -> OwnerTurn:
        """Raises what a queue does, or OwnerGone."""
        number = next(self._numbers)
        requested_s = self._clock()
        reply: asyncio.Future[Words] = asyncio.get_running_loop().create_future()
        self._pending[number] = reply
        try:
            self._line.send({"n": number, "ask": words})
            with within(deadline.remaining_s() + _LAST_WORD_S):
                answer = await reply
        except TimeoutError:
            self._take_back(number)
            raise DeadlineExceeded(
                "the latency budget ran out in the queue", reason="deadline_exceeded_in_queue"
            ) from None
        except asyncio.CancelledError:
            self._take_back(number)
            raise
        finally:
            self._pending.pop(number, None)
            del reply  # it keeps what it raises, whose traceback has this frame
        server = answer.get("server")
        if server is None:
            raise _verdict(answer, call)
        if server not in words["servers"]:  # guard: O5.own-group
            self._end(number, answered=False)
            raise OwnerGone("it named a server that is not one of this call's")
        return OwnerTurn(
            server, self._clock() - requested_s, lambda answered: self._end(number, answered)
        )

    def on_message(self, words: Words) -> None:
        """By the owner. To a call that is not waited for any more it says nothing new."""
        reply = self._pending.get(words["n"])
        if reply is not None and not reply.done():
            reply.set_result(words)

    def gone(self) -> None:
        """Whoever waits there enters this worker's own queue, with its first arrival."""
        for reply in self._pending.values():
            if not reply.done():
                reply.set_exception(OwnerGone("the owner went away"))

    def _take_back(self, number: int) -> None:
        self._end(number, answered=False)

    def _end(self, number: int, answered: bool) -> None:
        try:
            self._line.send({"n": number, "end": answered})
        except OwnerGone:
            return  # it knows of none of its calls any more


class WorkerQueues:
    """Where calls of one version of the settings wait (`gateway.pipeline.dispatcher`)."""

    def __init__(
        self, asking: TurnRequests, own: QueueEntry, own_cloud_room: Callable[[str], int],
        policy: str,
    ) -> None:  # fmt: skip
        self._asking, self._own, self._policy = asking, own, policy
        self._own_cloud_room = own_cloud_room

    async def enter(
        self, request: InferenceRequest, call: QueuedCall, group: tuple[str, ...]
    ) -> Grant | OwnerTurn:
        """A turn at one of these servers. Raises what a queue does."""
        if self._asking.open:
            try:
                return await self._asking.turn(
                    call, self._words(request, call, group), request.deadline
                )
            except OwnerGone:
                pass
        return await self._own.enter(request, call, group)

    def _words(self, request: InferenceRequest, call: QueuedCall, group: tuple[str, ...]) -> Words:
        estimate = cloud_estimate(call, self._own_cloud_room, request.model)
        return {
            "policy": self._policy,
            "model": request.model,
            "servers": group,
            "arrived_s": call.arrived_s,  # the clock is the machine's
            "deadline_s": call.deadline_s,
            "penalty": call.penalty,
            "work": call.work,
            "rows": call.rows,
            "restricted": call.restricted,
            "later_s": call.later_s,
            "avoid": [*call.avoid],
            "abroad": None if estimate is None else (
                estimate.price_usd, estimate.latencies_s, estimate.room
            ),
        }  # fmt: skip


def _verdict(words: Words, call: QueuedCall) -> Exception:
    """What the owner's queue said instead of a turn."""
    if "failed" in words:
        return raised(words["failed"])
    if words.get("no_server"):
        return NoServer()
    if "leave" in words and call.leave is FREELY:  # guard: O5.restricted-stays minus 2
        return Spilled(code(words["leave"], "spill_deadline"))
    return OwnerGone("it does not decide on this call")


class Granting:
    """The owner's side, for one worker that asks: its calls in this worker's queues."""

    def __init__(
        self,
        worker: str,
        queues: Callable[[], tuple[ModelQueues, str]],
        clouds: PeerClouds,
        metrics: Metrics,
        clock: Clock,
        send: Send,
    ) -> None:
        """`queues`: those of the settings that are in use, and the settings' name."""
        self._worker, self._queues, self._clouds = worker, queues, clouds
        self._metrics, self._clock, self._send = metrics, clock, send
        self._calls: dict[int, Grant | asyncio.Task[None]] = {}

    def on_request(self, words: Words) -> None:
        number = words["n"]
        if "ask" in words:
            entering = self._enter(number, words["ask"])
            self._calls[number] = asyncio.get_running_loop().create_task(entering)
            return
        call = self._calls.pop(number, None)
        if isinstance(call, asyncio.Task):
            call.cancel()
        elif call is not None:
            call.release(words["end"] is True)

    def gone(self) -> None:
        """The worker went away, and its calls with it."""
        calls, self._calls = self._calls, {}
        for call in calls.values():
            if isinstance(call, asyncio.Task):
                call.cancel()
            else:
                call.release(answered=False)  # guard: O5.dead-worker-turns

    async def _enter(self, number: int, words: Words) -> None:
        try:
            turn = await self._turn(number, words)
        except Spilled as spilled:
            answer: Words = {"leave": spilled.why}
        except NoServer:
            answer = {"no_server": True}
        except GatewayError as exc:
            answer = {"failed": packed(exc)}
        except (OwnerGone, KeyError, TypeError, ValueError):
            answer = {"not_here": True}
        except Exception:
            log.exception("a worker's call met a bug in the queue")
            answer = {"not_here": True}
        else:
            self._calls[number] = turn
            self._send({"n": number, "server": turn.server})
            return
        self._calls.pop(number, None)
        self._send({"n": number, **answer})

    async def _turn(self, number: int, words: Words) -> Grant:
        queues, policy = self._queues()
        if words["policy"] != policy:  # guard: O5.settings-match
            raise OwnerGone("it has other settings")
        model, group = words["model"], tuple(words["servers"])
        call = self._call(number, model, words)
        queues.calls.entered(model, call)
        turn = await queues.queue(model, group).enter(call, Deadline(call.deadline_s, self._clock))
        self._metrics.queued_seconds.labels(turn.server, model).observe(turn.queued_s)
        return turn

    def _call(self, number: int, model: str, words: Words) -> QueuedCall:
        """Raises ValueError for what no worker asks."""
        work, estimate = float(words["work"]), words["abroad"]
        cloud = (
            None
            if estimate is None
            else CloudEstimate(estimate[0], tuple(estimate[1]), estimate[2])
        )
        return QueuedCall(
            id=f"{self._worker}/{number}",
            arrived_s=words["arrived_s"],
            deadline_s=words["deadline_s"],
            penalty=words["penalty"],
            price=0.0 if cloud is None else cloud.price_usd,
            work=work,
            rows=words["rows"],
            leave=NEVER if cloud is None else FREELY,
            restricted=words["restricted"] is not False,
            cloud=None if cloud is None else self._clouds.record(self._worker, model, work, cloud),
            later_s=words["later_s"],
            avoid=frozenset(words["avoid"]),
        )
