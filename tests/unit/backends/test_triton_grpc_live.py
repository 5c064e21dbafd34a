"""The gRPC way to a real Triton: what a caller sees through it is what it sees without it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from gateway.config.model_catalog import CatalogModel
from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
from gateway.core.reply import InferenceReply, JsonBody, ServerEvent
from gateway.core.types import DocumentCall, InferenceRequest, ServedModel, WireProtocol
from gateway.endpoints.connectors.open_inference.grpc import GrpcTarget
from gateway.endpoints.connectors.triton.grpc import triton_grpc
from gateway.endpoints.connectors.triton.openai import OpenAiOnTriton
from gateway.endpoints.triton.server.options import TritonOptions
from gateway.endpoints.triton.server.server import TritonServer
from gateway.endpoints.triton.server.states import ServerState
from gateway.protocols.oip.datatypes import DATATYPES, Datatype
from tests.live import wait_until
from tests.models.serving import MODELS, TEST_MODELS, running
from tests.unit.grpc_rig import OPTIONS, PLACEMENT, RunningFront, infer_request, running_front

pytest.importorskip("pytriton", reason="the embedded Triton needs Python 3.11 or 3.12")
pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]

NAMES = (
    "simple",
    "repeat_int32",
    "simple_sequence",
    "slow",
    "scribe",
    "minilm",
    "all_types",
    "waits",
)


WAITS_CONFIG = """
name: "waits"
backend: "python"
input { name: "IN" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
model_transaction_policy { decoupled: true }
instance_group { kind: KIND_CPU }
"""
WAITS = """
import pathlib, threading, time
import numpy as np
import triton_python_backend_utils as pb_utils

def wait(sender):
    out = pb_utils.Tensor("OUT", np.zeros(1, np.int32))
    sender.send(pb_utils.InferenceResponse([out]))
    for _ in range(1000):
        if sender.is_cancelled():
            pathlib.Path(__file__).with_name("cancelled").touch()
            break
        time.sleep(0.01)
    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=wait, args=(request.get_response_sender(),)).start()
"""


@pytest.fixture(scope="module")
def waits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that answers once and then waits until its call is cancelled."""
    model = tmp_path_factory.mktemp("repository") / "waits"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(WAITS_CONFIG)
    (model / "1" / "model.py").write_text(WAITS)
    return model


@pytest.fixture(scope="module")
def server(waits: Path) -> Iterator[TritonServer]:
    if not (MODELS / "minilm" / "1" / "model.onnx").exists():
        pytest.fail("the models are not built: run `make models`")
    options = TritonOptions(repositories=(MODELS, TEST_MODELS, waits.parent), models=NAMES)
    with running(options) as server:
        yield server


def is_up(server: TritonServer) -> bool:
    return server.state is ServerState.UP


@pytest.fixture
def address(server: TritonServer) -> str:
    wait_until(lambda: is_up(server), 60.0)  # it may have crashed in the test before
    return f"127.0.0.1:{server.ports.grpc}"


@pytest.fixture
def unless_triton_crashed(server: TritonServer) -> Callable[..., Awaitable[None]]:
    """Runs a part of a test that cancels streams, once more for each crash of the server.

    Triton 2.51 crashes (SIGSEGV, SIGABRT) in about one of 600 to 10,000 cancelled streams; 2.57
    does not (server#8034).
    """

    async def run(part: Callable[[], Awaitable[None]]) -> None:
        for tries_left in (2, 1, 0):
            restarts = server.restarts
            try:
                return await part()
            except Exception:
                await asyncio.sleep(1.0)  # for the supervisor to see the process end
                crashed = not is_up(server) or server.restarts > restarts
                if not crashed or not tries_left:
                    raise
            await asyncio.to_thread(wait_until, lambda: is_up(server), 60.0)
        raise AssertionError("unreachable")

    return run


@dataclasses.dataclass
class CandidateIndex:
    """The same server, directly and through the front and the connector."""

    direct: Any
    gateway: Any
    front: RunningFront


@asynccontextmanager
async def ways_to(address: str) -> AsyncIterator[CandidateIndex]:
    connector = triton_grpc(GrpcTarget(address))

    async def handle(request: InferenceRequest) -> InferenceReply:
        return InferenceReply(PLACEMENT, await connector.open(request, ServedModel(request.model)))

    async with (
        running_front(handle) as front,
        grpc.aio.insecure_channel(address, options=OPTIONS) as channel,
    ):
        front.services.catalog.models.update(
            {name: CatalogModel(name, "infer", ("gpu",)) for name in NAMES}
        )
        yield CandidateIndex(service_pb2_grpc.GRPCInferenceServiceStub(channel), front.stub, front)
    await connector.aclose()


def tensors(model: str, call: str, **inputs: tuple[str, list[int], bytes]) -> Any:
    message = service_pb2.ModelInferRequest(model_name=model, id=call)
    for name, (datatype, shape, data) in inputs.items():
        message.inputs.add(name=name, datatype=datatype, shape=shape)
        message.raw_input_contents.append(data)
    return message


def repeat(values: list[int], call: str = "r", delay_ms: int = 0, broken: bool = False) -> Any:
    count = len(values)
    delays = 1 if broken else count  # the model refuses other counts by itself
    return tensors(
        "repeat_int32",
        call,
        IN=("INT32", [count], struct.pack(f"<{count}i", *values)),
        DELAY=("UINT32", [delays], struct.pack(f"<{delays}I", *[delay_ms] * delays)),
        WAIT=("UINT32", [1], bytes(4)),
    )


def text(content: bytes, call: str = "t") -> Any:
    data = struct.pack("<I", len(content)) + content
    return tensors("minilm", call, text=("BYTES", [1, 1], data))


def step(value: int, sequence: int, start: bool = False, end: bool = False) -> Any:
    data = struct.pack("<i", value)
    message = tensors("simple_sequence", f"s{sequence}-{value}", INPUT=("INT32", [1, 1], data))
    message.parameters["sequence_id"].int64_param = sequence
    message.parameters["sequence_start"].bool_param = start
    message.parameters["sequence_end"].bool_param = end
    return message


def changed(message: Any, **changes: Any) -> Any:
    found = type(message).FromString(message.SerializeToString())
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def without_input() -> Any:
    message = infer_request(call="less")
    del message.inputs[1], message.raw_input_contents[1]
    return message


def wrong_shape() -> Any:
    return infer_request(values=range(15))


def unknown_output() -> Any:
    message = infer_request()
    message.outputs.add(name="NOPE")
    return message


def of_type(datatype: Datatype) -> Any:
    data = bytes([1, 0] * datatype.size)[: 2 * datatype.size] or struct.pack(
        "<I1sI1s", 1, b"\xff", 1, b"b"
    )
    return tensors("all_types", "", **{f"INPUT_{datatype.name}": (datatype.name, [1, 2], data)})


def typed() -> Any:
    """Elements in `contents` instead of in raw form."""
    message = service_pb2.ModelInferRequest(model_name="all_types")
    for name, field, values in (
        ("BOOL", "bool_contents", [True, False]),
        ("INT8", "int_contents", [-1, 5]),
        ("UINT64", "uint64_contents", [2**64 - 1, 0]),
        ("FP64", "fp64_contents", [0.1, -2.0]),
        ("BYTES", "bytes_contents", [b"\xff", b""]),
    ):
        item = message.inputs.add(name=f"INPUT_{name}", datatype=name, shape=[1, 2])
        getattr(item.contents, field).extend(values)
    return message


UNARY: dict[str, Any] = {
    **{datatype.name: of_type(datatype) for datatype in DATATYPES.values()},
    "typed contents": typed(),
    "answer": infer_request(call="mine"),
    "vector": text(b"a sentence"),
    "unknown version": changed(infer_request(), model_version="9"),
    "missing input": without_input(),
    "wrong shape": wrong_shape(),
    "unknown output": unknown_output(),
    "the model's own failure": text(b"\xff\xfe"),
    "decoupled": repeat([1]),
    "no start": step(1, 77),
}
ANSWERED = {*DATATYPES, "typed contents", "answer", "vector"}


async def outcome(call: Any) -> Any:
    try:
        return (await call).SerializeToString()
    except grpc.aio.AioRpcError as error:
        return error.code(), error.details()


@pytest.mark.parametrize("name", UNARY)
async def test_a_unary_call_ends_as_it_does_directly(address: str, name: str) -> None:
    async with ways_to(address) as ways:
        through = await outcome(ways.gateway.ModelInfer(UNARY[name]))
        assert through == await outcome(ways.direct.ModelInfer(UNARY[name]))
        assert isinstance(through, bytes) == (name in ANSWERED)


async def stream_of(stub: Any, messages: list[Any]) -> list[Any]:
    call = stub.ModelStreamInfer(timeout=10)
    for message in messages:
        await call.write(message)
    await call.done_writing()
    return [event async for event in call]


STREAMS: dict[str, list[Any]] = {
    "one": [infer_request(call="a")],
    "one with an empty end": [infer_request(call="a", triton_enable_empty_final_response=True)],
    "decoupled": [repeat([1, 2, 3])],
    "nothing": [repeat([])],
    "order": [
        tensors("slow", "slow", sleep_ms=("UINT32", [1, 1], struct.pack("<I", 100))),
        infer_request(call="fast"),
    ],
    "a refused call": [infer_request(call="a"), without_input(), infer_request(call="b")],
    "sequence": [step(1, 7, start=True), step(2, 7), step(3, 7, end=True)],
}
ENDED = repeat([1, 2])
ENDED.parameters["triton_enable_empty_final_response"].bool_param = True
STREAMS["decoupled with an empty end"] = [ENDED]


@pytest.mark.parametrize("name", STREAMS)
async def test_a_stream_goes_as_it_does_directly(address: str, name: str) -> None:
    async with ways_to(address) as ways:
        through = await stream_of(ways.gateway, STREAMS[name])
        assert through == await stream_of(ways.direct, STREAMS[name])


async def test_a_failure_of_a_decoupled_model_does_not_end_the_server(address: str) -> None:
    """On one stream of Triton 2.51's own, a call behind such a failure ends the whole server with
    SIGABRT. Here every call has a stream of its own."""
    async with ways_to(address) as ways:
        for _ in range(30):
            failed, good = await stream_of(
                ways.gateway, [repeat([1, 2], "bad", broken=True), infer_request(call="good")]
            )
            assert failed.error_message == "IN and DELAY must have the same number of elements"
            assert failed.infer_response.id == "bad"
            assert good.infer_response.id == "good"
        assert (await ways.direct.ServerLive(service_pb2.ServerLiveRequest())).live


@pytest.mark.parametrize("way", ["leaves", "runs out of time"])
async def test_a_call_that_ends_early_ends_in_the_model_too(
    address: str,
    waits: Path,
    way: str,
    unless_triton_crashed: Callable[..., Awaitable[None]],
) -> None:
    await unless_triton_crashed(lambda: end_early(address, waits / "1" / "cancelled", way))


async def end_early(address: str, noticed: Path, way: str) -> None:
    noticed.unlink(missing_ok=True)  # noqa: ASYNC240
    async with ways_to(address) as ways:
        call = ways.gateway.ModelStreamInfer(timeout=None if way == "leaves" else 1.0)
        await call.write(tensors("waits", "w", IN=("INT32", [1], bytes(4))))
        await call.read()
        if way == "leaves":
            call.cancel()
        else:
            # The client's own clock and the gateway's end this call at the same moment: either an
            # error of the client's, or the gateway's last words and the end of the stream.
            with contextlib.suppress(grpc.aio.AioRpcError):
                while await call.read():  # EOF is false
                    pass
        async with asyncio.timeout(5):  # only a hang-up ends the model's wait
            while not noticed.exists():  # noqa: ASYNC110, ASYNC240 - another process writes it
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("timeout_us", [1, 1_000, 5_000_000])
async def test_tritons_timeout_parameter_is_harmless(address: str, timeout_us: int) -> None:
    """Why the connector may always send it: plain dynamic batching, sequences and decoupled models
    take it and answer, however short it is."""
    async with ways_to(address) as ways:
        for message in (
            infer_request(),
            text(b"x"),
            tensors("slow", "", sleep_ms=("UINT32", [1, 1], struct.pack("<I", 20))),
            step(1, 9, start=True),
            step(2, 9, end=True),
        ):
            timed = changed(message)
            timed.parameters["timeout"].int64_param = timeout_us
            await ways.direct.ModelInfer(timed)
        timed = repeat([1, 2])
        timed.parameters["timeout"].int64_param = timeout_us
        assert len(await stream_of(ways.direct, [timed])) == 2


async def frames_of(
    address: str, operation: OperationSpec, document: Any, streamed: bool
) -> list[Any]:
    connector = OpenAiOnTriton(triton_grpc(GrpcTarget(address)))
    name = "minilm" if operation is EMBEDDINGS else "scribe"
    request = InferenceRequest(
        id="0a0b0c0d-0000-4000-8000-000000000001",
        protocol=WireProtocol.OPENAI,
        tenant="t",
        model=name,
        payload=DocumentCall(operation, document, streamed),
        deadline=Deadline.after(20),
    )
    stream = await connector.open(request, ServedModel(name))
    found = []
    async for frame in stream:
        assert isinstance(frame, JsonBody | ServerEvent)
        found.append(json.loads(frame.body if isinstance(frame, JsonBody) else frame.data))
    await stream.aclose()
    await connector.aclose()
    return found


async def test_openai_calls_are_served_by_real_models(
    address: str, unless_triton_crashed: Callable[..., Awaitable[None]]
) -> None:
    await unless_triton_crashed(lambda: ask_each_operation(address))


async def ask_each_operation(address: str) -> None:
    messages = [{"role": "user", "content": "hi"}]
    (vectors,) = await frames_of(address, EMBEDDINGS, {"input": ["a"] * 40}, False)
    assert len(vectors["data"]) == 40
    assert all(len(item["embedding"]) == 384 for item in vectors["data"])
    ask = {"messages": messages, "max_tokens": 9}
    (answer,) = await frames_of(address, CHAT, ask, False)
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 9
    events = await frames_of(address, CHAT, ask, True)
    pieces = [c["delta"].get("content", "") for e in events for c in e["choices"]]
    assert "".join(pieces) == answer["choices"][0]["message"]["content"]
    assert len(events) > 9
    stopping = {"messages": messages, "stop": ["toy"]}
    (cut,) = await frames_of(address, CHAT, stopping, False)
    assert cut["choices"][0]["message"]["content"] == "[scribe, a "
    events = await frames_of(address, RESPONSES, {"input": "hi"}, True)
    assert events[-1]["type"] == "response.completed"
