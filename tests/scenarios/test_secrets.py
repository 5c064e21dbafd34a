"""A secret of the settings is nowhere but in what goes to whom it is for (T5).

Every place of the settings that may hold a secret has one of its own, by file, environment and
command, and every server behind repeats what it is sent in its failures. Then everything that the
gateway wrote or answered is searched, in all encodings; and secrets are replaced while it runs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from gateway.demo.cloud.search import encodings
from tests.live import ROOT, LiveGateway, serving, wait_until
from tests.scenarios.repeating_provider import Repeating, repeating_provider

PLACES = (
    "caller", "second", "operator", "bearer", "header", "query", "rest", "rpc", "client",
    "telemetry", "registry", "unused", "hook",
)  # fmt: skip
BY = ("file", "environment", "command")


def _canary(place: str, turn: int = 0) -> str:
    return f"canary/{place}+{turn}=of~secrets"


@dataclass
class Aftermath:
    received: list[str]
    answers: dict[str, httpx.Response]
    surfaces: dict[str, bytes] = field(default_factory=dict)
    policies: set[str] = field(default_factory=set)


class Secrets:
    """Where each one stands, and how the settings refer to it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        self._values = {place: _canary(place) for place in PLACES}
        self._write()

    def replace(self, *places: str) -> None:
        self._values |= {place: _canary(place, 1) for place in places}
        self._write()

    def reference(self, place: str) -> str:
        by = BY[PLACES.index(place) % len(BY)]
        if by == "environment":
            return f"${{CANARY_{place.upper()}}}"
        path = self._folder / place
        return f"${{file:{path}}}" if by == "file" else f"${{command:cat {path}}}"

    @property
    def environment(self) -> Path:
        return self._folder / "environment"

    def _write(self) -> None:
        files = {self._folder / place: value for place, value in self._values.items()}
        lines = [f"CANARY_{place.upper()}={value}" for place, value in self._values.items()]
        files[self.environment] = "\n".join(lines)
        for path, text in files.items():
            part = path.with_suffix(".part")
            part.write_text(text)
            part.replace(path)


def _settings(secrets: Secrets, repeating: Repeating, scratch: Path) -> dict[str, Any]:
    of, url = secrets.reference, repeating.url
    onprem, cloud = {"zone": "onprem"}, {"zone": "cloud"}
    endpoints = {
        "chat": {
            **cloud, "provider": "openai", "url": url, "api_key": of("bearer"),
            "headers": {"x-secret": of("header")}, "query": {"key": of("query")},
        },
        "rest": {**onprem, "kind": "kserve", "url": url, "api_key": of("rest")},
        "rpc": {**onprem, "kind": "kserve", "grpc": repeating.target, "api_key": of("rpc")},
        "oauth": {
            **cloud, "provider": "mistral", "url": url,
            "credential": {
                "token_url": f"{url}/token", "client_id": "gateway", "client_secret": of("client"),
            },
        },
    }  # fmt: skip
    return {
        "listen": {"http_port": 0, "grpc_port": 0},
        "audit": {"directory": str(scratch / "audit")},
        "log": {"level": "debug"},
        "reload": {"environment": str(secrets.environment), "commands_s": 0.5},
        "classify": {"profile": "patterns"},
        "hooks": {
            "guard": {
                "kind": "guardrail", "url": f"{url}/guard", "headers": {"x-key": of("hook")},
                "models": ["chat"], "on_failure": "allow",
            },
        },
        "endpoints": endpoints,
        "models": {
            name: {
                "task": "infer" if name in ("rest", "rpc") else "generate",
                "text_inputs": ["text"],
                "served_by": [{"endpoint": name}],
            }
            for name in endpoints
        },
        "keys": {
            "one": {"key": of("caller"), "tenant": "a"},
            "two": {"key": of("second"), "tenant": "b", "requests_per_minute": 1000},
        },
        "console": {"operators": {"wall": {"key": of("operator"), "may": "operate"}}},
        "telemetry": {
            "otlp_url": url, "headers": {"x-api-key": of("telemetry")}, "trace_ratio": 1.0,
        },
        "registries": {
            "store": {"url": "s3://127.0.0.1/b", "access_key": of("registry"),
                      "secret_key": of("unused")},
        },
    }  # fmt: skip


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aftermath]:
    pytest.importorskip("opentelemetry.proto", reason="telemetry needs the extra otel")
    scratch = tmp_path_factory.mktemp("secrets")
    # The secrets stand elsewhere: all that lies in the gateway's folder is searched.
    secrets = Secrets(tmp_path_factory.mktemp("vault") / "canaries")
    with repeating_provider() as repeating:
        document = _settings(secrets, repeating, scratch)
        with serving(document, scratch) as gateway:
            after = Aftermath(repeating.received, {})
            _use(after, gateway, "")
            secrets.replace(*PLACES)
            _wait_for_the_second(gateway)
            _use(after, gateway, "replaced ")
            document["models"]["chat"]["nonsense"] = True
            wrong = scratch / "wrong.yaml"
            wrong.write_text(yaml.safe_dump(document))
            for command in (
                ("check", str(scratch / "spillway.yaml")),
                ("check", "--json", "--file-only", str(scratch / "spillway.yaml")),
                ("check", "--file-only", str(wrong)),
            ):
                after.surfaces[" ".join(command)] = _output(*command)
        for path in (p for p in scratch.rglob("*") if p.is_file()):
            after.surfaces[path.name] = path.read_bytes()
        yield after


def _output(*command: str) -> bytes:
    done = subprocess.run(
        [sys.executable, "-m", "gateway", *command], capture_output=True, cwd=ROOT, check=False
    )
    return done.stdout + done.stderr


def _bearer(place: str, turn: int) -> dict[str, str]:
    return {"authorization": f"Bearer {_canary(place, turn)}"}


def _wait_for_the_second(gateway: LiveGateway) -> None:
    def follows() -> bool:
        callers = (_bearer("caller", 1), _bearer("second", 1))
        models = [gateway.client.get("/v1/models", headers=h).status_code for h in callers]
        seen = gateway.client.get("/console/operator", headers=_bearer("operator", 1)).status_code
        return models == [200, 200] and seen == 200

    wait_until(follows, 30)


def _answer(
    client: httpx.Client, path: str, body: Any, headers: dict[str, str], up: bool
) -> httpx.Response:
    """`up`: of an endpoint that has a credential, which a probe may not have shown yet."""
    answers = []

    def answered() -> bool:
        answers.append(client.post(path, json=body, headers=headers))
        return not up or answers[-1].status_code != 503

    wait_until(answered, 30)
    return answers[-1]


def _use(after: Aftermath, gateway: LiveGateway, when: str) -> None:
    turn, client = int(bool(when)), gateway.client
    caller = _bearer("caller", turn)
    chat = {"messages": [{"role": "user", "content": "hello"}]}
    text = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["hello"]}
    for name, path, body in (
        ("chat", "/v1/chat/completions", {"model": "chat", **chat}),
        ("stream", "/v1/chat/completions", {"model": "chat", "stream": True, **chat}),
        ("oauth", "/v1/chat/completions", {"model": "oauth", **chat}),
        ("rest", "/v2/models/rest/infer", {"inputs": [text]}),
        ("rpc", "/v2/models/rpc/infer", {"inputs": [text]}),
        ("explain", "/spillway/explain", {"path": "/v1/chat/completions",
                                          "body": {"model": "chat", **chat}}),
    ):  # fmt: skip
        after.answers[when + name] = _answer(client, path, body, caller, name != "oauth")
    operator = _bearer("operator", turn)
    for path in ("/status", "/metrics", "/console/operator", "/spillway/costs"):
        after.answers[when + path] = client.get(path, headers=operator)
    with client.stream("GET", "/console/events", headers=operator) as events:
        for chunk in events.iter_bytes():
            after.surfaces[f"{when}console"] = chunk
            break
    after.answers[when + "former"] = client.get("/v1/models", headers=_bearer("caller", 1 - turn))
    wait_until(lambda: any(_canary("telemetry", turn) in each for each in after.received), 20)
    after.policies.add(after.answers[when + "/status"].json()["policy"])


def _found(surfaces: Mapping[str, bytes]) -> list[tuple[str, str, str]]:
    forms = [
        (place, encoding, form)
        for place in PLACES
        for turn in (0, 1)
        for encoding, form in encodings(_canary(place, turn))
    ]
    return [
        (name, place, encoding)
        for name, content in surfaces.items()
        for place, encoding, form in forms
        if form in content
    ]


def test_no_surface_has_a_secret(aftermath: Aftermath) -> None:
    answers = {
        name: f"{answer.headers}".encode() + answer.content
        for name, answer in aftermath.answers.items()
    }
    assert {"gateway.log", "replaced console", "ledger.db"} <= aftermath.surfaces.keys()
    assert any(name.endswith(".jsonl") for name in aftermath.surfaces)
    assert _found(aftermath.surfaces) == []
    assert _found(answers) == []


def test_the_search_would_find_one(aftermath: Aftermath) -> None:
    shown = aftermath.answers["chat"].content.replace(b"(credential)", _canary("bearer").encode())
    assert ("chat", "bearer", "plain") in _found({"chat": shown})
    assert b"(credential)" in aftermath.answers["chat"].content
    assert b"(credential)" in aftermath.answers["rest"].content
    assert b"(credential)" in aftermath.answers["rpc"].content


@pytest.mark.parametrize(
    "place", ["bearer", "header", "query", "rest", "client", "telemetry", "hook"]
)
def test_each_secret_reaches_whom_it_is_for_also_once_it_is_replaced(
    aftermath: Aftermath, place: str
) -> None:
    received = " ".join(aftermath.received)
    for turn in (0, 1):
        forms = dict(encodings(_canary(place, turn))).values()
        assert any(form.decode("latin-1") in received for form in forms), turn


def test_a_caller_and_an_operator_change_their_keys_without_a_restart(
    aftermath: Aftermath,
) -> None:
    for when in ("", "replaced "):
        assert aftermath.answers[when + "chat"].status_code == 400  # the provider's own refusal
        assert aftermath.answers[when + "/console/operator"].json()["name"] == "wall"
        assert aftermath.answers[when + "former"].status_code == 401


def test_the_name_of_the_settings_depends_on_no_secret(aftermath: Aftermath) -> None:
    assert len(aftermath.policies) == 1
