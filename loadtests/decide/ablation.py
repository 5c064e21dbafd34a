"""What each element of the decision gains, in regret. `python -m loadtests.decide.ablation FOLDER`

FOLDER holds arrival traces as `spillway simulate` takes them. Of each, a part is simulated in both
modes, the elements taken away one at a time. Regret is in mean cloud calls per call, above the
clairvoyant bound; each figure is the mean over the traces, and over the loads of the mode.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import mean

from gateway.scheduling.tuning import DEFAULT, Tuning
from gateway.simulate.bound import least_cost
from gateway.simulate.loop import SimulatedWorld
from gateway.simulate.study import POLICY, StudyRun, simulate
from gateway.simulate.workload import MODES, Workload, build, read_trace

LOADS = {"ms": (1.0, 1.25, 1.5, 2.0, 3.0), "s": (1.0, 1.5, 2.0)}
VARIANTS: dict[str, Tuning] = {
    "everything": DEFAULT,
    "nothing reserved for dearer arrivals": replace(DEFAULT, reserve=0.0),
    "a long memory of arrivals (50 batches)": replace(DEFAULT, reserve_batches=50.0),
    "no batch is cut": replace(DEFAULT, smallest_batch=1000),
    "no margins": replace(DEFAULT, margin=1.0, batch_safety=1.0, restricted_budget=1.0),
    "wide margins (1.2, 1.2, 0.9)": replace(
        DEFAULT, margin=1.2, batch_safety=1.2, restricted_budget=0.9
    ),
    "no places for the starved": replace(DEFAULT, starved_share=0.0),
}
WORLDS: dict[str, SimulatedWorld] = {
    "2 gateways, a hop of 0.5 ms": SimulatedWorld(gateways=2),
    "4 gateways, a hop of 0.5 ms": SimulatedWorld(gateways=4),
    "4 gateways, a hop of 1.5 ms": SimulatedWorld(gateways=4, hop_s=0.0015),
    "batches vary by 5 %": SimulatedWorld(batch_spread=0.05),
}
NETWORK_S = 0.001


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--calls", type=int, default=2500, help="of each trace")
    parser.add_argument("--start", type=float, default=0.5, help="of the part, as a share")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    args = parser.parse_args()
    workloads = {
        mode: list(_workloads(args.folder, mode, args.calls, args.start, args.seeds))
        for mode in MODES
    }
    runs = {name: StudyRun(tuning) for name, tuning in VARIANTS.items()}
    runs |= {name: StudyRun(world=world) for name, world in WORLDS.items()}
    far = SimulatedWorld(network_s=NETWORK_S)
    runs["a network of 1 ms, released on completion"] = StudyRun(world=far, lead_s=0.0)
    runs["a network of 1 ms, released by phase"] = StudyRun(world=far, lead_s=None)
    for name, run in runs.items():
        cells = [f"{mode} {_regret(workloads[mode], run):.3f}" for mode in MODES]
        print(f"{name:44} " + "   ".join(cells), flush=True)


def _workloads(
    folder: Path, mode: str, calls: int, start: float, seeds: list[int]
) -> Iterator[tuple[Workload, float]]:
    for path in sorted(folder.glob("*.csv")):
        trace = read_trace(path)
        part = trace.part(start, start + calls / len(trace.seconds))
        for load in LOADS[mode]:
            for seed in seeds:
                workload = build(part, MODES[mode], load, seed)
                yield workload, least_cost(workload)


def _regret(workloads: list[tuple[Workload, float]], run: StudyRun) -> float:
    return mean(simulate(w, POLICY, least, run).regret or 0.0 for w, least in workloads)


if __name__ == "__main__":
    main()
