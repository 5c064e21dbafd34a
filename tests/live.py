"""Real processes for tests: a gateway with its embedded Triton, and a simulated cloud."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import yaml

from gateway.accounting.audit import alias_key
from gateway.accounting.audit.reports.calls import record_key
from gateway.demo.cloud.process import SimulatedCloud

ROOT = Path(__file__).parent.parent
MODELS = ROOT / "models"
SERVED = ("fraud_score", "minilm", "scribe", "simple")
CL100K = (
    Path(sysconfig.get_path("purelib"))
    / "litellm/litellm_core_utils/tokenizers/9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
)
"""The vocabulary cl100k_base, under the name that tiktoken's cache has for it."""
_T = TypeVar("_T")


class LoopThread:
    """One event loop in a thread that lives as long as the tests, for their async handles."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


@dataclass
class LiveGateway:
    """A `spillway serve` of its own."""

    process: subprocess.Popen[bytes]
    http_url: str
    grpc_target: str
    audit: Path
    log_path: Path
    client: httpx.Client = field(repr=False)

    def connect(self) -> httpx.Client:
        """A client with connections of its own. It reads no certificates: that takes as long as
        ten calls."""
        return httpx.Client(base_url=self.http_url, trust_env=False, timeout=120, verify=False)

    def records(self) -> list[dict[str, Any]]:
        """Of calls, once no more come, each with its end: nothing waits for that. What the audit
        notes of itself is left out."""
        found: dict[tuple[str, int], dict[str, Any]] = {}
        for record in map(json.loads, self._settled().splitlines()):
            if record["kind"] == "call":
                found[record_key(record)] = record
            elif record["kind"] == "end":
                found[record_key(record)].update(record, kind="call")
        return list(found.values())

    def _settled(self) -> bytes:
        """As it is when nothing has been added for a moment, and every call has its end; at the
        latest after a few of them."""
        found = self.audited()
        for _ in range(20):
            time.sleep(0.03)
            before, found = found, self.audited()
            under_way = found.count(b'"outcome":"sent"') > found.count(b'"kind":"end"')
            if found == before and not under_way:
                break
        return found

    def audited(self) -> bytes:
        return b"".join(p.read_bytes() for p in sorted(self.audit.glob("*.jsonl")))

    def record(self, request_id: str) -> dict[str, Any]:
        """Waited for: a refusal does not wait for its record. `request_id`: of the answer, which
        a caller may have given."""
        found: list[dict[str, Any]] = []

        def there() -> bool:
            key = alias_key.known(self.audit)
            ids = {request_id} if key is None else {request_id, key.call_alias(request_id)}
            found[:] = [r for r in self.records() if r["id"] in ids]
            return bool(found)

        wait_until(there, 5.0)
        return found[0]

    def metrics(self) -> str:
        return self.client.get("/metrics").text

    def triton_pid(self) -> int:
        """The embedded server: a child of the gateway that runs the tritonserver binary."""
        for child in _children(self.process.pid):
            if os.readlink(f"/proc/{child}/exe").endswith("/tritonserver"):
                return child
        raise AssertionError("the gateway has no Triton")


def descendants(pid: int) -> list[int]:
    """All processes that a process has started, and those that they have."""
    return [one for child in _children(pid) for one in (child, *descendants(child))]


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found += [int(p) for p in (task / "children").read_text().split()]
    return found


def repository(scratch: Path, *names: str) -> Path:
    """A repository of these models of ./models. Triton starts a process for every model."""
    folder = scratch / "served"
    folder.mkdir(exist_ok=True)
    for name in names:
        if not (folder / name).exists():
            (folder / name).symlink_to(MODELS / name)
    return folder


def settings(
    cloud: SimulatedCloud | None,
    scratch: Path,
    also: Iterable[str] = (),
    only: Iterable[str] = SERVED,
    **changes: Any,
) -> dict[str, Any]:
    """Settings of a gateway over `only` these of ./models and, when given, the simulated cloud.
    `also`: other models that its Triton loads. Each costs a process."""
    endpoints: dict[str, Any] = {
        "local": {
            "kind": "triton",
            "zone": "onprem",
            "embedded": True,
            "repository": str(repository(scratch, *only, *also)),
            "expected_ms": 20,
        }
    }
    if cloud is not None:
        endpoints["cloud"] = {"kind": "openai", "zone": "cloud", "url": cloud.http_url}
        endpoints["cloud-v2"] = {"kind": "kserve", "zone": "cloud", "url": cloud.http_url}
        endpoints["cloud-grpc"] = {"kind": "kserve", "zone": "cloud", "grpc": cloud.grpc_target}
        for name in ("cloud", "cloud-v2", "cloud-grpc"):
            endpoints[name] |= {"expected_ms": 150}

    def served(*names: str, **more: Any) -> list[dict[str, Any]]:
        return [
            {"endpoint": n, **(more if n != "local" else {})}
            for n in names
            if n in endpoints
        ]  # fmt: skip

    document: dict[str, Any] = {
        "listen": {"http_port": 0, "grpc_port": 0},
        "audit": {"directory": str(scratch / "audit")},
        # Tests stop it, for as long as it takes, and do not wait for its figures.
        "health": {"embedded_silent_s": 600.0, "triton_metrics_s": 0.5},
        "endpoints": endpoints,
        "models": {
            "minilm": {
                "task": "embeddings",
                "text_inputs": ["text"],
                "tensors": "clear",
                "served_by": served("local", "cloud", "cloud-v2", price_usd=0.001),
            },
            "scribe": {
                "task": "generate",
                "text_inputs": ["text_input", "sampling_parameters"],
                "tensors": "clear",
                "max_batch": 8,
                "served_by": served("local", "cloud", substitute=True, price_usd=0.002),
            },
            "fraud_score": {"served_by": served("local", "cloud-v2", price_usd=0.001)},
            "simple": {
                "tensors": "clear",
                "served_by": served("local", "cloud-v2", "cloud-grpc", price_usd=0.001),
            },
        },
    }
    document["models"] = {name: document["models"][name] for name in only}
    document.update(changes)
    return document


def cloud_only(document: dict[str, Any]) -> dict[str, Any]:
    """Without the embedded Triton, which takes seconds to start."""
    del document["endpoints"]["local"]
    for model in document["models"].values():
        model["served_by"] = [s for s in model["served_by"] if s["endpoint"] != "local"]
    return document


@contextlib.contextmanager
def serving(document: dict[str, Any], scratch: Path) -> Iterator[LiveGateway]:
    """Run `spillway serve` on free ports until the block ends; SIGTERM then, and it must obey."""
    config = scratch / "spillway.yaml"
    config.write_text(yaml.safe_dump(document))
    ready, log = scratch / "ready.json", scratch / "gateway.log"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "gateway", "serve"]
    with log.open("ab") as out:
        process = subprocess.Popen(
            [*command, "--config", str(config), "--ready-file", str(ready)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=ROOT,
        )
    try:
        wait_until(lambda: ready.exists() or process.poll() is not None, 90)
        assert process.poll() is None, log.read_text()[-4000:]
        ports = json.loads(ready.read_text())
        url = f"http://127.0.0.1:{ports['http_port']}"
        with httpx.Client(base_url=url, trust_env=False, timeout=120, verify=False) as client:
            yield LiveGateway(
                process,
                url,
                f"127.0.0.1:{ports['grpc_port']}",
                Path(document["audit"]["directory"]),
                log,
                client,
            )
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
            raise


@contextlib.contextmanager
def simulated_cloud(loop: LoopThread, **changes: Any) -> Iterator[SimulatedCloud]:
    start = {"round_trip_median_ms": 5.0, "service_ms": 1.0, "service_per_token_ms": 0.1}
    held = _Held(SimulatedCloud.start(MODELS, **{**start, "between_tokens_ms": 1.0, **changes}))
    cloud = loop.run(held.enter())
    try:
        yield cloud
    finally:
        loop.run(held.leave())


class _Held:
    """An async context entered and left from synchronous code."""

    def __init__(self, context: contextlib.AbstractAsyncContextManager[SimulatedCloud]) -> None:
        self._context = context

    async def enter(self) -> SimulatedCloud:
        return await self._context.__aenter__()

    async def leave(self) -> None:
        await self._context.__aexit__(None, None, None)


def wait_until(reached: Any, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)
