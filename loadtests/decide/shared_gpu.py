"""Two models on one GPU: what it costs that their queues do not see each other, and what helps.

`python -m loadtests.decide.shared_gpu`

Two models with a queue each, the gateway's own schedulers, on a virtual clock. Batches of `small`
take 8 + 2 ms per call, up to 16 of them; of `large` 20 + 1 ms, up to 8. The modelled GPU executes
one batch at a time, or both side by side, each at 1 / (1 + c) of its speed. Calls arrive in bursts,
30 % of them restricted, as `spillway simulate` draws them; a load is that of each model by itself.
`apart`, the queues know nothing of each other; `learnt`, they find out whether to take turns;
`in turns`, they always do. Costs are of cloud calls and missed budgets, in mean cloud calls per
call, above what nobody could have avoided who had known all arrivals: of one GPU that serves both,
where nothing is gained by doing so at once, else of a GPU for each. So only figures of
one world compare.
"""

from __future__ import annotations

import argparse
import heapq
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from statistics import mean
from typing import Final

import numpy as np

from gateway.scheduling.calls import Action, CloudPermission, QueuedCall, Release, SpillNow
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.estimates.latency import CloudLatency
from gateway.scheduling.scheduler import Scheduler
from gateway.scheduling.servers.sharing import SharedGpu
from gateway.simulate.bound import least_cost
from gateway.simulate.workload import Mode, TrafficTrace, Workload, build

SMALL: Final = Mode("ms", 1, 16, 0.008, 0.002, (0.1, 0.3, 0.8), 0.01, 0.06, False)
LARGE: Final = Mode("ms", 1, 8, 0.020, 0.001, (0.1, 0.3, 0.8), 0.01, 0.06, False)
_SERVER: Final = "gpu"
_CLOUD_S: Final = 0.15
_FINISHED_S: Final = 1e-9

_Event = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class World:
    name: str
    contention: float  # between batches that are executed at once
    at_once: int = 2  # batches of different models


WORLDS: Final = (
    World("one at a time", 1.0, at_once=1),
    World("c = 1", 1.0),
    World("c = 0.8", 0.8),
    World("c = 0.65", 0.65),
    World("c = 0.5", 0.5),
    World("c = 0.2", 0.2),
    World("c = 0", 0.0),
)
LOADS: Final = ((0.5, 0.5), (0.75, 0.75), (0.3, 1.2), (1.2, 0.3), (1.0, 1.0))


@dataclass(slots=True)
class _Batch:
    lane: int
    ids: tuple[int, ...]
    left_s: float  # of its time by itself


class Gpu:
    """Executes one batch of each model, as many models at once as the world allows."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.waiting: deque[_Batch] = deque()
        self.running: list[_Batch] = []
        self._since_s = 0.0

    def add(self, batch: _Batch, now_s: float) -> None:
        self._advance(now_s)
        self.waiting.append(batch)
        self._begin()

    def next_end_s(self) -> float:
        if not self.running:
            return math.inf
        return self._since_s + min(b.left_s for b in self.running) * self._slowness

    def ended(self, now_s: float) -> list[_Batch]:
        self._advance(now_s)
        done = [b for b in self.running if b.left_s <= _FINISHED_S]
        self.running = [b for b in self.running if b.left_s > _FINISHED_S]
        self._begin()
        return done

    @property
    def _slowness(self) -> float:
        return 1.0 + self._world.contention * (len(self.running) - 1)

    def _advance(self, now_s: float) -> None:
        passed_s, self._since_s = now_s - self._since_s, now_s
        for batch in self.running:
            batch.left_s -= passed_s / self._slowness

    def _begin(self) -> None:
        for batch in tuple(self.waiting):
            busy = {b.lane for b in self.running}
            if len(self.running) < self._world.at_once and batch.lane not in busy:
                self.waiting.remove(batch)
                self.running.append(batch)


class ModelState:
    """One model with its queue and its calls."""

    def __init__(self, number: int, calls: Workload, scheduler: Scheduler) -> None:
        self.number, self.calls, self.scheduler = number, calls, scheduler
        mode = calls.mode
        self.cloud = CloudLatency(_CLOUD_S)
        self.done_s = np.full(len(calls), np.inf)
        self.spilled = np.zeros(len(calls), dtype=bool)
        self.timer_s = math.inf
        self.fixed_s, self.per_work_s = mode.fixed_s, mode.per_work_s

    def arrivals(self) -> Iterator[tuple[float, int, QueuedCall]]:
        w = self.calls
        for at in range(len(w)):
            restricted, arrive_s = bool(w.restricted[at]), float(w.arrive_s[at])
            yield arrive_s, self.number, QueuedCall(
                id=at,
                arrived_s=arrive_s,
                deadline_s=arrive_s + float(w.budget_s[at]),
                penalty=float(w.penalty[at]),
                price=float(w.price[at]),
                work=float(w.work[at]),
                leave=CloudPermission.NEVER if restricted else CloudPermission.FREELY,
                restricted=restricted,
                cloud=self.cloud.tail(float(w.work[at])),
            )  # fmt: skip

    @property
    def met(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        found: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = (
            self.done_s <= self.calls.arrive_s + self.calls.budget_s + 1e-9
        )
        return found

    @property
    def cost(self) -> float:
        w = self.calls
        return float(w.price[self.spilled].sum() + w.penalty[~self.met].sum())


class Simulation:
    def __init__(self, lanes: Sequence[ModelState], world: World, gpu: SharedGpu | None) -> None:
        self.lanes, self._gpu, self._shared = lanes, Gpu(world), gpu
        self._events: list[tuple[float, int, _Event]] = []
        self._order = count()
        self.end_s = 0.0

    def run(self) -> None:
        arrivals = deque(sorted((a for lane in self.lanes for a in lane.arrivals()),
                                key=lambda a: a[0]))  # fmt: skip
        while True:
            arrival_s = arrivals[0][0] if arrivals else math.inf
            event_s = self._events[0][0] if self._events else math.inf
            gpu_s = self._gpu.next_end_s()
            now_s = min(arrival_s, event_s, gpu_s)
            if now_s == math.inf:
                return
            self.end_s = now_s
            if gpu_s == now_s:
                for batch in self._gpu.ended(now_s):
                    self._answered(batch, now_s)
            elif event_s == now_s:
                heapq.heappop(self._events)[2](now_s)
            else:
                _, number, call = arrivals.popleft()
                lane = self.lanes[number]
                self._do(lane, lane.scheduler.arrive(call, now_s), now_s)
            self._pass_on(now_s)
            for lane in self.lanes:
                self._set_timer(lane, now_s)

    def _pass_on(self, now_s: float) -> None:
        """Whoever's turn it is on the GPU hears of it."""
        for _ in self.lanes:
            turn = self._shared.whose_turn() if self._shared is not None else None
            if turn is None:
                return
            lane = self.lanes[turn]
            self._do(lane, lane.scheduler.tick(now_s), now_s)

    def _answered(self, batch: _Batch, now_s: float) -> None:
        lane = self.lanes[batch.lane]
        for at in batch.ids:
            lane.done_s[at] = now_s
        for at in batch.ids:
            self._do(lane, lane.scheduler.ended(at, True, now_s), now_s)

    def _do(self, lane: ModelState, actions: list[Action], now_s: float) -> None:
        for action in actions:
            if isinstance(action, Release):
                self._send(lane, action, now_s)
            elif isinstance(action, SpillNow):
                at = int(action.call.id)
                took_s = float(lane.calls.cloud_s[at])
                lane.spilled[at], lane.done_s[at] = True, now_s + took_s
                work = float(lane.calls.work[at])
                self._at(now_s + took_s, partial(_answered_abroad, lane, work, took_s))

    def _send(self, lane: ModelState, release: Release, now_s: float) -> None:
        work = sum(call.work for call in release.calls)
        needs_s = lane.fixed_s + lane.per_work_s * work
        ids = tuple(int(call.id) for call in release.calls)
        self._gpu.add(_Batch(lane.number, ids, needs_s), now_s)

    def _at(self, when_s: float, event: _Event) -> None:
        heapq.heappush(self._events, (when_s, next(self._order), event))

    def _set_timer(self, lane: ModelState, now_s: float) -> None:
        wake_s = lane.scheduler.wake_s
        if wake_s != lane.timer_s:
            lane.timer_s = wake_s
            if wake_s < math.inf:
                self._at(max(wake_s, now_s), partial(self._wake, lane, wake_s))

    def _wake(self, lane: ModelState, meant_s: float, now_s: float) -> None:
        if meant_s == lane.timer_s:
            lane.timer_s = math.inf
            self._do(lane, lane.scheduler.tick(now_s), now_s)


def _answered_abroad(lane: ModelState, work: float, took_s: float, now_s: float) -> None:
    lane.cloud.observe(work, took_s)


class InTurns(SharedGpu):
    """It is known from the start that nothing is gained by two batches at once."""

    @property
    def turns(self) -> bool:
        return self.shared

    @property
    def one_at_a_time(self) -> bool:
        return self.shared


WAYS: Final[Mapping[str, Callable[[], SharedGpu | None]]] = {
    "apart": lambda: None,
    "learnt": SharedGpu,
    "in turns": InTurns,
}


@dataclass(frozen=True, slots=True)
class Figures:
    cost: float
    restricted: float  # attainment
    clear: float
    errors: tuple[float, ...]  # of the batch models
    contention: float | None


def bursts(calls: int, seed: int) -> TrafficTrace:
    """Arrivals whose rate changes every now and then by a factor of up to four."""
    rng = np.random.default_rng(seed)
    rate = np.repeat(rng.choice((0.5, 1.0, 2.0), calls // 50 + 1), 50)[:calls]
    seconds = np.cumsum(rng.exponential(1.0, calls) / rate)
    return TrafficTrace(
        f"bursts-{seed}", seconds, rng.gamma(2.0, 300.0, calls), rng.gamma(2.0, 60, calls)
    )


def workloads(loads: tuple[float, float], span_s: float, seed: int) -> tuple[Workload, Workload]:
    made = []
    for number, (mode, load) in enumerate(zip((SMALL, LARGE), loads, strict=True)):
        per_call_s = mode.fixed_s / mode.max_batch + mode.per_work_s
        calls = int(span_s * load / per_call_s)
        made.append(build(bursts(calls, 10 * seed + number), mode, load, seed))
    return made[0], made[1]


def together(one: Workload, other: Workload) -> Workload:
    """The calls of both, for one GPU that serves them in turns."""
    order = np.argsort(np.concatenate([one.arrive_s, other.arrive_s]))
    columns = ("arrive_s", "work", "gpu_s", "price", "budget_s", "tier", "restricted", "penalty",
               "cloud_s", "alternative")  # fmt: skip
    merged = {
        name: np.concatenate([getattr(one, name), getattr(other, name)])[order] for name in columns
    }
    return replace(one, **merged)


def study(
    calls: tuple[Workload, Workload], world: World, gpu: SharedGpu | None, least: float
) -> Figures:
    lanes = []
    for number, one in enumerate(calls):
        mode = one.mode
        model = BatchModel(mode.fixed_s, mode.per_work_s)
        gpus = None if gpu is None else {_SERVER: gpu}
        scheduler = Scheduler({_SERVER: model}, mode.max_batch, gpus=gpus)
        lanes.append(ModelState(number, one, scheduler))
    Simulation(lanes, world, gpu).run()
    met = np.concatenate([lane.met for lane in lanes])
    restricted = np.concatenate([one.restricted for one in calls])
    return Figures(
        cost=(sum(lane.cost for lane in lanes) - least) / sum(map(len, calls)),
        restricted=float(met[restricted].mean()),
        clear=float(met[~restricted].mean()),
        errors=tuple(lane.scheduler.servers.model(_SERVER).error.mean for lane in lanes),
        contention=None if gpu is None else gpu.contention.value,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--span", type=float, default=30.0, help="seconds of arrivals")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--worlds", nargs="+", default=[world.name for world in WORLDS])
    args = parser.parse_args()
    made = {
        (loads, seed): workloads(loads, args.span, seed) for loads in LOADS for seed in args.seeds
    }
    one_gpu = {key: least_cost(together(*calls)) for key, calls in made.items()}
    two_gpus = {key: sum(map(least_cost, calls)) for key, calls in made.items()}
    for world in WORLDS:
        if world.name not in args.worlds:
            continue
        least = one_gpu if world.contention == 1.0 else two_gpus
        for way, new_gpu in WAYS.items():
            found = {key: study(made[key], world, new_gpu(), least[key]) for key in made}
            print(f"{world.name:14} {way:9} {_line(found)}", flush=True)


def _line(found: Mapping[tuple[tuple[float, float], int], Figures]) -> str:
    cells = []
    for loads in LOADS:
        cost = mean(f.cost for (which, _), f in found.items() if which == loads)
        cells.append(f"{loads[0]}+{loads[1]}: {cost:.3f}")
    every = list(found.values())
    known = [f.contention for f in every if f.contention is not None]
    worst = max((e for f in every for e in f.errors), key=abs)
    return "  ".join(
        [
            *cells,
            f"mean {mean(f.cost for f in every):.3f}",
            f"in time {mean(f.restricted for f in every):.4f} restricted,"
            f" {mean(f.clear for f in every):.4f} clear",
            f"worst error {worst:+.3f}",
            f"contention {min(known):.2f} to {max(known):.2f}" if known else "",
        ]
    )


if __name__ == "__main__":
    main()
