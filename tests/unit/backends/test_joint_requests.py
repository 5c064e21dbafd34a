"""Calls that go to one server at the same moment, as one request."""

from __future__ import annotations

import asyncio
import gc
import struct
import weakref
from dataclasses import replace

import pytest

from gateway.core.deadline import Deadline
from gateway.core.errors import (
    AnswersFull,
    GatewayError,
    ModelDead,
    ModelFailed,
    UpstreamRefused,
    UpstreamUnreachable,
)
from gateway.core.held_bytes import AnswerShare, HeldBytes
from gateway.core.reply import OneFrame, ReplyStream
from gateway.core.types import InferenceRequest, ServedModel, Tensor, TensorCall, WireProtocol
from gateway.endpoints.batch_rows.rows import JointLimit
from gateway.endpoints.connectors.triton.joint_requests import JointRequests
from gateway.protocols.oip.grpc import decode_response, encode_response
from gateway.protocols.oip.reply import TensorReply

pytestmark = pytest.mark.anyio

SERVED = ServedModel("m")
BAD = 13.0  # a number on which the model fails, with all that stand in its batch


class Doubling:
    """A server whose model doubles each number, one a row."""

    def __init__(self) -> None:
        self.requests: list[InferenceRequest] = []
        self.open_requests = self.most_open = self.cancelled = 0
        self.failure: GatewayError | None = None
        self.most_rows = 1 << 20  # that the answer has, whatever was sent
        self.held: asyncio.Event | None = None

    async def open(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        self.requests.append(request)
        self.open_requests += 1
        self.most_open = max(self.most_open, self.open_requests)
        try:
            await (asyncio.sleep(0) if self.held is None else self.held.wait())
            return OneFrame(encode_response(self._answer(request)))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.open_requests -= 1

    def _answer(self, request: InferenceRequest) -> TensorReply:
        if self.failure is not None:
            raise self.failure
        call = request.payload
        assert isinstance(call, TensorCall)
        if request.held is not None and not request.held.hold(self, 1000 * len(numbers_in(call))):
            raise AnswersFull
        numbers = numbers_in(call)
        if BAD in numbers:
            raise ModelFailed("in a batch with a bad number")
        doubled = [2 * number for number in numbers][: self.most_rows]
        return TensorReply("m", "1", (tensor("y", *doubled),), call.id)

    @property
    def rows(self) -> list[int]:
        """Of each request."""
        return [
            request.payload.inputs[0].shape[0]
            for request in self.requests
            if isinstance(request.payload, TensorCall)
        ]


def tensor(name: str, *numbers: float) -> Tensor:
    return Tensor(name, "FP32", (len(numbers),), struct.pack(f"<{len(numbers)}f", *numbers))


def numbers_in(call: TensorCall) -> tuple[float, ...]:
    data = call.inputs[0].data
    return struct.unpack(f"<{len(data) // 4}f", data)


def request(*numbers: float, **changed: object) -> InferenceRequest:
    name = "-".join(map(str, numbers))
    call = TensorCall((tensor("x", *numbers),), id=name)
    made = InferenceRequest(
        name, WireProtocol.KSERVE_GRPC, "t", "model", call, Deadline.after(60.0)
    )
    return replace(made, **changed)  # type: ignore[arg-type]


class Rig:
    def __init__(self, rows: int = 8, *, tenants_apart: bool = False) -> None:
        self.server = Doubling()
        self.limits = {"model": JointLimit(rows, tenants_apart)}
        self.joint = JointRequests(self.server.open, self.limits)

    async def doubled(self, request: InferenceRequest) -> tuple[str, tuple[float, ...]]:
        frame = await anext(await self.joint.open(request, SERVED))
        reply = decode_response(frame)  # type: ignore[arg-type]
        return reply.id, numbers_in(TensorCall(reply.outputs))

    async def all(self, *requests: InferenceRequest) -> list[object]:
        calls = [self.doubled(each) for each in requests]
        return [*await asyncio.gather(*calls, return_exceptions=True)]


async def test_what_is_opened_in_one_turn_is_one_request() -> None:
    rig = Rig()
    answers = await rig.all(request(1.0), request(2.0, 3.0), request(4.0))
    assert answers == [("1.0", (2.0,)), ("2.0-3.0", (4.0, 6.0)), ("4.0", (8.0,))]
    assert rig.server.rows == [4]


async def test_who_comes_alone_goes_as_it_is() -> None:
    rig, own = Rig(), request(1.0)
    assert await rig.doubled(own) == ("1.0", (2.0,))
    assert rig.server.requests == [own]


async def test_models_whose_rows_were_not_tried_are_not_joined() -> None:
    rig = Rig()
    rig.limits.clear()
    await rig.all(request(1.0), request(2.0))
    assert rig.server.rows == [1, 1]


async def test_a_request_has_no_more_rows_than_the_server_executes() -> None:
    rig = Rig(4)
    answers = await rig.all(*[request(float(n), float(n)) for n in range(5)], request(*[7.0] * 4))
    assert [each[1] for each in answers if isinstance(each, tuple)] == [
        *[(2.0 * n, 2.0 * n) for n in range(5)],
        (14.0,) * 4,
    ]
    assert sorted(rig.server.rows) == [2, 4, 4, 4]


async def test_large_inputs_are_not_copied_into_one() -> None:
    rig = Rig(1 << 20)
    numbers = [1.0] * (160 * 1024)  # 640 KiB
    await rig.all(request(*numbers), request(*numbers), request(2.0))
    assert sorted(rig.server.rows) == [len(numbers), len(numbers) + 1]


async def test_calls_that_are_not_alike_go_apart() -> None:
    rig = Rig()
    other = request(2.0)
    assert isinstance(other.payload, TensorCall)
    wanted = replace(other, payload=replace(other.payload, parameters={"priority": 1}))
    await rig.all(request(1.0), wanted, replace(other, model="another"))
    assert rig.server.rows == [1, 1, 1]


async def test_tenants_are_kept_apart_where_the_settings_say_so() -> None:
    for apart, requests in ((False, [4]), (True, [2, 2])):
        rig = Rig(tenants_apart=apart)
        tenants = [request(float(n), tenant="ab"[n % 2]) for n in range(4)]
        await rig.all(*tenants)
        assert rig.server.rows == requests


async def test_who_leaves_leaves_the_others_their_answer() -> None:
    rig = Rig()
    for early in (True, False):
        rig.server.held = asyncio.Event()
        tasks = [asyncio.create_task(rig.doubled(request(float(n)))) for n in range(3)]
        for _ in range(1 if early else 4):
            await asyncio.sleep(0)
        tasks[0].cancel()  # the first, for which the others came
        await asyncio.sleep(0)
        rig.server.held.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert answers[1:] == [("1.0", (2.0,)), ("2.0", (4.0,))]
        assert isinstance(answers[0], asyncio.CancelledError)
    assert rig.server.rows == [2, 3]
    assert rig.server.cancelled == 0


async def test_a_request_ends_when_all_have_left() -> None:
    rig = Rig()
    rig.server.held = asyncio.Event()
    tasks = [asyncio.create_task(rig.doubled(request(float(n)))) for n in range(3)]
    for _ in range(4):
        await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await asyncio.sleep(0)
    assert (rig.server.rows, rig.server.cancelled) == ([3], 1)


async def test_a_call_that_the_model_fails_on_fails_alone() -> None:
    rig = Rig()
    numbers = (1.0, 2.0, BAD, 4.0, 5.0)
    answers = await rig.all(*[request(n) for n in numbers])
    assert isinstance(answers.pop(2), ModelFailed)
    assert answers == [(str(n), (2 * n,)) for n in numbers if n != BAD]
    assert rig.server.most_open == 1  # side by side the server would join them again


@pytest.mark.parametrize(
    ("failure", "requests"),
    [
        (UpstreamUnreachable("away"), 1),
        (ModelDead("dead"), 1),
        (UpstreamRefused("credentials"), 7),
    ],
)
async def test_what_is_no_call_s_fault_is_met_once(failure: GatewayError, requests: int) -> None:
    rig = Rig()
    rig.server.failure = failure
    answers = await rig.all(*[request(float(n)) for n in range(4)])
    assert [type(each) for each in answers] == [type(failure)] * 4
    assert len({id(each) for each in answers}) == 4
    assert len(rig.server.requests) == requests


async def test_a_failure_is_held_by_nobody_once_it_was_raised() -> None:
    rig = Rig()
    rig.server.failure = UpstreamUnreachable("away")
    gc.collect()
    gc.disable()
    try:
        answers = await rig.all(*[request(float(n)) for n in range(3)])
        await asyncio.sleep(0)
        rig.server.failure = None
        held = [weakref.ref(each) for each in answers if isinstance(each, Exception)]
        assert len(held) == 3
        answers.clear()
        assert [each() for each in held] == [None] * 3
    finally:
        gc.enable()


async def test_an_answer_that_cannot_be_divided_is_asked_for_by_each() -> None:
    rig = Rig()
    rig.server.most_rows = 1
    answers = await rig.all(request(1.0), request(2.0))
    assert answers == [("1.0", (2.0,)), ("2.0", (4.0,))]
    assert rig.server.rows == [2, 1, 1]


async def test_a_joint_request_has_the_time_of_the_call_that_has_most() -> None:
    rig = Rig()
    latest = Deadline.after(90.0)
    await rig.all(request(1.0), request(2.0, deadline=latest), request(3.0))
    assert [each.deadline for each in rig.server.requests] == [latest]


async def test_a_caller_for_whom_there_is_no_room_does_not_keep_the_others_from_theirs() -> None:
    rig = Rig()
    ample, scarce = HeldBytes(1 << 20), HeldBytes(100)
    shares = [AnswerShare(budget, "caller") for budget in (ample, scarce, ample)]
    answers = await rig.all(*[request(float(n), held=s) for n, s in enumerate(shares)])
    assert isinstance(answers.pop(1), AnswersFull)
    assert answers == [("0.0", (0.0,)), ("2.0", (4.0,))]
    assert [share.bytes for share in shares] == [1000, 0, 1000]
