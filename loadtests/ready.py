"""How long a gateway takes from its start until it is ready, and what memory it then has.

    python -m loadtests.ready [--starts 7] [--config FILE] [--json]

Starts `spillway serve` again and again, without a model to load: a key, patterns, the audit, the
ledger and an echo as its cloud endpoint; or by settings of yours, on free ports, with endpoints
that are up. First comes `spillway prepare`, and a start that is not counted. Ready is when
`/readyz` says so; then come the processor's time so far, and for each process `Pss` and
`Private_Dirty` of smaps_rollup. Medians. What else the machine does shows in the time, and less in
the processor's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from loadtests import build
from loadtests.cpu import descendants, used_s
from loadtests.peers.process import Process
from loadtests.ports import free_port

_SETTINGS = """
classify: {{profile: patterns}}
keys:
  load: {{key: "${{SPILLWAY_READY_KEY}}", tenant: load}}
endpoints:
  provider: {{kind: openai, zone: cloud, url: "{url}/v1", expected_ms: 2}}
models:
  chat:
    task: generate
    served_by: [{{endpoint: provider, model: echo, price_usd: 0.000001}}]
audit: {{directory: "{scratch}/audit"}}
ledger: {{path: "{scratch}/ledger.db"}}
log: {{level: warning}}
"""
_KEY = "SPILLWAY_READY_KEY"
_LOOK_S = 0.002
_START_S = 180.0


@dataclass(frozen=True, slots=True)
class Part:
    """One process of a gateway: what it had used of the processor, and holds of memory."""

    process: str
    cpu_s: float
    pss_mb: float
    private_mb: float


@dataclass(frozen=True, slots=True)
class Start:
    ready_s: float
    cpu_s: float  # of all its processes
    parts: tuple[Part, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--starts", type=int, default=7)
    parser.add_argument("--config", type=Path, help="settings of yours, served on free ports")
    build.add_choice(parser)
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    args = parser.parse_args()
    environment = {_KEY: "of-nobody", **build.environment(args.compiled)}
    with tempfile.TemporaryDirectory(prefix="spillway-ready-") as folder:
        scratch = Path(folder)
        if args.config is None:
            starts = _beside_an_echo(args.starts, scratch, environment)
        else:
            starts = _starts(args.starts, args.config, scratch, environment)
    said = summary(starts)
    print(f"ready after {said['ready_s']:.2f} s, {said['cpu_s']:.2f} s of the processor")
    for part in starts[-1].parts:
        print(
            f"{part.process:10} {part.cpu_s:.2f} s {part.pss_mb:6.1f} MB Pss"
            f" {part.private_mb:6.1f} MB private"
        )
    if args.json:
        print(json.dumps({**said, "starts": [asdict(start) for start in starts]}))


def _beside_an_echo(count: int, scratch: Path, environment: Mapping[str, str]) -> list[Start]:
    port, grpc_port = free_port(), free_port()
    ports = ["--port", str(port), "--grpc-port", str(grpc_port)]
    echo = Process([sys.executable, "-m", "loadtests.echo", *ports], scratch / "echo.log")
    settings = scratch / "spillway.yaml"
    settings.write_text(_SETTINGS.format(scratch=scratch, url=f"http://127.0.0.1:{port}"))
    try:
        echo.await_answer(port, "/health", 20)
        return _starts(count, settings, scratch, environment)
    finally:
        echo.stop()


def _starts(
    count: int, settings: Path, scratch: Path, environment: Mapping[str, str]
) -> list[Start]:
    prepare = [sys.executable, "-m", "gateway", "prepare", "--config", str(settings)]
    subprocess.run(prepare, check=True, stdout=sys.stderr, env={**os.environ, **environment})
    _started(settings, scratch, environment)
    return [_started(settings, scratch, environment) for _ in range(count)]


def summary(starts: Sequence[Start]) -> dict[str, float]:
    """Medians over all starts; memory of all processes together."""
    return {
        "ready_s": statistics.median(start.ready_s for start in starts),
        "cpu_s": statistics.median(start.cpu_s for start in starts),
        "pss_mb": statistics.median(sum(p.pss_mb for p in start.parts) for start in starts),
        "private_mb": statistics.median(sum(p.private_mb for p in start.parts) for start in starts),
    }


def _started(settings: Path, scratch: Path, environment: Mapping[str, str]) -> Start:
    ready = scratch / "ready.json"
    ready.unlink(missing_ok=True)
    serve = ["serve", "--config", str(settings), "--ready-file", str(ready)]
    ports = ["--http-port", "0", "--grpc-port", "0"]
    began_s = time.perf_counter()
    process = Process(
        [sys.executable, "-m", "gateway", *serve, *ports], scratch / "log", environment
    )
    try:
        while not ready.exists() and time.perf_counter() - began_s < _START_S:
            if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                sys.exit(f"it ended: {process.said()}")
            time.sleep(_LOOK_S)
        process.await_answer(json.loads(ready.read_text())["http_port"], "/readyz", _START_S)
        ready_s = time.perf_counter() - began_s
        cpu_s = used_s(process.pid)
        scanners = [_part("scanner", used_s(pid), pid) for pid in descendants(process.pid)]
        own_s = cpu_s - sum(scanner.cpu_s for scanner in scanners)
        return Start(ready_s, cpu_s, (_part("gateway", own_s, process.pid), *scanners))
    finally:
        process.stop()


def _part(name: str, cpu_s: float, pid: int) -> Part:
    kb = {
        line.split(":")[0]: int(line.split()[1])
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    }
    return Part(name, cpu_s, kb["Pss"] / 1024, kb["Private_Dirty"] / 1024)


if __name__ == "__main__":
    main()
