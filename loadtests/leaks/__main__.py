"""`python -m loadtests.leaks`: see the package."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import uvloop

from gateway.demo.cloud.process import SimulatedCloud
from gateway.demo.texts import Markers
from loadtests.http import Client
from loadtests.leaks.calls import Call, Calls
from loadtests.leaks.faults import Faults
from loadtests.leaks.witness import references_in
from tests.live import MODELS as REPOSITORY
from tests.live import serving, settings

_INFER = "/inference.GRPCInferenceService/ModelInfer"
_BUDGET = ("x-latency-budget-ms", "20000")
_PROGRESS_S = 10.0


@dataclass(slots=True)
class Tally:
    """What was sent and how it was answered."""

    calls: dict[str, Call] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)  # status or gRPC code
    reasons: Counter[str] = field(default_factory=Counter)  # of restricted calls
    ids: dict[str, str] = field(default_factory=dict)  # reference -> the gateway's id of the call
    lost: int = 0  # connections that ended before an answer

    def answer(self, call: Call, status: object, headers: Mapping[str, Any]) -> None:
        self.answers[str(status)] += 1
        self.ids[call.reference] = headers.get("x-request-id", "")
        if call.restricted:
            self.reasons[headers.get("x-spillway-reason", "")] += 1


def gateway_settings(cloud: SimulatedCloud, scratch: Path) -> dict[str, Any]:
    """A model of each kind that both serve, at a price that sends clear calls to the cloud, and one
    that the cloud alone serves."""
    document = settings(
        cloud, scratch, classify={"budget_ms": 5000}, routing={"policy": "static_split"}
    )
    for name in ("scribe", "minilm"):
        model = document["models"][name]
        served = [
            {"model": name, **place} for place in model["served_by"] if place["endpoint"] != "local"
        ]
        document["models"][f"cloud-{name}"] = {**model, "served_by": served}
    return document


async def send(gateway_url: str, target: str, supply: Iterator[Call], callers: int) -> Tally:
    """Sends every call of the supply, `callers` at a time."""
    tally, began_s = Tally(), time.monotonic()
    async with Client(gateway_url) as http, grpc.aio.insecure_channel(target) as channel:
        infer = channel.unary_unary(_INFER, None, None)
        tasks = [asyncio.create_task(_caller(supply, tally, http, infer)) for _ in range(callers)]
        shown_s = began_s
        while not all(task.done() for task in tasks):
            await asyncio.wait(tasks, timeout=1.0, return_when=asyncio.FIRST_EXCEPTION)
            if time.monotonic() - shown_s >= _PROGRESS_S:
                shown_s = time.monotonic()
                rate = len(tally.calls) / (shown_s - began_s)
                print(f"{len(tally.calls)} calls, {rate:.0f}/s", file=sys.stderr, flush=True)
        await asyncio.gather(*tasks)
    return tally


async def _caller(supply: Iterator[Call], tally: Tally, http: Client, infer: Any) -> None:
    for call in supply:
        tally.calls[call.reference] = call
        try:
            if not call.path:
                await _grpc(call, infer, tally)
            elif call.streamed:
                await _stream(call, http, tally)
            else:
                headers = dict([_BUDGET]) | call.headers
                answered = await http.post(call.path, call.body, headers)
                tally.answer(call, answered.status, answered.headers)
        except (OSError, asyncio.IncompleteReadError):
            tally.lost += 1


async def _grpc(call: Call, infer: Any, tally: Tally) -> None:
    pending = infer(call.body, metadata=(_BUDGET,), timeout=25)
    try:
        await pending
        status, trailing = grpc.StatusCode.OK, await pending.trailing_metadata()
    except grpc.aio.AioRpcError as error:
        status, trailing = error.code(), error.trailing_metadata()
    metadata: dict[str, Any] = dict(trailing or ())
    tally.answer(call, status.name, metadata)


async def _stream(call: Call, http: Client, tally: Tally) -> None:
    status, headers = await http.stream(call.path, call.body, dict([_BUDGET]) | call.headers)
    tally.answer(call, status, headers)


@dataclass(slots=True)
class Supply:
    """The first `count` calls, shared by all callers."""

    calls: Iterator[Call]
    count: int

    def __iter__(self) -> Iterator[Call]:
        return self

    def __next__(self) -> Call:
        if self.count <= 0:
            raise StopIteration
        self.count -= 1
        return next(self.calls)


async def run(given: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    log = scratch / "cloud.jsonl"
    quick = {"round_trip_median_ms": 2.0, "service_ms": 0.5, "service_per_token_ms": 0.1}
    async with SimulatedCloud.start(REPOSITORY, log, **quick) as cloud:
        with serving(gateway_settings(cloud, scratch), scratch) as gateway:
            url, target = gateway.http_url, gateway.grpc_target
            print("controls, while everything is well", file=sys.stderr, flush=True)
            markers = Markers(random.Random(given.seed))
            supply = Supply(Calls(given.seed + 1, 1.0, markers), given.controls)
            controls = await send(url, target, supply, given.callers)
            faults = Faults(gateway, cloud, given.seed)
            print("restricted calls, under faults", file=sys.stderr, flush=True)
            supply = Supply(Calls(given.seed, given.control_share, markers), given.calls)
            if given.no_faults:
                tally = await send(url, target, supply, given.callers)
            else:
                async with faults.going_on():
                    tally = await send(url, target, supply, given.callers)
            records = {record.get("id", ""): record for record in gateway.records()}
    return report(controls, tally, log, faults, records)


def report(
    controls: Tally, tally: Tally, log: Path, faults: Faults, records: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    arrived = references_in(log, {*controls.calls, *tally.calls})
    restricted = [call for call in tally.calls.values() if call.restricted]
    leaked = [call for call in restricted if call.reference in arrived]
    stayed = [call for call in controls.calls.values() if call.reference not in arrived]
    among = [call for call in tally.calls.values() if not call.restricted]
    return {
        "restricted_calls": len(restricted),
        "restricted_in_the_cloud": len(leaked),
        "leaked": [
            {
                "call": _label(call),
                "words": call.words,
                "record": records.get(tally.ids.get(call.reference, "")),
            }
            for call in leaked
        ],
        "controls": len(controls.calls),
        "controls_that_stayed": len(stayed),
        "stayed": Counter(_label(call) for call in stayed).most_common(20),
        "controls_under_faults": len(among),
        "controls_under_faults_that_arrived": sum(call.reference in arrived for call in among),
        "answers": dict(tally.answers),
        "reasons_of_restricted": dict(tally.reasons),
        "verdicts": dict(
            Counter(
                record.get("classify_reason", "")
                for record in records.values()
                if record.get("sensitivity") == "restricted"
            )
        ),
        "lost_connections": tally.lost,
        "faults": dict(faults.counts),
    }


def _label(call: Call) -> str:
    return f"{call.kind} | {call.form} | {call.where} | {call.path or 'gRPC'}"


def main() -> int:
    import loadtests.leaks

    parser = argparse.ArgumentParser(
        prog="python -m loadtests.leaks",
        description=loadtests.leaks.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--calls", type=int, default=2000, help="under faults (2000)")
    parser.add_argument("--controls", type=int, default=400, help="clear calls before (400)")
    parser.add_argument("--control-share", type=float, default=0.05, help="among the others")
    parser.add_argument("--callers", type=int, default=6, help="calls under way at a time (6)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-faults", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="leaks-") as scratch:
        result = uvloop.run(run(given, Path(scratch)))
    if given.json:
        print(json.dumps(result, ensure_ascii=False, indent=2))
    else:
        _show(result)
    return 1 if result["restricted_in_the_cloud"] or result["controls_that_stayed"] else 0


def _show(result: dict[str, Any]) -> None:
    for name, value in result.items():
        if name in ("leaked", "stayed"):
            continue
        print(f"{name.replace('_', ' '):36}{value}")
    for leaked in result["leaked"][:60]:
        print(f"  reached the cloud: {leaked['call']}: {leaked['words']!r}")
        print(f"    {json.dumps(leaked['record'])}")
    for label, count in result["stayed"]:
        print(f"  control that stayed: {count} x {label}")


if __name__ == "__main__":
    sys.exit(main())
