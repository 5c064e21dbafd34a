"""The Open Inference Protocol over REST: calls. Questions are in `test_kserve_inspection`."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.config import KeySettings
from gateway.core.errors import (
    DeadlineUnmeetable,
    GatewayError,
    OnpremUnavailable,
    Saturated,
    UpstreamFailed,
    UpstreamRefused,
)
from gateway.core.reply import JsonBody, RestBody
from gateway.core.types import ONPREM_ONLY, Tensor, TensorCall, WireProtocol
from gateway.protocols.http.exchange import HttpExchange
from gateway.protocols.oip import grpc
from gateway.protocols.oip.datatypes import MAX_TENSORS
from gateway.protocols.oip.reply import TensorReply
from gateway.server.http import App
from gateway.server.kserve import front as kserve

from .http_rig import ANSWER, Answer, Metadata, Pipeline, ask, services, serving

pytestmark = pytest.mark.anyio
LENGTH = "inference-header-content-length"
INFER = "/v2/models/simple/infer"
NO_INPUTS = b'{"inputs":[]}'


@dataclass
class Rig:
    port: int
    pipeline: Pipeline
    metadata: Metadata

    async def infer(
        self,
        body: bytes = NO_INPUTS,
        headers: Sequence[tuple[str, str]] = (),
        path: str = INFER,
    ) -> Answer:
        return await ask(self.port, "POST", path, body, headers)

    @property
    def call(self) -> TensorCall:
        """The payload of the one call that came."""
        (request,) = self.pipeline.seen
        assert isinstance(request.payload, TensorCall)
        return request.payload


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    found = Rig(0, Pipeline(), Metadata())
    keys = {"k": KeySettings(key="sesame", tenant="ward", models=("simple",))}
    given = services(found.pipeline, found.metadata)
    guarded = services(found.pipeline, found.metadata, keys)
    app, keyed = (App(s, [kserve.front(s)]) for s in (given, guarded))

    async def either(exchange: HttpExchange) -> None:
        asked = exchange.headers.get("x-rig") == "keyed"
        await (keyed if asked else app)(exchange)

    async with serving(either) as found.port:
        yield found


JSON_CALL = {
    "id": "7",
    "parameters": {"sequence_id": 3, "note": "kept"},
    "inputs": [{"name": "A", "datatype": "INT32", "shape": [1, 2], "data": [[1, 2]]}],
    "outputs": [{"name": "O", "parameters": {"binary_data": False}}],
}
RAW = struct.pack("<2i", 1, 2)


async def test_tensors_come_as_json(rig: Rig) -> None:
    answer = await rig.infer(json.dumps(JSON_CALL).encode())
    assert answer.status == 200
    (tensor,) = rig.call.inputs
    assert (tensor.name, tensor.datatype, tensor.shape, tensor.data) == ("A", "INT32", (1, 2), RAW)
    assert (rig.call.id, rig.call.parameters) == ("7", {"sequence_id": 3, "note": "kept"})
    assert not rig.call.streamed


async def test_tensors_come_as_raw_bytes_behind_the_json(rig: Rig) -> None:
    tensor = {"name": "A", "datatype": "INT32", "shape": [2], "parameters": {"binary_data_size": 8}}
    text = json.dumps({"inputs": [tensor]}).encode()
    answer = await rig.infer(
        text + RAW,
        [(LENGTH, str(len(text))), ("content-type", "application/octet-stream")],
    )
    assert answer.status == 200
    assert [tensor.data for tensor in rig.call.inputs] == [RAW]


@pytest.mark.parametrize("size", [1, 40_000, 400_000])
async def test_tensors_of_any_size_are_read(rig: Rig, size: int) -> None:
    tensor = {"name": "A", "datatype": "UINT8", "shape": [size], "data": [7] * size}
    assert (await rig.infer(json.dumps({"inputs": [tensor]}).encode())).status == 200
    assert rig.call.inputs[0].data == bytes([7]) * size


@pytest.mark.parametrize("kind", ["inputs", "outputs"])
async def test_a_call_has_so_many_tensors_and_no_more(rig: Rig, kind: str) -> None:
    call = json.loads(json.dumps(JSON_CALL))
    call[kind] = [call[kind][0] | {"name": f"T{n}"} for n in range(MAX_TENSORS + 1)]
    answer = await rig.infer(json.dumps(call).encode())
    assert answer.status == 400
    assert f"a call may have {MAX_TENSORS} tensors".encode() in answer.body
    call[kind].pop()
    assert (await rig.infer(json.dumps(call).encode())).status == 200


async def test_json_with_more_than_the_bounds_is_refused(rig: Rig) -> None:
    tensor = {"name": "A", "datatype": "UINT8", "shape": [1], "data": [[]] * 100_001}
    answer = await rig.infer(json.dumps({"inputs": [tensor]}).encode())
    assert answer.status == 413
    assert b"limits.max_json_members" in answer.body


async def test_the_request_is_neutral_and_tells_who_and_how(rig: Rig) -> None:
    await rig.infer(
        headers=[
            ("x-rig", "keyed"),
            ("authorization", "Bearer sesame"),
            ("x-request-id", "7f1c2d9e-0000-4000-8000-00000000abcd"),
            ("x-latency-budget-ms", "2000"),
            ("x-spillway-placement", "onprem"),
            ("x-spillway-priority", "4"),
        ],
        path="/v2/models/simple/versions/3/infer",
    )
    (request,) = rig.pipeline.seen
    assert request.protocol is WireProtocol.KSERVE_REST
    assert (request.tenant, request.model, request.priority) == ("ward", "simple", 4)
    assert request.id == "7f1c2d9e-0000-4000-8000-00000000abcd"
    assert request.zones == ONPREM_ONLY
    assert 1 < request.deadline.remaining_s() < 2
    assert rig.call.version == "3"


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/v2/models/org%2Fmodel/infer", "org/model"),
        ("/v2/models/org/model/infer", "org/model"),
        ("/v2/models/stats/infer", "stats"),
        ("/v2/models/stats/versions/1/infer", "stats"),
    ],
)
async def test_names_with_slashes_and_of_routes_are_names(rig: Rig, path: str, model: str) -> None:
    assert (await rig.infer(path=path)).status == 200
    assert [request.model for request in rig.pipeline.seen] == [model]


async def test_a_rest_answer_goes_out_byte_for_byte(rig: Rig) -> None:
    odd = b'{ "outputs" :[] , "model_name":"simple"}'
    rig.pipeline.script = [RestBody(odd)]
    answer = await rig.infer()
    assert (answer.body, answer.headers["content-type"]) == (odd, "application/json")
    assert LENGTH not in answer.headers
    rig.pipeline.script = [RestBody(odd + RAW, len(odd))]
    answer = await rig.infer()
    assert (answer.body, answer.headers["content-type"]) == (odd + RAW, "application/octet-stream")
    assert answer.headers[LENGTH] == str(len(odd))


@pytest.mark.parametrize("binary", [False, True])
async def test_a_grpc_answer_is_written_as_the_caller_asked(rig: Rig, binary: bool) -> None:
    output = Tensor("O", "INT32", (2,), RAW)
    rig.pipeline.script = [grpc.encode_response(TensorReply("simple", "1", (output,), "7"))]
    call = {**JSON_CALL, "outputs": [{"name": "O", "parameters": {"binary_data": binary}}]}
    answer = await rig.infer(json.dumps(call).encode())
    text = answer.body[: int(answer.headers.get(LENGTH, len(answer.body)))]
    document = json.loads(text)
    assert (document["model_name"], document["id"]) == ("simple", "7")
    (told,) = document["outputs"]
    if binary:
        assert told["parameters"] == {"binary_data_size": 8}
        assert answer.body[len(text) :] == RAW
    else:
        assert told["data"] == [1, 2]
        assert LENGTH not in answer.headers


async def test_a_large_grpc_answer_is_written_too(rig: Rig) -> None:
    output = Tensor("O", "UINT8", (300_000,), bytes([7]) * 300_000)
    rig.pipeline.script = [grpc.encode_response(TensorReply("simple", "1", (output,)))]
    answer = await rig.infer()
    assert json.loads(answer.body)["outputs"][0]["data"] == [7] * 300_000


@pytest.mark.parametrize(("coding", "inflate"), [("gzip", gzip.decompress),
                                                 ("deflate", zlib.decompress)])  # fmt: skip
async def test_calls_and_answers_may_be_compressed(rig: Rig, coding: str, inflate: Any) -> None:
    stream = zlib.compressobj(wbits=31 if coding == "gzip" else 15)
    body = stream.compress(json.dumps(JSON_CALL).encode()) + stream.flush()
    answer = await rig.infer(body, [("content-encoding", coding), ("accept-encoding", coding)])
    assert answer.headers["content-encoding"] == coding
    assert inflate(answer.body) == ANSWER.body
    assert rig.call.inputs[0].data == RAW


async def test_an_answer_says_where_it_came_from(rig: Rig) -> None:
    told = (await rig.infer()).headers
    assert told["x-spillway-zone"] == "onprem"
    assert told["x-spillway-endpoint"] == "gpu"
    assert told["x-spillway-reason"] == "onprem_room"
    assert told["x-spillway-attempts"] == "1"
    assert told["x-spillway-sensitivity"] == "restricted"
    assert told["x-spillway-classify-ms"] == "1.500"
    (request,) = rig.pipeline.seen
    assert told["x-request-id"] == request.id
    assert told["traceparent"] == request.traceparent


async def test_every_answer_is_read_to_its_end_and_closed(rig: Rig) -> None:
    await rig.infer()
    assert rig.pipeline.last.ended
    assert rig.pipeline.last.closed.is_set()


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        ([], 502, "gave no answer"),
        ([ANSWER, ANSWER], 400, "decoupled"),
        ([JsonBody(b"{}")], 500, "other frames"),
        ([UpstreamFailed("it broke")], 502, "it broke"),
    ],
)
async def test_an_answer_that_is_none_is_a_failure_and_closed(
    rig: Rig, script: list[Any], status: int, words: str
) -> None:
    rig.pipeline.script = script
    answer = await rig.infer()
    assert answer.status == status
    assert words in answer.error
    assert rig.pipeline.last.closed.is_set()


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        (Saturated("full", retry_after_s=1.2), 429, ("2", "1200")),
        (DeadlineUnmeetable("late"), 503, None),
        (OnpremUnavailable("down", retry_after_s=2), 503, ("2", "2000")),
        (UpstreamRefused("no", http_status=422), 422, None),
    ],
)
async def test_a_failure_has_tritons_shape_a_reason_and_a_time_to_retry(
    rig: Rig, error: GatewayError, status: int, retry: tuple[str, str] | None
) -> None:
    rig.pipeline.error = error
    answer = await rig.infer()
    assert (answer.status, answer.body) == (status, b'{"error":"%b"}' % error.message.encode())
    told = answer.headers
    assert told["content-type"] == "application/json"
    assert told["x-spillway-reason"] == error.reason
    if retry:
        assert (told["retry-after"], told["retry-after-ms"]) == retry
    else:
        assert "retry-after" not in told


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"error":"its own words"}', b'{"error":"its own words"}'),
        (b'{"error":{"message":"of another protocol"}}', b'{"error":"ours"}'),
        (b"<html>", b'{"error":"ours"}'),
        (b"", b'{"error":"ours"}'),
    ],
)
async def test_a_servers_refusal_is_handed_on_in_this_shape_only(
    rig: Rig, body: bytes, told: bytes
) -> None:
    rig.pipeline.error = UpstreamRefused("ours", body=body)
    assert (await rig.infer()).body == told


REGION = {"shared_memory_region": "r", "shared_memory_byte_size": 8}
INPUT = {"name": "A", "datatype": "INT32", "shape": [2]}


@pytest.mark.parametrize(
    "document",
    [
        {"inputs": [{**INPUT, "parameters": REGION}]},
        {"inputs": [{**INPUT, "parameters": {"shared_memory_offset": 1}, "data": [1, 2]}]},
        {"inputs": [], "outputs": [{"name": "O", "parameters": REGION}]},
        {"inputs": [], "parameters": REGION},
    ],
)
async def test_shared_memory_is_refused(rig: Rig, document: Any) -> None:
    answer = await rig.infer(json.dumps(document).encode())
    assert answer.status == 400
    assert "shared memory is not offered" in answer.error
    assert answer.headers["x-spillway-reason"] == "not_offered"
    assert rig.pipeline.seen == []


@pytest.mark.parametrize("length", ["", "-1", "+1", "1.0", "0x1", "1_0", "a", "9" * 19, "0", "99"])
async def test_a_header_length_that_makes_no_sense_is_refused(rig: Rig, length: str) -> None:
    answer = await rig.infer(headers=[(LENGTH, length)])
    assert answer.status == 400
    assert answer.error.startswith(LENGTH)
    assert rig.pipeline.seen == []


@pytest.mark.parametrize(
    ("headers", "path", "status", "reason"),
    [
        ([("content-type", "text/plain")], INFER, 415, "unsupported_media_type"),
        ([("content-encoding", "br")], INFER, 415, "unsupported_media_type"),
        ([("x-latency-budget-ms", "0")], INFER, 400, "invalid_latency_budget"),
        ([("x-spillway-placement", "moon")], INFER, 400, "invalid_request"),
        ([("x-spillway-spill", "maybe")], INFER, 400, "invalid_request"),
        ([("x-spillway-priority", "10")], INFER, 400, "invalid_request"),
        ([], "/v2/models/nobody/infer", 404, "unknown_model"),
        ([], "/v2/models/simple/versions/1.0/infer", 404, "unknown_route"),
        ([], "/v2/models/simple/versions/-1/infer", 404, "unknown_route"),
        ([("x-rig", "keyed")], INFER, 401, "unauthenticated"),
        ([("x-rig", "keyed"), ("authorization", "Bearer wrong")], INFER, 401, "unauthenticated"),
        (
            [("x-rig", "keyed"), ("authorization", "Bearer sesame")],
            "/v2/models/stats/infer",
            403,
            "forbidden",
        ),
    ],
)
async def test_a_head_that_makes_no_sense_is_refused(
    rig: Rig, headers: list[tuple[str, str]], path: str, status: int, reason: str
) -> None:
    answer = await rig.infer(headers=headers, path=path)
    assert (answer.status, answer.headers["x-spillway-reason"]) == (status, reason)
    assert answer.error
    assert rig.pipeline.seen == []


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize(
    "path",
    [
        "/v2/repository/models/simple/load",
        "/v2/repository/models/simple/unload",
        "/v2/repository/models/org%2Fmodel/load",
        "/v2/systemsharedmemory/status",
        "/v2/systemsharedmemory/region/r/register",
        "/v2/systemsharedmemory/unregister",
        "/v2/cudasharedmemory/status",
        "/v2/cudasharedmemory/region/r/unregister",
        "/v2/logging",
        "/v2/trace/setting",
        "/v2/models/simple/trace/setting",
    ],
)
async def test_what_changes_a_server_is_not_there(rig: Rig, method: str, path: str) -> None:
    answer = await ask(rig.port, method, path, b"{}")
    assert answer.status == 404
    assert "is not offered" in answer.error
    assert rig.pipeline.seen == []
    assert rig.metadata.asked == []
