"""A clock that goes when it is told to."""

from __future__ import annotations


class HandClock:
    def __init__(self, at_s: float = 1000.0) -> None:
        self._at_s = at_s

    def __call__(self) -> float:
        return self._at_s

    def pass_s(self, seconds: float) -> None:
        self._at_s += seconds
