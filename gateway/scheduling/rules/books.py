"""Books about a queue, kept beside its scheduler's own: another one can go on with them."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.scheduling.calls import Action, QueuedCall, QueueLimits, Release
from gateway.scheduling.rules.priorities import ByPriority
from gateway.scheduling.scheduler import Scheduler


class UnknownCall(Exception):
    """A scheduler decided on a call that does not wait."""


class QueueBooks:
    def __init__(self) -> None:
        self.waiting: dict[int | str, QueuedCall] = {}  # in the order in which they came
        self.sent: dict[int | str, tuple[str, QueuedCall]] = {}  # with their servers
        self.up: dict[str, bool] = {}  # the rest by server
        self.most: dict[str, float] = {}  # calls at once
        self.instances: dict[str, int] = {}

    def left(self, call_id: int | str) -> None:
        """A call that ended, wherever it was."""
        self.sent.pop(call_id, None)
        if self.waiting:
            self.waiting.pop(call_id, None)

    def goes(self, call: QueuedCall, server: str) -> None:
        """Raises UnknownCall."""
        if self.waiting.pop(call.id, None) is None:
            raise UnknownCall
        self.sent[call.id] = (server, call)

    def check(self, actions: Sequence[Action]) -> None:
        """What is decided on is decided once, of those who wait. Raises UnknownCall."""
        decided = [
            call.id
            for action in actions
            for call in (action.calls if isinstance(action, Release) else (action.call,))
        ]
        if len(decided) != len(set(decided)) or not self.waiting.keys() >= set(decided):
            raise UnknownCall

    def note(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, Release):
                for call in action.calls:
                    self.goes(call, action.server)
            else:
                del self.waiting[action.call.id]

    def inform(self, other: Scheduler | ByPriority, limits: QueueLimits, now_s: float) -> None:
        """What the one who decides now knows of servers and the cloud, and who does next must."""
        other.limits.cloud_room = limits.cloud_room
        other.limits.max_batch = limits.max_batch
        for name, instances in self.instances.items():
            other.grow(name, instances, now_s)
        for name, calls in self.most.items():
            other.limit(name, calls, now_s)
        for name, up in self.up.items():
            other.mark_up(name, up, now_s)
