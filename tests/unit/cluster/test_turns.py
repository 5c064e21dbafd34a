"""A worker's turn in the owner's queue (O5): what the owner says is checked, and it is done without
when it is not there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from gateway.accounting.metrics import Metrics
from gateway.cluster.peer_clouds import PeerClouds
from gateway.cluster.turns import Granting, OwnerGone, OwnerTurn, TurnRequests, WorkerQueues
from gateway.core.deadline import Deadline
from gateway.core.errors import DeadlineExceeded, Saturated
from gateway.core.operations.chat import CHAT
from gateway.core.types import DocumentCall, InferenceRequest, WireProtocol
from gateway.endpoints.queueing.entry import QueueEntry
from gateway.scheduling.calls import CloudPermission, QueuedCall
from gateway.scheduling.estimates.latency import Tail
from gateway.scheduling.queue import NoServer, Spilled
from gateway.scheduling.queues import ModelQueues

pytestmark = pytest.mark.anyio

OWN: Any = "a turn of its own queue"
GROUP = ("gpu-1", "gpu-2")


class Clock:
    def __call__(self) -> float:
        return asyncio.get_running_loop().time()


def request(left_s: float = 5.0) -> InferenceRequest:
    clock = Clock()
    return InferenceRequest(
        id="id", protocol=WireProtocol.OPENAI, tenant="acme", model="m",
        payload=DocumentCall(CHAT, {"model": "m"}),
        deadline=Deadline.after(left_s, clock),
    )  # fmt: skip


def call(leave: CloudPermission = CloudPermission.NEVER, left_s: float = 5.0) -> QueuedCall:
    at_s = Clock()()
    tail = Tail(0.1) if leave is CloudPermission.FREELY else None
    return QueuedCall(
        1,
        at_s,
        at_s + left_s,
        1.0,
        leave=leave,
        restricted=leave is CloudPermission.NEVER,
        cloud=tail,
    )


class Own:
    """This worker's own queue."""

    def __init__(self) -> None:
        self.entered: list[QueuedCall] = []

    async def enter(
        self, request: InferenceRequest, call: QueuedCall, group: tuple[str, ...]
    ) -> Any:
        self.entered.append(call)
        return OWN


class Line:
    """To an owner that says what it is told to."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.open = True
        self.sent: list[dict[str, Any]] = []
        self._answers = list(answers)
        self.asking: TurnRequests

    def send(self, words: dict[str, Any]) -> None:
        if not self.open:
            raise OwnerGone
        self.sent.append(words)
        if "ask" in words and self._answers:
            said = {"n": words["n"], **self._answers.pop(0)}
            asyncio.get_running_loop().call_soon(self.asking.on_message, said)


def queues(line: Line) -> tuple[WorkerQueues, Own]:
    own = Own()
    line.asking = TurnRequests(line, Clock())
    return WorkerQueues(line.asking, cast(QueueEntry, own), lambda model: 7, "policy"), own


def run(work: Callable[[], Any]) -> None:
    asyncio.run(work())


async def test_a_turn_is_given_back_once_to_the_owner() -> None:
    line = Line({"server": "gpu-2"})
    its, own = queues(line)
    turn = await its.enter(request(), call(), GROUP)
    assert isinstance(turn, OwnerTurn)
    assert (turn.server, turn.door, own.entered) == ("gpu-2", None, [])
    turn.release(answered=True)
    turn.release(answered=False)
    (asked, ended) = line.sent
    assert asked["ask"]["servers"] == GROUP
    assert ended == {"n": asked["n"], "end": True}


async def test_a_server_that_is_not_of_the_calls_own_group_is_not_gone_to() -> None:
    line = Line({"server": "elsewhere"})
    its, own = queues(line)
    assert await its.enter(request(), call(), GROUP) is OWN
    assert len(own.entered) == 1
    assert line.sent[-1] == {"n": 1, "end": False}


@pytest.mark.parametrize("leave", [CloudPermission.NEVER, CloudPermission.NOT_YET])
async def test_the_owner_cannot_send_away_a_call_that_may_not_leave(leave: CloudPermission) -> None:
    its, _ = queues(Line({"leave": "spill_deadline"}, {"leave": "spill_deadline"}))
    assert await its.enter(request(), replace(call(), leave=leave), GROUP) is OWN
    with pytest.raises(Spilled) as caught:
        await its.enter(request(), call(CloudPermission.FREELY), GROUP)
    assert caught.value.why == "spill_deadline"


async def test_what_the_owners_queue_says_is_said_here() -> None:
    failed = {"kind": "Saturated", "message": "full", "reason": "queue_full",
              "retry_after_s": 2.0}  # fmt: skip
    its, _ = queues(Line({"no_server": True}, {"failed": failed}))
    with pytest.raises(NoServer):
        await its.enter(request(), call(), GROUP)
    with pytest.raises(Saturated) as caught:
        await its.enter(request(), call(), GROUP)
    assert (caught.value.reason, caught.value.retry_after_s) == ("queue_full", 2.0)


async def test_without_an_owner_each_decides_by_itself() -> None:
    line = Line({"not_here": True})
    its, own = queues(line)
    assert await its.enter(request(), call(), GROUP) is OWN
    waiting = asyncio.ensure_future(its.enter(request(), call(), GROUP))
    await asyncio.sleep(0.01)
    line.open = False
    line.asking.gone()
    assert await waiting is OWN
    assert await its.enter(request(), call(), GROUP) is OWN
    assert len(own.entered) == 3


async def test_who_leaves_or_is_late_takes_the_question_back() -> None:
    line = Line()
    its, _ = queues(line)
    waiting = asyncio.ensure_future(its.enter(request(), call(), GROUP))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert line.sent[-1] == {"n": 1, "end": False}
    with pytest.raises(DeadlineExceeded) as caught:
        await its.enter(request(0.03), call(), GROUP)
    assert caught.value.reason == "deadline_exceeded_in_queue"
    assert line.sent[-1] == {"n": 2, "end": False}
    line.asking.on_message({"n": 2, "server": "gpu-1"})  # too late: nobody asks any more


# The owner


class OwnersTurn:
    queued_s = 0.0

    def __init__(self, server: str) -> None:
        self.server = server
        self.released: list[bool] = []

    def release(self, answered: bool) -> None:
        self.released.append(answered)


class OwnersGroup:
    def __init__(self) -> None:
        self.queued: list[QueuedCall] = []
        self.calls = self
        self.turns: list[OwnersTurn] = []
        self.full = False
        self.cancelled = 0

    def entered(self, model: str, call: QueuedCall) -> None: ...
    def queue(self, model: str, group: tuple[str, ...]) -> OwnersGroup:
        return self

    async def enter(self, call: QueuedCall, deadline: Deadline) -> OwnersTurn:
        self.queued.append(call)
        if self.full:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        self.turns.append(OwnersTurn(GROUP[0]))
        return self.turns[-1]


Said = list[dict[str, Any]]


def granting(group: OwnersGroup, said: Said) -> Granting:
    clock = Clock()
    return Granting(
        "worker-2", lambda: (cast(ModelQueues, group), "policy"), PeerClouds(clock), Metrics(),
        clock, said.append,
    )  # fmt: skip


async def asked(leave: CloudPermission = CloudPermission.NEVER) -> dict[str, Any]:
    line = Line({"not_here": True})
    its, _ = queues(line)
    await its.enter(request(), call(leave), GROUP)
    return {"n": 5, "ask": line.sent[0]["ask"]}


async def test_the_owner_grants_and_takes_back_as_if_the_call_were_its_own() -> None:
    group, said = OwnersGroup(), Said()
    owner = granting(group, said)
    owner.on_request(await asked(CloudPermission.FREELY))
    await asyncio.sleep(0.01)
    assert said == [{"n": 5, "server": "gpu-1"}]
    (entered,) = group.queued
    assert (entered.id, entered.leave, entered.restricted) == (
        "worker-2/5",
        CloudPermission.FREELY,
        False,
    )
    owner.on_request({"n": 5, "end": True})
    owner.on_request({"n": 5, "end": False})
    assert group.turns[0].released == [True]


async def test_a_call_that_was_taken_back_or_whose_worker_died_waits_no_more() -> None:
    group, said = OwnersGroup(), Said()
    owner = granting(group, said)
    owner.on_request(await asked())
    await asyncio.sleep(0.01)
    group.full = True
    for number in (6, 7):
        owner.on_request({**await asked(), "n": number})
    await asyncio.sleep(0.01)
    owner.on_request({"n": 6, "end": False})
    await asyncio.sleep(0.01)
    assert group.cancelled == 1
    owner.gone()
    await asyncio.sleep(0.01)
    assert group.cancelled == 2
    assert group.turns[0].released == [False]


@pytest.mark.parametrize(
    "wrong",
    [{"policy": "another"}, {"restricted": True}, {"work": 0}, {"rows": 0}, {"deadline_s": "x"}],
)
async def test_what_no_worker_with_the_same_settings_asks_is_not_decided_on(
    wrong: dict[str, Any],
) -> None:
    group, said = OwnersGroup(), Said()
    words = await asked(CloudPermission.FREELY)
    granting(group, said).on_request({"n": 5, "ask": {**words["ask"], **wrong}})
    await asyncio.sleep(0.01)
    assert said == [{"n": 5, "not_here": True}]
    assert group.queued == []
