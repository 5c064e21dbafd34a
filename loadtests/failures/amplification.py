"""How many tries a call costs while everything fails.

    python -m loadtests.failures.amplification --seconds 10

Half of the calls are clear and go to a real Triton whose model then fails, and to a cloud that
answers 500 from the same moment on. What was sent is counted from the decision records, over all
calls from the moment of the fault: 1.0 would be one try for each call, and calls that are refused
without one count less. Also how quickly those who got no answer were told.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.live import LoopThread, simulated_cloud, wait_until
from tests.scenarios.faulty import Patient, Pump, patient

_WARM_S = 2.0


async def measure(one: Patient, seconds: float) -> dict[str, Any]:
    pump = Pump(one.gateway.http_url)
    async with pump.running():
        await asyncio.sleep(_WARM_S)
        before, fault_s = len(one.gateway.records()), time.monotonic()
        one.switch(fails=True)
        await asyncio.sleep(seconds)
    records = [r for r in one.gateway.records()[before:] if r["kind"] == "call"]
    refused = [c for c in pump.calls if c.sent_s > fault_s and c.status != 200]
    return {
        "calls": len(records),
        "tries": sum(len(r["attempts"]) for r in records),
        "amplification": round(_tries_each(records), 3),
        "first_two_seconds": round(_tries_each(records[: 2 * 20]), 3),
        "answered": sum(r["outcome"] == "served" for r in records),
        "refusal_ms": round(1000 * statistics.median(c.done_s - c.sent_s for c in refused), 1),
    }


def _tries_each(records: Sequence[dict[str, Any]]) -> float:
    return sum(len(r["attempts"]) for r in records) / max(1, len(records))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    loop = LoopThread()
    with simulated_cloud(loop, error_rate=1.0) as cloud:
        for _ in range(args.rounds):
            with tempfile.TemporaryDirectory() as scratch, patient(cloud, Path(scratch)) as one:
                wait_until(one.proven, 30)
                print(json.dumps(asyncio.run(measure(one, args.seconds))), flush=True)
    loop.close()


if __name__ == "__main__":
    main()
