"""What a scheduler is told of a call, and what it answers."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from gateway.scheduling.latency import Tail


class Leave(enum.Enum):
    """Whether a call may go to the cloud."""

    NEVER = "never"  # restricted, or its caller, its key or its budget says so
    NOT_YET = "not_yet"  # not cleared; counts as one that cannot leave
    FREELY = "freely"


@dataclass(frozen=True, slots=True)
class Call:
    """A call as a scheduler sees it: no content, no endpoint, only what decides."""

    id: int | str
    arrived_s: float  # monotonic; of a call that comes back, when it first arrived
    deadline_s: float  # monotonic
    penalty: float  # cost of a missed budget, in the unit of `price`
    price: float = 0.0  # of its answer in the cloud, egress included
    work: float = 1.0  # in the unit of the batch model; an average call is 1
    leave: Leave = Leave.NEVER
    restricted: bool = True  # by its data: for this class a share of the capacity is reserved
    cloud: Tail | None = None  # how long the cloud takes for a call of its size; None: no cloud

    def __post_init__(self) -> None:
        if self.restricted and self.leave is Leave.FREELY:
            raise ValueError("a restricted call may not leave")
        if not (math.isfinite(self.deadline_s) and self.work > 0 and self.penalty >= 0):
            raise ValueError("a call needs a finite deadline, work above 0 and a penalty")


@dataclass(frozen=True, slots=True)
class Release:
    """Send these calls to this server now, together and in this order."""

    server: str
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Spill:
    """Send this call to the cloud now. Whoever finds that it may not leave after all brings it
    back with `arrive`, as one that never leaves and with its old arrival."""

    call: Call
    why: str  # a reason code: 'spill_deadline', 'spill_price', ...


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer this call now that it cannot be served in time."""

    call: Call
    why: str  # a reason code: 'deadline_unmeetable', 'deadline_exceeded_in_queue'
    retry_after_s: float = 0.0


Action = Release | Spill | Refuse
