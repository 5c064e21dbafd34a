"""Whether a gateway grows over many calls: memory, open files, and what a call costs.

    python -m loadtests.growth [--calls 1000000] [--step 100000] [--model inspected]

One gateway with a key, the audit and the ledger, before an echo (`loadtests.echo`); 16 callers ask
without a pause, every prompt different. After each step: the memory that the gateway's processes
have for themselves (`Private` of smaps_rollup), their open files and threads, and the processor's
time of a call. At the end the slope over the second half, in bytes a call, as caches are full by
then. Exits with 1 when that is over --most, which is 20 MB in a million calls.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import uvloop

from loadtests import build
from loadtests.cpu import descendants
from loadtests.load.generator import run
from loadtests.load.messages import KINDS, Shape
from loadtests.load.plan import Plan
from loadtests.peers import Running, Site
from loadtests.peers.process import Process
from loadtests.peers.spillway import Spillway
from loadtests.ports import free_port

_CONNECTIONS = 16
_WINDOW_S = 2.0


@dataclass(frozen=True, slots=True)
class Step:
    calls: int  # since the start
    private_mb: float
    files: int
    threads: int
    cpu_ms: float  # of a call of this step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--step", type=int, default=100_000, help="calls between two looks")
    parser.add_argument("--model", default="inspected", help="inspected, public or onprem")
    parser.add_argument("--kind", default="chat", choices=[k for k in KINDS if k != "grpc"])
    parser.add_argument("--most", type=float, default=20.0, help="bytes a call, second half")
    build.add_choice(parser)
    parser.add_argument("--scratch", type=Path, help="of the records; a million calls need 3 GB")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spillway-growth-", dir=args.scratch) as scratch:
        steps = _measured(args, Path(scratch))
    slope = growth_bytes(steps)
    print(f"growth over the second half: {slope:.1f} bytes a call")
    if args.json:
        print(json.dumps({"steps": [asdict(step) for step in steps], "bytes_per_call": slope}))
    if slope > args.most:
        sys.exit(f"it grows by more than {args.most:g} bytes a call")


def growth_bytes(steps: Sequence[Step]) -> float:
    """A call, by least squares over the second half of the steps; 0.0 where there are not two."""
    half = steps[len(steps) // 2 :]
    if len(half) < 2:
        return 0.0
    fit = statistics.linear_regression(
        [step.calls for step in half], [step.private_mb for step in half]
    )
    return fit.slope * 2**20


def _measured(args: argparse.Namespace, scratch: Path) -> list[Step]:
    port, grpc_port = free_port(), free_port()
    ports = ["--port", str(port), "--grpc-port", str(grpc_port), "--chunks", "10"]
    echo = Process([sys.executable, "-m", "loadtests.echo", *ports], scratch / "echo.log")
    gateway = Spillway("gateway", args.model, "", tensors=True, compiled=args.compiled)
    try:
        echo.await_answer(port, "/health", 20)
        running = gateway.start(Site(port, grpc_port, scratch, scratch))
        plan = _plan(args, running)
        print(f"{'calls':>10} {'private MB':>11} {'files':>6} {'threads':>8} {'CPU ms/call':>12}")
        steps: list[Step] = []
        done = 0
        while done < args.calls:
            step = _step(plan, done, min(args.step, args.calls - done), running.pids[0])
            done = step.calls
            steps.append(step)
            print(
                f"{step.calls:10,} {step.private_mb:11.1f} {step.files:6} {step.threads:8}"
                f" {step.cpu_ms:12.3f}",
                flush=True,
            )
        return steps
    finally:
        gateway.stop()
        echo.stop()


def _plan(args: argparse.Namespace, at: Running) -> Plan:
    tensors = args.kind.startswith("v2")
    url = at.v2_url if tensors else at.chat_url
    assert url is not None, "ours speaks all of them"
    shape = Shape(
        kind=args.kind, model=at.v2_model if tensors else at.chat_model, headers=at.headers
    )
    return Plan(
        url=url,
        shape=shape,
        connections=_CONNECTIONS,
        window_s=_WINDOW_S,
        warm_up_s=0.0,
        pids=at.pids,
    )


def _step(plan: Plan, done: int, calls: int, pid: int) -> Step:
    """Windows of load until so many more calls were answered."""
    costs, until = [], done + calls
    while done < until:
        seeded = replace(plan, shape=replace(plan.shape, seed=done))
        result = uvloop.run(run(seeded))
        if result.failed or not result.answered:
            sys.exit(f"calls failed: {dict(result.failed)} {result.samples}")
        done += result.sent
        costs.append(result.cpu_ms or 0.0)
    private_mb, files, threads = _held(pid)
    return Step(done, private_mb, files, threads, statistics.median(costs))


def _held(pid: int) -> tuple[float, int, int]:
    """MB for itself, open files and threads of a process and all below it."""
    kb = files = threads = 0
    for each in (pid, *descendants(pid)):
        folder = Path(f"/proc/{each}")
        for line in (folder / "smaps_rollup").read_text().splitlines():
            if line.startswith("Private_"):
                kb += int(line.split()[1])
        files += len(list((folder / "fd").iterdir()))
        threads += len(list((folder / "task").iterdir()))
    return kb / 1024, files, threads


if __name__ == "__main__":
    main()
