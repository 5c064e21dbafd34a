"""B4: a real gateway whose audit's disk is full, and one that is killed. The disk is a small tmpfs,
so the error is the kernel's own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from gateway.__main__ import main
from gateway.accounting.audit.journal.segments import segments
from gateway.accounting.audit.verify import public_key, verify
from tests.live import MODELS, ROOT, LiveGateway, serving, wait_until
from tests.unit.audit import rig

pytest.importorskip("pytriton", reason="the embedded Triton needs Python 3.11 or 3.12")

VALUES = {"datatype": "INT32", "shape": [1, 16], "data": list(range(16))}
BODY = {"inputs": [{"name": name, **VALUES} for name in ("INPUT0", "INPUT1")]}
RESTRICTED = {"x-spillway-sensitivity": "restricted"}


@dataclass
class Disk:
    """A file system of 4 MiB, of which the ledger beside the audit takes its part."""

    at: Path

    def fill(self) -> None:
        with contextlib.suppress(OSError), (self.at / "filler").open("wb", buffering=0) as filler:
            while filler.write(b"x" * 512):
                pass

    def leave(self, free: int) -> None:
        """Give so many bytes back."""
        filler = self.at / "filler"
        os.truncate(filler, filler.stat().st_size - free)

    def empty(self) -> None:
        (self.at / "filler").unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    at = tmp_path / "disk"
    at.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(at)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount the file system that is to be full")
    try:
        yield Disk(at)
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


def document(scratch: Path, **audit: Any) -> dict[str, Any]:
    repository = scratch / "repository"
    if not repository.exists():
        shutil.copytree(MODELS / "simple", repository / "simple")
    return {
        "listen": {"http_port": 0, "grpc_port": 0},
        "audit": {"directory": str(scratch / "audit"), **audit},
        "endpoints": {
            "local": {
                "kind": "triton", "zone": "onprem", "embedded": True,
                "repository": str(repository),
            }
        },
        "models": {"simple": {"tensors": "clear", "served_by": [{"endpoint": "local"}]}},
    }  # fmt: skip


def infer(gateway: LiveGateway, **headers: str) -> httpx.Response:
    return gateway.client.post("/v2/models/simple/infer", json=BODY, headers=headers)


def until_refused(gateway: LiveGateway) -> httpx.Response:
    """A file system takes records until its last page is full."""
    for _ in range(20):
        answer = infer(gateway)
        if answer.status_code != 200:
            return answer
    raise AssertionError("the disk is not full")


def attempts(gateway: LiveGateway) -> str:
    lines = gateway.metrics().splitlines()
    return "\n".join(line for line in lines if line.startswith("spillway_attempts_total"))


def kinds(gateway: LiveGateway) -> list[str]:
    return [json.loads(line)["kind"] for line in gateway.audited().splitlines()]


def test_with_a_full_disk_no_call_is_answered_and_when_there_is_room_all_are(
    disk: Disk, tmp_path: Path
) -> None:
    with serving(document(tmp_path, directory=str(disk.at / "audit")), tmp_path) as gateway:
        assert infer(gateway).status_code == 200
        disk.fill()
        refused = until_refused(gateway)
        sent = attempts(gateway)
        for answer in (refused, infer(gateway), infer(gateway, **RESTRICTED)):
            assert answer.status_code == 503
            assert answer.headers["x-spillway-reason"] == "record_unwritable"
            assert "No space left on device" in answer.text
            assert "OUTPUT0" not in answer.text
        assert attempts(gateway) == sent, "once it is known, nothing is sent anywhere"
        assert "spillway_audit_failing 1.0" in gateway.metrics()
        assert gateway.client.get("/readyz").status_code == 503
        disk.leave(2 * 4096)  # a page has room for a gap's record, and for calls' for a while
        looks = gateway.log_path.read_text().count("the audit cannot be written")
        tried_s = time.monotonic() + 1.2  # it is tried again meanwhile, twice a second
        while time.monotonic() < tried_s:
            assert gateway.client.get("/readyz").status_code == 503
            assert infer(gateway).status_code == 503
            time.sleep(0.02)
        disk.empty()
        wait_until(lambda: infer(gateway).status_code == 200, 20)
        assert gateway.client.get("/readyz").status_code == 200
        assert looks == gateway.log_path.read_text().count("the audit cannot be written") == 1
        (gap,) = [r for r in map(json.loads, gateway.audited().splitlines()) if r["kind"] == "gap"]
        assert gap["records"] >= 3
        assert gap["why"] == "No space left on device"
        answered = sum(r["outcome"] == "served" for r in gateway.records())
    assert answered >= 2
    assert verify(gateway.audit, public_key(gateway.audit)).holds


def test_with_a_spool_calls_go_on_and_their_records_come_back(disk: Disk, tmp_path: Path) -> None:
    audit = {
        "directory": str(disk.at / "audit"),
        "on_failure": "spool",
        "spool_directory": str(tmp_path / "spool"),
    }
    with serving(document(tmp_path, **audit), tmp_path) as gateway:
        disk.fill()
        told = [infer(gateway, **RESTRICTED) for _ in range(20)]
        assert {answer.status_code for answer in told} == {200}
        assert list((tmp_path / "spool").iterdir())
        wait_until(lambda: "they go into the spool" in gateway.log_path.read_text(), 10)
        disk.empty()
        wait_until(lambda: "spillway_audit_spooled_records 0.0" in gateway.metrics(), 20)
        recorded = {r["id"] for r in gateway.records() if r["outcome"] == "served"}
        assert {answer.headers["x-request-id"] for answer in told} <= recorded
        assert list((tmp_path / "spool").iterdir()) == []
    assert verify(gateway.audit, public_key(gateway.audit)).holds


def test_what_was_answered_is_on_record_after_a_kill_and_the_chain_goes_on(tmp_path: Path) -> None:
    answered: list[str] = []
    with contextlib.suppress(httpx.TransportError), serving(document(tmp_path), tmp_path) as first:
        answered += [infer(first).headers["x-request-id"] for _ in range(5)]
        triton = first.triton_pid()
        first.process.send_signal(signal.SIGKILL)
        first.process.wait(10)
        with contextlib.suppress(ProcessLookupError):
            os.kill(triton, signal.SIGKILL)
    with serving(document(tmp_path), tmp_path) as second:
        answered.append(infer(second).headers["x-request-id"])
        assert kinds(second).count("start") == 2
        assert main(["audit", "verify", "--directory", str(second.audit)]) == 0
    assert {r["id"] for r in second.records()} == set(answered)
    found = verify(second.audit, public_key(second.audit))
    assert found.holds
    assert found.stopped


@contextlib.contextmanager
def holding_cloud() -> Iterator[tuple[str, list[str]]]:
    """Its URL, and the traceparent of each call that it got. It is healthy, and answers no call."""
    got: list[str] = []
    over = threading.Event()

    class Cloud(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def do_POST(self) -> None:
            got.append(self.headers["traceparent"])
            over.wait(60)
            self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Cloud) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", got
        over.set()
        server.shutdown()


def test_a_call_that_a_cloud_has_and_a_killed_gateway_never_settled_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with holding_cloud() as (url, got):
        settings = document(tmp_path)
        settings["endpoints"] = {"cloud": {"kind": "kserve", "zone": "cloud", "url": url}}
        simple = settings["models"]["simple"]
        simple["served_by"] = [{"endpoint": "cloud"}]
        simple["inputs"] = [tensor["name"] for tensor in BODY["inputs"]]  # which it does not tell
        with contextlib.suppress(httpx.TransportError), serving(settings, tmp_path) as gateway:
            path = f"{gateway.http_url}/v2/models/simple/infer"

            def call() -> None:
                with contextlib.suppress(httpx.TransportError):
                    httpx.post(path, json=BODY, timeout=60, trust_env=False)

            calling = threading.Thread(target=call)
            calling.start()
            wait_until(lambda: got != [], 20)
            gateway.process.send_signal(signal.SIGKILL)
            gateway.process.wait(10)
            calling.join(10)
    asked = ["audit", "query", "--directory", str(tmp_path / "audit"), "--zone", "cloud", "--json"]
    assert main(asked) == 0
    (told,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (told["outcome"], told["sensitivity"], told["model"]) == ("sent", "clear", "simple")
    (sent_as,) = told["sent_as"]
    assert got == [seen for seen in got if sent_as.replace("-", "") in seen]
    assert main([*asked, "--sent-as", sent_as]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_gateway_does_not_start_on_a_chain_that_was_changed(tmp_path: Path) -> None:
    path = segments(rig.audit(tmp_path / "audit"))[-1].path
    path.write_bytes(path.read_bytes().replace(b'"onprem"', b'"nowher"', 1))
    settings = document(tmp_path, origin="test")
    settings["endpoints"]["local"] = {"kind": "triton", "zone": "onprem", "grpc": "127.0.0.1:9"}
    config = tmp_path / "spillway.yaml"
    config.write_text(yaml.safe_dump(settings))
    ended = subprocess.run(
        [sys.executable, "-m", "gateway", "serve", "--config", str(config)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert f"{path}, line 2: the hash of record" in " ".join(ended.stderr.split())
    assert "Keep the directory as evidence" in ended.stderr
