"""The simulated cloud as the unmodified tritonclient meets it, over HTTP and gRPC."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
import tritonclient.grpc.aio as triton_grpc
import tritonclient.http.aio as triton_http
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from gateway.demo.cloud.process import SimulatedCloud

pytestmark = pytest.mark.anyio
MODELS = Path(__file__).parents[3] / "models"
LEFT = np.arange(16, dtype=np.int32).reshape(1, 16)
RIGHT = np.full((1, 16), 2, dtype=np.int32)


@pytest.fixture(scope="module")
async def cloud(anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud.start(
        MODELS, round_trip_median_ms=1.0, service_ms=0, between_tokens_ms=0.1
    ) as cloud:
        yield cloud


@pytest.fixture
async def rest(cloud: SimulatedCloud) -> AsyncIterator[Any]:
    async with triton_http.InferenceServerClient(cloud.http_url.removeprefix("http://")) as client:
        yield client


@pytest.fixture
async def rpc(cloud: SimulatedCloud) -> AsyncIterator[Any]:
    async with triton_grpc.InferenceServerClient(cloud.grpc_target) as client:
        yield client


def add_inputs(module: Any, **encoding: bool) -> list[Any]:
    inputs = [module.InferInput(name, [1, 16], "INT32") for name in ("INPUT0", "INPUT1")]
    inputs[0].set_data_from_numpy(LEFT, **encoding)
    inputs[1].set_data_from_numpy(RIGHT, **encoding)
    return inputs


@pytest.mark.parametrize("protocol", ["rest", "rpc"])
async def test_health_and_metadata(rest: Any, rpc: Any, protocol: str) -> None:
    client = {"rest": rest, "rpc": rpc}[protocol]
    assert await client.is_server_live()
    assert await client.is_server_ready()
    assert await client.is_model_ready("simple")
    assert await client.is_model_ready("simple", "1")
    assert not await client.is_model_ready("nobody")
    as_json = {"as_json": True} if protocol == "rpc" else {}
    server = await client.get_server_metadata(**as_json)
    assert server["name"] == "triton"
    model = await client.get_model_metadata("simple", **as_json)
    assert model["inputs"][0]["name"] == "INPUT0"
    assert [int(size) for size in model["inputs"][0]["shape"]] == [-1, 16]
    config = await client.get_model_config("simple", **as_json)
    assert config.get("config", config)["max_batch_size"] == 8


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
async def test_rest_infers_in_json_and_binary(
    rest: Any, binary_in: bool, binary_out: bool, compression: str | None
) -> None:
    result = await rest.infer(
        "simple",
        add_inputs(triton_http, binary_data=binary_in),
        request_id="r1",
        outputs=[
            triton_http.InferRequestedOutput(name, binary_data=binary_out)
            for name in ("OUTPUT1", "OUTPUT0")
        ],
        request_compression_algorithm=compression,
    )
    assert (result.as_numpy("OUTPUT0") == LEFT + RIGHT).all()
    assert (result.as_numpy("OUTPUT1") == LEFT - RIGHT).all()
    assert result.get_response()["id"] == "r1"


@pytest.mark.parametrize("compression", [None, "gzip"])
async def test_grpc_infers(rpc: Any, compression: str | None) -> None:
    result = await rpc.infer(
        "simple", add_inputs(triton_grpc), request_id="r1", compression_algorithm=compression
    )
    assert (result.as_numpy("OUTPUT0") == LEFT + RIGHT).all()
    assert result.get_response().id == "r1"


async def test_a_version_in_the_path_is_served(cloud: SimulatedCloud) -> None:
    body = {
        "inputs": [
            {"name": "INPUT0", "shape": [1, 16], "datatype": "INT32", "data": LEFT.tolist()},
            {"name": "INPUT1", "shape": [1, 16], "datatype": "INT32", "data": RIGHT.tolist()},
        ]
    }
    async with httpx.AsyncClient(trust_env=False, base_url=cloud.http_url) as client:
        first = await client.post("/v2/models/simple/versions/1/infer", json=body)
        second = await client.post("/v2/models/simple/versions/2/infer", json=body)
        live = await client.get("/v2/health/live")
    assert first.json()["outputs"][0]["data"] == (LEFT + RIGHT).ravel().tolist()
    assert first.headers["x-simulated-cloud"] == "1"
    assert second.status_code == 404
    assert live.json() == {"live": True}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"datatype": "FP32"}, "data-type"),
        ({"shape": [1, 8]}, "8"),
        ({"shape": [16]}, "elements|shape"),
        ({"name": "OTHER"}, "unexpected inference input"),
        ({"data": ["x"] * 16}, "not INT32"),
        ({"data": None, "parameters": {"binary_data_size": 64}}, "beyond the body"),
    ],
)
async def test_bad_tensors_are_told_what_is_wrong(
    cloud: SimulatedCloud, change: dict[str, Any], complaint: str
) -> None:
    tensor = {"name": "INPUT0", "shape": [1, 16], "datatype": "INT32", "data": LEFT.tolist()}
    other = tensor | {"name": "INPUT1"}
    async with httpx.AsyncClient(trust_env=False, base_url=cloud.http_url) as client:
        answer = await client.post(
            "/v2/models/simple/infer", json={"inputs": [tensor | change, other]}
        )
    assert answer.status_code == 400
    assert any(word in answer.json()["error"] for word in complaint.split("|"))


async def test_unknown_models_have_tritons_words(rest: Any, rpc: Any) -> None:
    for client, module in ((rest, triton_http), (rpc, triton_grpc)):
        with pytest.raises(InferenceServerException, match="Request for unknown model"):
            await client.infer("nobody", add_inputs(module))


async def test_what_is_decoupled_refuses_calls_that_have_one_answer(rest: Any, rpc: Any) -> None:
    for client, module in ((rest, triton_http), (rpc, triton_grpc)):
        prompt = module.InferInput("text_input", [1], "BYTES")
        prompt.set_data_from_numpy(np.array([b"hello"], dtype=object))
        with pytest.raises(InferenceServerException, match="decoupled"):
            await client.infer("scribe", [prompt])


def prompts(*texts: str, stream: bool) -> AsyncIterator[dict[str, Any]]:
    async def requests() -> AsyncIterator[dict[str, Any]]:
        for text in texts:
            prompt = triton_grpc.InferInput("text_input", [1], "BYTES")
            prompt.set_data_from_numpy(np.array([text.encode()], dtype=object))
            streamed = triton_grpc.InferInput("stream", [1], "BOOL")
            streamed.set_data_from_numpy(np.array([stream]))
            limit = triton_grpc.InferInput("max_tokens", [1], "INT32")
            limit.set_data_from_numpy(np.array([5], dtype=np.int32))
            yield {
                "model_name": "scribe",
                "inputs": [prompt, streamed, limit],
                "request_id": text,
            }

    return requests()


async def test_scribe_streams_a_piece_a_response(rpc: Any) -> None:
    texts: dict[str, list[str]] = {"one": [], "two": []}
    async for result, error in rpc.stream_infer(prompts("one", "two", stream=True)):
        assert error is None
        response = result.get_response()
        assert not response.parameters["triton_final_response"].bool_param
        texts[response.id].append(result.as_numpy("text_output")[0].decode())
    assert [len(pieces) for pieces in texts.values()] == [5, 5]
    whole = [
        result.as_numpy("text_output")[0].decode()
        async for result, _ in rpc.stream_infer(prompts("one", stream=False))
    ]
    assert whole == ["".join(texts["one"])]


async def test_an_empty_final_response_comes_when_asked_for(cloud: SimulatedCloud) -> None:
    request = service_pb2.ModelInferRequest(model_name="scribe", id="last")
    request.inputs.add(name="text_input", datatype="BYTES", shape=[1])
    request.inputs[0].contents.bytes_contents.append(b"hello")
    request.parameters["triton_enable_empty_final_response"].bool_param = True
    async with grpc.aio.insecure_channel(cloud.grpc_target) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        answers = [answer.infer_response async for answer in stub.ModelStreamInfer(iter([request]))]
    finals = [answer.parameters["triton_final_response"].bool_param for answer in answers]
    assert finals == [False, True]
    assert answers[1].id == "last"
    assert not answers[1].outputs


async def test_a_failed_call_does_not_end_the_stream(rpc: Any) -> None:
    async def requests() -> AsyncIterator[dict[str, Any]]:
        yield {"model_name": "nobody", "inputs": add_inputs(triton_grpc)}
        yield {"model_name": "simple", "inputs": add_inputs(triton_grpc)}

    (_, failed), (served, error) = [pair async for pair in rpc.stream_infer(requests())]
    assert "Request for unknown model" in str(failed)
    assert error is None
    assert (served.as_numpy("OUTPUT0") == LEFT + RIGHT).all()


async def test_grpc_answers_are_labelled_and_unknown_methods_recorded(
    cloud: SimulatedCloud,
) -> None:
    async with grpc.aio.insecure_channel(
        cloud.grpc_target, options=[("grpc.enable_http_proxy", 0)]
    ) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ServerLive", None, None)(b"")
        assert await call == b"\x08\x01"
        assert ("x-simulated-cloud", "1") in list(await call.trailing_metadata())
        load = channel.unary_unary(
            "/inference.GRPCInferenceService/RepositoryModelLoad", None, None
        )
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await load(b"smuggled-marker")
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert {hit.where for hit in await cloud.search(["smuggled-marker"])} >= {"message"}


BUILT = pytest.mark.skipif(
    not (MODELS / "fraud_score" / "1" / "model.onnx").exists(), reason="the models are not built"
)


@BUILT
@pytest.mark.parametrize(
    ("model", "name", "array", "datatype", "output", "shape"),
    [
        ("fraud_score", "features", np.ones((2, 12), np.float32), "FP32", "score", (2, 1)),
        (
            "image_inspection",
            "image",
            np.zeros((1, 64, 64, 1), np.uint8),
            "UINT8",
            "defect_probability",
            (1, 1),
        ),
    ],
)
async def test_the_models_are_those_of_the_premises(
    rest: Any, rpc: Any, model: str, name: str, array: Any, datatype: str, output: str, shape: Any
) -> None:
    answers = []
    for client, module in ((rest, triton_http), (rpc, triton_grpc)):
        tensor = module.InferInput(name, array.shape, datatype)
        tensor.set_data_from_numpy(array)
        answers.append((await client.infer(model, [tensor])).as_numpy(output))
    assert answers[0].shape == shape
    assert (answers[0] == answers[1]).all()
    assert ((answers[0] >= 0) & (answers[0] <= 1)).all()


async def test_many_calls_at_once_are_all_served(rpc: Any) -> None:
    results = await asyncio.gather(
        *(rpc.infer("simple", add_inputs(triton_grpc)) for _ in range(50))
    )
    assert all((result.as_numpy("OUTPUT0") == LEFT + RIGHT).all() for result in results)
