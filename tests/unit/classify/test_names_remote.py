"""Whatever comes back from the endpoint that reads names, it is the answer or a NoScan (C1)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from gateway.classify import NoScan, ScanFailed, ScanLate
from gateway.classify.names.engines import remote
from gateway.classify.names.engines.remote import MOST_WINDOWS, RemoteModel
from gateway.classify.names.model.features import COLUMNS
from gateway.classify.names.model.labels import LABELS
from gateway.core.deadline import Deadline
from gateway.core.errors import DeadlineExceeded, UpstreamBusy, UpstreamFailed, UpstreamUnreachable
from gateway.core.reply import (
    Frame,
    GrpcMessage,
    JsonBody,
    OneFrame,
    Receiver,
    ReplyStream,
    RestBody,
    deliver_each,
)
from gateway.core.types import ONPREM_ONLY, InferenceRequest, ServedModel, Tensor, TensorCall
from gateway.protocols.oip.grpc import encode_response
from gateway.protocols.oip.reply import TensorReply

MARKER = "MARKER-2b7c-SECRET"
ROWS = np.ones((2, 32, COLUMNS), dtype=np.int32)
SHAPE = (2, 32, len(LABELS))
Answer = Callable[[tuple[int, ...]], Frame]


def answer(
    shape: tuple[int, ...],
    values: npt.NDArray[np.float32] | None = None,
    name: str = "logits",
    datatype: str = "FP32",
) -> GrpcMessage:
    if values is None:
        values = np.zeros(shape, dtype=np.float32)
    output = Tensor(name, datatype, shape, values.tobytes())
    return encode_response(TensorReply("names", "1", (output,)))


def good(asked: tuple[int, ...]) -> Frame:
    return answer((*asked[:2], len(LABELS)))


class Door:
    """Answers as it is told, and remembers what it was asked."""

    def __init__(self, does: Answer | BaseException) -> None:
        self._does = does
        self.calls: list[InferenceRequest] = []
        self.closed = 0

    async def infer(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        self.calls.append(request)
        if isinstance(self._does, BaseException):
            raise self._does
        assert isinstance(request.payload, TensorCall)
        return Closing(self, self._does(request.payload.inputs[0].shape))


class Closing:
    def __init__(self, door: Door, frame: Frame) -> None:
        self._of, self._frames = door, OneFrame(frame)

    def __aiter__(self) -> Closing:
        return self

    async def __anext__(self) -> Frame:
        return await anext(self._frames)

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        await deliver_each(self, receiver)

    async def aclose(self) -> None:
        self._of.closed += 1
        await self._frames.aclose()


class Empty(Door):
    async def infer(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        frames = OneFrame(RestBody(b""))
        await frames.aclose()
        return frames


class Silent(Door):
    async def infer(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        await asyncio.Event().wait()
        raise AssertionError("it was never set")


def asked(door: Door, rows: npt.NDArray[np.int32] = ROWS, budget_s: float = 5.0) -> object:
    async def scenario() -> object:
        loop = asyncio.get_running_loop()
        model = RemoteModel(door, ServedModel("names"), Deadline.after(budget_s), loop)
        return await asyncio.to_thread(model, rows)

    return asyncio.run(scenario())


def failure(door: Door, budget_s: float = 5.0) -> NoScan:
    with pytest.raises(NoScan) as caught:
        asked(door, budget_s=budget_s)
    return caught.value


def test_an_answer_that_fits_is_taken_and_its_stream_closed() -> None:
    door = Door(good)
    found = asked(door)
    assert isinstance(found, np.ndarray)
    assert found.shape == SHAPE
    assert door.closed == 1
    assert door.calls[0].zones == ONPREM_ONLY


def test_many_windows_are_asked_in_parts_and_come_back_in_order() -> None:
    rows = np.ones((2 * MOST_WINDOWS + 1, 32, COLUMNS), dtype=np.int32)
    rows[:, 0, 0] = range(len(rows))

    class Echo(Door):
        async def infer(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
            self.calls.append(request)
            assert isinstance(request.payload, TensorCall)
            sent = request.payload.inputs[0]
            values = np.frombuffer(sent.data, "<i4").reshape(sent.shape)[..., : len(LABELS)]
            return OneFrame(answer(values.shape, values.astype(np.float32)))

    door = Echo(good)
    found = asked(door, rows)
    assert isinstance(found, np.ndarray)
    assert found[:, 0, 0].tolist() == list(range(len(rows)))
    sizes = [c.payload.inputs[0].shape[0] for c in door.calls if isinstance(c.payload, TensorCall)]
    assert sizes == [MOST_WINDOWS, MOST_WINDOWS, 1]


@pytest.mark.parametrize(
    "does",
    [
        lambda _: answer((2, 31, len(LABELS))),
        lambda _: answer((1, 32, len(LABELS))),
        lambda _: answer((2, 32, len(LABELS) - 1)),
        lambda _: answer((2, 32 * len(LABELS))),
        lambda _: answer(SHAPE, name="probabilities"),
        lambda _: answer(SHAPE, np.zeros(SHAPE, dtype=np.int32), datatype="INT32"),
        lambda _: answer(SHAPE, np.full(SHAPE, np.nan, dtype=np.float32)),
        lambda _: answer(SHAPE, np.full(SHAPE, np.inf, dtype=np.float32)),
        lambda _: GrpcMessage(b""),
        lambda _: GrpcMessage(MARKER.encode()),
        lambda _: RestBody(b"{}"),
        lambda _: RestBody(MARKER.encode()),
        lambda _: JsonBody(b"{}"),
    ],
)
def test_an_answer_that_does_not_fit_is_a_failed_scan(does: Answer) -> None:
    found = failure(Door(does))
    assert isinstance(found, ScanFailed)
    assert MARKER not in str(found)
    assert found.__cause__ is None


@pytest.mark.parametrize(
    "exc",
    [
        UpstreamUnreachable(MARKER),
        UpstreamFailed(MARKER),
        UpstreamBusy(MARKER),
        RuntimeError(MARKER),
        OSError(MARKER),
    ],
)
def test_an_endpoint_that_fails_is_a_failed_scan_without_its_words(exc: BaseException) -> None:
    found = failure(Door(exc))
    assert isinstance(found, ScanFailed)
    assert MARKER not in str(found)


def test_an_answer_without_frames_is_a_failed_scan() -> None:
    assert isinstance(failure(Empty(good)), ScanFailed)


def test_an_endpoint_whose_time_is_over_is_late() -> None:
    assert isinstance(failure(Door(DeadlineExceeded("over"))), ScanLate)


def test_an_endpoint_that_says_nothing_is_late_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_GRACE_S", 30.0)  # by the deadline, and not by the grace after it
    started_s = time.monotonic()
    assert isinstance(failure(Silent(good), budget_s=0.2), ScanLate)
    assert time.monotonic() - started_s < 5


def test_whoever_leaves_frees_the_thread() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        model = RemoteModel(Silent(good), ServedModel("names"), Deadline.after(60.0), loop)
        thread = asyncio.create_task(asyncio.to_thread(model, ROWS))
        await asyncio.sleep(0.05)
        model.leave()
        async with asyncio.timeout(5.0):
            with pytest.raises(ScanFailed):
                await thread
            with pytest.raises(ScanFailed):  # and it takes no more work
                await asyncio.to_thread(model, ROWS)

    asyncio.run(scenario())
