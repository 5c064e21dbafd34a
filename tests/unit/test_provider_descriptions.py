"""Descriptions of providers: what ships, the operator's own, and the calls that come of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.config import ConfigError, Settings, parse, providers
from gateway.config.model_catalog import Catalog
from gateway.core.errors import UpstreamFailed, UpstreamRefused
from gateway.core.operations.chat import CHAT
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.operations.registry import OPERATIONS, by_path
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
from gateway.core.operations.texts.rerank import RERANK
from gateway.core.types import DocumentCall, InferenceRequest, ServedModel
from gateway.endpoints.connectors.kinds import build_connector
from gateway.scheduling.routing.fit import speaks
from gateway.scheduling.routing.needs import lacking
from tests.unit.backends.test_openai_connector import Provider, Seen, head, request

BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
STREAMED = {**BODY, "stream": True, "top_p": 1}
ANSWER = {"choices": [{"finish_reason": "stop"}], "object": "chat.completion"}
OWN = """
title: Ours
url: http://127.0.0.1:1/api
authorization: {header: X-Token, scheme: ""}
headers: {x-team: a}
operations: {chat.completions: /talk}
"""


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    provider = Provider()
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
    provider.port = server.sockets[0].getsockname()[1]
    provider.answers(ANSWER)
    yield provider
    server.close()
    await server.wait_closed()


def settings(endpoint: str, task: str = "generate") -> Settings:
    return parse(
        f"endpoints:\n  there: {{zone: cloud, {endpoint}}}\n"
        f"models:\n  m: {{task: {task}, served_by: "
        "[{endpoint: there, model: a b/c, substitute: true, price_usd: 1}]}\n".replace(
            "a b/c", "vendor/c:1"
        )
    )


def call(document: dict[str, Any] = BODY, operation: OperationSpec = CHAT) -> InferenceRequest:
    streamed = bool(document.get("stream"))
    return replace(request(), model="m", payload=DocumentCall(operation, document, streamed))


async def sent(provider: Provider, endpoint: str, asked: InferenceRequest, path: str = "") -> Seen:
    url = f"http://127.0.0.1:{provider.port}{path}"
    its = settings(f'{endpoint}, url: "{url}"').endpoints["there"]
    there = build_connector(its, None)
    try:
        await there.open(asked, ServedModel("vendor/c:1"))
    finally:
        await there.aclose()
    return provider.seen[-1]


@pytest.mark.parametrize("name", providers.names())
def test_a_description_that_ships_is_whole(name: str) -> None:
    described = providers.find(name)
    assert described.name == name
    assert described.source.startswith("https://")
    assert bool(described.url) is not bool(described.url_example)
    tasks = {OPERATIONS[operation].task for operation in described.operations}
    url = described.url or described.url_example
    keys = ', credential: {aws: {file: "keys"}}' if described.signing else ""
    for task in tasks:
        its = settings(f'provider: {name}, url: "{url}"{keys}', task).endpoints["there"]
        assert its.provider == described
        assert its.kind == described.kind


@pytest.mark.parametrize("name", [n for n in providers.names() if providers.find(n).url])
def test_its_address_is_known(name: str) -> None:
    task = OPERATIONS[next(iter(providers.find(name).operations))].task
    assert settings(f"provider: {name}", task).endpoints["there"].url == providers.find(name).url


@pytest.mark.parametrize(
    ("endpoint", "name", "kind"),
    [
        ("provider: anthropic", "anthropic", "anthropic"),
        ("kind: anthropic", "anthropic", "anthropic"),
        ("kind: gemini", "gemini-native", "gemini"),
        ("kind: cohere", "cohere-native", "cohere"),
    ],
)
def test_a_kind_of_one_provider_has_its_description(endpoint: str, name: str, kind: str) -> None:
    there = settings(endpoint).endpoints["there"]
    assert there.provider == providers.find(name)
    assert (there.kind, there.url) == (kind, providers.find(name).url)


def test_a_description_of_a_kind_can_refuse_more(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(OWN + "kind: anthropic\nrefuses: {temperature: [1]}\n")
    its = settings(f"provider: {own}")
    there = Catalog.from_settings(its).endpoints["there"]
    assert its.endpoints["there"].kind == there.kind == "anthropic"
    for temperature, field in ((0.5, "temperature"), (1.5, "temperature"), (1.0, None)):
        need = lacking(call({**BODY, "temperature": temperature}), there, there.models["m"])
        assert (need and need.field) == field


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("endpoint", "path", "line", "credential"),
    [
        ("provider: openai", "", "/v1/chat/completions", ("authorization", "Bearer k-123456")),
        ("provider: openai", "/p", "/p/chat/completions", ("authorization", "Bearer k-123456")),
        ("provider: azure", "", "/openai/v1/chat/completions", ("api-key", "k-123456")),
        (
            "provider: azure-deployments", "",
            "/openai/deployments/vendor%2Fc%3A1/chat/completions?api-version=2024-10-21",
            ("api-key", "k-123456"),
        ),
        (
            "provider: azure-deployments, query: {api-version: 2025-04-01-preview}", "",
            "/openai/deployments/vendor%2Fc%3A1/chat/completions?api-version=2025-04-01-preview",
            ("api-key", "k-123456"),
        ),
        ("provider: groq", "", "/openai/v1/chat/completions", ("authorization", "Bearer k-123456")),
        ("provider: perplexity", "", "/chat/completions", ("authorization", "Bearer k-123456")),
    ],
)  # fmt: skip
async def test_calls_go_as_the_provider_takes_them(
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
    endpoint: str,
    path: str,
    line: str,
    credential: tuple[str, str],
) -> None:
    monkeypatch.setenv("KEY_THERE", "k-123456")
    seen = await sent(provider, endpoint + ', api_key: "${KEY_THERE}"', call(), path)
    assert (seen.method, seen.path) == ("POST", line)
    assert seen.headers[credential[0]] == credential[1]
    assert [n for n, v in seen.headers.items() if "k-123456" in v] == [credential[0]]
    assert json.loads(seen.body) == BODY | {"model": "vendor/c:1"}


@pytest.mark.anyio
async def test_a_path_with_the_model_in_it_is_built_for_streams_too(provider: Provider) -> None:
    provider.streams(b'data: {"choices":[{"index":0,"finish_reason":"stop"}]}\n\n')
    seen = await sent(provider, "provider: azure-deployments", call(BODY | {"stream": True}))
    assert seen.path.startswith("/openai/deployments/vendor%2Fc%3A1/chat/completions?")
    assert seen.headers["accept"] == "text/event-stream"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "path", "line", "stream_line"),
    [
        (
            "gemini-native", "", "/v1beta/models/vendor%2Fc%3A1:generateContent",
            "/v1beta/models/vendor%2Fc%3A1:streamGenerateContent?alt=sse&a=b",
        ),
        (
            "vertex-gemini", "/v1/projects/p/locations/l",
            "/v1/projects/p/locations/l/publishers/google/models/vendor%2Fc%3A1:generateContent",
            "/v1/projects/p/locations/l/publishers/google/models/vendor%2Fc%3A1"
            ":streamGenerateContent?alt=sse&a=b",
        ),
        (
            "vertex-anthropic", "/v1/projects/p/locations/l",
            "/v1/projects/p/locations/l/publishers/anthropic/models/vendor%2Fc%3A1:rawPredict",
            "/v1/projects/p/locations/l/publishers/anthropic/models/vendor%2Fc%3A1"
            ":streamRawPredict?a=b",
        ),
        ("azure-anthropic", "", "/anthropic/v1/messages", "/anthropic/v1/messages?a=b"),
        ("cohere-native", "", "/v2/chat", "/v2/chat?a=b"),
    ],
)  # fmt: skip
async def test_streams_have_paths_of_their_own(
    provider: Provider, name: str, path: str, line: str, stream_line: str
) -> None:
    provider.streams(b"data: {}\n\n")
    seen = await sent(provider, f"provider: {name}, query: {{a: b}}", call(STREAMED), path)
    assert seen.path == stream_line
    provider.answers({})
    with pytest.raises(UpstreamFailed):  # that is no answer
        await sent(provider, f"provider: {name}", call(), path)
    assert provider.seen[-1].path == line


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_a_body_has_the_fields_of_its_description(
    provider: Provider, tmp_path: Path, kind: str
) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(OWN + f"kind: {kind}\nbody: {{version: v1, model: null, top_p: null}}\n")
    provider.streams(b"data: {}\n\n")
    seen = await sent(provider, f"provider: {own}", call(STREAMED))
    body = json.loads(seen.body)
    assert body["version"] == "v1"
    assert body["messages"] == BODY["messages"]
    assert "model" not in body


@pytest.mark.anyio
async def test_fields_have_the_names_that_they_have_there(provider: Provider) -> None:
    asked = BODY | {"max_completion_tokens": 5, "seed": 3, "user": "u", "store": True}
    seen = await sent(provider, "provider: mistral", call(asked))
    assert json.loads(seen.body) == {
        **BODY, "model": "vendor/c:1", "max_tokens": 5, "random_seed": 3,
    }  # fmt: skip


@pytest.mark.anyio
async def test_two_fields_that_are_one_there_are_refused(provider: Provider) -> None:
    asked = call(BODY | {"max_completion_tokens": 5, "max_tokens": 6})
    with pytest.raises(UpstreamRefused, match="max_completion_tokens and max_tokens"):
        await sent(provider, "provider: mistral", asked)
    assert not provider.seen


@pytest.mark.anyio
async def test_a_probe_asks_what_the_provider_has(provider: Provider, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(OWN + "probe: /up\nquery: {a: b c}\n")
    its = settings(f'provider: {own}, url: "http://127.0.0.1:{provider.port}"').endpoints["there"]
    there = build_connector(its, None)
    assert await there.ready()
    provider.script = [head(401, {"content-length": "0"})]
    assert not await there.ready()
    await there.aclose()
    assert {seen.path for seen in provider.seen} == {"/v1/up?a=b%20c"}
    assert provider.seen[0].headers["x-team"] == "a"


def test_a_provider_of_the_operator_is_a_file(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("KEY_THERE", "k-123456")
    own = tmp_path / "own.yaml"
    own.write_text(OWN)
    before = settings(f'provider: {own}, api_key: "${{KEY_THERE}}"')
    assert before.endpoints["there"].url == "http://127.0.0.1:1/api"
    own.write_text(OWN.replace("/talk", "/speak"))
    after = settings(f'provider: {own}, api_key: "${{KEY_THERE}}"')
    assert before.policy_hash() != after.policy_hash()


@pytest.mark.parametrize(
    ("endpoint", "message"),
    [
        (
            "provider: nobody",
            "endpoints.there.provider: no provider 'nobody'; there are: anthropic,",
        ),
        (
            "provider: azure",
            "kind openai needs url: its base URL, such as https://NAME.openai.azure",
        ),
        ("provider: gone.yaml", "gone.yaml: cannot be read"),
        ("provider: groq, kind: triton, grpc: a:1", "an endpoint of kind triton has none; drop it"),
        ("kind: openai, provider: anthropic", "Anthropic is of kind anthropic; drop it"),
        ("kind: anthropic, provider: groq", "is of kind openai; drop it"),
        ('kind: openai, url: "http://a", query: {a: b}', "only endpoints with a provider have one"),
    ],
)
def test_what_cannot_be_is_explained(endpoint: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(endpoint)
    assert message in str(caught.value)
    assert "is missing" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("omits: [temperature]", "own.yaml:7: omits: temperature changes what an answer says"),
        ("lacks: [magic]", "own.yaml:7: lacks.0"),
        ("paths: {}", "own.yaml:7: paths: unknown key"),
        ("probe: models", "own.yaml:7: probe"),
    ],
)
def test_a_description_with_a_mistake_is_explained(
    tmp_path: Path, change: str, message: str
) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(OWN + change + "\n")
    with pytest.raises(ConfigError) as caught:
        settings(f"provider: {own}")
    assert message in str(caught.value)


def test_a_task_that_the_provider_has_no_operation_for_is_refused() -> None:
    with pytest.raises(ConfigError, match="Groq has no API for task embeddings"):
        settings("provider: groq", "embeddings")


def lacks(endpoint: str, document: dict[str, Any], operation: OperationSpec = CHAT) -> str | None:
    catalog = Catalog.from_settings(settings(endpoint, operation.task))
    there = catalog.endpoints["there"]
    need = lacking(call(document, operation), there, there.models["m"])
    return None if need is None else need.field


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"n": 1}, None),
        ({"n": None}, None),
        ({"n": 2}, "n"),
        ({"logit_bias": {}}, None),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"logprobs": False}, None),
        ({"logprobs": True}, "logprobs"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, None),
    ],
)
def test_what_a_provider_refuses_goes_elsewhere(more: dict[str, Any], field: str | None) -> None:
    assert lacks("provider: groq", BODY | more) == field


def test_what_no_model_of_a_provider_has_goes_elsewhere() -> None:
    assert lacks("provider: perplexity", BODY | {"tools": [{"type": "function"}]}) == "tools"
    assert lacks("provider: openai", BODY | {"tools": [{"type": "function"}]}) is None


@pytest.mark.parametrize(
    "operation", [each for each in by_path().values() if each.task == "generate"]
)
def test_operations_that_a_provider_has_not_go_elsewhere(operation: OperationSpec) -> None:
    """Responses go there as chats."""
    there = Catalog.from_settings(settings("provider: mistral")).endpoints["there"]
    assert speaks(call(BODY, operation), there) is (operation in (CHAT, RESPONSES))


def test_one_base_serves_one_operation() -> None:
    there = Catalog.from_settings(settings("provider: cohere-rerank", "rerank")).endpoints["there"]
    assert speaks(call({}, RERANK), there)
    assert not speaks(call({}, EMBEDDINGS), there)
