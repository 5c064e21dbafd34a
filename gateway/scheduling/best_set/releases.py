"""When batches go to their servers, and when to look again."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gateway.scheduling.best_set.batcher import Batcher
from gateway.scheduling.best_set.waiting_calls import WaitingCalls
from gateway.scheduling.calls import Action, QueueLimits, Release
from gateway.scheduling.servers.group import Servers
from gateway.scheduling.servers.instance import Instance

_LATEST_LEAD = 0.5  # of a batch
_RECHECK = 0.1  # of a full batch: when another model does not take its turn


class BatchReleases:
    def __init__(
        self,
        waiting: WaitingCalls,
        servers: Servers,
        batcher: Batcher,
        limits: QueueLimits,
        lead_s: float | None,
    ) -> None:
        """`lead_s`: see `Scheduler`."""
        self._waiting = waiting
        self._positions = waiting.positions
        self._put_off = waiting.put_off
        self._servers = servers
        self._batcher = batcher
        self._limits = limits
        self._lead_limit_s = lead_s

    def release(self, up: Sequence[Instance], now_s: float, actions: list[Action]) -> float:
        """Send the batches that are due. Returns when to look again; inf: at the next event."""
        deferred, barren = False, set[str]()
        if up and self._positions:
            deferred = self._send(up, now_s, actions, barren)
        gpus = self._servers.gpus
        if gpus.shared:
            ready = {i.server for i in up if i.due_s(now_s, self._lead_s(i)) < math.inf}
            gpus.want(self._waiting.first_due_s, ready - barren)
        return self._wake_s(up, now_s, deferred)

    def _send(
        self, up: Sequence[Instance], now_s: float, actions: list[Action], barren: set[str]
    ) -> bool:
        """True: a batch was deferred, as it is another model's turn. To `barren` come servers that
        none of those who wait may go to."""
        deferred = False
        due = [i for i in up if i.due_s(now_s, self._lead_s(i)) <= now_s]
        if len(due) > 1:
            due.sort(key=lambda i: i.free_s(now_s) + i.model.predict_s(1.0))
        for instance in due:
            if not instance.status.may_send(self._waiting.first_due_s):
                deferred = True
                continue
            calls = self._batcher.next(instance, now_s)
            if not self._positions and not calls:
                break
            if not calls:
                barren.add(instance.server)
            else:
                self._servers.send(instance, calls, now_s)
                for call in calls:
                    self._put_off.served(call.id)
                actions.append(Release(instance.server, calls))
        return deferred

    def _lead_s(self, instance: Instance) -> float:
        limit_s = self._lead_limit_s
        if limit_s == 0.0:
            return 0.0
        # guard: S4.half-batch -> work = self._limits.max_batch
        work = instance.bursts[0].work if instance.bursts else self._limits.max_batch
        longest_s = _LATEST_LEAD * instance.model.predict_s(work)
        if limit_s is not None:
            return min(limit_s, longest_s)
        network_s = 2 * instance.status.round_trip_s + 2 * instance.model.sigma_s
        return min(network_s + instance.lead.share * longest_s, longest_s)

    def _wake_s(self, up: Sequence[Instance], now_s: float, deferred: bool) -> float:
        """A batch is due, or overdue, or somebody who was put off is late."""
        at_s = math.inf
        if self._positions:
            for instance in up:
                at_s = min(at_s, instance.overdue_s(now_s))
                due_s = instance.due_s(now_s, self._lead_s(instance))
                if due_s > now_s:
                    at_s = min(at_s, due_s)
            if deferred:
                full_s = self._servers.first_model.predict_s(self._limits.max_batch)
                at_s = min(at_s, now_s + _RECHECK * full_s)
        if self._put_off:
            at_s = min(at_s, self._put_off.next_s + 1e-6)
        return at_s if at_s > now_s else now_s + 1e-3
