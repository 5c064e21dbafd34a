"""What shadow policies cost for each call, and how far one with the live policy differs from it.

`python -m loadtests.decide.shadows`

A whole gateway between scripted endpoints, on a clock that leaps over every wait, so that what is
measured is work alone: CPU time of this process, in microseconds a call. Runs without shadows, with
one and with four take turns; the figures are medians over the rounds.
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import Any

from tests.unit.harness import run
from tests.unit.shadows.rig import BATCH, WARM, Shadowing, Traffic, shadowed

_NONE = "none"
_SETS: dict[str, dict[str, dict[str, Any]]] = {
    _NONE: {},
    "one, as live": {"same": {}},
    "one that never spills": {"never": {"spill": False}},
    "one that always does": {"always": {"policy": "static_split"}},
    "four": {
        "same": {},
        "never": {"spill": False},
        "always": {"policy": "static_split"},
        "patient": {"margin": 2.0},
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--loads", type=float, nargs="+", default=[0.8, 1.5, 2.0])
    args = parser.parse_args()
    for load in args.loads:
        traffic = Traffic(calls=args.calls, load=load)
        calls = args.calls + sum(1 + burst % BATCH for burst in range(WARM))
        took_us: dict[str, list[float]] = {name: [] for name in _SETS}
        last: dict[str, Shadowing] = {}
        for _ in range(args.rounds):
            for name, shadows in _SETS.items():
                began_s = time.process_time()
                last[name] = run(shadowed(shadows, traffic))
                took_us[name].append((time.process_time() - began_s) * 1e6 / calls)
        without_us = median(took_us[_NONE])
        print(f"load {load:g}: without shadows {without_us:.0f} us a call, harness included")
        for name in _SETS:
            if name != _NONE:
                more_us = median(w - o for w, o in zip(took_us[name], took_us[_NONE], strict=True))
                print(f"  {name}: {more_us:.0f} us more")
        report = last["one, as live"].report("same")
        differ: Any = report["differ"]
        print(f"  of the calls, the one as live decided otherwise: {differ / calls:.1%}")


if __name__ == "__main__":
    main()
