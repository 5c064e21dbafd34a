"""What batching brings on each model, and what of it is left behind the gateway.

    python -m loadtests.models.batching --rounds 5
    python -m loadtests.models.batching --only minilm --words 4 12 40 120
    python -m loadtests.models.batching --gateway --rounds 5
    python -m loadtests.models.batching --gateway --apart --only minilm paced
    python -m loadtests.models.batching --gateway --protocol http    # or openai: embeddings

One real Triton serves all of them. `alone` is one caller that asks for one row and then for the
next; `crowd` is `--callers` of them at once. `batch` is Triton's own count of rows by executions.
`cpu_times` compares what a call costs of the processor at Triton, alone and in a crowd. All parts
take turns, round by round, and the figures are medians over the rounds. The generator has
continuous batching, of which Triton counts nothing: its `batch` is words by steps, by its count.

With `--gateway` a `spillway serve` stands in front of the same Triton, and the crowd asks both in
turns; `gateway_cpu_ms` is what a call costs of the processor in the gateway, its scan workers
included, `behind_cpu_ms` at Triton then, and `cpu_kept` what a call costs there without the gateway
by the two together: the share of calls that as many cores serve, whatever the callers cost. The
gateway reads every text. `--apart` leaves the first core to Triton, and the others to
the gateway and the callers, as on two machines; without it all of them share all cores. `paced` is
a model that sleeps 20 ms and 1 ms a row, as a GPU would be busy without using the processor.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import uvloop
from rich.console import Console
from rich.table import Table

from gateway.endpoints.triton.server.options import TritonOptions
from gateway.endpoints.triton.server.server import TritonServer
from gateway.models import declaration
from gateway.models.declaration import Declaration
from gateway.models.profiling.load import WARM, LoadTarget, Measured, connected
from gateway.models.profiling.samples import requests
from loadtests import build
from loadtests.models import processes
from loadtests.models.over_http import over_http
from tests.live import LiveGateway, serving

MODELS = Path(__file__).resolve().parents[2] / "models"
PACED = Path(__file__).resolve().parents[1] / "decide/repository/timed"
BATCHED = ("minilm", "fraud_score", "image_inspection", "names")
GENERATOR = "scribe"
_SAMPLES = 64
_TEXTS = {"task": "embeddings", "text_inputs": ["text"]}


@dataclass(frozen=True, slots=True)
class Case:
    model: str
    words: int
    requests: list[bytes]

    @property
    def name(self) -> str:
        return f"{self.model}, {self.words} words" if self.words else self.model


@dataclass(slots=True)
class Found:
    """Of one case, over the rounds."""

    case: str
    alone: list[Measured] = field(default_factory=list)
    crowd: list[Measured] = field(default_factory=list)
    behind: list[Measured] = field(default_factory=list)  # the gateway
    alone_cpu_s: list[float] = field(default_factory=list)  # at Triton, a call
    crowd_cpu_s: list[float] = field(default_factory=list)
    gateway_cpu_s: list[float] = field(default_factory=list)
    behind_cpu_s: list[float] = field(default_factory=list)  # at Triton, a call through the gateway
    steps: list[float] = field(default_factory=list)  # the generator's words by its steps
    provider: str = ""  # of ONNX Runtime, by the model's own word; empty: it says none

    def figures(self) -> dict[str, Any]:
        alone, crowd = rate(self.alone), rate(self.crowd)
        told: dict[str, Any] = {
            "case": self.case,
            "alone_per_s": round(alone, 1),
            "crowd_per_s": round(crowd, 1),
            "times": round(crowd / alone, 2),
            "alone_cpu_ms": round(1000 * median(self.alone_cpu_s), 2),
            "crowd_cpu_ms": round(1000 * median(self.crowd_cpu_s), 2),
            "cpu_times": round(median(self.alone_cpu_s) / median(self.crowd_cpu_s), 2),
            "batch": round(median(self.steps or [m.executed for m in self.crowd]), 1),
            "provider": self.provider,
        }
        if self.behind:
            pairs = zip(self.behind, self.crowd, strict=True)
            told |= {
                "gateway_per_s": round(rate(self.behind), 1),
                "kept": round(median(b.calls_per_s / c.calls_per_s for b, c in pairs), 3),
                "gateway_batch": round(median(m.executed for m in self.behind), 1),
                "gateway_cpu_ms": round(1000 * median(self.gateway_cpu_s), 2),
                "behind_cpu_ms": round(1000 * median(self.behind_cpu_s), 2),
                "cpu_kept": round(self._cpu_kept(), 3),
            }
        return told

    def _cpu_kept(self) -> float:
        rounds = zip(self.crowd_cpu_s, self.behind_cpu_s, self.gateway_cpu_s, strict=True)
        return median(direct / (behind + gateway) for direct, behind, gateway in rounds)


def rate(found: list[Measured]) -> float:
    return median(one.calls_per_s for one in found)


def cases(only: list[str], words: list[int], paced: bool) -> Iterator[Case]:
    for model in (*BATCHED, "paced" if paced else GENERATOR):
        if only and model not in only:
            continue
        if model == "paced":
            yield Case(model, 0, [_paced_request()])
            continue
        declared = declaration.load(MODELS / model / declaration.FILE)
        for count in words if declared.batch and _has_text(declared) else [5 * declared.decoupled]:
            yield Case(model, count, requests(declared, 1, count, _SAMPLES))


def _has_text(declared: Declaration) -> bool:
    return any(tensor.text for tensor in declared.inputs.values())


def _paced_request() -> bytes:
    from tritonclient.grpc import service_pb2  # beside its only use

    message = service_pb2.ModelInferRequest(model_name="paced")
    for name in ("INPUT0", "INPUT1"):
        message.inputs.add(name=name, datatype="INT32", shape=[1, 16])
        message.raw_input_contents.append(bytes(64))
    written: bytes = message.SerializeToString()
    return written


def repository(at: Path) -> Path:
    """Links to the models, and the one that sleeps."""
    for model in (*BATCHED, GENERATOR):
        (at / model).symlink_to(MODELS / model)
    shutil.copytree(PACED, at / "paced")
    config = (at / "paced/config.pbtxt").read_text()
    config = config.replace('"timed"', '"paced"').replace('"40"', '"20"').replace('"10"', '"1"')
    (at / "paced/config.pbtxt").write_text(config)
    return at


def settings(server: TritonServer, scratch: Path) -> dict[str, Any]:
    served = {"tensors": "clear", "served_by": [{"endpoint": "gpu"}]}
    address = f"127.0.0.1:{server.ports.grpc}"
    return {
        "listen": {"http_port": 0, "grpc_port": 0},
        "audit": {"directory": str(scratch / "audit")},
        "endpoints": {
            "gpu": {"kind": "triton", "zone": "onprem", "grpc": address, "expected_ms": 20}
        },
        "models": {
            model: served | (_TEXTS if model == "minilm" else {}) for model in (*BATCHED, "paced")
        },
    }


@contextlib.asynccontextmanager
async def triton(scratch: Path, apart: bool) -> AsyncIterator[TritonServer]:
    (scratch / "models").mkdir()
    options = TritonOptions(repositories=(repository(scratch / "models"),))
    server = TritonServer(options)
    with processes.starting_on({min(os.sched_getaffinity(0))} if apart else None):
        await server.start()
    try:
        if server.unavailable:
            raise SystemExit(f"not served: {dict(server.unavailable)}; python models/build.py")
        yield server
    finally:
        await server.aclose()


async def measure(args: argparse.Namespace, scratch: Path) -> list[Found]:
    chosen = list(cases(args.only, args.words, args.gateway))
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(triton(scratch, args.apart))
        own = os.sched_getaffinity(0)
        if args.apart:
            own = own - {min(own)}
            os.sched_setaffinity(0, own)
        gateway = None
        if args.gateway:
            document = settings(server, scratch)
            gateway = await asyncio.to_thread(_start, stack, document, scratch, own)
        found = [Found(case.name) for case in chosen]
        for _ in range(args.rounds):
            for case, one in zip(chosen, found, strict=True):
                await _round(args, case, one, server, gateway)
        providers = {one.model: one.provider for one in server.provided}
        for case, one in zip(chosen, found, strict=True):
            one.provider = providers.get(case.model, "")
        return found


def _start(
    stack: contextlib.AsyncExitStack, document: dict[str, Any], scratch: Path, cores: set[int]
) -> LiveGateway:
    """In a thread, which may have been there before its process was kept to these cores."""
    with processes.starting_on(cores):
        gateway = stack.enter_context(serving(document, scratch))
    for pid in processes.tree(gateway.process.pid):
        assert os.sched_getaffinity(pid) == cores, "the gateway is not where it is said to be"
    return gateway


async def _round(
    args: argparse.Namespace,
    case: Case,
    found: Found,
    server: TritonServer,
    gateway: LiveGateway | None,
) -> None:
    pid, streamed = server.pid or 0, case.model == GENERATOR
    direct_at = f"127.0.0.1:{server.ports.grpc}", f"http://127.0.0.1:{server.ports.http}"
    async with _target(args, *direct_at, case.model, direct=True) as direct:
        measured, cpu_s = await _metered(direct, case, 1, args.seconds, pid)
        found.alone.append(measured)
        found.alone_cpu_s.append(cpu_s)
        before = await _made(server) if streamed else (0.0, 0.0)
        measured, cpu_s = await _metered(direct, case, args.callers, args.seconds, pid)
        found.crowd.append(measured)
        found.crowd_cpu_s.append(cpu_s)
        if streamed:
            steps, words = (a - b for a, b in zip(await _made(server), before, strict=True))
            found.steps.append(words / steps)
        if gateway is None:
            return
        behind_at = gateway.grpc_target, gateway.http_url
        async with _target(args, *behind_at, case.model, direct=False) as behind:
            await behind.measure(case.requests, args.callers, 0.3)  # its scans' caches
            own, before_s = gateway.process.pid, processes.cpu_s(gateway.process.pid)
            measured, cpu_s = await _metered(behind, case, args.callers, args.seconds, pid)
            found.behind.append(measured)
            found.behind_cpu_s.append(cpu_s)
            found.gateway_cpu_s.append(_each(processes.cpu_s(own) - before_s, measured))


def _target(
    args: argparse.Namespace, grpc_address: str, url: str, model: str, *, direct: bool
) -> AbstractAsyncContextManager[LoadTarget]:
    """Triton has no embeddings: its callers of those send tensors."""
    if args.protocol == "grpc" or model == GENERATOR:
        return connected(grpc_address, model, model == GENERATOR)
    return over_http(url, grpc_address, model, args.protocol == "openai" and not direct)


async def _metered(
    target: LoadTarget, case: Case, callers: int, seconds: float, pid: int
) -> tuple[Measured, float]:
    """And what a call cost of the processor in a process and all that it started."""
    before_s = processes.cpu_s(pid)
    measured = await target.measure(case.requests, callers, seconds)
    return measured, _each(processes.cpu_s(pid) - before_s, measured)


def _each(used_s: float, measured: Measured) -> float:
    return used_s / (len(measured.took_s) * (1 + WARM))  # what did not count ran too


async def _made(server: TritonServer) -> tuple[float, float]:
    """The generator's steps and words; it tells them every 64 steps."""
    async with httpx.AsyncClient(trust_env=False) as client:
        told = (await client.get(f"http://127.0.0.1:{server.ports.metrics}/metrics")).text
    said = re.findall(r"^spillway_generator_(\w+)_total\{\S+ (\S+)$", told, re.MULTILINE)
    counts = {what: float(count) for what, count in said}
    return counts.get("steps", 0.0), counts.get("words", 0.0)


def show(found: list[Found]) -> None:
    figures = [one.figures() for one in found]
    table = Table(*figures[0])
    for one in figures:
        table.add_row(*map(str, one.values()))
    Console(width=180).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], choices=(*BATCHED, GENERATOR, "paced"))
    parser.add_argument("--callers", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each part in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--words", type=int, nargs="+", default=[12], help="of a text")
    parser.add_argument("--gateway", action="store_true")
    parser.add_argument("--protocol", default="grpc", choices=("grpc", "http", "openai"))
    build.add_choice(parser)
    parser.add_argument("--apart", action="store_true", help="Triton has a core of its own")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    os.environ |= build.environment(args.compiled)  # what is started from here
    with tempfile.TemporaryDirectory() as scratch:
        found = uvloop.run(measure(args, Path(scratch)))
    if args.json:
        print(json.dumps([one.figures() | {"args": vars(args)} for one in found], indent=1))
    else:
        show(found)


if __name__ == "__main__":
    main()
