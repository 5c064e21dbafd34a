"""Whatever time answers take, the schedulers of a GPU go on, and every call ends once."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

import pytest

from gateway.scheduling.calls import Action, CloudPermission, QueuedCall, Refuse, Release, SpillNow
from gateway.scheduling.estimates.latency import CloudLatency
from gateway.scheduling.scheduler import Scheduler
from gateway.scheduling.servers.sharing import SharedGpu
from tests.unit.scheduling.calls import BATCH, steady_model

TIMES_S = (0.0, 1e-9, 0.0004, 0.001, 0.01, 0.3, 3.0)  # the network is taken to need 0.001
WORKS = (1e-6, 1.0, 1e6)


@dataclass
class Callers:
    """Of two models on two servers, until every call has ended."""

    random: random.Random
    now_s: float = 0.0
    open: dict[tuple[int, int | str], str] = field(default_factory=dict)  # where it is
    answers: list[tuple[float, int, QueuedCall]] = field(default_factory=list)

    def __post_init__(self) -> None:
        gpus = {name: SharedGpu() for name in ("one", "other")}
        lead_s = self.random.choice((None, 0.0, 0.01))
        self.models = [
            Scheduler({name: steady_model() for name in gpus}, BATCH, lead_s=lead_s,
                      round_trip_s=0.001, gpus=gpus)
            for _ in range(2)
        ]  # fmt: skip
        self.cloud = CloudLatency(0.05).tail(1.0)
        self.times_s = self.random.sample(TIMES_S, 2)
        self.gaps_s = self.random.choice(((0.0, 0.0, 0.002, 0.05), (0.002, 0.05)))
        self.asked = self.random.choice(((0,), (0, 1)))

    def run(self, calls: int) -> None:
        for number in range(calls):
            model = self.random.choice(self.asked)
            call = self._call(number)
            self.open[model, call.id] = "waits"
            self._do(model, self.models[model].arrive(call, self.now_s))
            self._pass(self.now_s + self.random.choice(self.gaps_s))
        self._pass(math.inf)

    def _call(self, number: int) -> QueuedCall:
        restricted = self.random.random() < 0.5
        leaves = not restricted and self.random.random() < 0.5
        return QueuedCall(
            id=number,
            arrived_s=self.now_s,
            deadline_s=self.now_s + self.random.choice((0.0, 0.02, 0.5, 60.0)),
            penalty=self.random.choice((0.0, 1.0)),
            work=self.random.choice(WORKS) if self.random.random() < 0.1 else 1.0,
            rows=self.random.choice((1, 1, BATCH, 3 * BATCH)),
            leave=CloudPermission.FREELY if leaves else CloudPermission.NEVER,
            restricted=restricted,
            cloud=self.cloud if leaves else None,
        )

    def _pass(self, until_s: float) -> None:
        while self.open and (at_s := self._next_s()) <= until_s:
            assert math.isfinite(at_s), f"nothing more would ever happen: {self.open}"
            self.now_s = at_s
            due = [answer for answer in self.answers if answer[0] <= at_s]
            self.answers = [answer for answer in self.answers if answer[0] > at_s]
            for _, number, call in sorted(due, key=lambda answer: answer[0]):
                del self.open[number, call.id]
                model = self.models[number]
                answered = self.random.random() < 0.95
                self._do(number, model.ended(call.id, answered, at_s))
            for number, model in enumerate(self.models):
                if model.wake_s <= at_s:
                    self._do(number, model.tick(at_s))
        if until_s < math.inf:
            self.now_s = until_s

    def _next_s(self) -> float:
        """A timer that is due again and again fires every millisecond, as the gateway's does."""
        wake_s = max(min(model.wake_s for model in self.models), self.now_s + 0.001)
        return min([wake_s, *(at_s for at_s, _, _ in self.answers)])

    def _do(self, number: int, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Release):
                took_s = self.random.choice(self.times_s)
                for call in action.calls:
                    assert self.open[number, call.id] == "waits"
                    self.open[number, call.id] = action.server
                    self.answers.append((self.now_s + took_s, number, call))
            else:
                assert isinstance(action, SpillNow | Refuse)
                assert self.open.pop((number, action.call.id)) == "waits"


@pytest.mark.parametrize("seed", range(24))
def test_schedulers_go_on_whatever_time_answers_take(seed: int) -> None:
    callers = Callers(random.Random(seed))
    callers.run(calls=300)
    for model in callers.models:
        assert model.waiting == 0
        assert [model.servers.in_flight(name) for name in ("one", "other")] == [0, 0]
