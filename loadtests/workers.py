"""What several workers take: calls a second, and the processor's time of each process.

    python -m loadtests.workers --workers 2 [--model there] [--seconds 6] [--connections 64]

As many calls at once as there are connections, each the next one as soon as it is answered, to an
echo (`loadtests.echo`). Where the machine has a processor for everybody, compare calls a second.
Where it has not, compare what the busiest process allows: `bound` is the calls over the processor's
time of that one, as no gateway takes more calls than its busiest process has time for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop
import yaml

from loadtests import build
from loadtests.load.messages import Messages, Shape, messages
from loadtests.ports import free_port

_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
_WARM_S = 2.0
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--model", default="there", help="there (in the cloud) or here (on-prem)")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--connections", type=int, default=64)
    build.add_choice(parser)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        print(json.dumps(_measured(args, Path(scratch))))


def _measured(args: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    port, other, ready = free_port(), free_port(), scratch / "ready.json"
    echo = [sys.executable, "-m", "loadtests.echo", "--port", str(port), "--grpc-port", str(other)]
    (scratch / "settings.yaml").write_text(yaml.safe_dump(_settings(port, args.workers, scratch)))
    serve = [sys.executable, "-m", "gateway", "serve", "--config", str(scratch / "settings.yaml")]
    with subprocess.Popen(echo) as behind:
        environment = {**os.environ, **build.environment(args.compiled)}
        gateway = subprocess.Popen([*serve, "--ready-file", str(ready)], env=environment)
        try:
            while not ready.exists():
                if gateway.poll() is not None:
                    raise SystemExit("the gateway did not start")
                time.sleep(0.1)
            told = json.loads(ready.read_text())
            pids = told.get("workers", [told["pid"]])
            return uvloop.run(_load(args, told["http_port"], pids))
        finally:
            gateway.send_signal(signal.SIGTERM)
            gateway.wait(60)
            behind.kill()


def _settings(port: int, workers: int, scratch: Path) -> dict[str, Any]:
    url = f"http://127.0.0.1:{port}/v1"
    own = {"kind": "openai", "zone": "onprem", "url": url, "canary": False}
    cloud = {"kind": "openai", "zone": "cloud", "url": url}
    paid = {"endpoint": "cloud", "model": "echo", "price_usd": 0.000001}
    return {
        "listen": {"http_port": 0, "grpc_port": 0, "workers": workers},
        "classify": {"profile": "patterns"},
        "endpoints": {
            name: {**its, "expected_ms": 2, "max_in_flight": 1024}
            for name, its in (("own", own), ("cloud", cloud))
        },
        "models": {
            "here": {
                "task": "generate", "max_batch": 64,
                "served_by": [{"endpoint": "own", "model": "echo"}],
            },
            "there": {"task": "generate", "served_by": [paid]},
        },
        "audit": {"directory": str(scratch / "audit")},
        "log": {"level": "warning"},
    }  # fmt: skip


async def _load(args: argparse.Namespace, port: int, pids: list[int]) -> dict[str, Any]:
    count = [0]
    authority = f"127.0.0.1:{port}"
    callers = [
        asyncio.create_task(
            _calls(port, messages(Shape(model=args.model, seed=n), authority), count)
        )
        for n in range(args.connections)
    ]
    await asyncio.sleep(_WARM_S)
    before, calls, since_s = [_used_s(pid) for pid in pids], count[0], time.monotonic()
    await asyncio.sleep(args.seconds)
    took_s, calls = time.monotonic() - since_s, count[0] - calls
    used = [_used_s(pid) - was for pid, was in zip(pids, before, strict=True)]
    for caller in callers:
        caller.cancel()
    failed = [r for r in await asyncio.gather(*callers, return_exceptions=True)
              if not isinstance(r, asyncio.CancelledError)]  # fmt: skip
    if failed:
        raise SystemExit(f"calls failed: {failed[0]!r}")
    return {
        "workers": args.workers,
        "model": args.model,
        "calls_per_s": round(calls / took_s, 1),
        "processor_s": [round(s, 2) for s in used],
        "ms_per_call": round(1000 * sum(used) / calls, 4),
        "bound": round(calls / max(used), 1),
    }


async def _calls(port: int, some: Messages, count: list[int]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while True:
            writer.write(some.next())
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(head.decode())
            length = _LENGTH.search(head)
            assert length is not None
            await reader.readexactly(int(length[1]))
            count[0] += 1
    finally:
        writer.close()


def _used_s(pid: int) -> float:
    """Of the processor, by a process and all of its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


if __name__ == "__main__":
    main()
