"""The queue of one model in front of its group of servers.

At every event (an arrival, a batch's end, a timer) it decides anew which waiting calls stay
(`best_set.selection`) and which batches go (`best_set.releases`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence

from gateway.scheduling.best_set.batcher import Batcher
from gateway.scheduling.best_set.releases import BatchReleases
from gateway.scheduling.best_set.selection import Selection
from gateway.scheduling.best_set.valuation import Valuation
from gateway.scheduling.best_set.waiting import QueuePosition
from gateway.scheduling.best_set.waiting_calls import WaitingCalls
from gateway.scheduling.calls import (
    Action,
    CallExtent,
    QueuedCall,
    QueueLimits,
    Refuse,
    Release,
    SpillNow,
)
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.servers.events import GroupEvents
from gateway.scheduling.servers.group import Servers
from gateway.scheduling.servers.sharing import SharedGpu
from gateway.scheduling.tuning import DEFAULT, Tuning


class Scheduler(GroupEvents):
    """See the module. Every spill takes one of `limits.cloud_room`. `round_trip_s` is the network's
    part of an answer's time. `lead_s` is how long before the end of the running batch the next one
    is sent; 0 sends it on completion, None twice the network's time, two sigma of the
    batches' and what trials add (`servers.instance.Lead`)."""

    def __init__(
        self,
        servers: Mapping[str, BatchModel],
        max_batch: int,
        tuning: Tuning = DEFAULT,
        lead_s: float | None = 0.0,
        round_trip_s: float = 0.0,
        gpus: Mapping[str, SharedGpu] | None = None,
    ) -> None:
        if not servers or max_batch < 1:
            raise ValueError("a scheduler needs a server and batches of at least one call")
        self.limits = QueueLimits(max_batch)
        self.servers = Servers(servers, gpus, round_trip_s)
        self.wake_s = math.inf
        self.tuning = tuning
        self.lead_s = lead_s
        self._waiting = WaitingCalls(tuning.least_prospects)
        self._positions = self._waiting.positions
        self._batcher = Batcher(self._waiting, tuning, self.limits)
        self._valuation = Valuation(self.servers, self._batcher, self.limits, tuning)
        self._selection = Selection(self._waiting, self.servers, self._valuation, self.limits)
        self._releases = BatchReleases(
            self._waiting, self.servers, self._batcher, self.limits, lead_s
        )
        self._room_made = False

    @property
    def waiting(self) -> int:
        return len(self._positions)

    # What happens

    def arrive(self, call: QueuedCall, now_s: float) -> list[Action]:
        """A new call, or one that could not leave after all. Its id must not be waiting."""
        positions = self._positions
        if call.id in positions:
            raise ValueError(f"call {call.id} is waiting already")
        if len(positions) >= self.tuning.max_waiting:  # guard: A1.queue-limit
            return [self._selection.turn_away(call, now_s)]
        position = self._valuation.position(call, now_s)
        if not (positions or call.avoid):
            actions = self._at_once(call, position, now_s)
            if actions is not None:
                return actions
        self._waiting.join(call, position)
        return self._decide(now_s)

    def arrive_together(self, calls: Sequence[QueuedCall], now_s: float) -> list[Action]:
        """New calls, of which none comes before another."""
        actions: list[Action] = []
        for call in calls:
            if len(self._positions) >= self.tuning.max_waiting:  # guard: A1.queue-limit
                actions.append(self._selection.turn_away(call, now_s))
            else:
                self._join(call, now_s)
        return [*actions, *self._decide(now_s)]

    def _at_once(
        self, call: QueuedCall, position: QueuePosition, now_s: float
    ) -> list[Action] | None:
        """What `_decide` comes to for a call that meets nobody, where a server is idle and would
        answer it in time, as most are met. None: it has to be decided on."""
        servers = self.servers
        idle = servers.idle()
        if idle is None:
            return None
        model = idle.model
        end_s = model.fixed_s + call.work * model.per_work_s
        stretch = self._valuation.stretch(now_s).few[position.density_class]
        # guard: S4.express-deadline
        if end_s * stretch > position.due_s - now_s:
            return None
        instance = servers.send_at_once(call, idle, now_s, self.lead_s != 0.0)
        if instance is None:
            return None
        if call.rows >= self.limits.max_batch:
            self._batcher.went_full()
        self._waiting.put_off.served(call.id)
        self._rest()
        return [Release(instance.server, (call,))]

    def changed(self, call: QueuedCall, now_s: float) -> list[Action]:
        """Something else is known of a waiting call: it is cleared, or restricted after all.
        Nothing happens if it does not wait any more."""
        if call.id not in self._positions:
            return []
        self._waiting.remove(call.id)
        self._join(call, now_s)
        return self._decide(now_s)

    def cancelled(self, call_id: int | str, now_s: float) -> list[Action]:
        """Its caller has left, wherever the call is."""
        if call_id in self._positions:
            self._waiting.remove(call_id)
            self._waiting.put_off.forget(call_id)
            self._room_made = True
            return self._decide(now_s)
        return self.ended(call_id, False, now_s)

    def ended(self, call_id: int | str, answered: bool, now_s: float) -> list[Action]:
        if not self.servers.ended(call_id, now_s, answered):
            return []
        if not self._positions:
            self._rest()
            return []
        self._room_made = True
        return self._decide(now_s)

    def tick(self, now_s: float) -> list[Action]:
        self._room_made = True
        return self._decide(now_s)

    def mark_up(self, name: str, up: bool, now_s: float) -> list[Action]:
        self._room_made |= up
        return super().mark_up(name, up, now_s)

    # What is asked

    def would(self, call: QueuedCall, now_s: float) -> SpillNow | Refuse | None:
        """What `arrive` would do to this call at once; None: it stays. Changes nothing."""
        for action in copy.deepcopy(self).arrive(call, now_s):
            if not isinstance(action, Release) and action.call.id == call.id:
                return action
        return None

    def completion_s(self, size: CallExtent, deadline_s: float, now_s: float) -> float:
        """In how many seconds a call would be done if it arrived now; inf: no server is up."""
        up = self.servers.up
        if not up:
            return math.inf
        model = up[0].model
        if not self._positions and self.servers.idle() is not None:  # it would begin now
            return model.fixed_s + model.per_work_s * size.work
        start_s, line = self.servers.start_s(now_s) - now_s, self._waiting.line
        if not self._positions:
            return start_s + (model.fixed_s + model.per_work_s * size.work)
        if not line.calls:
            return start_s + model.predict_s(size.work)
        ahead = line.works()[line.dues_s() <= deadline_s]
        ahead_s = len(ahead) * self._valuation.fixed_share_s + ahead.sum() * model.per_work_s
        return float(start_s + ahead_s / len(up) + model.predict_s(size.work))

    # The decision

    def _join(self, call: QueuedCall, now_s: float) -> None:
        self._waiting.join(call, self._valuation.position(call, now_s))

    def _decide(self, now_s: float) -> list[Action]:
        if not self._positions:
            self._rest()
            return []
        actions: list[Action] = []
        up, waiting, selection = self.servers.up, self._waiting, self._selection
        if waiting.line.calls:
            selection.choose(up, now_s, actions)
        if waiting.put_off:
            selection.refuse_the_late(up, now_s, actions)
        if self._room_made:
            self._room_made = False
            if waiting.put_off:
                selection.bring_back(up, now_s, actions)
        self.wake_s = self._releases.release(up, now_s, actions)
        return actions

    def _rest(self) -> None:
        """Nobody waits: there is nothing to decide before the next event."""
        self._room_made = False
        gpus = self.servers.gpus
        if gpus.possible and gpus.shared:
            gpus.want(math.inf, ())
        self.wake_s = math.inf
