"""The read-only questions of the Open Inference Protocol over REST."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from gateway.config import KeySettings
from gateway.protocols.http.exchange import HttpExchange
from gateway.server.http import App
from gateway.server.kserve import front as kserve

from .http_rig import Answer, Client, Metadata, Pipeline, ask, head, services, serving

pytestmark = pytest.mark.anyio
KEYED = [("x-rig", "keyed")]
WARD = [*KEYED, ("authorization", "Bearer sesame")]


@dataclass
class Rig:
    port: int
    pipeline: Pipeline
    metadata: Metadata

    async def get(self, path: str, headers: list[tuple[str, str]] | None = None) -> Answer:
        return await ask(self.port, "GET", path, headers=headers or [])

    async def index(
        self, body: bytes = b"", headers: list[tuple[str, str]] | None = None
    ) -> Answer:
        return await ask(self.port, "POST", "/v2/repository/index", body, headers or [])


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """Two apps over the same models, one with keys: `simple` is served as `add/sub`, `org/model`
    as `m`, and nobody serves `stats`."""
    found = Rig(0, Pipeline(), Metadata(here={"simple": "add/sub", "org/model": "m"}))
    keys = {"k": KeySettings(key="sesame", tenant="ward", models=("simple", "stats"))}
    given = services(found.pipeline, found.metadata)
    guarded = services(found.pipeline, found.metadata, keys)
    app, keyed = (App(s, [kserve.front(s)]) for s in (given, guarded))

    async def either(exchange: HttpExchange) -> None:
        asked = exchange.headers.get("x-rig") == "keyed"
        await (keyed if asked else app)(exchange)

    async with serving(either) as found.port:
        yield found


@pytest.mark.parametrize("headers", [[], KEYED])
async def test_health_says_so_in_a_body_and_needs_no_key(
    rig: Rig, headers: list[tuple[str, str]]
) -> None:
    live, ready = [await rig.get(f"/v2/health/{what}", headers) for what in ("live", "ready")]
    assert (live.status, live.body) == (200, b'{"live":true}')
    assert (ready.status, ready.body) == (200, b'{"ready":true}')
    rig.metadata.alive = False
    live, ready = [await rig.get(f"/v2/health/{what}", headers) for what in ("live", "ready")]
    assert (live.status, live.body) == (400, b'{"live":false}')
    assert (ready.status, ready.body) == (400, b'{"ready":false}')


async def test_health_answers_head_without_a_body(rig: Rig) -> None:
    client = await Client.to(rig.port)
    await client.send(head("HEAD", "/v2/health/live") + head("GET", "/v2/health/ready"))
    assert (await client.head())[0] == 200
    assert (await client.answer()).body == b'{"ready":true}'
    client.close()


async def test_the_servers_metadata_is_its_own_without_what_is_not_offered(rig: Rig) -> None:
    rig.metadata.answers["/v2"] = json.dumps(
        {
            "name": "triton",
            "version": "2.51.0",
            "extensions": ["classification", "binary_tensor_data", "cuda_shared_memory", "logging",
                           "system_shared_memory", "trace", "statistics", "parameters"],
        }
    ).encode()  # fmt: skip
    assert json.loads((await rig.get("/v2")).body) == {
        "name": "triton",
        "version": "2.51.0",
        "extensions": ["classification", "binary_tensor_data", "statistics", "parameters"],
    }


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("/v2/models/simple", "/v2/models/add%2Fsub"),
        ("/v2/models/simple/config", "/v2/models/add%2Fsub/config"),
        ("/v2/models/simple/stats", "/v2/models/add%2Fsub/stats"),
        ("/v2/models/simple/versions/2", "/v2/models/add%2Fsub/versions/2"),
        ("/v2/models/simple/versions/2/config", "/v2/models/add%2Fsub/versions/2/config"),
        ("/v2/models/simple/versions/2/stats", "/v2/models/add%2Fsub/versions/2/stats"),
        ("/v2/models/org%2Fmodel", "/v2/models/m"),
        ("/v2/models/org/model/config", "/v2/models/m/config"),
    ],
)
async def test_what_is_asked_of_a_model_is_answered_byte_for_byte(
    rig: Rig, path: str, there: str
) -> None:
    odd = b'{ "name":"add/sub" }'
    rig.metadata.answers[there] = odd
    answer = await rig.get(path)
    assert (answer.status, answer.body) == (200, odd)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    assert rig.metadata.asked == [there]


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/v2/models/nobody", 404, "unknown_model"),
        ("/v2/models/nobody/config", 404, "unknown_model"),
        ("/v2/models/nobody/stats", 400, "invalid_request"),
        ("/v2/models/simple/versions/x", 404, "unknown_route"),
        ("/v2/models/simple/versions/-1/config", 404, "unknown_route"),
        ("/v2/models/simple/versions/1%2F..%2F2", 404, "unknown_route"),
        ("/v2/models/simple/versions/" + "9" * 19, 404, "unknown_route"),
        ("/v2/models/simple/config", 404, "upstream_refused"),
        ("/v2/models/stats/config", 503, "no_eligible_endpoint"),
    ],
)
async def test_what_cannot_be_answered_is_refused(
    rig: Rig, path: str, status: int, reason: str
) -> None:
    answer = await rig.get(path)
    assert (answer.status, answer.headers["x-spillway-reason"]) == (status, reason)
    assert answer.error


@pytest.mark.parametrize("body", [b"[]", b"{", b"3", b""])
async def test_nonsense_of_a_server_is_its_failure(rig: Rig, body: bytes) -> None:
    rig.metadata.answers["/v2"] = body
    answer = await rig.get("/v2")
    assert (answer.status, answer.headers["x-spillway-reason"]) == (502, "upstream_failed")


async def test_a_model_is_ready_when_the_gateway_can_place_it(rig: Rig) -> None:
    answer = await rig.get("/v2/models/simple/ready")
    assert (answer.status, json.loads(answer.body)) == (200, {"name": "simple", "ready": True})
    for name in ("stats", "nobody"):
        answer = await rig.get(f"/v2/models/{name}/ready")
        assert answer.status == 400
        assert json.loads(answer.body)["error"] == "Model version not ready"
    assert rig.metadata.asked == []


async def test_a_version_is_ready_when_its_server_says_so(rig: Rig) -> None:
    rig.metadata.answers["/v2/models/add%2Fsub/versions/1/ready"] = b""
    assert (await rig.get("/v2/models/simple/versions/1/ready")).status == 200
    assert (await rig.get("/v2/models/simple/versions/2/ready")).status == 400


async def test_statistics_are_of_the_models_that_are_served(rig: Rig) -> None:
    rig.metadata.answers["/v2/models/add%2Fsub/stats"] = b'{"model_stats":[{"name":"a"}]}'
    rig.metadata.answers["/v2/models/m/stats"] = b'{"model_stats":[{"name":"m"}]}'
    found = json.loads((await rig.get("/v2/models/stats")).body)
    assert found == {"model_stats": [{"name": "a"}, {"name": "m"}]}


async def test_the_index_lists_every_version_and_what_is_unavailable(rig: Rig) -> None:
    rig.metadata.answers["/v2/models/add%2Fsub"] = b'{"versions":["1","3"]}'
    ready = [
        {"name": "org/model", "version": "", "state": "READY"},
        {"name": "simple", "version": "1", "state": "READY"},
        {"name": "simple", "version": "3", "state": "READY"},
    ]
    unavailable = {"name": "stats", "version": "", "state": "UNAVAILABLE", "reason": ""}
    assert json.loads((await rig.index()).body) == [*ready, unavailable]
    assert json.loads((await rig.index(b'{"ready":false}')).body) == [*ready, unavailable]
    assert json.loads((await rig.index(b'{"ready":true}')).body) == ready
    assert (await rig.index(b"[")).status == 400


@pytest.mark.parametrize(
    "path",
    ["/v2", "/v2/models/stats", "/v2/models/simple", "/v2/models/simple/config",
     "/v2/models/simple/stats", "/v2/models/simple/ready", "/v2/models/nobody"],
)  # fmt: skip
async def test_questions_need_a_key_where_there_are_keys(rig: Rig, path: str) -> None:
    answer = await rig.get(path, KEYED)
    assert (answer.status, answer.headers["x-spillway-reason"]) == (401, "unauthenticated")
    assert (await rig.index(headers=KEYED)).status == 401
    assert rig.metadata.asked == []


async def test_a_key_sees_its_own_models_alone(rig: Rig) -> None:
    rig.metadata.answers["/v2/models/add%2Fsub/stats"] = b'{"model_stats":[{"name":"a"}]}'
    rig.metadata.answers["/v2/models/m/stats"] = b'{"model_stats":[{"name":"m"}]}'
    found = json.loads((await rig.get("/v2/models/stats", WARD)).body)
    assert found == {"model_stats": [{"name": "a"}]}
    listed = json.loads((await rig.index(headers=WARD)).body)
    assert {entry["name"] for entry in listed} == {"simple", "stats"}
    for what in ("", "/config", "/stats", "/ready"):
        answer = await rig.get(f"/v2/models/org%2Fmodel{what}", WARD)
        assert (answer.status, answer.headers["x-spillway-reason"]) == (403, "forbidden")
    assert not any(path.startswith("/v2/models/m/config") for path in rig.metadata.asked)


async def test_no_question_becomes_a_call(rig: Rig) -> None:
    for path in ("/v2", "/v2/models/simple", "/v2/models/stats", "/v2/health/ready"):
        await rig.get(path)
    assert rig.pipeline.seen == []
