"""A live gateway between two tenants, an operator with an issued key, and a simulated cloud: who
sees whose costs, what operators did, and the figures of tokens."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.__main__ import main
from gateway.accounting.audit.verify import public_key, verify
from gateway.demo.cloud.process import SimulatedCloud
from tests import live

STORE = "keys.db"


def made(scratch: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "gateway", "keys", *arguments]
    done = subprocess.run(
        [*command, "--store", str(scratch / STORE)],
        capture_output=True, text=True, timeout=60, check=True, cwd=live.ROOT,
    )  # fmt: skip
    return done.stdout.strip()


class Site:
    def __init__(self, cloud: SimulatedCloud, scratch: Path) -> None:
        self.scratch = scratch
        self.acme, self.globex, self.alma = (
            made(scratch, "create", tenant) for tenant in ("acme", "globex", "operations")
        )
        served = {"endpoint": "cloud", "substitute": True, "price_usd": 0.002}
        self.document: dict[str, Any] = {
            "listen": {"http_port": 0, "grpc_port": 0},
            "audit": {"directory": str(scratch / "audit")},
            "key_store": str(scratch / STORE),
            "routing": {"spill_stop_file": str(scratch / "stop")},
            "console": {"operators": {"alma": {"issued_key": self.alma[7:19], "may": "operate"}}},
            "endpoints": {"cloud": {"kind": "openai", "zone": "cloud", "url": cloud.http_url}},
            "models": {"scribe": {"task": "generate", "served_by": [served]}},
        }


def asked(
    gateway: live.LiveGateway, method: str, path: str, key: str, **more: Any
) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"}
    return gateway.client.request(method, path, headers=headers, **more)


def chat(gateway: live.LiveGateway, key: str, **more: Any) -> httpx.Response:
    said = {"model": "scribe", "messages": [{"role": "user", "content": "How do tides work?"}]}
    return asked(gateway, "POST", "/v1/chat/completions", key, json={**said, **more})


def figure(gateway: live.LiveGateway, key: str, begins: str) -> float:
    lines = asked(gateway, "GET", "/metrics", key).text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(begins))


@pytest.fixture(scope="module")
def site(cloud: SimulatedCloud, tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(cloud, tmp_path_factory.mktemp("who"))


@pytest.fixture(scope="module")
def gateway(site: Site) -> Iterator[live.LiveGateway]:
    with live.serving(site.document, site.scratch) as found:
        yield found


def test_tenants_see_their_own_costs_and_an_operator_those_of_all(
    site: Site, gateway: live.LiveGateway
) -> None:
    assert [chat(gateway, key).status_code for key in (site.acme, site.globex)] == [200, 200]

    def names(key: str) -> set[str]:
        told = asked(gateway, "GET", "/spillway/costs?by=tenant", key)
        return {group["name"] for group in told.json().get("groups", ())}

    live.wait_until(lambda: names(site.alma) == {"acme", "globex"}, 10)
    assert names(site.acme) == {"acme"}
    assert names(site.globex) == {"globex"}
    assert asked(gateway, "GET", "/spillway/costs?tenant=globex", site.acme).status_code == 403
    assert figure(gateway, site.acme, "spillway_tenant_calls_total") == 0
    assert figure(gateway, site.alma, "spillway_tenant_calls_total") >= 2
    assert chat(gateway, site.alma).status_code == 401, "an operator's key makes no calls"
    assert asked(gateway, "GET", "/console/operator", site.acme).status_code == 401
    assert asked(gateway, "GET", "/console/operator", site.alma).json()["name"] == "alma"


def test_tokens_and_the_time_of_each_are_told_of_a_live_stream(
    site: Site, gateway: live.LiveGateway
) -> None:
    answer = chat(gateway, site.acme, stream=True, stream_options={"include_usage": True})
    usage = json.loads(answer.text.split("data: ")[-2])["usage"]
    tokens = "gen_ai_client_token_usage_sum{"
    for direction, key in (("input", "prompt_tokens"), ("output", "completion_tokens")):
        lines = asked(gateway, "GET", "/metrics", site.alma).text.splitlines()
        of = [one for one in lines if one.startswith(tokens) and f'type="{direction}"' in one]
        (line,) = of
        assert 'gen_ai_request_model="scribe"' in line
        assert 'zone="cloud"' in line
        assert float(line.rpartition(" ")[2]) >= usage[key] > 0
    assert figure(gateway, site.acme, "gen_ai_server_time_per_output_token_seconds_count") == 1.0


def test_what_operators_do_is_in_the_audit_and_survives_a_kill(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = {**site.document, "audit": {"directory": str(tmp_path / "audit")}}
    drain = {"endpoint": "cloud", "drained": True}
    with live.serving(document, tmp_path) as gateway:
        assert asked(gateway, "POST", "/console/drain", site.alma, json=drain).status_code == 200
        assert asked(gateway, "POST", "/console/drain", site.acme, json=drain).status_code == 401
        gateway.process.send_signal(signal.SIGKILL)  # as soon as it is acknowledged
        gateway.process.wait(10)
    revoked = made(site.scratch, "create", "acme")[7:19]
    made(site.scratch, "revoke", revoked)
    with live.serving(document, tmp_path) as gateway:
        stop = {"stopped": True}
        assert asked(gateway, "POST", "/console/spill", site.alma, json=stop).status_code == 200
        (site.scratch / "stop").unlink()
        live.wait_until(lambda: b'"key_revoke"' in gateway.audited(), 10)
        live.wait_until(lambda: b'"spill_go"' in gateway.audited(), 10)
    command = ["audit", "query", "--directory", str(tmp_path / "audit"), "--actions", "--json"]
    assert main(command) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    did = [(a["action"], a["by"], a["via"]) for a in told if a["via"] != "keys"]
    assert did == [
        ("drain", "alma", "console"), ("spill_stop", "alma", "console"), ("spill_go", "", "file"),
    ]  # fmt: skip
    of_key = [a["action"] for a in told if a["on"] == revoked]
    assert of_key == ["key_create", "key_revoke"]
    assert all(a["by"] for a in told if a["via"] == "keys")
    assert verify(tmp_path / "audit", public_key(tmp_path / "audit")).holds
    key = (tmp_path / "audit" / "signing.pub").read_text().strip()
    assert key in gateway.log_path.read_text(), "to be kept elsewhere"
