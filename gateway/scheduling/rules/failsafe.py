"""The safe mode of a queue: a scheduler that fails is replaced by a simple rule, for a while.

What decides on every waiting call of a model must not take them all with it when it has a bug: an
event that raised would leave them to their deadlines, restricted ones first. So its books are kept
once more (`books`). When it raises, the rule with priorities goes on with these books. After a
dwell a new scheduler gets them and decides again; one that fails soon after doubles the dwell.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Final, TypeVarTuple

from gateway.scheduling.calls import (
    Action,
    CallExtent,
    QueuedCall,
    QueueLimits,
    Refuse,
    Release,
    Scheduling,
    ServerFigures,
    SpillNow,
)
from gateway.scheduling.rules.books import QueueBooks
from gateway.scheduling.rules.priorities import ByPriority
from gateway.scheduling.scheduler import Scheduler

Ts = TypeVarTuple("Ts")
DWELL_S: Final = 10.0  # for which the rule decides at the least
LONGEST_DWELL_S: Final = 600.0
RELAPSE_S: Final = 60.0  # failing again so soon doubles the dwell


class SafeModeDwell:
    """How long a rule decides in the place of a scheduler that failed."""

    def __init__(self) -> None:
        self._dwell_s, self._since_s = DWELL_S, -math.inf  # since when it is as it is
        self._failures, self._error = 0, ""

    def over(self, now_s: float) -> bool:
        return now_s - self._since_s >= self._dwell_s

    def failed(self, exc: Exception, now_s: float) -> None:
        """The scheduler raised, at an event or in its first decision."""
        # guard: S9.relapse-backoff -> relapsed = False
        relapsed = now_s - self._since_s < RELAPSE_S
        self._dwell_s = min(2 * self._dwell_s, LONGEST_DWELL_S) if relapsed else DWELL_S
        self._count(exc, now_s)

    def failed_again(self, exc: Exception, now_s: float) -> None:
        """The one that was to follow the rule raised at once."""
        self._dwell_s = min(2 * self._dwell_s, LONGEST_DWELL_S)  # guard: S9.failure-backoff
        self._count(exc, now_s)

    def ended(self, now_s: float) -> None:
        self._since_s = now_s

    def _count(self, exc: Exception, now_s: float) -> None:
        self._since_s = now_s
        self._failures += 1
        self._error = type(exc).__name__

    def report(self, replaced: bool, comes_back: bool, now_s: float) -> dict[str, object]:
        document: dict[str, object] = {"safe_mode": replaced, "failures": self._failures}
        if self._failures:
            document["last_error"] = self._error
        if replaced:
            document["for_s"] = round(now_s - self._since_s, 3)
            if comes_back:
                document["back_in_s"] = round(max(0.0, self._since_s + self._dwell_s - now_s), 3)
        return document


class Guarded:
    """A `Scheduling`: the scheduler's own, or the rule's while that has failed."""

    deciding: Scheduling
    """The scheduler, or the rule."""
    limits: QueueLimits  # these are of whichever decides
    servers: ServerFigures

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
        self.replaced = False
        """Whether the rule decides."""
        self._scheduler = scheduler  # the last: if replaced, the one that failed
        self._rule = rule
        self._failed, self._again, self._resumed = failed, again, resumed
        self._dwell = SafeModeDwell()
        self._books = QueueBooks()
        self._follow(scheduler)

    def report(self, now_s: float) -> dict[str, object]:
        """For /status: whether a rule decides, why, and for how long at the least."""
        return self._dwell.report(self.replaced, self._again is not None, now_s)

    @property
    def wake_s(self) -> float:
        return self.deciding.wake_s

    @property
    def waiting(self) -> int:
        return len(self._books.waiting)

    # What happens

    def arrive(self, call: QueuedCall, now_s: float) -> list[Action]:
        self._books.waiting[call.id] = call
        return self._happens(self.deciding.arrive, now_s, call)

    def arrive_together(self, calls: Sequence[QueuedCall], now_s: float) -> list[Action]:
        for call in calls:
            self._books.waiting[call.id] = call
        return self._happens(self.deciding.arrive_together, now_s, calls)

    def changed(self, call: QueuedCall, now_s: float) -> list[Action]:
        if call.id in self._books.waiting:
            self._books.waiting[call.id] = call
        return self._happens(self.deciding.changed, now_s, call)

    def cancelled(self, call_id: int | str, now_s: float) -> list[Action]:
        self._books.left(call_id)
        return self._happens(self.deciding.cancelled, now_s, call_id)

    def ended(self, call_id: int | str, answered: bool, now_s: float) -> list[Action]:
        self._books.left(call_id)
        return self._happens(self.deciding.ended, now_s, call_id, answered)

    def tick(self, now_s: float) -> list[Action]:
        return self._happens(self.deciding.tick, now_s)

    def mark_up(self, name: str, up: bool, now_s: float) -> list[Action]:
        self._books.up[name] = up
        return self._happens(self.deciding.mark_up, now_s, name, up)

    def limit(self, name: str, calls: float, now_s: float) -> list[Action]:
        self._books.most[name] = calls
        return self._happens(self.deciding.limit, now_s, name, calls)

    def grow(self, name: str, instances: int, now_s: float) -> list[Action]:
        self._books.instances[name] = instances
        return self._happens(self.deciding.grow, now_s, name, instances)

    # What is asked

    def would(self, call: QueuedCall, now_s: float) -> SpillNow | Refuse | None:
        """None, it stays, while that cannot be told: only an event can replace the scheduler."""
        try:
            return self.deciding.would(call, now_s)
        except Exception:  # noqa: BLE001 - a forecast is no reason to refuse anybody
            return None

    def completion_s(self, size: CallExtent, deadline_s: float, now_s: float) -> float:
        try:
            return self.deciding.completion_s(size, deadline_s, now_s)
        except Exception:  # noqa: BLE001 - a forecast is no reason to refuse anybody
            return 0.0

    # Who decides

    def _happens(
        self, event: Callable[[*Ts, float], list[Action]], now_s: float, *arguments: *Ts
    ) -> list[Action]:
        """The event, and what is decided at it noted in the books."""
        if self.replaced:
            actions = event(*arguments, now_s)
            # guard: S9.dwell-return -> if self._again is not None and False:
            # guard: S9.dwell-wait minus 2
            if self._again is not None and self._dwell.over(now_s):
                self._books.note(actions)
                return [*actions, *self._resume(self._again, now_s)]
        else:
            try:
                actions = event(*arguments, now_s)
                if not actions:
                    return actions
                first = actions[0]
                if len(actions) == 1 and type(first) is Release and len(first.calls) == 1:
                    self._books.goes(first.calls[0], first.server)  # as mostly
                    return actions
                self._books.check(actions)  # guard: S9.redecision-errors
            except Exception as exc:  # noqa: BLE001 - whatever it is, the calls that wait go on
                actions = self._replace(exc, now_s)  # guard: S9.decision-errors -> raise
        self._books.note(actions)
        return actions

    def _replace(self, exc: Exception, now_s: float) -> list[Action]:
        self.replaced = True
        rule = self._rule()
        self._books.inform(rule, self.limits, now_s)
        with contextlib.suppress(Exception):  # the other models of its GPU do not wait for it
            self._scheduler.servers.gpus.retire(now_s)
        self._follow(rule)
        self._dwell.failed(exc, now_s)
        self._failed(exc)
        return rule.take_over(self._books.sent.values(), self._books.waiting.values(), now_s)

    def _resume(self, again: Callable[[], Scheduler], now_s: float) -> list[Action]:
        """A new scheduler decides from here on, unless it fails at once."""
        books = self._books
        try:
            self._scheduler.servers.gpus.leave()  # guard: S9.gpu-numbers
            scheduler = self._scheduler = again()
            books.inform(scheduler, self.limits, now_s)
            actions = scheduler.take_over(
                tuple(books.sent.values()), tuple(books.waiting.values()), now_s
            )
            books.check(actions)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the rule goes on
            with contextlib.suppress(Exception):
                self._scheduler.servers.gpus.retire(now_s)
            self._dwell.failed_again(exc, now_s)
            self._failed(exc)
            return []
        self.replaced = False
        self._follow(scheduler)
        self._dwell.ended(now_s)
        books.note(actions)
        self._resumed()
        return actions

    def _follow(self, other: Scheduler | ByPriority) -> None:
        self.deciding, self.limits, self.servers = other, other.limits, other.servers
