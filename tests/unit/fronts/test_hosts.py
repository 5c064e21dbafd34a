"""Without keys: by which names a gateway lets itself be called, and from which pages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.server.hosts import AllowedHosts, HostNotAllowed, OriginNotAllowed
from gateway.server.http import App
from gateway.server.kserve import front as kserve
from tests.live import serving as live
from tests.unit.fronts.http_rig import Client, Pipeline, services, serving

OURS = ["localhost", "LOCALHOST:8080", "a.localhost", "127.0.0.1", "127.8.9.1:1", "[::1]:8080"]
OURS += ["[::ffff:127.0.0.1]", "localhost.", "spill.example", "SPILL.example:80", "10.0.0.7:8080"]
OTHERS = ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "10.0.0.8", "0.0.0.0"]
OTHERS += ["[fe80::1]", "evil.example:8080", "xlocalhost", "2130706433", "spill.example.evil"]


@pytest.mark.parametrize("host", OURS)
def test_it_answers_to_its_names(host: str) -> None:
    hosts = AllowedHosts("0.0.0.0", ["spill.example"])
    hosts.check(host, None, "10.0.0.7")
    hosts.check("localhost", f"http://{host}", "10.0.0.7")


@pytest.mark.parametrize("host", OTHERS)
def test_it_answers_to_no_other(host: str) -> None:
    hosts = AllowedHosts("0.0.0.0", ["spill.example"])
    with pytest.raises(HostNotAllowed):
        hosts.check(host, None, "10.0.0.7")
    with pytest.raises(OriginNotAllowed):
        hosts.check("localhost", f"http://{host}", "10.0.0.7")


@pytest.mark.parametrize("origin", ["null", "", "file://", "http://[", "chrome-extension://abc"])
def test_a_page_of_nowhere_may_not_call(origin: str) -> None:
    with pytest.raises(OriginNotAllowed):
        AllowedHosts("127.0.0.1", []).check("localhost", origin, "127.0.0.1")


def test_the_address_that_it_listens_on_is_its_name() -> None:
    AllowedHosts("10.1.1.1", []).check("10.1.1.1:8080", None, "10.0.0.7")
    AllowedHosts("::", []).check("", None, None)  # HTTP/1.0 needs no host
    with pytest.raises(HostNotAllowed):
        AllowedHosts("::", []).check("[::]", None, None)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_each_request_on_a_connection_is_looked_at() -> None:
    given = replace(services(Pipeline()), hosts=AllowedHosts("127.0.0.1", []))
    async with serving(App(given, [kserve.front(given)])) as port:
        client = await Client.to(port)
        for host, origin, status in (
            ("localhost", "", 200),
            ("evil.example", "", 421),
            ("127.0.0.1", "", 200),
            ("localhost", "http://evil.example", 403),
            ("localhost", "http://localhost:3000", 200),
        ):
            for path, body in (("/v2/models/simple/infer", b'{"inputs":[]}'), ("/v2", b"")):
                lines = [f"{'POST' if body else 'GET'} {path} HTTP/1.1", f"host: {host}"]
                lines += [f"origin: {origin}"] * bool(origin)
                lines += [f"content-length: {len(body)}"]
                await client.send("\r\n".join([*lines, "", ""]).encode() + body)
                answer = await client.answer()
                assert answer.status == status or (path == "/v2" and status == 200)
        client.close()


SETTINGS = """
listen: {http_port: 0, grpc_port: 0, LISTEN}
audit: {directory: AUDIT}
endpoints: {there: {kind: openai, zone: onprem, url: "http://127.0.0.1:1"}}
models: {m: {task: generate, served_by: [{endpoint: there}]}}
"""


@pytest.mark.parametrize(
    ("listen", "keys", "status"),
    [("", False, 421), ("allowed_hosts: [evil.example]", False, 200), ("", True, 200)],
)
def test_a_gateway_without_keys_looks_at_names(
    tmp_path: Path, listen: str, keys: bool, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SETTINGS.replace("LISTEN", listen).replace("AUDIT", str(tmp_path / "audit"))
    document: dict[str, Any] = yaml.safe_load(text)
    if keys:
        monkeypatch.setenv("KEY", "sesame-sesame-sesame")
        document["keys"] = {"k": {"key": "${KEY}", "tenant": "t"}}
    with live(document, tmp_path) as gateway:
        assert gateway.client.get("/healthz").status_code == 200
        found = gateway.client.get("/healthz", headers={"host": "evil.example"})
        assert found.status_code == status
        if status != 200:
            assert found.headers["x-spillway-reason"] == "host_not_allowed"
