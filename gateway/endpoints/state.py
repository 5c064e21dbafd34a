"""One endpoint with its door, and each model that it serves: what is known of them now."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Protocol, cast

from gateway.accounting.pricing.gputime import GpuTime
from gateway.accounting.spill import AdaptiveLimit
from gateway.config import EndpointSettings
from gateway.core.errors import DeadlineExceeded
from gateway.core.timeouts import EARLY_S, TimerWheel, Wait, running_wheel
from gateway.endpoints.batch_rows.rows import JointLimit, RowVerdict
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


class AttemptTimeout(Wait):
    """A call that waits at its lane for its answer to begin, or for the next frame of it.

    `with waiting.waits(...): await ...` cancels what is waited for and raises TimeoutError at its
    end, as `asyncio.timeout_at` does; and at once when the endpoint goes down: a frozen server
    keeps its connections open and would hold every call to its deadline.
    """

    model_state: ModelState
    ends_s = 0.0  # on the clock of the lane
    begun = False  # it has no other place any more
    may_last = False  # beyond its end: `last_check` is asked then
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
        self._begins()
        self.ends_s = ends_s
        if ends_s < self._slot_s or self not in self._slot:
            self._stand_at(ends_s, now_s, running_wheel())
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
        self._ends(error)

    def ends_by(self, at_s: float, now_s: float) -> None:
        """At the latest, from now on."""
        self.may_last = False
        if at_s < self.ends_s and not self.expired:  # guard: A6.fired-limits minus 2
            self.ends_s = at_s
            self._stand_at(at_s, now_s, running_wheel())

    def expire(self) -> None:
        now_s = self.model_state.health.clock()
        if self.may_last and self.ends_s <= now_s + EARLY_S:
            self.may_last = False
            self.last_check()
        if self.ends_s > now_s + EARLY_S:
            self._stand_at(self.ends_s, now_s, running_wheel())
        else:
            self._cancel()


class Epoch(Protocol):
    """What was made of states as they are, and holds until one of them changes."""

    over: bool


@dataclass(slots=True)
class ModelState:
    """One model on one endpoint."""

    breaker: Breaker
    times: ServiceTimes
    gaps: ServiceTimes  # between two frames of a stream
    health: ModelHealth
    reachable: bool = False  # its endpoint is up, and not drained
    in_flight: int = 0
    waiting: dict[AttemptTimeout, float] = field(init=False)
    suspects: Suspects = field(init=False)
    steady: bool = True
    """Its breaker is closed, nobody is suspected, and it is neither slow nor starting slowly: what
    may be sent there depends neither on the time nor on the caller."""
    usual: bool = False  # steady and reachable: any call may be sent there
    epochs: dict[Epoch, None] = field(default_factory=dict)
    """Those that end when this changes."""

    def __post_init__(self) -> None:
        health = self.health
        self.waiting = cast("dict[AttemptTimeout, float]", health.answers.waiting)
        self.suspects = Suspects(health.clock, self.changed)
        self.breaker.changed = health.changed = health.slow_start.changed = self.changed
        self.changed()

    def changed(self) -> None:
        """Something has changed that decisions depend on, other than its load."""
        health = self.health
        self.steady = not (
            self.breaker.open_until_s
            or self.suspects
            or health.slow_since_s is not None
            or health.slow_start.going
        )
        self.usual = self.steady and self.reachable
        for epoch in self.epochs:
            epoch.over = True  # guard: S11.state-change
        self.epochs.clear()

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
    in_flight: int = 0
    model_states: ModelStates = field(default_factory=ModelStates)
    on_gray: Callable[[str, str], None] | None = None
    """Asks the embedded server's supervisor to restart a model of it, for a reason."""
    statistics: ServerStatistics | None = None  # where the server tells any
    back_in_s: Callable[[], float | None] = lambda: None  # when a server that restarts will be up
    provided: Callable[[], Sequence[Provided]] = tuple  # what its models run on, where that is told
    measured: Mapping[str, Prior] = field(default_factory=dict)  # by its models, of their batches
    room: AdaptiveLimit | None = None  # of a cloud endpoint: what it was learnt to take at once
    gpu_time: GpuTime | None = None  # of an on-prem one: how its time is shared
    rows: dict[tuple[str, str], TriedRows] = field(default_factory=dict)  # by model, version there
    unbatched: dict[str, RowVerdict] = field(default_factory=dict)
    """Models, by their names here, of which the server could join calls, and must not."""
    joint_limits: dict[str, JointLimit] = field(default_factory=dict)
    """Models, by their names here, whose calls may share a request."""
    _up: bool = False
    _drained: bool = False

    @property
    def up(self) -> bool:
        return self._up

    @up.setter
    def up(self, up: bool) -> None:
        if up is not self._up:
            self._up = up
            self._reached()

    @property
    def drained(self) -> bool:
        """By an operator: it gets no new calls."""
        return self._drained

    @drained.setter
    def drained(self, drained: bool) -> None:
        if drained is not self._drained:
            self._drained = drained
            self._reached()

    @property
    def reachable(self) -> bool:
        return self._up and not self._drained

    def _reached(self) -> None:
        for model_state in self.model_states.values():
            model_state.reachable = self.reachable
            model_state.changed()  # guard: S11.endpoint-change

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
    if model_state.usual:
        return ""
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
