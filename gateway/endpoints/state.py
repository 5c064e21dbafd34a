"""One endpoint with its door, and each model that it serves: what is known of them now."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, cast

from gateway.accounting.pricing.gputime import GpuTime
from gateway.accounting.spill import AdaptiveLimit
from gateway.config import EndpointSettings
from gateway.core.errors import DeadlineExceeded
from gateway.core.timeouts import EARLY_S, Slot, TimerWheel, running_wheel
from gateway.endpoints.batch_rows.rows import RowVerdict
from gateway.endpoints.connectors import CloudBackend, Inspector, OnPremBackend, Probed
from gateway.endpoints.health.breaker import Breaker
from gateway.endpoints.health.model_health import ModelHealth
from gateway.endpoints.health.patience import parting_s
from gateway.endpoints.health.statistics import ServerStatistics
from gateway.endpoints.health.suspects import Suspects
from gateway.endpoints.triton.providers import Provided
from gateway.scheduling.queues import Prior
from gateway.scheduling.routing.estimate import ServiceTimes

_UNHEARD: Final = (CancelledError, DeadlineExceeded)  # who gave up has heard nothing


class AttemptTimeout:
    """A call that waits at its lane for its answer to begin, or for the next frame of it.

    `with waiting.waits(...): await ...` cancels what is waited for and raises TimeoutError at its
    end, as `asyncio.timeout_at` does; and at once when the endpoint goes down: a frozen server
    keeps its connections open and would hold every call to its deadline.
    """

    model_state: ModelState
    ends_s = 0.0  # on the clock of the lane
    begun = False  # it has no other place any more
    may_last = False  # beyond its end: `last_check` is asked then
    ran_out = False  # its end has come, and it was told
    _task: asyncio.Task[object] | None = None
    _cancelling = 0
    _slot: Slot = {}  # noqa: RUF012 - no slot: nothing is ever in it
    _slot_s = 0.0  # the time of its slot

    @property
    def model(self) -> str:
        raise NotImplementedError

    @property
    def restricted(self) -> bool:
        raise NotImplementedError

    def last_check(self) -> None:
        """Its end has come. Sets a later one, if there is."""

    def waits(self, ends_s: float, now_s: float) -> AttemptTimeout:
        """From now until then; to be entered at once. Raises RuntimeError where no task runs."""
        wheel = running_wheel()
        task = self._task = wheel.task()
        self._cancelling = task.cancelling()
        self.ends_s = ends_s
        if ends_s < self._slot_s or self not in self._slot:
            self._stand_at(ends_s, now_s, wheel)
        self.model_state.health.answers.claim(self, now_s)
        return self

    def _stand_at(self, ends_s: float, now_s: float, wheel: TimerWheel) -> None:
        self._slot.pop(self, None)
        self._slot, self._slot_s = wheel.add(self, ends_s - now_s), ends_s

    def leave_wheel(self) -> None:
        """It waits no more: nothing is left of it there. Between two frames of a stream it stays,
        and `expire` sees that its end has moved."""
        self._slot.pop(self, None)

    def rests(self) -> None:
        """It waits for something else, until the next `waits`."""
        self.model_state.health.answers.heard(self)
        self._task = None

    def __enter__(self) -> AttemptTimeout:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if not self.begun or error is not None:
            self._slot.pop(self, None)
        if error is None or not isinstance(error, _UNHEARD):
            self.model_state.health.answers.heard(self)
        else:
            self.model_state.health.answers.gave_up(self)
        # guard: A10.waiting-task -> task = self._task
        task, self._task = self._task, None  # which may have this as its result, or in its failure
        if self.ran_out:
            self.ran_out = False
            assert task is not None
            if task.uncancel() <= self._cancelling and kind is CancelledError:
                raise TimeoutError from error

    def ends_by(self, at_s: float, now_s: float) -> None:
        """At the latest, from now on."""
        self.may_last = False
        if at_s < self.ends_s and not self.ran_out:  # guard: A6.fired-limits minus 2
            self.ends_s = at_s
            self._stand_at(at_s, now_s, running_wheel())

    def expire(self) -> None:
        now_s = self.model_state.health.clock()
        if self.may_last and self.ends_s <= now_s + EARLY_S:
            self.may_last = False
            self.last_check()
        if self.ends_s > now_s + EARLY_S:
            self._stand_at(self.ends_s, now_s, running_wheel())
        elif self._task is not None:
            self.ran_out = True
            self._task.cancel()


@dataclass(slots=True)
class ModelState:
    """One model on one endpoint."""

    breaker: Breaker
    times: ServiceTimes
    gaps: ServiceTimes  # between two frames of a stream
    health: ModelHealth
    in_flight: int = 0
    waiting: dict[AttemptTimeout, float] = field(init=False)
    suspects: Suspects = field(init=False)

    def __post_init__(self) -> None:
        self.waiting = cast("dict[AttemptTimeout, float]", self.health.answers.waiting)
        self.suspects = Suspects(self.health.clock)

    @property
    def gap_s(self) -> float:
        return self.gaps.high_s


class ModelStates(dict[str, ModelState]):
    """Those of one endpoint, by model. One that nobody has asked for yet is made then."""

    __slots__ = ("new",)

    def __init__(self) -> None:
        self.new: Callable[[], ModelState] | None = None

    def __missing__(self, model: str) -> ModelState:
        if self.new is None:
            raise KeyError(model)
        state = self[model] = self.new()
        return state


@dataclass(frozen=True, slots=True)
class TriedRows:
    """What came of the last trial of a model's rows, and what the server said of the model then."""

    version: bytes
    verdict: RowVerdict


@dataclass(slots=True)
class EndpointState:
    """One endpoint with its door."""

    settings: EndpointSettings
    connector: Probed  # its doors alone can send calls through it
    onprem: OnPremBackend | None
    cloud: CloudBackend | None
    inspector: Inspector | None
    up: bool = False
    drained: bool = False  # by an operator: it gets no new calls
    in_flight: int = 0
    model_states: ModelStates = field(default_factory=ModelStates)
    on_gray: Callable[[str], None] | None = None  # asks the embedded server's keeper to restart it
    statistics: ServerStatistics | None = None  # where the server tells any
    back_in_s: Callable[[], float | None] = lambda: None  # when a server that restarts will be up
    provided: Callable[[], Sequence[Provided]] = tuple  # what its models run on, where that is told
    measured: Mapping[str, Prior] = field(default_factory=dict)  # by its models, of their batches
    room: AdaptiveLimit | None = None  # of a cloud endpoint: what it was learnt to take at once
    gpu_time: GpuTime | None = None  # of an on-prem one: how its time is shared
    rows: dict[tuple[str, str], TriedRows] = field(default_factory=dict)  # by model, version there
    unbatched: dict[str, RowVerdict] = field(default_factory=dict)
    """Models, by their names here, of which the server could join calls, and must not."""

    def give_up_waiting(
        self, which: Callable[[AttemptTimeout], bool] = lambda waiting: True
    ) -> None:
        """A frozen server keeps its connections open: who waits for it is told at once, and who is
        being answered when no more comes."""
        for model_state in self.model_states.values():
            now_s = model_state.health.clock()
            parting_at_s = now_s + parting_s(model_state.gap_s)
            for waiting in model_state.waiting:
                # guard: A4.ejected-endpoint -> if which(waiting) and (not waiting.begun):
                if which(waiting):
                    # guard: A4.active-stream -> waiting.ends_by(now_s, now_s)
                    waiting.ends_by(parting_at_s if waiting.begun else now_s, now_s)

    def address(self, name: str) -> str:
        """Which server it is, whatever settings call it."""
        return self.settings.url or self.settings.grpc or name

    @property
    def heard(self) -> int:
        """Grows with every answer of the endpoint."""
        return sum(
            model_state.health.answers.heard_count for model_state in self.model_states.values()
        )

    def went_down(self) -> None:
        self.up = False
        for model_state in self.model_states.values():
            model_state.health.put_out()
        self.give_up_waiting()  # guard: A6.ejected-waiter

    def server_up(self) -> None:
        self.up = True
        for model_state in self.model_states.values():
            model_state.health.server_up()


def refused_why(state: EndpointState, model_state: ModelState, tenant: str) -> str:
    """Why no call of this caller may go there now; empty when one may."""
    why = unavailable_why(state, model_state)
    # guard: A6.caller-ejection
    if not why and model_state.suspects.suspended and model_state.suspects.refuses(tenant):
        return "ejected"
    return why


def went_out_why(state: EndpointState, model_state: ModelState) -> str:
    """Why a call that is there waits in vain; empty when it does not. An endpoint that is drained
    finishes the calls that it has."""
    why = unavailable_why(state, model_state)
    return "" if why == "drained" else why


def unavailable_why(state: EndpointState, model_state: ModelState) -> str:
    """Why no call at all may go there now; empty when one may."""
    if not state.up:
        return "down"
    if model_state.breaker.open_until_s and not model_state.breaker.admits():
        return "ejected"
    return "drained" if state.drained else ""  # guard: P3.new-calls -> return ''
