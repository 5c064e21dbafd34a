"""The states of an embedded Triton, and when one that is away will be back."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.core import ambient
from gateway.endpoints.triton.server.options import TritonOptions

_FIRST_START_S = 2.0  # expected of a start until one has been seen
_SETTLING_S = 5.0  # after a start, until whoever asks has seen that it infers
_SETTLED_S = 0.3


class ServerState(enum.Enum):
    STOPPED = "stopped"
    STARTING = "starting"
    UP = "up"  # listens, with its models loaded; says nothing about whether inference works
    BACKING_OFF = "backing_off"
    FAILED = "failed"  # the first start did not succeed: something is wrong with the set-up
    CLOSED = "closed"


@dataclass(slots=True)
class Backoff:
    options: TritonOptions
    _next_s: float = field(default=0.0)

    def pause_s(self, up_s: float) -> float:
        if up_s >= self.options.backoff_forgotten_s or not self._next_s:
            self._next_s = self.options.backoff_first_s
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, self.options.backoff_cap_s)
        return pause_s


class StateHistory:
    """The state of one server, since when, and how long it took to start."""

    def __init__(self, on_state: Callable[[ServerState], None] | None) -> None:
        self.state = ServerState.STOPPED
        self.restarts = 0
        self.changed = asyncio.Event()  # set at the next change; then there is a new one
        self._on_state = on_state
        self._entered_s = 0.0
        self._start_took_s = _FIRST_START_S
        self._pause_s = 0.0

    def enter(self, state: ServerState) -> None:
        if state is self.state:
            return
        now_s = ambient.monotonic_s()
        if state is ServerState.UP:
            self._start_took_s = now_s - self._entered_s
        self.state, self._entered_s = state, now_s
        self.changed.set()
        self.changed = asyncio.Event()
        if self._on_state is not None:
            self._on_state(state)

    def back_off(self, pause_s: float) -> None:
        """The next start is so far away."""
        self._pause_s = pause_s
        self.enter(ServerState.BACKING_OFF)

    def back_in_s(self) -> float | None:
        """Seconds until it is expected to infer again; None: it is up, or nobody knows."""
        since_s = ambient.monotonic_s() - self._entered_s
        if self.state is ServerState.STARTING:
            return max(_SETTLED_S, self._start_took_s - since_s)
        if self.state is ServerState.BACKING_OFF:
            return max(0.0, self._pause_s - since_s) + self._start_took_s
        if self.state is ServerState.UP and self.restarts and since_s < _SETTLING_S:
            return _SETTLED_S
        return None
