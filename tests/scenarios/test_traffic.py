"""Hooks tighten what the gateway decides (K5); copies of calls change nothing for callers (K6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.live import LiveGateway, serving, wait_until
from tests.scenarios.answering_servers import Servers, answering_servers

CARD = "4111 1111 1111 1111"


@dataclass
class Traffic:
    gateway: LiveGateway
    servers: Servers

    def chat(self, *words: str, model: str = "chat", **more: Any) -> httpx.Response:
        body = {"model": model, "messages": [{"role": "user", "content": " ".join(words)}]}
        return self.gateway.client.post("/v1/chat/completions", json={**body, **more})


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traffic]:
    scratch = tmp_path_factory.mktemp("traffic")
    with answering_servers() as servers:

        def endpoint(zone: str, path: str) -> dict[str, Any]:
            return {"kind": "openai", "zone": zone, "url": f"{servers.url}/{path}"}

        def hook(kind: str, path: str, **more: Any) -> dict[str, Any]:
            return {"kind": kind, "url": f"{servers.url}/{path}", "timeout_ms": 700, **more}

        served = [{"endpoint": "onprem"}, {"endpoint": "cloud", "price_usd": 0.001}]
        document: dict[str, Any] = {
            "listen": {"http_port": 0, "grpc_port": 0},
            "audit": {"directory": str(scratch / "audit")},
            "classify": {"profile": "patterns"},
            "routing": {"policy": "static_split"},  # so clear calls go to the cloud
            "endpoints": {
                "onprem": endpoint("onprem", "onprem"),
                "cloud": endpoint("cloud", "cloud"),
                "candidate": endpoint("onprem", "candidate"),
            },
            "models": {
                name: {"task": "generate", "served_by": served}
                for name in ("chat", "guarded-loosely", "guarded-open", "ruled")
            }
            | {
                "mirrored": {
                    "task": "generate", "served_by": served, "mirror": {"model": "tried"},
                },
                "tried": {"task": "generate", "served_by": [{"endpoint": "candidate"}]},
            },
            "hooks": {
                "guard": hook("guardrail", "guardrail", models=["chat"]),
                "loose": hook(
                    "guardrail", "guardrail", models=["guarded-loosely"], on_failure="restrict"
                ),
                "open": hook(
                    "guardrail", "guardrail", models=["guarded-open"], on_failure="allow",
                    content=False,
                ),
                "rules": hook("opa", "v1/data/calls/decision", models=["ruled"]),
            },
        }  # fmt: skip
        with serving(document, scratch) as gateway:
            yield Traffic(gateway, servers)


def test_a_call_that_its_hook_allows_goes_as_it_would(traffic: Traffic) -> None:
    answer = traffic.chat("harmless-words")
    assert answer.headers["x-spillway-zone"] == "cloud"
    (told,) = traffic.servers.calls("guardrail", "harmless-words")
    assert (told["model"], told["sensitivity"], told["operation"]) == (
        "chat", "clear", "chat.completions",
    )  # fmt: skip
    assert told["document"]["messages"][0]["content"] == "harmless-words"


@pytest.mark.parametrize(
    ("model", "word", "reason"),
    [
        ("chat", "hook-restricts", "hook:guard"),
        ("ruled", "opa-restricts", "hook:rules"),
        ("guarded-loosely", "hook-fails", "hook:loose"),
        ("guarded-loosely", "hook-hangs", "hook:loose"),
    ],
)
def test_what_a_hook_restricts_stays(traffic: Traffic, model: str, word: str, reason: str) -> None:
    answer = traffic.chat(word, f"words-of-{model}", model=model)
    assert answer.status_code == 200
    assert answer.headers["x-spillway-zone"] == "onprem"
    assert answer.headers["x-spillway-sensitivity"] == "restricted"
    assert [c for c in traffic.servers.calls("cloud", word) if model in str(c)] == []
    assert reason in str(traffic.gateway.record(answer.headers["x-request-id"]))


@pytest.mark.parametrize(("model", "word"), [("chat", "hook-refuses"), ("ruled", "opa-refuses")])
def test_what_a_hook_refuses_goes_nowhere(traffic: Traffic, model: str, word: str) -> None:
    answer = traffic.chat(word, model=model)
    assert answer.status_code == 403
    assert answer.headers["x-spillway-reason"] == "hook_refused"
    for server in ("onprem", "cloud"):
        assert traffic.servers.calls(server, word) == []


@pytest.mark.parametrize(
    ("model", "word"),
    [("chat", "hook-fails"), ("chat", "hook-hangs"), ("chat", "hook-babbles"),
     ("ruled", "opa-undefined")],
)  # fmt: skip
def test_without_an_answer_a_call_is_refused(traffic: Traffic, model: str, word: str) -> None:
    answer = traffic.chat(word, "closed", model=model)
    assert answer.status_code == 503
    assert answer.headers["x-spillway-reason"] == "hook_failed"
    for server in ("onprem", "cloud"):
        assert traffic.servers.calls(server, f"{word} closed") == []


def test_a_hook_clears_nothing(traffic: Traffic) -> None:
    answer = traffic.chat("allowed-with-a-card", CARD)
    assert answer.headers["x-spillway-zone"] == "onprem"
    assert traffic.servers.calls("cloud", "allowed-with-a-card") == []
    (told,) = traffic.servers.calls("guardrail", "allowed-with-a-card")
    assert told["sensitivity"] == "restricted"


def test_a_hook_that_need_not_answer_is_not_told_the_words(traffic: Traffic) -> None:
    answer = traffic.chat("hook-fails", "open-words", model="guarded-open")
    assert answer.headers["x-spillway-zone"] == "cloud"
    told = [
        each for each in traffic.servers.received["guardrail"] if each["model"] == "guarded-open"
    ]
    assert told
    assert "open-words" not in str(told)


def test_what_hooks_answer_is_counted(traffic: Traffic) -> None:
    traffic.chat("hook-refuses")
    traffic.chat("hook-fails", model="guarded-loosely")
    metrics = traffic.gateway.metrics()
    assert 'spillway_hook_answers_total{answer="refuse",hook="guard"}' in metrics
    assert 'spillway_hook_answers_total{answer="failed",hook="loose"}' in metrics


# Mirrored calls


def _compared(traffic: Traffic, agreement: str) -> float:
    line = f'spillway_mirrored_calls_total{{agreement="{agreement}",model="tried"}} '
    lines = traffic.gateway.metrics().splitlines()
    return sum(float(each.removeprefix(line)) for each in lines if each.startswith(line))


@pytest.mark.parametrize(
    ("word", "agreement"),
    [("plain-words", "same"), ("answers-differ", "different"), ("server-fails", "failed")],
)
def test_the_answers_to_a_copy_are_compared_and_not_returned(
    traffic: Traffic, word: str, agreement: str
) -> None:
    before = _compared(traffic, agreement)
    answer = traffic.chat(word, "mirrored", model="mirrored")
    assert answer.status_code == 200
    assert answer.headers["x-spillway-zone"] == "cloud"
    assert answer.json()["choices"][0]["message"]["content"] == "four words as ever"
    wait_until(lambda: _compared(traffic, agreement) == before + 1, 20)
    assert traffic.servers.calls("candidate", word)


def test_a_copy_of_a_restricted_call_stays(traffic: Traffic) -> None:
    before = _compared(traffic, "same")
    answer = traffic.chat("mirrored-card", CARD, model="mirrored")
    assert answer.headers["x-spillway-zone"] == "onprem"
    wait_until(lambda: _compared(traffic, "same") == before + 1, 20)
    assert len(traffic.servers.calls("candidate", "mirrored-card")) == 1
    assert traffic.servers.calls("cloud", "mirrored-card") == []
