"""How quickly a call is told that it will not be served.

    python -m loadtests.failures.refusals --calls 500

Restricted calls, which have nowhere else to go, are sent to a real Triton while 64 callers keep its
model busy, one after the other, over REST and over gRPC in turns. Each part makes one reason for a
refusal: too many calls inside (`saturated`), too many that wait (`queue_full`), a budget that
cannot be met (`deadline_unmeetable`), and no server that is up (`onprem_unavailable_restricted`).
The times are the caller's, connection kept, its own client and the network included; `answered` is
what the same client sees, at the same time, of a question that needs no server (`/v2`). Every
refusal must name that reason and a Retry-After, or the run fails; a call that finds room in the
moment when a batch has ended is `served`, and counts in no time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import uvloop
from tritonclient.grpc import service_pb2

from loadtests.decide.live import MODELS, executed
from loadtests.http import Client
from tests.live import LiveGateway, serving, wait_until

_CALLERS = 64
_WARM_S = 3.0
_PATH = "/v2/models/timed/infer"
_VALUES = list(range(16))
_TENSOR = {"datatype": "INT32", "shape": [1, 16], "data": _VALUES}
_BODY = json.dumps(
    {"inputs": [{"name": name, **_TENSOR} for name in ("INPUT0", "INPUT1")]}
).encode()
_PATIENT = {"x-spillway-sensitivity": "restricted", "x-latency-budget-ms": "30000"}


@dataclass(frozen=True, slots=True)
class Part:
    """A way to be refused."""

    reason: str
    status: int
    code: grpc.StatusCode
    settings: Mapping[str, Any] = field(default_factory=dict)
    budget_ms: int = 30_000
    up: bool = True


PARTS = (
    Part("saturated", 429, grpc.StatusCode.RESOURCE_EXHAUSTED,
         {"limits": {"max_concurrent": _CALLERS // 2}}),
    Part("queue_full", 429, grpc.StatusCode.RESOURCE_EXHAUSTED, {"queue": {"max_waiting": 16}}),
    Part("deadline_unmeetable", 503, grpc.StatusCode.RESOURCE_EXHAUSTED, budget_ms=30),
    Part("onprem_unavailable_restricted", 503, grpc.StatusCode.UNAVAILABLE, up=False),
)  # fmt: skip


def settings(part: Part, scratch: Path) -> dict[str, Any]:
    local = {"embedded": True, "repository": str(MODELS)} if part.up else {"grpc": "localhost:1"}
    return {
        "listen": {"http_port": 0, "grpc_port": 0},
        "audit": {"directory": str(scratch / "audit")},
        "endpoints": {
            "local": {"kind": "triton", "zone": "onprem", "expected_ms": 60, **local},
        },
        "models": {"timed": {"tensors": "clear", "served_by": [{"endpoint": "local"}]}},
        **part.settings,
    }


@dataclass(slots=True)
class Times:
    """Milliseconds."""

    rest: list[float] = field(default_factory=list)
    grpc: list[float] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)
    served: int = 0

    async def of(self, kind: list[float], one: Callable[[], Awaitable[object]]) -> None:
        began_s = time.perf_counter()
        try:
            await one()
        except Served:
            self.served += 1
        else:
            kind.append((time.perf_counter() - began_s) * 1000)

    def told(self) -> dict[str, Any]:
        return {
            name: {
                "calls": len(took),
                "median_ms": round(statistics.median(took), 2),
                "p99_ms": round(sorted(took)[int(0.99 * (len(took) - 1))], 2),
            }
            for name, took in (
                ("rest", self.rest), ("grpc", self.grpc), ("answered", self.answered),
            )
        }  # fmt: skip


class Refused(AssertionError):
    """Something else came back than the refusal that was asked for."""


class Served(Exception):
    """There was room in this moment."""


async def measure(part: Part, gateway: LiveGateway, calls: int) -> dict[str, Any]:
    times = Times()
    async with (
        Client(gateway.http_url) as http,
        grpc.aio.insecure_channel(gateway.grpc_target) as channel,
        _busy(gateway, part),
    ):
        infer = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            request_serializer=service_pb2.ModelInferRequest.SerializeToString,
            response_deserializer=service_pb2.ModelInferResponse.FromString,
        )
        while len(times.grpc) < calls or len(times.rest) < calls:
            await times.of(times.rest, lambda: _rest(part, http))
            await times.of(times.grpc, lambda: _grpc(part, infer))
            await times.of(times.answered, lambda: http.get("/v2"))
            if times.served > 2 * calls:
                raise Refused(f"{part.reason}: most calls were served")
    return {"reason": part.reason, "status": part.status, "served": times.served, **times.told()}


@contextlib.asynccontextmanager
async def _busy(gateway: LiveGateway, part: Part) -> AsyncIterator[None]:
    """Callers that ask again when they are answered, and a little later when they are not."""

    async def caller(http: Client) -> None:
        while True:
            answer = await http.post(_PATH, _BODY, _PATIENT)
            await asyncio.sleep(0 if answer.status == 200 else 0.5)

    if not part.up:
        yield
        return
    async with Client(gateway.http_url) as http:
        callers = [asyncio.create_task(caller(http)) for _ in range(_CALLERS)]
        try:
            await asyncio.sleep(_WARM_S)
            yield
        finally:
            for task in callers:
                task.cancel()
            await asyncio.gather(*callers, return_exceptions=True)


def _metadata(part: Part) -> dict[str, str]:
    return {
        "x-spillway-sensitivity": "restricted",
        "x-latency-budget-ms": str(part.budget_ms),
    }


async def _rest(part: Part, http: Client) -> None:
    answer = await http.post(_PATH, _BODY, _metadata(part))
    if answer.status == 200:
        raise Served
    told = (answer.status, answer.headers.get("x-spillway-reason"))
    if told != (part.status, part.reason) or "retry-after" not in answer.headers:
        raise Refused(f"{part.reason}: {answer}")


async def _grpc(part: Part, infer: Any) -> None:
    request = service_pb2.ModelInferRequest(model_name="timed")
    for name in ("INPUT0", "INPUT1"):
        tensor = request.inputs.add(name=name, datatype="INT32", shape=[1, 16])
        tensor.contents.int_contents.extend(_VALUES)
    try:
        await infer(request, metadata=tuple(_metadata(part).items()))
    except grpc.aio.AioRpcError as error:
        trailing: Any = error.trailing_metadata() or ()
        if (error.code(), dict(trailing).get("x-spillway-reason")) != (part.code, part.reason):
            raise Refused(f"{part.reason}: {error}") from error
        return
    raise Served


def run(part: Part, calls: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch)
        with serving(settings(part, path), path) as gateway:
            if part.up:
                wait_until(lambda: executed(gateway)[0] > 0, 60.0)  # its first canary
            return uvloop.run(measure(part, gateway, calls))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.failures.refusals",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--calls", type=int, default=500, help="of each kind and part")
    parser.add_argument("--only", choices=[part.reason for part in PARTS])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    for part in PARTS if given.only is None else [p for p in PARTS if p.reason == given.only]:
        found = run(part, given.calls)
        print(json.dumps(found) if given.json else _line(found), flush=True)


def _line(found: dict[str, Any]) -> str:
    figures = "; ".join(
        f"{name} {found[name]['median_ms']} ms (99th percentile {found[name]['p99_ms']})"
        for name in ("rest", "grpc", "answered")
    )
    return f"{found['status']} {found['reason']}: {figures}; served {found['served']}"


if __name__ == "__main__":
    main()
