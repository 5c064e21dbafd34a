"""Several `spillway serve` in front of one real Triton that all of them know by its address."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.demo.cloud.process import SimulatedCloud
from gateway.endpoints.triton.server.options import TritonOptions
from gateway.endpoints.triton.server.server import TritonServer
from loadtests.ports import free_port
from tests.live import MODELS, ROOT, LiveGateway, LoopThread, serving
from tests.unit.cluster.authority import Authority

TIMED = ROOT / "loadtests" / "decide" / "repository"  # 40 ms and 10 ms for every row of a batch
SERVED = ("crawling", "scribe", "simple", "timed")
NAMES = ("east", "north", "west")  # in order: the file that `serving` writes is sorted
DWELL_S = 3.0


@contextlib.contextmanager
def shared_triton(loop: LoopThread) -> Iterator[tuple[int, int]]:
    """Its HTTP and gRPC ports."""
    with tempfile.TemporaryDirectory() as more:
        _make_crawling(Path(more))
        options = TritonOptions((TIMED, Path(more), MODELS), models=SERVED)
        server = TritonServer(options)
        loop.run(_entered(server))
        try:
            yield server.ports.http, server.ports.grpc
        finally:
            loop.run(server.aclose())


def _make_crawling(repository: Path) -> None:
    """`timed` at four calls in 2.9 s, so that a few callers are too many on any machine."""
    shutil.copytree(TIMED / "timed", repository / "crawling")
    config = repository / "crawling" / "config.pbtxt"
    text = config.read_text()
    for old, new in (
        ('"timed"', '"crawling"'),
        ("max_batch_size: 16", "max_batch_size: 4"),
        ('string_value: "40"', 'string_value: "900"'),
        ('string_value: "10"', 'string_value: "500"'),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    config.write_text(text)


async def _entered(server: TritonServer) -> None:
    await server.__aenter__()


@dataclass
class Gateways:
    """The running ones by name, and what is needed to start another."""

    triton: tuple[int, int]
    cloud: SimulatedCloud
    scratch: Path
    authority: Authority
    names: tuple[str, ...] = NAMES
    ports: dict[str, int] = field(default_factory=dict)
    running: dict[str, LiveGateway] = field(default_factory=dict)
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack, repr=False)

    def __post_init__(self) -> None:
        self.ports = {name: free_port() for name in self.names}

    def __getitem__(self, name: str) -> LiveGateway:
        return self.running[name]

    def start(self, name: str) -> LiveGateway:
        home = self.scratch / name
        home.mkdir(exist_ok=True)
        found = self._stack.enter_context(serving(self.settings(name), home))
        self.running[name] = found
        return found

    def close(self) -> None:
        for gateway in self.running.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(gateway.process.pid, signal.SIGCONT)
        self._stack.close()

    def kill(self, name: str) -> None:
        self.running[name].process.kill()
        self.running[name].process.wait(10)

    def settings(self, name: str) -> dict[str, Any]:
        http, grpc = self.triton
        cert, key = self.authority.issue(name)
        place = {"endpoint": "gpu"}
        return {
            "listen": {"http_port": 0, "grpc_port": 0},
            "audit": {"directory": str(self.scratch / name / "audit")},
            "endpoints": {
                "gpu": {"kind": "triton", "zone": "onprem", "url": f"http://127.0.0.1:{http}",
                        "grpc": f"127.0.0.1:{grpc}", "expected_ms": 60},
                "away": {"kind": "kserve", "zone": "cloud", "url": self.cloud.http_url,
                         "expected_ms": 90},
                "provider": {"kind": "openai", "zone": "cloud", "url": self.cloud.http_url,
                             "expected_ms": 150},
            },
            "models": {
                "timed": {"tensors": "clear", "rows_independent": True, "served_by": [
                    place,
                    {"endpoint": "away", "model": "simple", "substitute": False,
                     "price_usd": 0.001},
                ]},
                "crawling": {"tensors": "clear", "rows_independent": True, "served_by": [
                    place,
                    {"endpoint": "away", "model": "simple", "substitute": False,
                     "price_usd": 0.001},
                ]},
                "simple": {"tensors": "clear", "served_by": [
                    place, {"endpoint": "away", "price_usd": 0.001}]},
                "scribe": {"task": "generate", "text_inputs": ["text_input"], "tensors": "clear",
                           "max_batch": 8, "served_by": [
                    place, {"endpoint": "provider", "substitute": True, "price_usd": 0.002}]},
            },
            "cluster": {
                "self": name,
                "listen": {"port": self.ports[name]},
                "cert_file": str(cert),
                "key_file": str(key),
                "ca_file": str(self.authority.ca),
                "gateways": {
                    n: {"url": f"https://127.0.0.1:{self.ports[n]}",
                        "owns": ["gpu"] if n == self.names[0] else []}
                    for n in self.names
                },
                "dwell_s": DWELL_S,
            },
        }  # fmt: skip

    def decided_by(self, at: str) -> str | None:
        """Who decides on the server, as one gateway sees it."""
        told: Mapping[str, Any] = self[at].client.get("/status").json()["cluster"]
        found: str | None = told["gateways"][self.names[0]]["decided_by"]
        return found

    def counted(self, at: str, metric: str) -> float:
        lines = self[at].metrics().splitlines()
        return sum(float(x.rpartition(" ")[2]) for x in lines if x.startswith(metric))
