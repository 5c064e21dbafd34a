"""What Triton's own Python clients do, unmodified, against the gateway (O6)."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.grpc.aio as grpcaio
import tritonclient.http as httpclient
import tritonclient.http.aio as httpaio
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from tests.laps import within
from tests.scenarios.both_ways import BothWays
from tests.scenarios.waiting import Waits

pytestmark = pytest.mark.anyio

Array = npt.NDArray[Any]
PATIENCE_S = 20.0
LEFT = np.arange(16, dtype=np.int32)[None]
RIGHT = np.ones((1, 16), dtype=np.int32)
VALUES = [11, 7, 5, 3, 2, 0, 1]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients read these for 127.0.0.1, too."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def http_address(ways: BothWays) -> str:
    return ways.through.http_url.removeprefix("http://")


@pytest.fixture
def grpc_address(ways: BothWays) -> str:
    return ways.through.grpc_target


@pytest.fixture
def over_http(http_address: str) -> Iterator[Any]:
    with httpclient.InferenceServerClient(http_address, concurrency=4) as client:
        yield client


@pytest.fixture
def over_grpc(grpc_address: str) -> Iterator[Any]:
    with grpcclient.InferenceServerClient(grpc_address) as client:
        yield client


@pytest.fixture(params=["http", "grpc"])
def either(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """A client and the module that it is of."""
    if request.param == "http":
        return request.getfixturevalue("over_http"), httpclient
    return request.getfixturevalue("over_grpc"), grpcclient


def given(kind: Any, name: str, values: Array, datatype: str = "INT32", **how: Any) -> Any:
    tensor = kind.InferInput(name, list(values.shape), datatype)
    tensor.set_data_from_numpy(values, **how)
    return tensor


def pair(kind: Any, left: Array = LEFT, datatype: str = "INT32", **how: Any) -> list[Any]:
    right = RIGHT if datatype == "INT32" else texts(["1"] * 16)
    return [given(kind, "INPUT0", left, datatype, **how),
            given(kind, "INPUT1", right, datatype, **how)]  # fmt: skip


def texts(values: list[str]) -> Array:
    return np.array([[value.encode() for value in values]], dtype=np.object_)


def check(result: Any) -> None:
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), LEFT + RIGHT)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), LEFT - RIGHT)


def test_sum_and_difference(either: tuple[Any, Any]) -> None:
    client, kind = either
    check(client.infer("simple", pair(kind), request_id="mine"))
    only = client.infer("simple", pair(kind), outputs=[kind.InferRequestedOutput("OUTPUT1")])
    assert only.as_numpy("OUTPUT0") is None
    np.testing.assert_array_equal(only.as_numpy("OUTPUT1"), LEFT - RIGHT)
    check(client.infer("simple", pair(kind), model_version="1"))


@pytest.mark.parametrize("sent", [True, False])
@pytest.mark.parametrize("wanted", [True, False])
def test_binary_data_both_ways(over_http: Any, sent: bool, wanted: bool) -> None:
    outputs = [
        httpclient.InferRequestedOutput(name, binary_data=wanted) for name in ("OUTPUT0", "OUTPUT1")
    ]
    check(over_http.infer("simple", pair(httpclient, binary_data=sent), outputs=outputs))


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_compression_over_http(over_http: Any, algorithm: str) -> None:
    result = over_http.infer(
        "simple",
        pair(httpclient),
        request_compression_algorithm=algorithm,
        response_compression_algorithm=algorithm,
    )
    check(result)


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_compression_over_grpc(over_grpc: Any, algorithm: str) -> None:
    check(over_grpc.infer("simple", pair(grpcclient), compression_algorithm=algorithm))


def test_calls_in_the_background_over_http(over_http: Any) -> None:
    calls = [over_http.async_infer("simple", pair(httpclient)) for _ in range(8)]
    for call in calls:
        check(call.get_result(timeout=PATIENCE_S))


def test_callbacks_over_grpc(over_grpc: Any) -> None:
    arrived: queue.Queue[tuple[Any, Any]] = queue.Queue()
    for _ in range(8):
        over_grpc.async_infer(
            "simple", pair(grpcclient), lambda result, error: arrived.put((result, error))
        )
    for _ in range(8):
        result, error = arrived.get(timeout=PATIENCE_S)
        assert error is None
        check(result)


@pytest.mark.parametrize("module", [httpaio, grpcaio], ids=["http", "grpc"])
async def test_calls_in_an_event_loop(http_address: str, grpc_address: str, module: Any) -> None:
    kind = httpclient if module is httpaio else grpcclient
    address = http_address if module is httpaio else grpc_address

    async with module.InferenceServerClient(address) as client:
        assert await client.is_model_ready("simple")
        for result in await asyncio.gather(*(client.infer("simple", pair(kind)) for _ in range(8))):
            check(result)


def test_text(either: tuple[Any, Any]) -> None:
    client, kind = either
    inputs = pair(kind, texts([str(n) for n in range(16)]), "BYTES")
    result = client.infer("simple_string", inputs)
    assert [int(v) for v in result.as_numpy("OUTPUT0")[0]] == [n + 1 for n in range(16)]
    odd = texts(["", "ü", "a\x00b", "😀"])
    echoed = client.infer("simple_identity", [given(kind, "INPUT0", odd, "BYTES")])
    assert (echoed.as_numpy("OUTPUT0") == odd).all()


def test_inputs_are_used_again_with_other_values(either: tuple[Any, Any]) -> None:
    client, kind = either
    inputs = pair(kind)
    for offset in range(3):
        inputs[0].set_data_from_numpy(LEFT + offset)
        result = client.infer("simple", inputs)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), LEFT + offset + RIGHT)


def test_classes(either: tuple[Any, Any]) -> None:
    client, kind = either
    scores = np.array([[0.1, 0.5, 0.25, 0.3]], dtype=np.float32)
    wanted = kind.InferRequestedOutput("CLASSES", class_count=2)
    result = client.infer("labelled", [given(kind, "SCORES", scores, "FP32")], outputs=[wanted])
    assert result.as_numpy("CLASSES")[0].tolist() == [
        b"0.500000:1:scratched",
        b"0.300000:3:missing",
    ]


def test_health_metadata_configuration_and_statistics(either: tuple[Any, Any]) -> None:
    client, kind = either
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("simple", "1")
    assert not client.is_model_ready("simple", "9")
    assert not client.is_model_ready("nobody")
    as_json = {"as_json": True} if kind is grpcclient else {}
    assert client.get_server_metadata(**as_json)["name"] == "triton"
    metadata = client.get_model_metadata("simple", **as_json)
    assert [item["name"] for item in metadata["inputs"]] == ["INPUT0", "INPUT1"]
    config = client.get_model_config("simple", **as_json)
    assert config.get("config", config)["max_batch_size"] == 8
    (stats,) = client.get_inference_statistics("simple", **as_json)["model_stats"]
    assert (stats["name"], stats["version"]) == ("simple", "1")
    index = client.get_model_repository_index(**as_json)
    models = index["models"] if kind is grpcclient else index
    assert {"name": "versioned", "version": "2", "state": "READY"} in models
    with pytest.raises(InferenceServerException, match="Request for unknown model"):
        client.get_model_metadata("wrong_model_name", **as_json)


def sequence_inputs(kind: Any, value: int) -> list[Any]:
    return [given(kind, "INPUT", np.array([[value]], dtype=np.int32))]


def marks(at: int, count: int) -> dict[str, bool]:
    return {"sequence_start": at == 0, "sequence_end": at == count - 1}


@pytest.mark.parametrize("name", [1001, "a-name"])
def test_a_sequence_call_by_call(either: tuple[Any, Any], name: int | str) -> None:
    client, kind = either
    found = [
        client.infer(
            "simple_sequence",
            sequence_inputs(kind, value),
            sequence_id=name,
            **marks(at, len(VALUES)),
        )
        for at, value in enumerate(VALUES)
    ]
    assert [int(r.as_numpy("OUTPUT")[0, 0]) for r in found] == [VALUES[0] + 1, *VALUES[1:]]


def test_two_sequences_in_one_stream(over_grpc: Any) -> None:
    arrived: queue.Queue[tuple[Any, Any]] = queue.Queue()
    over_grpc.start_stream(lambda result, error: arrived.put((result, error)))
    for at, value in enumerate(VALUES):
        for name in (1002, 1003):
            over_grpc.async_stream_infer(
                "simple_sequence",
                sequence_inputs(grpcclient, value),
                request_id=f"{name}",
                sequence_id=name,
                **marks(at, len(VALUES)),
            )
    found: dict[str, list[int]] = {"1002": [], "1003": []}
    for _ in range(2 * len(VALUES)):
        result, error = arrived.get(timeout=PATIENCE_S)
        assert error is None
        found[result.get_response().id].append(int(result.as_numpy("OUTPUT")[0, 0]))
    over_grpc.stop_stream()
    assert found["1002"] == found["1003"] == [VALUES[0] + 1, *VALUES[1:]]


async def test_a_sequence_in_a_stream_of_an_event_loop(grpc_address: str) -> None:
    async def requests() -> AsyncIterator[dict[str, Any]]:
        for at, value in enumerate(VALUES):
            yield {
                "model_name": "simple_sequence",
                "inputs": sequence_inputs(grpcclient, value),
                "sequence_id": 1004,
                **marks(at, len(VALUES)),
            }

    found = []
    async with grpcaio.InferenceServerClient(grpc_address) as client:
        async for result, error in client.stream_infer(requests()):
            assert error is None
            found.append(int(result.as_numpy("OUTPUT")[0, 0]))
    assert found == [VALUES[0] + 1, *VALUES[1:]]


def test_many_answers_to_one_call(over_grpc: Any) -> None:
    count = 5
    inputs = [
        given(grpcclient, "IN", np.arange(count, dtype=np.int32)),
        given(grpcclient, "DELAY", np.ones(count, dtype=np.uint32), "UINT32"),
        given(grpcclient, "WAIT", np.zeros(1, dtype=np.uint32), "UINT32"),
    ]
    arrived: queue.Queue[tuple[Any, Any]] = queue.Queue()
    over_grpc.start_stream(lambda result, error: arrived.put((result, error)))
    over_grpc.async_stream_infer("repeat_int32", inputs, enable_empty_final_response=True)
    found = []
    final = False
    while not final:
        result, error = arrived.get(timeout=PATIENCE_S)
        assert error is None
        response = result.get_response()
        final = response.parameters["triton_final_response"].bool_param
        if response.outputs:
            found.append(int(result.as_numpy("OUT")[0]))
    over_grpc.stop_stream()
    assert found == list(range(count))


def test_elements_in_typed_contents(grpc_address: str) -> None:
    request = service_pb2.ModelInferRequest(model_name="simple_int8")
    for name in ("INPUT0", "INPUT1"):
        tensor = request.inputs.add(name=name, datatype="INT8", shape=[1, 16])
        tensor.contents.int_contents[:] = range(16)
    with grpcclient.grpc.insecure_channel(grpc_address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        answer = stub.ModelInfer(request, timeout=PATIENCE_S)
    assert answer.raw_output_contents[0] == bytes(range(0, 32, 2))


def test_keepalive_and_channel_arguments(grpc_address: str) -> None:
    kept = grpcclient.KeepAliveOptions(
        keepalive_time_ms=2**31 - 1,
        keepalive_timeout_ms=20_000,
        keepalive_permit_without_calls=False,
        http2_max_pings_without_data=2,
    )
    with grpcclient.InferenceServerClient(grpc_address, keepalive_options=kept) as client:
        check(client.infer("simple", pair(grpcclient)))
    arguments = [("grpc.lb_policy_name", "pick_first"), ("grpc.enable_http_proxy", 0)]
    with grpcclient.InferenceServerClient(grpc_address, channel_args=arguments) as client:
        check(client.infer("simple", pair(grpcclient)))


def waiting(kind: Any) -> list[Any]:
    return [given(kind, "ASK", np.zeros(1, dtype=np.int32))]


def test_a_clients_timeout_over_grpc(over_grpc: Any, waits: Waits) -> None:
    for lap in within(0.6):
        with pytest.raises(InferenceServerException, match="Deadline Exceeded"):
            over_grpc.infer("waits", waiting(grpcclient), client_timeout=0.3)
        lap.ends()


def test_tritons_timeout_parameter_is_a_latency_budget(
    either: tuple[Any, Any], waits: Waits
) -> None:
    """Triton itself takes it for a wish about its queue."""
    client, kind = either
    for lap in within(0.6):
        with pytest.raises(InferenceServerException, match="latency budget") as late:
            client.infer("waits", waiting(kind), timeout=300_000)
        lap.ends()
        assert lap.took_s is not None
        assert lap.took_s >= 0.3
        assert late.value.status() in ("504", "StatusCode.DEADLINE_EXCEEDED")


def test_a_call_that_its_caller_cancels(over_grpc: Any, waits: Waits) -> None:
    arrived: queue.Queue[tuple[Any, Any]] = queue.Queue()
    call = over_grpc.async_infer(
        "waits", waiting(grpcclient), lambda result, error: arrived.put((result, error))
    )
    call.cancel()
    _, error = arrived.get(timeout=PATIENCE_S)
    assert "cancelled" in str(error).lower()


CONTROL: dict[str, Callable[[Any], object]] = {
    "load": lambda client: client.load_model("simple"),
    "unload": lambda client: client.unload_model("simple"),
    "register memory": lambda client: client.register_system_shared_memory("a", "/a", 64),
    "unregister memory": lambda client: client.unregister_system_shared_memory(),
    "memory status": lambda client: client.get_system_shared_memory_status(),
    "register GPU memory": lambda client: client.register_cuda_shared_memory("a", b"YQ==", 0, 64),
    "unregister GPU memory": lambda client: client.unregister_cuda_shared_memory(),
    "GPU memory status": lambda client: client.get_cuda_shared_memory_status(),
    "log settings": lambda client: client.get_log_settings(),
    "change log settings": lambda client: client.update_log_settings({"log_verbose_level": 1}),
    "trace settings": lambda client: client.get_trace_settings("simple"),
    "change trace settings": lambda client: client.update_trace_settings("simple", {"a": "b"}),
}


@pytest.mark.parametrize("name", CONTROL)
def test_control_of_the_server_is_refused_in_clear_words(
    either: tuple[Any, Any], name: str
) -> None:
    client, _kind = either
    with pytest.raises(InferenceServerException, match="not offered by this gateway") as refusal:
        CONTROL[name](client)
    assert refusal.value.status() in ("404", "400", "StatusCode.UNIMPLEMENTED")


def test_tensors_in_shared_memory_are_refused_in_clear_words(either: tuple[Any, Any]) -> None:
    client, kind = either
    inputs = pair(kind)
    inputs[0].set_shared_memory("region", 64)
    with pytest.raises(InferenceServerException, match="shared memory is not offered"):
        client.infer("simple", inputs)
    output = kind.InferRequestedOutput("OUTPUT0")
    output.set_shared_memory("region", 64)
    with pytest.raises(InferenceServerException, match="shared memory is not offered"):
        client.infer("simple", pair(kind), outputs=[output])
