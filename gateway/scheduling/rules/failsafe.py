"""The safe mode of a queue: a scheduler that fails is replaced by a simple rule, for a while.

What decides on every waiting call of a model must not take them all with it when it has a bug: an
event that raised would leave them to their deadlines, restricted ones first. So its books are kept
here once more: who waits, who is with which server, which servers are up. When it raises, the rule
with priorities goes on with these books. After a dwell a new scheduler gets them and decides again;
one that fails soon after doubles the dwell.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Final, TypeVar

from gateway.scheduling.calls import (
    Action,
    CallExtent,
    QueuedCall,
    Refuse,
    Release,
    Scheduling,
    SpillNow,
)
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.rules.priorities import ByPriority
from gateway.scheduling.scheduler import Scheduler

T = TypeVar("T")
DWELL_S: Final = 10.0  # for which the rule decides at the least
LONGEST_DWELL_S: Final = 600.0
RELAPSE_S: Final = 60.0  # failing again so soon doubles the dwell


class Guarded:
    """A `Scheduling`: the scheduler's own, or the rule's while that has failed."""

    def __init__(
        self,
        scheduler: Scheduler,
        rule: Callable[[], ByPriority],
        failed: Callable[[Exception], None],
        again: Callable[[], Scheduler] | None = None,
        resumed: Callable[[], None] = lambda: None,
    ) -> None:
        """`failed` is told each error; `again` makes a scheduler like the one that failed, which
        decides from `resumed` on. Without it the rule goes on."""
        self._own: Scheduling = scheduler
        self._scheduler: Scheduler | None = scheduler
        self._retired = scheduler  # that failed last
        self._rule = rule
        self._failed, self._again, self._resumed = failed, again, resumed
        self._dwell_s, self._since_s = DWELL_S, -math.inf  # since when it is as it is
        self._failures, self._error = 0, ""
        self._waiting: dict[int | str, QueuedCall] = {}  # in the order in which they came
        self._sent: dict[int | str, tuple[str, QueuedCall]] = {}
        self._up: dict[str, bool] = {}
        self._limits: dict[str, float] = {}
        self._instances: dict[str, int] = {}

    @property
    def replaced(self) -> bool:
        return self._scheduler is None

    def report(self, now_s: float) -> dict[str, object]:
        """For /status: whether a rule decides, why, and for how long at the least."""
        document: dict[str, object] = {"safe_mode": self.replaced, "failures": self._failures}
        if self._failures:
            document["last_error"] = self._error
        if self.replaced:
            document["for_s"] = round(now_s - self._since_s, 3)
            if self._again is not None:
                document["back_in_s"] = round(max(0.0, self._since_s + self._dwell_s - now_s), 3)
        return document

    @property
    def deciding(self) -> Scheduling:
        """The scheduler's own, or the rule."""
        return self._own

    @property
    def cloud_room(self) -> float:
        return self._own.cloud_room

    @cloud_room.setter
    def cloud_room(self, room: float) -> None:
        self._own.cloud_room = room

    @property
    def max_batch(self) -> int:
        return self._own.max_batch

    @max_batch.setter
    def max_batch(self, rows: int) -> None:
        self._own.max_batch = rows

    @property
    def wake_s(self) -> float:
        try:
            return self._own.wake_s
        except Exception:  # noqa: BLE001 - the tick that follows at once will raise, and replace it
            return -math.inf

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    # What happens

    def arrive(self, call: QueuedCall, now_s: float) -> list[Action]:
        self._waiting[call.id] = call
        return self._happens(self._own.arrive, call, now_s)

    def changed(self, call: QueuedCall, now_s: float) -> list[Action]:
        if call.id in self._waiting:
            self._waiting[call.id] = call
        return self._happens(self._own.changed, call, now_s)

    def cancelled(self, call_id: int | str, now_s: float) -> list[Action]:
        self._left(call_id)
        return self._happens(self._own.cancelled, call_id, now_s)

    def completed(self, call_id: int | str, now_s: float) -> list[Action]:
        self._left(call_id)
        return self._happens(self._own.completed, call_id, now_s)

    def failed(self, call_id: int | str, now_s: float) -> list[Action]:
        self._left(call_id)
        return self._happens(self._own.failed, call_id, now_s)

    def tick(self, now_s: float) -> list[Action]:
        return self._happens(lambda its, at_s: its.tick(at_s), self._own, now_s)

    def server_up(self, name: str, now_s: float) -> list[Action]:
        self._up[name] = True
        return self._happens(self._own.server_up, name, now_s)

    def server_down(self, name: str, now_s: float) -> list[Action]:
        self._up[name] = False
        return self._happens(self._own.server_down, name, now_s)

    def limit(self, name: str, calls: float, now_s: float) -> list[Action]:
        self._limits[name] = calls
        return self._happens(lambda its, at_s: its.limit(name, calls, at_s), self._own, now_s)

    def grow(self, name: str, instances: int, now_s: float) -> list[Action]:
        self._instances[name] = instances
        return self._happens(lambda its, at_s: its.grow(name, instances, at_s), self._own, now_s)

    # What is asked

    def would(self, call: QueuedCall, now_s: float) -> SpillNow | Refuse | None:
        """None, it stays, while that cannot be told: only an event can replace the scheduler."""
        try:
            return self._own.would(call, now_s)
        except Exception:  # noqa: BLE001 - a forecast is no reason to refuse anybody
            return None

    def completion_s(self, size: CallExtent, deadline_s: float, now_s: float) -> float:
        try:
            return self._own.completion_s(size, deadline_s, now_s)
        except Exception:  # noqa: BLE001 - a forecast is no reason to refuse anybody
            return 0.0

    def in_flight(self, name: str) -> int:
        return sum(server == name for server, _ in self._sent.values())

    def model(self, name: str) -> BatchModel:
        return self._own.model(name)

    # Its books

    def _left(self, call_id: int | str) -> None:
        self._sent.pop(call_id, None)
        if self._waiting:
            self._waiting.pop(call_id, None)

    def _happens(
        self, event: Callable[[T, float], list[Action]], argument: T, now_s: float
    ) -> list[Action]:
        """The event, and what is decided at it noted in the books."""
        if self._scheduler is None:
            actions = event(argument, now_s)
            # guard: S9.dwell-return -> if self._again is not None and False:
            # guard: S9.dwell-wait minus 2
            if self._again is not None and now_s - self._since_s >= self._dwell_s:
                for action in actions:
                    self._note(action)
                return [*actions, *self._resume(self._again, now_s)]
        else:
            try:
                actions = event(argument, now_s)
                if not actions:
                    return actions
                first = actions[0]
                if len(actions) == 1 and type(first) is Release and len(first.calls) == 1:
                    self._goes(first.calls[0], first.server)  # as mostly
                    return actions
                self._check(actions)  # guard: S9.redecision-errors
            except Exception as exc:  # noqa: BLE001 - whatever it is, the calls that wait go on
                actions = self._replace(exc, now_s)  # guard: S9.decision-errors -> raise
        for action in actions:
            self._note(action)
        return actions

    def _goes(self, call: QueuedCall, server: str) -> None:
        if self._waiting.pop(call.id, None) is None:
            raise UnknownCall
        self._sent[call.id] = (server, call)

    def _check(self, actions: list[Action]) -> None:
        """What is decided on is decided once, of those who wait."""
        decided = [
            call.id
            for action in actions
            for call in (action.calls if isinstance(action, Release) else (action.call,))
        ]
        if len(decided) != len(set(decided)) or not self._waiting.keys() >= set(decided):
            raise UnknownCall

    def _note(self, action: Action) -> None:
        if isinstance(action, Release):
            for call in action.calls:
                del self._waiting[call.id]
                self._sent[call.id] = (action.server, call)
        else:
            del self._waiting[action.call.id]

    def _replace(self, exc: Exception, now_s: float) -> list[Action]:
        failed, self._scheduler = self._scheduler, None
        assert failed is not None
        rule = self._rule()
        self._inform(rule, now_s)
        with contextlib.suppress(Exception):  # the other models of its GPU do not wait for it
            failed.retire(now_s)
        self._own, self._retired = rule, failed
        # guard: S9.relapse-backoff -> relapsed = False
        relapsed = now_s - self._since_s < RELAPSE_S
        self._dwell_s = min(2 * self._dwell_s, LONGEST_DWELL_S) if relapsed else DWELL_S
        self._count(exc, now_s)
        return rule.take_over(self._sent.values(), self._waiting.values(), now_s)

    def _resume(self, again: Callable[[], Scheduler], now_s: float) -> list[Action]:
        """A new scheduler decides from here on, unless it fails at once."""
        try:
            self._retired.leave()  # guard: S9.gpu-numbers
            scheduler = self._retired = again()
            self._inform(scheduler, now_s)
            actions = scheduler.take_over(
                tuple(self._sent.values()), tuple(self._waiting.values()), now_s
            )
            self._check(actions)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the rule goes on
            with contextlib.suppress(Exception):
                self._retired.retire(now_s)
            self._dwell_s = min(2 * self._dwell_s, LONGEST_DWELL_S)  # guard: S9.failure-backoff
            self._count(exc, now_s)
            return []
        self._own = self._scheduler = scheduler
        self._since_s = now_s
        for action in actions:
            self._note(action)
        self._resumed()
        return actions

    def _inform(self, other: Scheduler | ByPriority, now_s: float) -> None:
        """What the one who decides now knows of servers and the cloud, and who does next must."""
        other.cloud_room, other.max_batch = self._own.cloud_room, self._own.max_batch
        for name, instances in self._instances.items():
            other.grow(name, instances, now_s)
        for name, calls in self._limits.items():
            other.limit(name, calls, now_s)
        for name, up in self._up.items():
            (other.server_up if up else other.server_down)(name, now_s)

    def _count(self, exc: Exception, now_s: float) -> None:
        self._since_s = now_s
        self._failures += 1
        self._error = type(exc).__name__
        self._failed(exc)


class UnknownCall(Exception):
    """A scheduler decided on a call that does not wait."""
