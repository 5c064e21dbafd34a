"""What a forward adds: the same call by way of the gateway that owns the server, and of another.

    python -m loadtests.decide.cluster --calls 2000

Two real gateways in front of one real Triton, one connection, one call at a time, to each gateway
in turns, so that whatever else the machine does falls on both. Printed are the latencies by each
way, their difference and their ratio; and from the gateway's own metric what the hop itself took
until a turn was granted. The model adds two small tensors, which is next to nothing: so the ratio
is the worst that there is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

import uvloop

from loadtests.http import Client
from tests.live import LiveGateway, LoopThread, simulated_cloud, wait_until
from tests.scenarios.gateways import Gateways, shared_triton
from tests.unit.cluster.authority import Authority

_TENSOR = {"datatype": "INT32", "shape": [1, 16], "data": list(range(16))}
_BODY = json.dumps(
    {"inputs": [{"name": "INPUT0", **_TENSOR}, {"name": "INPUT1", **_TENSOR}]}
).encode()
_RESTRICTED = {"x-spillway-sensitivity": "restricted"}
_WARM = 100
OWNER, OTHER = "east", "west"


async def one(http: Client) -> float:
    began_s = time.perf_counter()
    answer = await http.post("/v2/models/simple/infer", _BODY, _RESTRICTED)
    took_s = time.perf_counter() - began_s
    if answer.status != 200:
        raise SystemExit(f"a call ended with {answer.status}: {answer.body[:200]!r}")
    return took_s


async def in_turns(here: LiveGateway, there: LiveGateway, calls: int) -> list[list[float]]:
    async with Client(here.http_url) as owner, Client(there.http_url) as other:
        for _ in range(_WARM):
            await one(owner)
            await one(other)
        found: list[list[float]] = [[], []]
        for _ in range(calls):
            found[0].append(await one(owner))
            found[1].append(await one(other))
        return found


def quantiles(took_s: list[float]) -> dict[str, float]:
    ordered = sorted(took_s)
    return {
        "median_ms": round(statistics.median(ordered) * 1000, 3),
        "p99_ms": round(ordered[int(0.99 * len(ordered))] * 1000, 3),
    }


def hop_ms(gateways: Gateways) -> float:
    told = [gateways.counted(OTHER, f"spillway_cluster_hop_seconds_{w}") for w in ("sum", "count")]
    return round(told[0] / told[1] * 1000, 3)


def measured(calls: int) -> dict[str, object]:
    loop = LoopThread()
    try:
        with (
            tempfile.TemporaryDirectory() as scratch,
            simulated_cloud(loop) as cloud,
            shared_triton(loop) as triton,
        ):
            path = Path(scratch)
            gateways = Gateways(triton, cloud, path, Authority(path), (OWNER, OTHER))
            try:
                for name in gateways.names:
                    gateways.start(name)
                wait_until(lambda: {gateways.decided_by(n) for n in gateways.names} == {OWNER}, 30)
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    direct, forwarded = runner.run(
                        in_turns(gateways[OWNER], gateways[OTHER], calls)
                    )
                hop = hop_ms(gateways)
            finally:
                gateways.close()
    finally:
        loop.close()
    a, b = quantiles(direct), quantiles(forwarded)
    return {
        "calls": calls,
        "owner": a,
        "forwarded": b,
        "added_ms": {k.removesuffix("_ms"): round(b[k] - a[k], 3) for k in a},
        "ratio": {k.removesuffix("_ms"): round(b[k] / a[k], 2) for k in a},
        "hop_mean_ms": hop,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=2000, help="by each way")
    print(json.dumps(measured(parser.parse_args().calls), indent=2))


if __name__ == "__main__":
    main()
