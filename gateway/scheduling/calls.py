"""What a scheduler is told of a call, and what it answers."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol

from gateway.core.structs import value
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.estimates.latency import Tail


class CloudPermission(enum.Enum):
    """Whether a call may go to the cloud."""

    NEVER = "never"  # restricted, or its caller, its key or its budget says so
    NOT_YET = "not_yet"  # not cleared; counts as one that cannot leave
    FREELY = "freely"


FREELY: Final = CloudPermission.FREELY  # to look a member up takes longer than to compare with it
NEVER: Final = CloudPermission.NEVER


@value
class QueuedCall:
    """A call as a scheduler sees it: no content, no endpoint, only what decides."""

    id: int | str
    arrived_s: float  # monotonic; of a call that comes back, when it first arrived
    deadline_s: float  # monotonic
    penalty: float  # cost of a missed budget, in the unit of `price`
    price: float = 0.0  # of its answer in the cloud, egress included
    work: float = 1.0  # in the unit of the batch model; an average call is 1
    rows: int = 1  # places that it takes in a batch
    leave: CloudPermission = CloudPermission.NEVER
    restricted: bool = True  # by its data: for this class a share of the capacity is reserved
    cloud: Tail | None = None  # how long the cloud takes for a call of its size; None: no cloud
    later_s: float = 0.0  # stands so much further back in the line: a less urgent priority
    avoid: frozenset[str] = frozenset()  # servers that it must not go to: it failed there

    def __deepcopy__(self, memo: object) -> QueuedCall:
        return self  # a value

    def __post_init__(self) -> None:
        if self.restricted and self.leave is FREELY:
            raise ValueError("a restricted call may not leave")
        if not (-inf < self.deadline_s < inf and self.work > 0 and self.penalty >= 0):
            raise ValueError("a call needs a finite deadline, work above 0 and a penalty")
        if self.rows < 1:
            raise ValueError("a call takes a place of a batch")


class CallExtent(Protocol):
    """How much a call asks for: a call, or what will be one."""

    @property
    def work(self) -> float: ...
    @property
    def rows(self) -> int: ...


@value
class Release:
    """Send these calls to this server now, together and in this order."""

    server: str
    calls: tuple[QueuedCall, ...]


@value
class SpillNow:
    """Send this call to the cloud now. Whoever finds that it may not leave after all brings it
    back with `arrive`, as one that never leaves and with its old arrival."""

    call: QueuedCall
    why: str  # a reason code: 'spill_deadline', 'spill_price', ...


@value
class Refuse:
    """Answer this call now that it cannot be served in time."""

    call: QueuedCall
    why: str  # a reason code: 'deadline_unmeetable', 'deadline_exceeded_in_queue'
    retry_after_s: float = 0.0


Action = Release | SpillNow | Refuse


@dataclass(slots=True)
class QueueLimits:
    """What a queue may use beside its servers. The caller sets it before each event."""

    max_batch: int  # rows of a batch
    cloud_room: float = inf  # calls that may be spilled from now on; 0: the cloud is closed


class ServerFigures(Protocol):
    """What a scheduler knows of its servers, each by its name."""

    def in_flight(self, name: str) -> int: ...
    def model(self, name: str) -> BatchModel: ...


class Scheduling(Protocol):
    """What the live gateway and the simulation drive. Every method takes the time in monotonic
    seconds and returns what is to be done now, in this order; whoever gets an action must do it."""

    @property
    def limits(self) -> QueueLimits: ...
    @property
    def servers(self) -> ServerFigures: ...
    @property
    def wake_s(self) -> float:
        """When `tick` wants to be called, if nothing happens before; inf: never."""
        ...

    @property
    def waiting(self) -> int: ...

    def arrive(self, call: QueuedCall, now_s: float) -> list[Action]: ...
    def arrive_together(self, calls: Sequence[QueuedCall], now_s: float) -> list[Action]: ...
    def changed(self, call: QueuedCall, now_s: float) -> list[Action]: ...
    def cancelled(self, call_id: int | str, now_s: float) -> list[Action]: ...
    def ended(self, call_id: int | str, answered: bool, now_s: float) -> list[Action]: ...
    def tick(self, now_s: float) -> list[Action]: ...
    def mark_up(self, name: str, up: bool, now_s: float) -> list[Action]: ...
    def limit(self, name: str, calls: float, now_s: float) -> list[Action]: ...
    def grow(self, name: str, instances: int, now_s: float) -> list[Action]: ...
    def completion_s(self, size: CallExtent, deadline_s: float, now_s: float) -> float: ...
    def would(self, call: QueuedCall, now_s: float) -> SpillNow | Refuse | None: ...
