"""Counts what happens to each call, inside the measured window and not."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from loadtests import cpu
from loadtests.load.plan import Plan
from loadtests.load.result import Result, Second


class Recorder:
    """Times are seconds by time.monotonic(). `meant` is called once for each call, `answered` or
    `failed` once more."""

    def __init__(self, plan: Plan) -> None:
        self.result = Result(plan.label, plan.asked, plan.window_s)
        self.start_s = self.from_s = self.to_s = 0.0
        self.open = 0  # calls without an outcome
        self._warm_up_s = plan.warm_up_s
        self._seconds = [Second() for _ in range(math.ceil(plan.window_s))]
        self.result.seconds = self._seconds

    def start(self) -> None:
        self.start_s = time.monotonic()
        self.from_s = self.start_s + self._warm_up_s
        self.to_s = self.from_s + self.result.window_s

    def meant(self, at_s: float) -> None:
        self.open += 1
        if at_s < self.from_s:
            self.result.warm_up += 1
        else:
            self.result.sent += 1

    def due(self, meant_s: float) -> None:
        """A call of an open loop, as soon as this process gets to it."""
        self.meant(meant_s)
        if meant_s >= self.from_s:
            self.result.late.record(time.monotonic() - meant_s)

    def answered(self, meant_s: float, first_s: float, chunks: int, route: str) -> None:
        now_s = time.monotonic()
        self.open -= 1
        second = None
        if self.from_s <= now_s < self.to_s:
            self.result.answered_in_window += 1
            second = self._seconds[int(now_s - self.from_s)]
            second.answered += 1
            if route:
                second.routes[route] += 1
        if meant_s < self.from_s:
            return
        result = self.result
        result.answered += 1
        result.chunks += chunks
        result.latency.record(now_s - meant_s)
        if first_s:
            result.first_byte.record(first_s - meant_s)

    def failed(self, meant_s: float, how: str, sample: bytes = b"") -> None:
        now_s = time.monotonic()
        self.open -= 1
        if self.from_s <= now_s < self.to_s:
            self._seconds[int(now_s - self.from_s)].failed += 1
        if meant_s < self.from_s:
            return
        self.result.failed[how] += 1
        if sample and how not in self.result.samples:
            self.result.samples[how] = sample[-300:].decode("utf-8", "replace")

    def tidy(self) -> None:
        for histogram in (self.result.latency, self.result.first_byte, self.result.late):
            histogram.tidy()


class Meter:
    """The processor time of the system under test and of this process, over the window."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._theirs_s = self._ours_s = self._at_s = 0.0

    def start(self) -> None:
        self._theirs_s = sum(map(cpu.used_s, self._pids))
        self._ours_s, self._at_s = time.process_time(), time.monotonic()

    def stop(self, result: Result) -> None:
        took_s = time.monotonic() - self._at_s
        result.generator_share = (time.process_time() - self._ours_s) / max(took_s, 1e-9)
        if self._pids:
            result.cpu_s = sum(map(cpu.used_s, self._pids)) - self._theirs_s
