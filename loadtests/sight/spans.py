"""What traces add to a call's way through the pipeline, in microseconds of CPU.

`python -m loadtests.sight.spans`

Calls go through the whole pipeline to an endpoint that answers at once, traced and not, in turns.
`off` is a gateway without a collector; what its stages ask and are told nothing for is timed alone,
as it is too little to be seen beside a call.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from dataclasses import replace
from statistics import median

from gateway.core.trace_context import UNTRACED, Trace, Untraced
from gateway.core.types import InferenceRequest
from tests.unit.harness import Rig, now_s, onprem, request, run

_TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
_STAGES = ("admission", "classify", "decide", "dispatch", "queue")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    off, on = [], []
    for _ in range(args.rounds):
        off.append(_per_call_us(args.calls, traced=False))
        on.append(_per_call_us(args.calls, traced=True))
    asked = median(_asked_us() for _ in range(args.rounds))
    print(f"off {median(off):6.1f} us a call, of which asking whether to trace {asked:.2f} us "
          f"({asked / median(off):.2%})")  # fmt: skip
    print(f"on  {median(on):6.1f} us a call, {median(on) / median(off):.2f} times off")


def _per_call_us(calls: int, traced: bool) -> float:
    async def many() -> float:
        rig = Rig(onprem())
        done: list[Trace] = []
        for _ in range(20):
            await rig.call(_call(False, done))
        began_s = time.process_time()
        for _ in range(calls):
            await rig.call(_call(traced, done))
        took_s = time.process_time() - began_s
        assert len(done) == (calls if traced else 0)
        await asyncio.sleep(0)
        return took_s / calls * 1e6

    return run(many())


def _call(traced: bool, done: list[Trace]) -> InferenceRequest:
    made = request()
    if not traced:
        return made
    trace = Trace(_TRACEPARENT, "", made.received_s, now_s, done.append)
    return replace(made, trace=trace)


def _asked_us(times: int = 20_000) -> float:
    """Of all that one call asks a trace that is none."""
    trace: Untraced = UNTRACED
    began_s = time.process_time()
    for _ in range(times):
        trace.since("front", 0.0)
        for stage in _STAGES:
            with trace.stage(stage):  # type: ignore[arg-type] # of the stages above
                pass
        trace.begin("attempt")
        trace.begin("settle")
        _ = trace.sampled
    return (time.process_time() - began_s) / times * 1e6


if __name__ == "__main__":
    main()
