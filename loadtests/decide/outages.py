"""What a cloud that fails or is full costs. `python -m loadtests.decide.outages FOLDER`

FOLDER holds arrival traces as `spillway simulate` takes them. Of each, a part is simulated in both
modes at one load, in front of a cloud that is well, fails, hangs, is ten times slower or takes few
calls at once. The trouble fills the middle half of the time. Regret is in mean cloud calls per
call, above the least that somebody could reach who knows the arrivals and the outages (but no
limit); each figure is the mean over the traces.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from pathlib import Path
from statistics import mean

from gateway.simulate.bound import least_cost
from gateway.simulate.study import NAMES, StudyFigures, StudyRun, simulate
from gateway.simulate.weather import OutagePeriod, SlowSpell, Weather, known_ahead
from gateway.simulate.workload import MODES, Workload, build, read_trace

_LIMITS = {"ms": 16, "s": 6}  # about half of what would be there
WEATHERS: dict[str, Callable[[float, float, str], Weather]] = {
    "well": lambda from_s, to_s, mode: Weather(),
    "fails": lambda from_s, to_s, mode: Weather(outages=(OutagePeriod(from_s, to_s),)),
    "hangs": lambda from_s, to_s, mode: Weather(outages=(OutagePeriod(from_s, to_s, hangs=True),)),
    "10 x slower": lambda from_s, to_s, mode: Weather(slow=(SlowSpell(from_s, to_s, 10.0),)),
    "a limit": lambda from_s, to_s, mode: Weather(limit=_LIMITS[mode]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--calls", type=int, nargs=2, default=(8000, 1500), help="in ms and s mode")
    parser.add_argument("--start", type=float, default=0.3, help="of the part, as a share")
    parser.add_argument("--load", type=float, default=1.5)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    for mode, calls in zip(("ms", "s"), args.calls, strict=True):
        workloads = [
            _workload(path, mode, calls, args.start, args.load)
            for path in sorted(args.folder.glob("*.csv"))
        ]
        for name, weather in WEATHERS.items():
            found = _compare(workloads, mode, weather, args.only)
            for policy, figures in found.items():
                print(f"{mode:3} {name:12} {policy:23} {_told(figures)}", flush=True)


def _workload(path: Path, mode: str, calls: int, start: float, load: float) -> Workload:
    trace = read_trace(path)
    share = min(1.0 - start, calls / len(trace.seconds))
    return build(trace.part(start, start + share), MODES[mode], load, 1)


def _compare(
    workloads: list[Workload],
    mode: str,
    weather: Callable[[float, float, str], Weather],
    policies: tuple[str, ...],
) -> dict[str, list[StudyFigures]]:
    found: dict[str, list[StudyFigures]] = {policy: [] for policy in policies}
    for calls in workloads:
        span_s = float(calls.arrive_s[-1])
        fell = weather(0.25 * span_s, 0.75 * span_s, mode)
        least = least_cost(known_ahead(calls, fell))
        for policy in policies:
            found[policy].append(simulate(calls, policy, least, StudyRun(weather=fell)))
    return found


def _told(figures: list[StudyFigures]) -> str:
    regret = mean(f.regret or 0.0 for f in figures)
    met = mean(f.attainment.all for f in figures)
    restricted = mean(f.attainment.restricted or 0.0 for f in figures)
    then = [f.cloud.in_trouble for f in figures if f.cloud is not None and f.cloud.in_trouble]
    told = f"regret {regret:6.3f}  met {100 * met:5.1f} %  restricted {100 * restricted:5.1f} %"
    if then:
        told += f"  then {100 * mean(t.all for t in then):5.1f} %"
        told += f"  restricted then {100 * mean(t.restricted or 0.0 for t in then):5.1f} %"
    return told


if __name__ == "__main__":
    main()
