"""A clock that goes when it is told to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class HandClock:
    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds
