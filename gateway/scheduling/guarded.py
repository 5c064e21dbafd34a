"""A scheduler that fails is replaced by a simple rule, and nobody who waits is forgotten.

What decides on every waiting call of a model must not take them all with it when it has a bug: an
event that raised would leave them to their deadlines, restricted ones first. So its books are kept
here once more: who waits, who is with which server, which servers are up. When it raises, a
`OnArrival` with these books goes on in its place for as long as the process lives.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import TypeVar

from gateway.scheduling.arrival import OnArrival
from gateway.scheduling.batches import BatchModel
from gateway.scheduling.calls import Action, Call, Extent, Refuse, Release, Scheduling, Spill
from gateway.scheduling.scheduler import Scheduler

T = TypeVar("T")


class Guarded:
    """A `Scheduling`: the scheduler's own, or the rule's once that has raised."""

    def __init__(
        self,
        scheduler: Scheduler,
        rule: Callable[[], OnArrival],
        failed: Callable[[Exception], None],
    ) -> None:
        """`failed` is told the error, once."""
        self._own: Scheduling = scheduler
        self._scheduler: Scheduler | None = scheduler
        self._rule = rule
        self._failed = failed
        self._waiting: dict[int | str, Call] = {}  # in the order in which they came
        self._sent: dict[int | str, tuple[str, Call]] = {}
        self._up: dict[str, bool] = {}
        self._limits: dict[str, float] = {}
        self._instances: dict[str, int] = {}

    @property
    def replaced(self) -> bool:
        return self._scheduler is None

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

    def arrive(self, call: Call, now_s: float) -> list[Action]:
        self._waiting[call.id] = call
        return self._happens(self._own.arrive, call, now_s)

    def changed(self, call: Call, now_s: float) -> list[Action]:
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

    def would(self, call: Call, now_s: float) -> Spill | Refuse | None:
        """None, it stays, while that cannot be told: only an event can replace the scheduler."""
        try:
            return self._own.would(call, now_s)
        except Exception:  # noqa: BLE001 - a forecast is no reason to refuse anybody
            return None

    def completion_s(self, size: Extent, deadline_s: float, now_s: float) -> float:
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
        self, event: Callable[[T, float], list[Action]], of: T, now_s: float
    ) -> list[Action]:
        """The event, and what is decided at it noted in the books."""
        if self._scheduler is None:
            actions = event(of, now_s)
        else:
            try:
                actions = event(of, now_s)
                if not actions:
                    return actions
                first = actions[0]
                if len(actions) == 1 and type(first) is Release and len(first.calls) == 1:
                    self._goes(first.calls[0], first.server)  # as mostly
                    return actions
                self._check(actions)
            except Exception as exc:  # noqa: BLE001 - whatever it is, the calls that wait go on
                actions = self._replace(exc, now_s)
        for action in actions:
            self._note(action)
        return actions

    def _goes(self, call: Call, server: str) -> None:
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
        rule.cloud_room, rule.max_batch = failed.cloud_room, failed.max_batch
        for name, instances in self._instances.items():
            rule.grow(name, instances, now_s)
        for name, calls in self._limits.items():
            rule.limit(name, calls, now_s)
        for name, up in self._up.items():
            (rule.server_up if up else rule.server_down)(name, now_s)
        with contextlib.suppress(Exception):  # the other models of its GPU do not wait for it
            failed.retire(now_s)
        self._own = rule
        self._failed(exc)
        return rule.take_over(self._sent.values(), self._waiting.values(), now_s)


class UnknownCall(Exception):
    """A scheduler decided on a call that does not wait."""
