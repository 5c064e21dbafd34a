"""One endpoint with its door, and each model that it serves: what is known of them now."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from gateway import ambient
from gateway.backends import CloudBackend, Inspector, OnPremBackend, Probed
from gateway.breaker import Breaker
from gateway.config import EndpointSettings
from gateway.embedded.providers import Provided
from gateway.errors import DeadlineExceeded
from gateway.groups import Prior
from gateway.health.lane import LaneHealth
from gateway.health.patience import parting_s
from gateway.health.statistics import ServerStatistics
from gateway.patience import Patience
from gateway.pricing.gputime import GpuTime
from gateway.routing.estimate import ServiceTimes
from gateway.spill import AdaptiveLimit


@dataclass(slots=True)
class Lane:
    """One model on one endpoint."""

    breaker: Breaker
    times: ServiceTimes
    gaps: ServiceTimes  # between two frames of a stream
    health: LaneHealth
    in_flight: int = 0

    @property
    def gap_s(self) -> float:
        return self.gaps.high_s


class Lanes(dict[str, Lane]):
    """Those of one endpoint, by model. One that nobody has asked for yet is made then."""

    __slots__ = ("new",)

    def __init__(self) -> None:
        self.new: Callable[[], Lane] | None = None

    def __missing__(self, model: str) -> Lane:
        if self.new is None:
            raise KeyError(model)
        found = self[model] = self.new()
        return found


class Waiting:
    """A call that waits for its answer to begin, or for the next frame of it. While in here,
    `limit` runs out at once when the endpoint goes down: a frozen server keeps its connections open
    and would hold every call to its deadline."""

    __slots__ = ("_health", "_limit", "_limits", "_ticket", "begun", "model", "restricted")

    def __init__(
        self, place: Place, model: str, restricted: bool, limit: Patience, begun: bool = False
    ) -> None:
        """`begun`: it has no other place any more."""
        self._limits, self._health = place.limits, place.lanes[model].health
        self.model, self.restricted, self.begun = model, restricted, begun
        self._limit = limit
        self._ticket = 0

    def __enter__(self) -> int:
        """Returns the ticket by which its lane knows it."""
        self._limits[self._limit] = self
        self._ticket = ticket = self._health.asked()
        return ticket

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        del self._limits[self._limit]
        unheard = error is not None and isinstance(error, CancelledError | DeadlineExceeded)
        self._health.left(self._ticket, answered=not unheard)


@dataclass(slots=True)
class Place:
    """One endpoint with its door."""

    settings: EndpointSettings
    connector: Probed  # its doors alone can send calls through it
    onprem: OnPremBackend | None
    cloud: CloudBackend | None
    inspector: Inspector | None
    up: bool = False
    drained: bool = False  # by an operator: it gets no new calls
    in_flight: int = 0
    lanes: Lanes = field(default_factory=Lanes)
    on_gray: Callable[[str], None] | None = None  # asks the embedded server's keeper to restart it
    limits: dict[Patience, Waiting] = field(default_factory=dict)  # of who waits, in order
    statistics: ServerStatistics | None = None  # where the server tells any
    back_in_s: Callable[[], float | None] = lambda: None  # when a server that restarts will be up
    provided: Callable[[], Sequence[Provided]] = tuple  # what its models run on, where that is told
    measured: Mapping[str, Prior] = field(default_factory=dict)  # by its models, of their batches
    room: AdaptiveLimit | None = None  # of a cloud endpoint: what it was learnt to take at once
    gpu_time: GpuTime | None = None  # of an on-prem one: how its time is shared

    def give_up_waiting(self, which: Callable[[Waiting], bool] = lambda waiting: True) -> None:
        """A frozen server keeps its connections open: who waits for it is told at once, and who is
        being answered when no more comes."""
        now_s = ambient.loop_s()
        for limit, waiting in self.limits.items():
            if which(waiting) and not limit.expired():  # one that has just fired cannot be moved
                at_s = now_s
                if waiting.begun:
                    at_s += parting_s(self.lanes[waiting.model].gap_s)
                limit.reschedule(min(at_s, limit.when()))

    def address(self, name: str) -> str:
        """Which server it is, whatever settings call it."""
        return self.settings.url or self.settings.grpc or name

    @property
    def heard(self) -> int:
        """Grows with every answer of the endpoint."""
        return sum(lane.health.heard_count for lane in self.lanes.values())

    def went_down(self) -> None:
        self.up = False
        for lane in self.lanes.values():
            lane.health.put_out()
        self.give_up_waiting()

    def came_up(self) -> None:
        self.up = True
        for lane in self.lanes.values():
            lane.health.came_up()


def unavailable_why(place: Place, lane: Lane) -> str:
    """Why no call may go there now; empty when one may."""
    if not place.up:
        return "down"
    if lane.breaker.open_until_s and not lane.breaker.admits():
        return "ejected"
    return "drained" if place.drained else ""
