"""The REST side of Open Inference Protocol servers: what their answers mean for a call (A5)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.core.deadline import Deadline
from gateway.core.errors import (
    GatewayError,
    ModelDead,
    ModelFailed,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamRefused,
)
from gateway.core.reply import RestBody
from gateway.core.types import InferenceRequest, ServedModel, Tensor, TensorCall, WireProtocol
from gateway.endpoints.connectors.kserve.http import KserveHttp
from gateway.endpoints.connectors.triton.http import TritonHttp
from tests.unit.backends.wire_rig import Peer, answer, listening

pytestmark = pytest.mark.anyio

GOOD = b'{"model_name":"m","outputs":[]}'
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def call(version: str = "", **parameters: Any) -> InferenceRequest:
    tensor = Tensor("IN", "INT32", (1,), b"\x07\x00\x00\x00")
    return InferenceRequest(
        id="0a0b0c0d-0000-4000-8000-000000000001",
        protocol=WireProtocol.KSERVE_REST,
        tenant="t",
        model="alias",
        payload=TensorCall((tensor,), version=version, parameters=parameters),
        deadline=Deadline.after(5.0),
        traceparent=TRACE,
    )


async def told(
    said: bytes,
    request: InferenceRequest | None = None,
    served: ServedModel | None = None,
    kind: type[KserveHttp] | type[TritonHttp] = KserveHttp,
) -> tuple[RestBody | GatewayError, bytes]:
    """What a call comes to when the server says this, and the request that the server got."""
    requests: list[bytes] = []

    async def play(peer: Peer) -> None:
        requests.append(await peer.request())
        await peer.say(said)

    async with listening(play) as server:
        there = kind(f"http://127.0.0.1:{server.port}", connect_timeout_s=2.0, max_connections=1)
        found: RestBody | GatewayError
        try:
            stream = await there.open(request or call(), served or ServedModel("m"))
            (frame,) = [frame async for frame in stream]
            assert isinstance(frame, RestBody)
            found = frame
        except GatewayError as error:
            found = error
        finally:
            await there.aclose()
    return found, requests[0]


@pytest.mark.parametrize("body", [GOOD, b"\n  " + GOOD])
async def test_an_answer_is_handed_on_as_it_was_written(body: bytes) -> None:
    assert (await told(answer(body)))[0] == RestBody(body)
    length = b"inference-header-content-length: %d\r\n" % len(body)
    tail = body + b"\x01\x02"
    assert (await told(answer(tail, extra=length)))[0] == RestBody(tail, len(body))


@pytest.mark.parametrize(
    ("body", "extra"),
    [
        (b"", b""),
        (b"<html>a proxy's login page</html>", b"content-type: text/html\r\n"),
        (b"[]", b""),
        (b" " * 100 + GOOD, b""),
        (GOOD, b"inference-header-content-length: 999\r\n"),
        (GOOD, b"inference-header-content-length: 0\r\n"),
        (GOOD, b"inference-header-content-length: x\r\n"),
    ],
)
async def test_an_answer_that_is_none_is_the_endpoints_failure(body: bytes, extra: bytes) -> None:
    found, _ = await told(answer(body, extra=extra))
    assert type(found) is UpstreamFailed


WORDS = b'{"error":"its words"}'
DEAD = b'{"error":"Stub process \'m_0_0\' is not healthy."}'


@pytest.mark.parametrize(
    ("status", "body", "error", "http_status", "grpc_status"),
    [
        (b"400 Bad", WORDS, UpstreamRefused, 400, "INVALID_ARGUMENT"),
        (b"404 Not Found", WORDS, UpstreamRefused, 404, "NOT_FOUND"),
        (b"409 Conflict", WORDS, UpstreamRefused, 409, "ALREADY_EXISTS"),
        (b"413 Too Large", WORDS, UpstreamRefused, 413, "RESOURCE_EXHAUSTED"),
        (b"422 Odd", b"no JSON", UpstreamRefused, 422, "INVALID_ARGUMENT"),
        (b"501 Not Implemented", WORDS, UpstreamRefused, 501, "UNIMPLEMENTED"),
        (b"500 Error", WORDS, ModelFailed, 500, "INTERNAL"),
        (b"500 Error", DEAD, ModelDead, None, None),
        (b"500 Error", b"no JSON", UpstreamFailed, None, None),
        (b"429 Busy", WORDS, UpstreamBusy, None, None),
        (b"401 Who", WORDS, UpstreamFailed, None, None),
        (b"403 No", WORDS, UpstreamRefused, 403, "PERMISSION_DENIED"),
        (b"403 No", b"", UpstreamFailed, None, None),
        (b"407 Proxy", WORDS, UpstreamFailed, None, None),
        (b"408 Slow", WORDS, UpstreamFailed, None, None),
        (b"302 Found", b"", UpstreamFailed, None, None),
        (b"502 Bad", WORDS, UpstreamFailed, None, None),
        (b"503 Away", WORDS, UpstreamFailed, None, None),
        (b"504 Late", b"", UpstreamFailed, None, None),
    ],
)
async def test_a_status_says_whose_fault_it_was(
    status: bytes,
    body: bytes,
    error: type[GatewayError],
    http_status: int | None,
    grpc_status: str | None,
) -> None:
    found, _ = await told(answer(body, status, b"location: http://127.0.0.1:1/\r\n"))
    assert type(found) is error
    if http_status is not None:
        assert (found.http_status, found.grpc_status) == (http_status, grpc_status)
    if error in (UpstreamRefused, ModelFailed):
        assert isinstance(found, UpstreamRefused | ModelFailed)
        assert found.body == body


@pytest.mark.parametrize(("after", "seconds"), [(b"7", 7.0), (b"soon", None)])
async def test_a_busy_server_says_for_how_long(after: bytes, seconds: float | None) -> None:
    found, _ = await told(answer(b"", b"429 Busy", b"retry-after: %b\r\n" % after))
    assert isinstance(found, UpstreamBusy)
    assert found.retry_after_s == seconds


@pytest.mark.parametrize(
    ("request_version", "served", "path"),
    [
        ("", ServedModel("m"), b"/v2/models/m/infer"),
        ("3", ServedModel("m"), b"/v2/models/m/versions/3/infer"),
        ("", ServedModel("m", version="2"), b"/v2/models/m/versions/2/infer"),
        ("", ServedModel("a/../b"), b"/v2/models/a%2F..%2Fb/infer"),
    ],
)
async def test_the_path_names_the_model_of_the_settings(
    request_version: str, served: ServedModel, path: bytes
) -> None:
    _, sent = await told(answer(GOOD), call(request_version), served)
    assert sent.startswith(b"POST %b HTTP/1.1\r\n" % path)
    assert b"traceparent: %b\r\n" % TRACE.encode() in sent


@pytest.mark.parametrize(
    ("kind", "parameters", "is_told"),
    [(TritonHttp, {}, True), (KserveHttp, {}, False), (KserveHttp, {"timeout": 60_000_000}, True)],
)
async def test_a_server_that_understands_it_is_told_what_is_left(
    kind: type[KserveHttp] | type[TritonHttp], parameters: dict[str, Any], is_told: bool
) -> None:
    _, sent = await told(answer(GOOD), call(**parameters), kind=kind)
    _, _, body = sent.partition(b"\r\n\r\n")
    found = json.loads(body[: body.rindex(b"}") + 1]).get("parameters", {})
    assert ("timeout" in found) is is_told
    assert found.get("timeout", 1) <= 5_000_000
