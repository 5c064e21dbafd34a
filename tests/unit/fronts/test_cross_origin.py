"""Pages of other sites: which may call from a browser, and what they may read."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from gateway.config import ConfigError, KeySettings, parse
from gateway.config.sections.listen import CorsSettings
from gateway.core.reply import JsonBody, ServerEvent
from gateway.protocols.http.cross_origin import EXPOSED, CrossOrigin
from gateway.server.hosts import AllowedHosts, OriginNotAllowed
from gateway.server.http import App
from gateway.server.openai import front as openai
from tests.unit.fronts import http_rig
from tests.unit.fronts.test_openai_front import CHAT as BODY
from tests.unit.fronts.test_openai_front import Swapped, services

pytestmark = pytest.mark.anyio

PAGE = "https://app.example"
CALL = "/v1/chat/completions"
DOCS = Path(__file__).parent.parent.parent.parent / "docs" / "reference" / "headers.md"


@asynccontextmanager
async def serving(script: list[Any] | None = None, **cors: Any) -> AsyncIterator[httpx.AsyncClient]:
    swapped = Swapped()
    swapped.pipeline = http_rig.Pipeline(script or [JsonBody(b"{}")])
    keys = {"k": KeySettings(key=SecretStr("sesame-sesame-sesame"), tenant="t")}
    made = services(swapped, keys)
    app = CrossOrigin(App(made, [openai.front(made)]), CorsSettings(**cors))
    async with (
        http_rig.serving(app) as port,
        httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", trust_env=False, verify=False
        ) as client,
    ):
        yield client


def preflight(origin: str = PAGE, headers: str = "", **more: str) -> dict[str, str]:
    asked = {"origin": origin, "access-control-request-method": "POST", **more}
    return asked | ({"access-control-request-headers": headers} if headers else {})


async def test_a_preflight_is_answered_before_anybody_is_known() -> None:
    async with serving(origins=[PAGE], headers=["X-Team"], max_age_s=60) as client:
        asked = "authorization,content-type, X-Stainless-Lang,x-spillway-placement,x-team,x-other"
        answer = await client.options(CALL, headers=preflight(headers=asked))
        assert (answer.status_code, answer.content) == (204, b"")
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert answer.headers["access-control-allow-methods"] == "GET, HEAD, POST"
        assert answer.headers["access-control-allow-headers"] == (
            "authorization, content-type, x-stainless-lang, x-spillway-placement, x-team"
        )
        assert answer.headers["access-control-max-age"] == "60"
        assert answer.headers["vary"] == "origin"
        assert "access-control-allow-credentials" not in answer.headers
        again = await client.options("/v1/models", headers=preflight())
        assert (again.status_code, again.headers["access-control-allow-headers"]) == (204, "")


@pytest.mark.parametrize("origin", ["https://evil.example", "https://app.example.evil", "null"])
async def test_another_page_gets_nothing(origin: str) -> None:
    async with serving(origins=[PAGE]) as client:
        for answer in (
            await client.options(CALL, headers=preflight(origin)),
            await client.post(CALL, json=BODY, headers={"origin": origin}),
        ):
            assert answer.status_code in (401, 405)
            assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_every_answer_says_who_may_read_it() -> None:
    key = {"authorization": "Bearer sesame-sesame-sesame", "origin": PAGE}
    async with serving(origins=[PAGE], credentials=True) as client:
        answers = [
            await client.post(CALL, json=BODY, headers=key),
            await client.post(CALL, json=BODY, headers={"origin": PAGE}),
            await client.post(CALL, content=b"{", headers=key),
            await client.get("/v1/models", headers=key),
            await client.get("/v1/nowhere", headers=key),
        ]
        assert [answer.status_code for answer in answers] == [200, 401, 415, 200, 404]
        for answer in answers:
            assert answer.headers["access-control-allow-origin"] == PAGE
            assert answer.headers["access-control-allow-credentials"] == "true"
            assert answer.headers["access-control-expose-headers"].split(", ") == [*EXPOSED]
        plain = await client.post(CALL, json=BODY, headers={"authorization": key["authorization"]})
        assert not [name for name in plain.headers if name.startswith("access-control")]
    event = ServerEvent(b'{"choices":[{"index":0,"finish_reason":"stop"}]}')
    async with serving([event], origins=["*"]) as client:
        streamed = await client.post(CALL, json=BODY | {"stream": True}, headers=key)
        assert streamed.headers["access-control-allow-origin"] == "*"
        assert streamed.text.endswith("data: [DONE]\n\n")
        assert "vary" not in streamed.headers


async def test_a_head_that_is_refused_is_no_preflight() -> None:
    async with serving(origins=[PAGE]) as client:
        answer = await client.options("/v1/a%2Fb", headers=preflight())
        assert answer.status_code == 404


def test_what_answers_say_of_a_call_can_be_read() -> None:
    rows = DOCS.read_text().partition("## Response headers")[2].splitlines()
    named = [row.split("|")[1] for row in rows if row.startswith("| `")]
    documented = {name for names in named for name in re.findall(r"`([\w-]+)`", names)}
    transport = {"content-encoding", "x-accel-buffering", "connection"}
    assert set(EXPOSED) == {n for n in documented if not n.startswith("access-control")} - transport


def test_a_page_that_may_call_is_let_in_without_keys() -> None:
    hosts = AllowedHosts("127.0.0.1", [], [PAGE])
    hosts.check("localhost", PAGE, "127.0.0.1")
    with pytest.raises(OriginNotAllowed):
        hosts.check("localhost", "https://evil.example", "127.0.0.1")


SETTINGS = """
listen: {cors: CORS}
endpoints: {there: {kind: openai, zone: onprem, url: "http://127.0.0.1:1"}}
models: {m: {task: generate, served_by: [{endpoint: there}]}}
"""


@pytest.mark.parametrize(
    ("cors", "message"),
    [
        ('{origins: ["*"]}', "listen.cors.origins: any page could call without a key"),
        ('{origins: ["*"], credentials: true}', "exclude each other"),
        ("{origins: [app.example]}", "listen.cors.origins.0"),
        ('{origins: ["https://app.example/path"]}', "listen.cors.origins.0"),
        ('{origins: ["https://a.example"], headers: ["a: b"]}', "listen.cors.headers.0"),
    ],
)
def test_settings_that_would_let_anybody_in_are_refused(cors: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(SETTINGS.replace("CORS", cors))
    assert message in str(refused.value)


def test_it_is_off_until_somebody_names_a_page() -> None:
    assert parse(SETTINGS.replace("CORS", "{}")).listen.cors.origins == []
