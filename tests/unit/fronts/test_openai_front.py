"""The OpenAI front on a real socket, over a stand-in for the pipeline."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from gateway.auth import Callers
from gateway.config import KeySettings, LimitSettings
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.errors import (
    DeadlineExceeded,
    DeadlineUnmeetable,
    Draining,
    GatewayError,
    NoEligibleEndpoint,
    OnpremUnavailable,
    Saturated,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamUnreachable,
)
from gateway.core.reply import InferenceReply, JsonBody, RestBody, ServerEvent
from gateway.core.types import DocumentCall, InferenceRequest
from gateway.protocols import strictjson
from gateway.server import Services
from gateway.server.http import App
from gateway.server.openai import front as openai
from tests.laps import within
from tests.unit.fronts.http_rig import HANG, Metadata, Pipeline, serving
from tests.unit.threads import counted

pytestmark = pytest.mark.anyio

CHAT = {"model": "scribe", "messages": [{"role": "user", "content": "hello"}]}
TEXT = {"model": "scribe", "prompt": "hello"}
RESPONSE = {"model": "scribe", "input": "hello"}
VECTORS = {"model": "minilm", "input": ["hello"]}
ROUTES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": TEXT,
    "/v1/responses": RESPONSE,
    "/v1/embeddings": VECTORS,
}
STREAMED = {path: body for path, body in ROUTES.items() if body is not VECTORS}


@dataclass
class Served:
    client: httpx.AsyncClient
    pipeline: Pipeline

    async def post(
        self, path: str, document: object = None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        named = {"content-type": "application/json"} | (headers or {})
        return await self.client.post(path, content=body, headers=named)


def services(pipeline: Swapped, keys: dict[str, KeySettings]) -> Services:
    models = [
        CatalogModel("scribe", "generate", ("gpu",)),
        CatalogModel("minilm", "embeddings", ("gpu",)),
        CatalogModel("org/chat", "generate", ("gpu",)),
        CatalogModel("simple", "infer", ("gpu",)),
    ]
    return Services(
        handle=pipeline.handle,
        callers=Callers(keys),
        catalog=Catalog({model.name: model for model in models}, aliases={"gpt-4o": "scribe"}),
        inspection=Metadata(),
        limits=LimitSettings(max_body_bytes=150_000, max_json_values=5000),
        new_id=lambda: str(uuid.uuid4()),
        clock=time.monotonic,
    )


class Swapped:
    """The pipeline of the test that runs, behind a server that outlives it."""

    def __init__(self) -> None:
        self.pipeline = Pipeline(script=[])

    async def handle(self, request: InferenceRequest) -> InferenceReply:
        return await self.pipeline.handle(request)


@asynccontextmanager
async def swappable(keys: dict[str, KeySettings]) -> AsyncIterator[tuple[str, Swapped]]:
    swapped = Swapped()
    given = services(swapped, keys)
    async with serving(App(given, [openai.front(given), openai.azure_front(given)])) as port:
        yield f"http://127.0.0.1:{port}", swapped


@asynccontextmanager
async def calling(there: tuple[str, Swapped]) -> AsyncIterator[Served]:
    url, swapped = there
    swapped.pipeline = Pipeline(script=[])
    async with httpx.AsyncClient(base_url=url, trust_env=False, verify=False, timeout=5) as client:
        yield Served(client, swapped.pipeline)


@pytest.fixture(scope="module")
async def open_server() -> AsyncIterator[tuple[str, Swapped]]:
    async with swappable({}) as there:
        yield there


@pytest.fixture(scope="module")
async def keyed_server() -> AsyncIterator[tuple[str, Swapped]]:
    key = KeySettings(key=SecretStr("secret"), tenant="acme", models=("minilm",))
    async with swappable({"acme": key}) as there:
        yield there


@pytest.fixture
async def front(open_server: tuple[str, Swapped]) -> AsyncIterator[Served]:
    async with calling(open_server) as served:
        yield served


@pytest.fixture
async def keyed(keyed_server: tuple[str, Swapped]) -> AsyncIterator[Served]:
    async with calling(keyed_server) as served:
        yield served


def told(response: httpx.Response) -> dict[str, Any]:
    """The error, after checking that its shape is OpenAI's."""
    document = response.json()
    assert response.headers["content-type"] == "application/json"
    assert list(document) == ["error"]
    assert set(document["error"]) == {"message", "type", "param", "code"}
    assert isinstance(document["error"]["message"], str)
    assert response.headers["x-request-id"]
    found: dict[str, Any] = document["error"]
    return found


@pytest.mark.parametrize("path", ROUTES)
async def test_an_answer_is_the_endpoints_own_bytes(front: Served, path: str) -> None:
    body = b'{ "id":"x",\n "choices" : [] }'
    front.pipeline.script = [JsonBody(body)]
    response = await front.post(path, ROUTES[path])
    assert (response.status_code, response.content) == (200, body)
    assert response.headers["content-type"] == "application/json"
    (seen,) = front.pipeline.seen
    assert isinstance(seen.payload, DocumentCall)
    assert (seen.model, seen.payload.document) == (ROUTES[path]["model"], ROUTES[path])
    assert not seen.streamed
    assert response.headers["x-request-id"] == seen.id
    assert response.headers["traceparent"] == seen.traceparent
    assert response.headers["x-spillway-zone"] == "onprem"
    assert response.headers["x-spillway-endpoint"] == "gpu"
    assert response.headers["x-spillway-reason"] == "onprem_room"
    assert response.headers["x-spillway-attempts"] == "1"
    assert front.pipeline.last.closed.is_set()


@pytest.mark.parametrize("path", STREAMED)
async def test_a_stream_is_rendered_event_by_event(front: Served, path: str) -> None:
    front.pipeline.script = [ServerEvent(b'{"a":\n1}'), ServerEvent("é".encode(), "response.x")]
    response = await front.post(path, ROUTES[path] | {"stream": True})
    done = b"" if path == "/v1/responses" else b"data: [DONE]\n\n"
    assert response.content == (
        b'data: {"a":\ndata: 1}\n\n' + "event: response.x\ndata: é\n\n".encode() + done
    )
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-accel-buffering"] == "no"
    assert response.headers["x-spillway-zone"] == "onprem"
    assert front.pipeline.seen[0].streamed
    assert front.pipeline.last.closed.is_set()


@pytest.mark.parametrize(
    "error",
    [
        UpstreamUnreachable("the stream broke off before its end"),
        DeadlineExceeded("the budget is spent"),
        ValueError("with content in it"),
    ],
)
@pytest.mark.parametrize("path", STREAMED)
async def test_a_broken_stream_tells_it_in_band_and_never_done(
    front: Served, path: str, error: Exception
) -> None:
    front.pipeline.script = [ServerEvent(b'{"sequence_number": 4}'), error]
    response = await front.post(path, ROUTES[path] | {"stream": True})
    assert response.status_code == 200
    assert b"[DONE]" not in response.content
    assert b"with content" not in response.content
    assert response.content.endswith(b"\n\n")
    last = response.content.decode().strip().split("\n\n")[-1]
    code = error.reason if isinstance(error, GatewayError) else "internal"
    document = json.loads(last.split("data: ", 1)[1])
    assert document["error"]["code"] == code
    if path == "/v1/responses":
        assert last.startswith("event: error\n")
        assert (document["type"], document["code"]) == ("error", code)
        assert document["sequence_number"] == 5
    assert front.pipeline.last.closed.is_set()


async def test_a_response_that_told_its_failure_is_not_told_again(front: Served) -> None:
    failed = ServerEvent(b'{"type":"response.failed"}', "response.failed")
    front.pipeline.script = [failed, UpstreamFailed("x")]
    response = await front.post("/v1/responses", RESPONSE | {"stream": True})
    assert response.content == b'event: response.failed\ndata: {"type":"response.failed"}\n\n'


@pytest.mark.parametrize(
    ("error", "status", "kind", "code", "retry"),
    [
        (Saturated("x", retry_after_s=1.5), 429, "rate_limit_error", "rate_limit_exceeded", True),
        (UpstreamBusy("x"), 429, "rate_limit_error", "rate_limit_exceeded", True),
        (Draining("x"), 503, "server_error", "draining", True),
        (NoEligibleEndpoint("x"), 503, "server_error", "no_eligible_endpoint", False),
        (NoEligibleEndpoint("x", retry_after_s=2), 503, "server_error", "no_eligible_endpoint",
         True),
        (OnpremUnavailable("x"), 503, "server_error", "onprem_unavailable_restricted", False),
        (OnpremUnavailable("x", retry_after_s=5), 503, "server_error",
         "onprem_unavailable_restricted", True),
        (DeadlineUnmeetable("x"), 503, "server_error", "deadline_unmeetable", False),
        (DeadlineExceeded("x"), 504, "server_error", "deadline_exceeded", False),
        (UpstreamUnreachable("x"), 502, "server_error", "upstream_unreachable", False),
        (UpstreamFailed("x", reason="upstream_credentials"), 502, "server_error",
         "upstream_credentials", False),
        (UpstreamRefused("x", http_status=422), 422, "invalid_request_error", "upstream_refused",
         False),
    ],
)  # fmt: skip
async def test_a_failure_has_openais_shape(
    front: Served, error: GatewayError, status: int, kind: str, code: str, retry: bool
) -> None:
    front.pipeline.error = error
    for more in ({}, {"stream": True}):
        response = await front.post("/v1/chat/completions", CHAT | more)
        assert response.status_code == status
        assert told(response) == {"message": "x", "type": kind, "param": None, "code": code}
        assert response.headers["x-should-retry"] == ("true" if retry else "false")
        assert response.headers["x-spillway-reason"] == error.reason
        assert ("retry-after" in response.headers) is (error.retry_after_s is not None)
        assert ("retry-after-ms" in response.headers) is (error.retry_after_s is not None)


async def test_an_endpoints_own_refusal_is_handed_on(front: Served) -> None:
    body = b'{"error": {"message": "too long", "code": "context_length_exceeded"}}'
    front.pipeline.error = UpstreamRefused("refused", http_status=400, body=body)
    response = await front.post("/v1/chat/completions", CHAT)
    assert (response.status_code, response.content) == (400, body)


@pytest.mark.parametrize("body", [b"<html>", b'{"detail": "no"}', b'{"error": "no"}', b"[]"])
async def test_another_refusal_is_put_in_openais_shape(front: Served, body: bytes) -> None:
    front.pipeline.error = UpstreamRefused("refused", http_status=404, body=body)
    response = await front.post("/v1/chat/completions", CHAT)
    assert response.status_code == 404
    assert told(response)["message"] == "refused"


async def test_a_bug_is_a_500_without_its_text(front: Served) -> None:
    front.pipeline.error = ValueError("with content in it")
    response = await front.post("/v1/chat/completions", CHAT)
    assert response.status_code == 500
    assert told(response)["code"] == "internal"
    assert b"with content" not in response.content
    for script in ([], [RestBody(b"{}")], [JsonBody(b"{}"), JsonBody(b"{}")]):
        front.pipeline.error, front.pipeline.script = None, script
        assert (await front.post("/v1/chat/completions", CHAT)).status_code == 500


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": ""}, 415),
        ({"content-type": "application/jsonl"}, 415),
        ({"content-type": "multipart/form-data; boundary=x"}, 415),
        ({"content-type": "application/json; charset=utf-8"}, 200),
        ({"content-type": "Application/JSON"}, 200),
        ({"x-latency-budget-ms": "-1"}, 400),
        ({"x-latency-budget-ms": "nan"}, 400),
        ({"x-spillway-placement": "moon"}, 400),
        ({"x-spillway-placement": "cloud"}, 200),
        ({"content-encoding": "br"}, 415),
    ],
)
async def test_the_head_of_a_call_is_checked(
    front: Served, headers: dict[str, str], status: int
) -> None:
    front.pipeline.script = [JsonBody(b"{}")]
    response = await front.post("/v1/chat/completions", CHAT, headers)
    assert response.status_code == status
    if status != 200:
        assert told(response)["type"] == "invalid_request_error"
        assert response.headers["x-should-retry"] == "false"
        assert front.pipeline.seen == []


N_CASES = [
    b"", b" ", b"[", b"]", b"{", b"}", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,', b'{"a":1,}',
    b"{'a':1}", b"{a:1}", b'{"a" 1}', b'{"a"::1}', b'{,"a":1}', b'{"a":1}}', b'{"a":1} x',
    b'{"a":01}', b'{"a":+1}', b'{"a":1.}', b'{"a":.1}', b'{"a":1e}', b'{"a":0x1}', b'{"a":NaN}',
    b'{"a":Infinity}', b'{"a":-Infinity}', b'{"a":1e999}', b'{"a":tru}', b'{"a":True}',
    b'{"a":nul}', b'{"a":"\n"}', b'{"a":"\t"}', b'{"a":"\\x"}', b'{"a":"\\u12"}',
    b'{"a":"\\ud800"}', b'{"a":"\xff"}', b'{"a":"b}', b'\xef\xbb\xbf{"a":1}', b'{"a":1,"a":2}',
    b'{"a":1/**/}', b'{"a":[1,]}', b'{"a":[,1]}', b"[1]", b"null", b'"a"', b"1",
    b'{"a":' + b"[" * 100 + b"]" * 100 + b"}", b"[" * 100_000, b'{"a":"\x00"}',
    '{"a":1}'.encode("utf-16"),
]  # fmt: skip


@pytest.mark.parametrize("body", N_CASES)
async def test_what_is_no_strict_json_object_is_refused(front: Served, body: bytes) -> None:
    response = await front.post("/v1/chat/completions", body)
    assert response.status_code == 400
    assert told(response)["code"] == "malformed_body"
    assert front.pipeline.seen == []


async def test_a_duplicate_key_anywhere_is_refused(front: Served) -> None:
    text = b'{"model":"scribe","messages":[{"role":"user","content":"x","content":"y"}]}'
    assert (await front.post("/v1/chat/completions", text)).status_code == 400
    assert front.pipeline.seen == []


async def test_bad_fields_are_named(front: Served) -> None:
    response = await front.post("/v1/chat/completions", CHAT | {"messages": []})
    assert (response.status_code, told(response)["param"]) == (400, "messages")
    response = await front.post("/v1/chat/completions", CHAT | {"model": "cloud/scribe"})
    assert response.status_code == 404
    assert told(response)["code"] == "model_not_found"
    assert told(response)["param"] == "model"
    assert front.pipeline.seen == []


async def test_a_call_knows_the_size_of_its_document(front: Served) -> None:
    for text in ("hello", "hello " * 20_000):
        document = {**CHAT, "messages": [{"role": "user", "content": text}]}
        await front.post("/v1/chat/completions", json.dumps(document, indent=1).encode())
        call = front.pipeline.seen[-1].payload
        assert isinstance(call, DocumentCall)
        assert call.json_bytes == len(strictjson.dumps(document))


async def test_large_json_is_read_beside_the_loop(front: Served) -> None:
    threads = counted()
    for padding, count in ((0, 0), (100_000, 1)):
        await front.post("/v1/chat/completions", CHAT | {"pad": "x" * padding})
        assert threads.count == count
    (small, large) = [request.payload for request in front.pipeline.seen]
    assert isinstance(small, DocumentCall)
    assert isinstance(large, DocumentCall)
    assert small.size == 0
    assert large.size > 100_000


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings"])
async def test_json_with_more_than_the_bounds_is_refused(front: Served, path: str) -> None:
    document = ROUTES[path] | {"pad": [1] * 5001}
    response = await front.post(path, document)
    assert response.status_code == 413
    assert told(response)["code"] == "body_too_large"
    assert "limits.max_json_values" in told(response)["message"]
    await front.post(path, ROUTES[path] | {"pad": [1] * 4900})
    assert len(front.pipeline.seen) == 1


async def test_a_body_over_the_cap_is_refused(front: Served) -> None:
    response = await front.post("/v1/chat/completions", CHAT | {"pad": "x" * 200_000})
    assert response.status_code == 413
    assert told(response)["code"] == "body_too_large"
    assert front.pipeline.seen == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/models", 405),
        ("POST", "/v1/assistants", 404),
        ("GET", "/v1/files", 404),
        ("GET", "/v1/chat/completions/abc", 404),
        ("DELETE", "/v1/responses/resp_1", 404),
        ("GET", "/v1", 404),
    ],
)
async def test_another_route_is_not_offered(
    front: Served, method: str, path: str, status: int
) -> None:
    response = await front.client.request(method, path)
    assert response.status_code == status
    told(response)
    assert front.pipeline.seen == []


async def test_models_are_listed_and_found(front: Served) -> None:
    response = await front.client.get("/v1/models")
    listed = response.json()
    assert listed["object"] == "list"
    assert [m["id"] for m in listed["data"]] == ["scribe", "minilm", "org/chat", "gpt-4o"]
    for model in listed["data"]:
        assert {"id", "object", "created", "owned_by"} <= set(model)
        assert (await front.client.get(f"/v1/models/{model['id']}")).json() == model
    assert listed["models"] == ["scribe", "minilm", "org/chat", "simple"]  # as KServe lists them
    tensors = (await front.client.get("/v1/models/simple")).json()
    assert (tensors["name"], tensors["ready"]) == ("simple", False)
    for name in ("nonesuch", "scribe/", "scribe%00", "SCRIBE"):
        response = await front.client.get(f"/v1/models/{name}")
        assert response.status_code in (400, 404)
        assert told(response)["code"] in ("model_not_found", "unknown_route", "invalid_request")
    assert told(await front.client.get("/v1/models/nonesuch"))["param"] == "model"


async def test_a_key_is_asked_for_and_sees_its_own_models(keyed: Served) -> None:
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic c2VjcmV0"}):
        for response in (
            await keyed.client.get("/v1/models", headers=headers),
            await keyed.client.get("/v1/models/scribe", headers=headers),
            await keyed.post("/v1/chat/completions", CHAT, headers),
            await keyed.post("/v1/chat/completions", b"{", headers),  # before the body is read
        ):
            assert response.status_code == 401
            assert told(response)["code"] == "invalid_api_key"
            assert response.headers["x-should-retry"] == "false"
    right = {"authorization": "Bearer secret"}
    listed = (await keyed.client.get("/v1/models", headers=right)).json()["data"]
    assert [m["id"] for m in listed] == ["minilm"]
    assert (await keyed.client.get("/v1/models/scribe", headers=right)).status_code == 404
    assert (await keyed.post("/v1/chat/completions", CHAT, right)).status_code == 403
    keyed.pipeline.script = [JsonBody(b"{}")]
    assert (await keyed.post("/v1/embeddings", VECTORS, right)).status_code == 200
    assert keyed.pipeline.seen[0].tenant == "acme"


async def test_the_clients_own_timeout_is_the_budget(front: Served) -> None:
    front.pipeline.script = [JsonBody(b"{}")]
    await front.post("/v1/chat/completions", CHAT, {"x-stainless-read-timeout": "3.5"})
    seen = front.pipeline.seen[0]
    assert seen.deadline.at_s - seen.received_s == pytest.approx(3.5)


async def test_a_caller_that_leaves_closes_the_reply(front: Served) -> None:
    body = json.dumps(CHAT | {"stream": True}).encode()
    head = {"content-type": "application/json"}
    for lap in within(0.1):
        front.pipeline.script = [ServerEvent(b"{}"), HANG]
        async with front.client.stream(
            "POST", "/v1/chat/completions", content=body, headers=head
        ) as response:
            assert await anext(response.aiter_bytes()) == b"data: {}\n\n"
            lap.begins()
        await asyncio.wait_for(front.pipeline.last.closed.wait(), 5)
        lap.ends()


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_caller_that_leaves_before_the_answer_cancels_the_call(
    front: Served, streamed: bool
) -> None:
    front.pipeline.hangs = True
    for lap in within(0.1):
        front.pipeline.cancelled.clear()
        with pytest.raises(httpx.ReadTimeout):
            await front.client.post(
                "/v1/chat/completions", json=CHAT | {"stream": streamed}, timeout=0.1
            )
        lap.begins()
        await asyncio.wait_for(front.pipeline.cancelled.wait(), 5)
        lap.ends()


async def test_a_caller_that_leaves_a_whole_answer_closes_the_reply(front: Served) -> None:
    for lap in within(0.1):
        front.pipeline.script = [HANG]
        with pytest.raises(httpx.ReadTimeout):
            await front.client.post("/v1/chat/completions", json=CHAT, timeout=0.1)
        lap.begins()
        await asyncio.wait_for(front.pipeline.last.closed.wait(), 5)
        lap.ends()


@pytest.mark.parametrize(
    ("path", "body", "model"),
    [
        ("/openai/deployments/scribe/chat/completions", CHAT, "scribe"),
        ("/openai/deployments/scribe/chat/completions?api-version=2024-10-21", CHAT, "scribe"),
        ("/openai/deployments/scribe/completions", TEXT, "scribe"),
        ("/openai/deployments/minilm/embeddings", VECTORS, "minilm"),
        ("/openai/deployments/org/chat/chat/completions", CHAT, "org/chat"),
        ("/openai/v1/chat/completions", CHAT, "scribe"),
        ("/openai/v1/responses?api-version=preview", RESPONSE, "scribe"),
    ],
)
async def test_azure_s_paths_are_those_of_the_same_operations(
    front: Served, path: str, body: dict[str, Any], model: str
) -> None:
    front.pipeline.script = [JsonBody(b"{}")]
    assert (await front.post(path, body)).status_code == 200
    (call,) = front.pipeline.seen
    assert isinstance(call.payload, DocumentCall)
    assert (call.model, call.payload.document["model"]) == (model, model)
    assert call.operation.path.endswith(path.partition("?")[0].rpartition("/")[2])


@pytest.mark.parametrize("stated", [None, "gpt-4o", "minilm"])
async def test_a_deployment_is_the_model_whatever_the_body_says(
    front: Served, stated: str | None
) -> None:
    front.pipeline.script = [JsonBody(b"{}")]
    body = {k: v for k, v in (CHAT | {"model": stated}).items() if v is not None}
    answer = await front.post("/openai/deployments/scribe/chat/completions", body)
    assert answer.status_code == 200
    assert [call.model for call in front.pipeline.seen] == ["scribe"]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/openai/deployments/nobody/chat/completions", 404, "unknown_model"),
        ("/openai/deployments/minilm/chat/completions", 400, "invalid_request"),
        ("/openai/deployments/scribe/assistants", 404, "unknown_route"),
        ("/openai/deployments//chat/completions", 404, "unknown_route"),
        ("/openai/chat/completions", 404, "unknown_route"),
        ("/openaiv1/chat/completions", 404, "unknown_route"),
        ("/openai/deployments/scribe/chat/completions?x-spillway-spill=never", 400, None),
    ],
)
async def test_what_azure_s_paths_do_not_name_is_refused_in_openai_s_shape(
    front: Served, path: str, status: int, code: str | None
) -> None:
    answer = await front.post(path, CHAT)
    assert answer.status_code == status
    assert not front.pipeline.seen
    if path.startswith("/openai/"):
        error = answer.json()["error"]
        assert error["message"]
        assert code is None or answer.headers["x-spillway-reason"] == code


async def test_an_alias_is_listed_and_served(front: Served) -> None:
    listed = (await front.client.get("/v1/models")).json()["data"]
    assert {entry["id"] for entry in listed} >= {"scribe", "gpt-4o"}
    assert (await front.client.get("/v1/models/gpt-4o")).json()["id"] == "gpt-4o"
    front.pipeline.script = [JsonBody(b"{}")]
    await front.post("/v1/chat/completions", CHAT | {"model": "gpt-4o"})
    assert [call.model for call in front.pipeline.seen] == ["scribe"]


async def test_an_alias_opens_no_model_that_a_key_may_not_use(keyed: Served) -> None:
    bearing = {"authorization": "Bearer secret"}
    answer = await keyed.post("/v1/chat/completions", CHAT | {"model": "gpt-4o"}, bearing)
    assert answer.status_code == 403
    assert not keyed.pipeline.seen
    listed = (await keyed.client.get("/v1/models", headers=bearing)).json()["data"]
    assert [entry["id"] for entry in listed] == ["minilm"]
