"""Models are called what their providers call them: with `:`, `@` and `/`, by real clients."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import openai
import pytest
import tritonclient.grpc
import tritonclient.http
import yaml
from tritonclient.utils import InferenceServerException

from tests.live import MODELS, ROOT, LiveGateway, serving, wait_until
from tests.scenarios.named_servers import NamedServer, named_server

CHAT = {
    "llama3.2:3b": "llama3.2:3b-instruct-q8_0",
    "ft:gpt-4o-mini:acme::ab12": None,
    "deepseek/deepseek-r1:free": None,
    "claude@20240620": None,
    "@cf/meta/llama-3.1-8b": None,
    "hf.co/acme/Llama-3.2-GGUF:Q4_K_M": None,
    "~acme/latest": "accounts/acme/models/m#accounts/acme/deployments/d",
    "local": "/models/llama-3",
}
"""By their names at the endpoint, where those are others."""
TENSORS = {
    "acme/simple:v2@prod": "org/simple:1@b",
    "acme/simple": None,
    "acme/simple/versions/2": None,
    "acme/simple/infer": None,
    "acme:1": None,
}
UNMISTAKABLE = [n for n in TENSORS if not n.endswith(("/infer", "/versions/2"))]
"""Whose slashes need no escape, as Triton's HTTP client writes none."""
ROUTER = "router"
TWO = "two:models"
CHEAP, DEAR = "deepseek/deepseek-r1:free", "deepseek/deepseek-r1"
KEYS = {
    "all": "key-of-all-models-000",
    "limited": "key-of-some-models-000",
    "operator": "key-of-an-operator-000",
}


@dataclass
class Rig:
    gateway: LiveGateway
    onprem: NamedServer
    router: NamedServer
    config: Path

    def openai(self, key: str = "all") -> openai.OpenAI:
        url = f"{self.gateway.http_url}/v1"
        return openai.OpenAI(base_url=url, api_key=KEYS[key], max_retries=0)

    def get(self, path: str) -> httpx.Response:
        return self.gateway.client.get(path, headers=_bearer("all"))

    def post(self, path: str, document: dict[str, Any], key: str = "all") -> httpx.Response:
        return self.gateway.client.post(path, json=document, headers=_bearer(key))

    def chat(self, model: str) -> str:
        said = self.openai().chat.completions.create(
            model=model, messages=[{"role": "user", "content": "hello"}]
        )
        return said.choices[0].message.content or ""

    def comes_to(self, model: str) -> None:
        """Calls of the name with two models, when what was busy is so no more."""
        wait_until(lambda: self.chat(TWO) == f"from {model}", 15)

    def spillway(self, *command: str, given: str = "") -> str:
        done = subprocess.run(
            [sys.executable, "-m", "gateway", *command],
            input=given, capture_output=True, text=True, cwd=ROOT, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout


def _bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {KEYS[key]}"}


def document(onprem: str, router: str, scratch: Path) -> dict[str, Any]:
    def model(name: str | None, endpoint: str, **more: Any) -> dict[str, Any]:
        renamed = {} if name is None else {"model": name, "substitute": False}
        return {"served_by": [{"endpoint": endpoint, **renamed}], **more}

    for name, key in KEYS.items():
        (scratch / name).write_text(key)
    return {
        "listen": {"http_port": 0, "grpc_port": 0},
        "audit": {"directory": str(scratch / "audit")},
        "endpoints": {
            "ollama": {"kind": "openai", "zone": "onprem", "url": onprem, "canary": False},
            "v2": {"kind": "kserve", "zone": "onprem", "url": onprem, "canary": False},
            ROUTER: {"kind": "openai", "zone": "cloud", "url": router, "expected_ms": 50},
        },
        "models": {
            **{name: model(there, "ollama", task="generate") for name, there in CHAT.items()},
            **{
                name: model(there, "v2", tensors="clear", inputs=["x"])
                for name, there in TENSORS.items()
            },
            "embed:v1": model(None, "ollama", task="embeddings"),
            # One name, two models of one endpoint: the cheaper one first.
            TWO: {
                "task": "generate",
                "served_by": [
                    {"endpoint": ROUTER, "model": DEAR, "substitute": False, "price_usd": 0.01},
                    {"endpoint": ROUTER, "model": CHEAP, "substitute": False, "price_usd": 0},
                ],
            },
            # Two names, one model of one endpoint.
            "one@a": model(CHEAP, ROUTER, task="generate"),
            "one@b": model(CHEAP, ROUTER, task="generate"),
        },
        "routing": {"shadows": {"no:cloud@all": {"policy": "onprem_only"}}},
        "keys": {
            "all": {"key": f"${{file:{scratch}/all}}", "tenant": "team@acme"},
            "limited": {
                "key": f"${{file:{scratch}/limited}}",
                "tenant": "acme:ward",
                "models": ["llama3.2:3b", "acme/simple:v2@prod"],
            },
        },
        "tenants": {"acme:ward": {"spill_budget_usd_per_day": 1}},
        "console": {
            "operators": {"ops@acme": {"key": f"${{file:{scratch}/operator}}", "may": "operate"}}
        },
    }


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        onprem, router = (stack.enter_context(named_server()) for _ in range(2))
        settings = document(onprem.url, router.url, scratch)
        gateway = stack.enter_context(serving(settings, scratch))
        yield Rig(gateway, onprem, router, scratch / "spillway.yaml")


@pytest.fixture(autouse=True)
def _forgotten(rig: Rig) -> None:
    for server in (rig.onprem, rig.router):
        server.models.clear()
        server.paths.clear()
        server.busy.clear()


# OpenAI's API, by its SDK


@pytest.mark.parametrize("name", CHAT)
def test_openais_sdk_finds_and_calls_a_model_of_any_name(rig: Rig, name: str) -> None:
    client = rig.openai()
    assert name in [model.id for model in client.models.list()]
    assert client.models.retrieve(name).id == name
    assert rig.chat(name) == f"from {CHAT[name] or name}"
    assert rig.onprem.models == [CHAT[name] or name]


def test_embeddings_have_such_a_name_too(rig: Rig) -> None:
    found = rig.openai().embeddings.create(model="embed:v1", input="a", encoding_format="float")
    assert found.data[0].embedding == [0.5]
    assert rig.onprem.models == ["embed:v1"]


@pytest.mark.parametrize("name", CHAT)
@pytest.mark.parametrize("safe", ["", "/", "/:@~"])
def test_a_model_is_found_escaped_or_not(rig: Rig, name: str, safe: str) -> None:
    assert rig.get(f"/v1/models/{quote(name, safe=safe)}").json()["id"] == name


# The Open Inference Protocol, by Triton's clients


@pytest.mark.parametrize("name", UNMISTAKABLE)
def test_tritons_http_client_calls_a_model_of_any_name(rig: Rig, name: str) -> None:
    given = tritonclient.http.InferInput("x", [2], "INT32")
    given.set_data_from_numpy(np.array([1, 2], np.int32), binary_data=False)
    with tritonclient.http.InferenceServerClient(rig.gateway.http_url[7:]) as client:
        found = client.infer(name, [given], headers=_bearer("all"))
        assert client.is_model_ready(name, headers=_bearer("all"))
        told = client.get_model_metadata(name, headers=_bearer("all"))
    assert found.as_numpy("y").tolist() == [3, 4]
    there = TENSORS[name] or name
    assert rig.onprem.models == [there]
    assert rig.onprem.paths == [f"/v2/models/{quote(there, safe='')}/infer"]
    assert told["name"] == there


@pytest.mark.parametrize("name", TENSORS)
def test_tritons_grpc_client_calls_a_model_of_any_name(rig: Rig, name: str) -> None:
    given = tritonclient.grpc.InferInput("x", [2], "INT32")
    given.set_data_from_numpy(np.array([1, 2], np.int32))
    with tritonclient.grpc.InferenceServerClient(rig.gateway.grpc_target) as client:
        found = client.infer(name, [given], headers=_bearer("all"))
        assert client.is_model_ready(name, headers=_bearer("all"))
        index = client.get_model_repository_index(headers=_bearer("all"))
    assert found.as_numpy("y").tolist() == [3, 4]
    assert rig.onprem.models == [TENSORS[name] or name]
    assert name in [model.name for model in index.models]


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("escape", [str, str.lower])
def test_an_escaped_name_is_that_name_whatever_stands_in_it(
    rig: Rig, name: str, escape: Any
) -> None:
    at = f"/v2/models/{escape(quote(name, safe=''))}"
    sent = {"inputs": [{"name": "x", "datatype": "INT32", "shape": [2], "data": [1, 2]}]}
    assert rig.post(f"{at}/infer", sent).status_code == 200
    assert rig.post(f"{at}/versions/1/infer", sent).status_code == 200
    assert rig.onprem.models == [TENSORS[name] or name] * 2
    assert rig.get(f"{at}/ready").json() == {"name": name, "ready": True}
    assert rig.get(at).json()["name"] == (TENSORS[name] or name)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v2/models/acme%2Fsimple%2Finfer", 405),  # a model, and no call of acme/simple
        ("/v2/models/acme%2Fsimple%2Fready/infer", 404),
        ("/v2/models/acme%2Fsimple%2Fversions%2F1/infer", 404),
        ("/v2/models/acme%252Fsimple/infer", 404),
        ("/v2/models%2Facme/infer", 404),
        ("/v2%2Fmodels/acme/infer", 404),
        ("/v2/models/acme/simple%2Finfer", 404),
        ("/v2/models/acme%2F..%2Fsimple/infer", 404),
        ("/v2/models/..%2F..%2Fstatus/infer", 404),
        ("/v2/models/acme%1Fsimple/infer", 404),
    ],
)
def test_an_escaped_slash_separates_nothing(rig: Rig, path: str, status: int) -> None:
    sent = {"inputs": [{"name": "x", "datatype": "INT32", "shape": [2], "data": [1, 2]}]}
    assert rig.post(path, sent).status_code == status
    assert rig.onprem.models == []


# Whoever may call, and what is told of it


def test_a_key_is_limited_to_such_names(rig: Rig) -> None:
    client = rig.openai("limited")
    assert [model.id for model in client.models.list()] == ["llama3.2:3b"]
    asked = {"messages": [{"role": "user", "content": "hello"}]}
    for name, status in {"llama3.2:3b": 200, "claude@20240620": 403}.items():
        answer = rig.post("/v1/chat/completions", {**asked, "model": name}, "limited")
        assert answer.status_code == status
    given = tritonclient.grpc.InferInput("x", [2], "INT32")
    given.set_data_from_numpy(np.array([1, 2], np.int32))
    with tritonclient.grpc.InferenceServerClient(rig.gateway.grpc_target) as grpc:
        grpc.infer("acme/simple:v2@prod", [given], headers=_bearer("limited"))
        with pytest.raises(InferenceServerException, match="may not use"):
            grpc.infer("acme:1", [given], headers=_bearer("limited"))


def test_metrics_audit_costs_and_status_say_the_name(rig: Rig) -> None:
    name = "hf.co/acme/Llama-3.2-GGUF:Q4_K_M"
    rig.chat(name)
    records = [r for r in rig.gateway.records() if r["model"] == name]
    assert records
    assert records[-1]["tenant"] == "team@acme"
    audit = str(rig.gateway.audit)
    told = rig.spillway("audit", "query", "--directory", audit, "--model", name, "--json")
    assert name in told
    assert f'model="{name}"' in rig.gateway.metrics()
    assert name in rig.get("/status").json()["models"]
    costs = rig.get("/spillway/costs?by=model").json()
    wait_until(lambda: name in json.dumps(rig.get("/spillway/costs?by=model").json()), 10)
    assert costs["tenant"] == "team@acme"


@pytest.mark.parametrize("path", [*(quote(name, safe="") for name in TENSORS), *UNMISTAKABLE])
def test_a_call_is_explained_by_its_path(rig: Rig, path: str) -> None:
    call = {
        "path": f"/v2/models/{path}/infer",
        "headers": _bearer("all"),
        "body": {"inputs": [{"name": "x", "datatype": "INT32", "shape": [2], "data": [1, 2]}]},
    }
    told = rig.post("/spillway/explain", call)
    assert told.json()["decision"]["attempts"] == ["v2"], told.text
    assert told.json()["shadows"].keys() == {"no:cloud@all"}


def test_the_commands_take_such_names(rig: Rig, tmp_path: Path) -> None:
    checked = json.loads(rig.spillway("check", str(rig.config), "--file-only", "--json"))
    assert checked["models"]["@cf/meta/llama-3.1-8b"] == {"onprem": ["ollama"], "cloud": []}
    assert checked["models"][TWO]["cloud"] == [ROUTER, f"{ROUTER}#{CHEAP}"]
    call = {
        "path": "/v1/chat/completions",
        "headers": _bearer("all"),
        "body": {"model": TWO, "messages": [{"role": "user", "content": "hello"}]},
    }
    told = rig.spillway(
        "explain", "-", "--config", str(rig.config), "--json", given=json.dumps(call)
    )
    assert json.loads(told)["decision"]["attempts"] == [f"{ROUTER}#{CHEAP}", ROUTER]
    store = ["--store", str(tmp_path / "keys.db")]
    rig.spillway("keys", "create", "acme:ward", "--models", "@cf/meta/llama-3.1-8b", *store)
    (listed,) = rig.spillway("keys", "list", "--json", *store).splitlines()
    assert json.loads(listed)["scope"] == {"models": ["@cf/meta/llama-3.1-8b"]}


# One endpoint and one name with two models


def test_one_endpoint_serves_one_name_with_two_models(rig: Rig) -> None:
    """The cheaper one, as long as it takes calls. One that does not is no failed call, and is left
    alone for a while."""
    rig.comes_to(CHEAP)
    rig.router.models.clear()
    rig.router.busy.add(CHEAP)
    assert rig.chat(TWO) == f"from {DEAR}"
    assert rig.router.models == [CHEAP, DEAR]
    record = [r for r in rig.gateway.records() if r["model"] == TWO][-1]
    tried = [(a["endpoint"], a["zone"]) for a in record["attempts"]]
    assert tried == [(f"{ROUTER}#{CHEAP}", "cloud"), (ROUTER, "cloud")]
    assert f'endpoint="{ROUTER}#{CHEAP}",model="{TWO}"' in rig.gateway.metrics()
    status = rig.get("/status").json()
    assert {e["endpoint"] for e in status["endpoints"]} >= {ROUTER, f"{ROUTER}#{CHEAP}"}
    rig.router.busy.clear()
    rig.comes_to(CHEAP)


def test_an_endpoint_is_drained_with_all_its_models_or_one_of_them_alone(rig: Rig) -> None:
    def drain(endpoint: str, drained: bool) -> None:
        asked = {"endpoint": endpoint, "drained": drained}
        assert rig.post("/console/drain", asked, "operator").status_code == 200

    drain(f"{ROUTER}#{CHEAP}", True)
    assert rig.chat(TWO) == f"from {DEAR}"
    drain(ROUTER, True)
    with pytest.raises(openai.InternalServerError):
        rig.chat(TWO)
    drain(ROUTER, False)
    rig.comes_to(CHEAP)


def test_two_names_are_one_model_of_one_endpoint(rig: Rig) -> None:
    assert [rig.chat(name) for name in ("one@a", "one@b")] == [f"from {CHEAP}"] * 2
    assert rig.router.models == [CHEAP] * 2


def test_a_reload_adds_and_takes_models_of_one_endpoint(tmp_path: Path) -> None:
    def served(*models: str) -> dict[str, Any]:
        by = [{"endpoint": "r", "model": m, "substitute": False} for m in models]
        return {"m:1": {"task": "generate", "served_by": by}}

    with named_server() as server:
        settings: dict[str, Any] = {
            "listen": {"http_port": 0, "grpc_port": 0},
            "audit": {"directory": str(tmp_path / "audit")},
            "endpoints": {
                "r": {"kind": "openai", "zone": "onprem", "url": server.url, "canary": False}
            },
        }

        def places() -> dict[str, bool]:
            told = gateway.client.get("/status").json()["endpoints"]
            return {one["endpoint"]: one["up"] for one in told}

        def said() -> str:
            asked = {"model": "m:1", "messages": [{"role": "user", "content": "hello"}]}
            answer = gateway.client.post("/v1/chat/completions", json=asked)
            return str(answer.json()["choices"][0]["message"]["content"])

        with serving({**settings, "models": served("a:1")}, tmp_path) as gateway:
            assert said() == "from a:1"
            for models, expected in (
                (("a:1", "b:1"), {"r": True, "r#b:1": True}),
                (("b:1", "a:1"), {"r": True, "r#a:1": True}),
                (("b:1",), {"r": True}),
            ):
                changed = yaml.safe_dump({**settings, "models": served(*models)})
                (tmp_path / "spillway.yaml").write_text(changed)
                wait_until(lambda expected=expected: places() == expected, 20)
                assert said() in {f"from {model}" for model in models}


# An import of LiteLLM's settings


def test_an_imported_file_of_litellm_serves_such_names(tmp_path: Path) -> None:
    with named_server() as server:

        def entry(name: str, model: str, **params: Any) -> dict[str, Any]:
            at = {"api_base": f"{server.url}/v1", "api_key": "none", **params}
            return {"model_name": name, "litellm_params": {"model": model, **at}}

        listed = [
            entry("llama3.2:3b", "ollama/llama3.2:3b"),
            entry("ft:gpt-4o:acme::ab", "openai/ft:gpt-4o:acme::ab"),
            entry("openrouter/deepseek/r1:free", "openrouter/deepseek/r1:free"),
            entry("claude@1", "openai/claude@1"),
            entry("two", "ollama/llama3.2:1b"),
            entry("two", "ollama/llama3.2:3b"),
        ]
        aliases = {"gpt-4:latest": "claude@1", "no name": "claude@1"}
        (tmp_path / "config.yaml").write_text(
            yaml.safe_dump(
                {"model_list": listed, "router_settings": {"model_group_alias": aliases}}
            )
        )
        out = tmp_path / "imported.yaml"
        done = subprocess.run(
            [sys.executable, "-m", "gateway", "import", "litellm", str(tmp_path / "config.yaml"),
             "-o", str(out)],
            capture_output=True, text=True, cwd=ROOT, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "'no name' is no name for a model here" in " ".join(done.stderr.split())
        imported = yaml.safe_load(out.read_text())
        imported |= {"listen": {"http_port": 0, "grpc_port": 0}}
        imported |= {"audit": {"directory": str(tmp_path / "audit")}}
        with serving(imported, tmp_path) as gateway:
            client = openai.OpenAI(base_url=f"{gateway.http_url}/v1", api_key="-", max_retries=0)
            said = {}
            for name in [model.id for model in client.models.list()]:
                answer = client.chat.completions.create(
                    model=name, messages=[{"role": "user", "content": "hello"}]
                )
                said[name] = answer.choices[0].message.content
        assert said == {
            "llama3.2:3b": "from llama3.2:3b",
            "ft:gpt-4o:acme::ab": "from ft:gpt-4o:acme::ab",
            "openrouter/deepseek/r1:free": "from deepseek/r1:free",
            "claude@1": "from claude@1",
            "two": said["two"],
            "gpt-4:latest": "from claude@1",
        }
        assert said["two"] in ("from llama3.2:1b", "from llama3.2:3b")


# Triton, which has no such names itself


def _repository(to: Path) -> Path:
    """`simple` twice, under two names."""
    for name in ("simple", "simple_too"):
        shutil.copytree(MODELS / "simple", to / name)
        config = (to / name / "config.pbtxt").read_text()
        (to / name / "config.pbtxt").write_text(config.replace('"simple"', f'"{name}"'))
        (to / name / "model.yaml").unlink()
    return to


def test_models_of_the_embedded_triton_are_called_so_by_callers(tmp_path: Path) -> None:
    pytest.importorskip("pytriton", reason="the embedded Triton needs Python 3.11 or 3.12")
    name, either = "acme/sum:v1@prod", "either:1"
    local = {"endpoint": "local", "substitute": False}
    settings = {
        "listen": {"http_port": 0, "grpc_port": 0},
        "audit": {"directory": str(tmp_path / "audit")},
        "endpoints": {
            "local": {
                "kind": "triton",
                "zone": "onprem",
                "embedded": True,
                "repository": str(_repository(tmp_path / "models")),
            }
        },
        "models": {
            name: {"tensors": "clear", "served_by": [{**local, "model": "simple"}]},
            either: {
                "tensors": "clear",
                "served_by": [{**local, "model": m} for m in ("simple", "simple_too")],
            },
        },
    }
    row = np.ones((1, 16), np.int32)
    with (
        serving(settings, tmp_path) as gateway,
        tritonclient.http.InferenceServerClient(gateway.http_url[7:]) as http,
        tritonclient.grpc.InferenceServerClient(gateway.grpc_target) as grpc,
    ):
        gateway.triton_pid()
        for called in (name, either):
            for client, kind in ((http, tritonclient.http), (grpc, tritonclient.grpc)):
                given = [kind.InferInput(f"INPUT{at}", [1, 16], "INT32") for at in (0, 1)]
                for one in given:
                    one.set_data_from_numpy(row)
                assert client.infer(called, given).as_numpy("OUTPUT0").sum() == 32
            assert grpc.get_model_config(called).config.name == "simple"
        listed = {model.name for model in grpc.get_model_repository_index().models}
        assert listed == {name, either, "simple", "simple_too"}
        told = {e["endpoint"]: e for e in gateway.client.get("/status").json()["endpoints"]}
        assert told.keys() == {"local", "local#simple_too"}
        assert all(one["up"] for one in told.values())
        assert set(told["local#simple_too"]["models"]) == {either}
        served = [r for r in gateway.records() if r["model"] == either]
        assert {r["attempts"][0]["endpoint"] for r in served} <= told.keys()
