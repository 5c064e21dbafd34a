"""The queue against a real Triton: batches under backlog, three times the capacity, and refusals.

    python -m loadtests.decide.live backlog --rounds 3
    python -m loadtests.decide.live overload --seconds 30
    python -m loadtests.decide.live shared --seconds 60

The model holds its server for 40 ms and 10 ms for every row, up to 16: 80 calls a second at most.
`backlog` keeps 64 restricted calls waiting and reads from Triton's own statistics how large the
executed batches were and how many calls were served, for each way of sending the next batch, in
turns; and from the gateway how far its predictions of batches were off. `overload` offers a tenth
of the capacity and then three times as much, 30 % restricted, budgets of 0.5, 1.5 and 4 s for 20,
40 and 40 %, and counts who was answered in time, who left, and how quickly refusals came. `shared`
has two models on the server, each offered `--share` of what it could do alone: `timed`, and `broad`
that takes 100 ms and 5 ms for a row, up to 8. In one repository they sleep, and do not disturb each
other; in the other they hold a lock meanwhile, and execute in turns. Triton waits 4 ms for a batch
to be whole, which else is split whenever it finds an idle model. It prints what the gateway found
out, the executed batches, and who was answered in time once it had, with and without `shares_gpu`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop

from gateway.demo.cloud.process import SimulatedCloud
from loadtests.http import Client
from tests.live import LiveGateway, LoopThread, serving, simulated_cloud, wait_until

MODELS = Path(__file__).parent / "repository"
BATCH, CAPACITY = 16, 80.0
_TENSOR = {"datatype": "INT32", "shape": [1, 16], "data": list(range(16))}
_BODY = json.dumps(
    {"inputs": [{"name": "INPUT0", **_TENSOR}, {"name": "INPUT1", **_TENSOR}]}
).encode()
_CALLERS = 64
_WARM_S = 4.0


def settings(cloud: SimulatedCloud, scratch: Path, lead_ms: float | None) -> dict[str, Any]:
    return {
        "listen": {"http_port": 0, "grpc_port": 0},
        "audit": {"directory": str(scratch / "audit")},
        "endpoints": {
            "local": {"kind": "triton", "zone": "onprem", "embedded": True,
                      "repository": str(MODELS), "expected_ms": 60},
            "away": {"kind": "kserve", "zone": "cloud", "url": cloud.http_url, "expected_ms": 90},
        },
        "models": {
            "timed": {
                "tensors": "clear",
                "served_by": [
                    {"endpoint": "local"},
                    {"endpoint": "away", "model": "simple", "substitute": False,
                     "price_usd": 0.01},
                ],
            }
        },
        "queue": {"lead_ms": lead_ms},
    }  # fmt: skip


@contextlib.contextmanager
def running(lead_ms: float | None) -> Iterator[LiveGateway]:
    loop = LoopThread()
    try:
        with tempfile.TemporaryDirectory() as scratch, simulated_cloud(loop) as cloud:
            path = Path(scratch)
            with serving(settings(cloud, path, lead_ms), path) as gateway:
                wait_until(lambda: executed(gateway)[0] > 0, 60.0)  # its first canary
                yield gateway
    finally:
        loop.close()


def executed(gateway: LiveGateway, model: str = "timed") -> tuple[int, int]:
    """Batches and rows, by Triton's count."""
    (told,) = gateway.client.get(f"/v2/models/{model}/stats").json()["model_stats"]
    return told["execution_count"], told["inference_count"]


def batches(gateway: LiveGateway) -> dict[str, Any]:
    (queue,) = gateway.client.get("/status").json()["queues"]
    found: dict[str, Any] = queue["servers"]["local"]
    return found


@dataclass(frozen=True, slots=True)
class Answer:
    restricted: bool
    budget_s: float
    took_s: float
    status: int
    zone: str
    reason: str

    @property
    def in_time(self) -> bool:
        return self.status == 200 and self.took_s <= self.budget_s


async def ask(http: Client, restricted: bool, budget_s: float, model: str = "timed") -> Answer:
    headers = {"x-latency-budget-ms": f"{budget_s * 1000:g}"}
    if restricted:
        headers["x-spillway-sensitivity"] = "restricted"
    began_s = time.monotonic()
    answer = await http.post(f"/v2/models/{model}/infer", _BODY, headers)
    told = answer.headers
    return Answer(
        restricted, budget_s, time.monotonic() - began_s, answer.status,
        told.get("x-spillway-zone", ""), told.get("x-spillway-reason", ""),
    )  # fmt: skip


# Backlog


@dataclass
class Backlog:
    lead_ms: float | None
    batch: list[float] = field(default_factory=list)
    calls_per_s: list[float] = field(default_factory=list)
    error: list[float] = field(default_factory=list)

    def told(self) -> dict[str, Any]:
        return {
            "lead_ms": self.lead_ms,
            "mean_batch": round(statistics.median(self.batch), 2),
            "of_the_maximum": round(statistics.median(self.batch) / BATCH, 3),
            "calls_per_s": round(statistics.median(self.calls_per_s), 1),
            "of_the_capacity": round(statistics.median(self.calls_per_s) / CAPACITY, 3),
            "batch_error": round(statistics.median(self.error), 3),
        }


async def keep_waiting(gateway: LiveGateway, seconds: float) -> tuple[float, float]:
    """The mean executed batch, and calls served in a second."""

    async def caller(http: Client) -> None:
        while True:
            await ask(http, restricted=True, budget_s=30.0)

    async with Client(gateway.http_url) as http:
        callers = [asyncio.create_task(caller(http)) for _ in range(_CALLERS)]
        await asyncio.sleep(_WARM_S)
        began_s, before = time.monotonic(), await asyncio.to_thread(executed, gateway)
        await asyncio.sleep(seconds)
        after, took_s = await asyncio.to_thread(executed, gateway), time.monotonic() - began_s
        for task in callers:
            task.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
    runs, rows = (b - a for a, b in zip(before, after, strict=True))
    return rows / runs, rows / took_s


def backlog(given: argparse.Namespace) -> list[dict[str, Any]]:
    found = [Backlog(lead_ms) for lead_ms in given.leads]
    for number in range(given.rounds):
        for one in found:
            with running(one.lead_ms) as gateway:
                batch, calls_per_s = uvloop.run(keep_waiting(gateway, given.seconds))
                one.batch.append(batch)
                one.calls_per_s.append(calls_per_s)
                one.error.append(batches(gateway)["error"])
            if not given.json:
                print(f"round {number + 1}: lead {one.lead_ms} ms: batch {batch:.2f}, "
                      f"{calls_per_s:.1f} calls/s, error {one.error[-1]:+.3f}")  # fmt: skip
    return [one.told() for one in found]


# Overload


def mix(random_: random.Random) -> tuple[bool, float]:
    budget_s = random_.choices((0.5, 1.5, 4.0), (0.2, 0.4, 0.4))[0]
    return random_.random() < 0.3, budget_s


async def offer(
    gateway: LiveGateway, per_s: float, seconds: float, seed: int, model: str = "timed"
) -> list[Answer]:
    """Open loop: nobody waits for anybody's answer before the next call is sent."""
    rng = random.Random(seed)
    async with Client(gateway.http_url) as http, asyncio.TaskGroup() as group:
        tasks, at_s, end_s = [], time.monotonic(), time.monotonic() + seconds
        while at_s < end_s:
            await asyncio.sleep(max(0.0, at_s - time.monotonic()))
            tasks.append(group.create_task(ask(http, *mix(rng), model)))
            at_s += rng.expovariate(per_s)
    return [task.result() for task in tasks]


def summed(answers: list[Answer]) -> dict[str, Any]:
    refused = sorted(a.took_s for a in answers if a.status in (429, 503, 504))
    away = [a for a in answers if a.zone == "cloud"]
    return {
        "calls": len(answers),
        "attainment": {
            name: round(statistics.fmean(a.in_time for a in part), 4)
            for name, part in (
                ("restricted", [a for a in answers if a.restricted]),
                ("clear", [a for a in answers if not a.restricted]),
            )
            if part
        },
        "spilled": round(len(away) / len(answers), 4),
        "restricted_in_cloud": sum(a.restricted for a in away),
        "refused": len(refused),
        "refusal_ms": {
            "median": round(1000 * statistics.median(refused), 1),
            "p99": round(1000 * refused[int(0.99 * (len(refused) - 1))], 1),
        }
        if refused
        else None,
        "ends": _ends(answers),
    }


def _ends(answers: list[Answer]) -> dict[str, int]:
    found: dict[str, int] = {}
    for a in answers:
        key = f"{'restricted' if a.restricted else 'clear'} {a.status} {a.zone or '-'} {a.reason}"
        found[key] = found.get(key, 0) + 1
    return dict(sorted(found.items()))


def overload(given: argparse.Namespace) -> dict[str, Any]:
    with running(None) as gateway:
        calm = uvloop.run(offer(gateway, 0.1 * CAPACITY, given.seconds, given.seed))
        busy = uvloop.run(offer(gateway, given.load * CAPACITY, given.seconds, given.seed + 1))
        return {
            "calm": summed(calm),
            "load": given.load,
            "busy": summed(busy),
            "batches": batches(gateway),
        }


# Two models


@dataclass(frozen=True, slots=True)
class Timed:
    """What one of two models takes."""

    name: str
    fixed_ms: int
    per_row_ms: int
    rows: int

    @property
    def per_s(self) -> float:
        return 1000 * self.rows / (self.fixed_ms + self.per_row_ms * self.rows)


_WHOLE_BATCHES = "dynamic_batching { max_queue_delay_microseconds: 4000 }"
BOTH = (Timed("timed", 40, 10, 16), Timed("broad", 100, 5, 8))


def two_models(folder: Path, lock: Path | None) -> Path:
    """A repository of both."""
    found = MODELS / "timed"
    config = (found / "config.pbtxt").read_text()
    for model in BOTH:
        place = folder / model.name
        shutil.copytree(found / "1", place / "1")
        told = (
            config.replace('"timed"', f'"{model.name}"')
            .replace("max_batch_size: 16", f"max_batch_size: {model.rows}")
            .replace("dynamic_batching { }", _WHOLE_BATCHES)
            .replace('string_value: "40"', f'string_value: "{model.fixed_ms}"')
            .replace('string_value: "10"', f'string_value: "{model.per_row_ms}"')
        )
        if lock is not None:
            told += f'parameters: {{ key: "lock", value: {{ string_value: "{lock}" }} }}\n'
        (place / "config.pbtxt").write_text(told)
    return folder


@contextlib.contextmanager
def running_both(in_turns: bool, shares_gpu: bool) -> Iterator[LiveGateway]:
    loop = LoopThread()
    try:
        with tempfile.TemporaryDirectory() as scratch, simulated_cloud(loop) as cloud:
            path = Path(scratch)
            told = settings(cloud, path, None)
            told["endpoints"]["local"] |= {
                "repository": str(two_models(path / "models", path / "lock" if in_turns else None)),
                "shares_gpu": shares_gpu,
            }
            told["models"]["broad"] = told["models"]["timed"]
            with serving(told, path) as gateway:
                for model in BOTH:
                    wait_until(lambda name=model.name: executed(gateway, name)[0] > 0, 60.0)
                yield gateway
    finally:
        loop.close()


async def offer_both(
    gateway: LiveGateway, share: float, seconds: float, seed: int
) -> tuple[list[Answer], list[Answer]]:
    small, broad = (
        offer(gateway, share * model.per_s, seconds, seed + at, model.name)
        for at, model in enumerate(BOTH)
    )
    return await asyncio.gather(small, broad)


def shared(given: argparse.Namespace) -> list[dict[str, Any]]:
    found = []
    for in_turns in (False, True):
        for shares_gpu in (False, True):
            with running_both(in_turns, shares_gpu) as gateway:
                uvloop.run(offer_both(gateway, given.share, given.warm, given.seed))
                before = [executed(gateway, model.name) for model in BOTH]
                answers = uvloop.run(offer_both(gateway, given.share, given.seconds, given.seed))
                after = [executed(gateway, model.name) for model in BOTH]
                runs = [(b[0] - a[0], b[1] - a[1]) for a, b in zip(before, after, strict=True)]
                queues = gateway.client.get("/status").json()["queues"]
                found.append(
                    {
                        "models": "in turns" if in_turns else "asleep",
                        "shares_gpu": shares_gpu,
                        "mean_batch": [round(rows / batches, 1) for batches, rows in runs],
                        "queues": {q["model"]: q["servers"]["local"] for q in queues},
                        "calls": summed([*answers[0], *answers[1]]),
                    }
                )
            if not given.json:
                print(json.dumps(found[-1]))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtests.decide.live", description=__doc__)
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--leads", type=_lead, nargs="*", default=[None, 0.0])
    parser.add_argument("--load", type=float, default=3.0, help="times the capacity")
    parser.add_argument("--share", type=float, default=0.5, help="of what each model could do")
    parser.add_argument("--warm", type=float, default=30.0, help="seconds before it counts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = WHAT[given.what](given)
    print(json.dumps(found, indent=None if given.json else 2))
    return 0


WHAT: dict[str, Callable[[argparse.Namespace], Any]] = {
    "backlog": backlog,
    "overload": overload,
    "shared": shared,
}


def _lead(text: str) -> float | None:
    return None if text == "measured" else float(text)


if __name__ == "__main__":
    raise SystemExit(main())
