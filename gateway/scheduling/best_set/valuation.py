"""What it is worth to serve a call on the premises, per second of GPU that this takes."""

from __future__ import annotations

from gateway.scheduling.best_set.batcher import Batcher
from gateway.scheduling.best_set.waiting import QueuePosition
from gateway.scheduling.calls import FREELY, QueuedCall, QueueLimits
from gateway.scheduling.estimates.demand import Demand, WaitStretch
from gateway.scheduling.servers.group import Servers
from gateway.scheduling.tuning import Tuning

_ROWS_SHARE = 0.05  # of the newest call in the mean


class Valuation:
    def __init__(
        self, servers: Servers, batcher: Batcher, limits: QueueLimits, tuning: Tuning
    ) -> None:
        self._servers = servers
        self._model = servers.first_model
        self._batcher = batcher
        self._limits = limits
        self._tuning = tuning
        self._rows = 1.0  # of a call, on average
        self._demand = Demand()
        self._memory_s = 1.0  # for which arrivals count, by the batches at the last of them

    def position(self, call: QueuedCall, now_s: float) -> QueuePosition:
        """Where a call belongs that comes now, which counts as asked for from here on."""
        t, gpus, model = self._tuning, self._servers.gpus, self._model
        full_s = model.fixed_s + model.per_work_s * self._limits.max_batch
        memory_s = self._memory_s = t.reserve_batches * full_s
        if call.rows != self._rows:
            self._rows += _ROWS_SHARE * (call.rows - self._rows)
        due_s = call.arrived_s + (call.deadline_s - call.arrived_s) * (
            t.restricted_budget if call.restricted else 1.0
        )
        worth, gpu_s = call.penalty, self.gpu_s(call)
        if call.cloud is not None and self._may_spill(call):
            worth = min(worth, self._cloud_cost(call, now_s))
        density = worth / gpu_s
        density_class = gpus.demand.density_class(density)
        self._demand.arrived(density_class, gpu_s, now_s, memory_s)
        if gpus.possible and gpus.shared:
            gpus.observe_demand(density, gpu_s, now_s, memory_s)
        # guard: S4.priority-order -> key = min(due_s, call.arrived_s + t.patience_s)
        # guard: S4.patience-bound -> key = due_s + call.later_s
        key = min(due_s, call.arrived_s + t.patience_s) + call.later_s
        return QueuePosition(key, due_s, density_class)

    def gpu_s(self, call: QueuedCall) -> float:
        """Of a call, with its share of what a full batch costs before its first call."""
        model, rows, most = self._model, call.rows, self._limits.max_batch
        fixed_s = model.fixed_s if rows >= most else model.fixed_s * (rows / most)
        return fixed_s + model.per_work_s * call.work

    def stretch(self, now_s: float) -> WaitStretch:
        """How many times longer calls will wait than the calls ahead of them explain."""
        servers, tuning = self._servers, self._tuning
        if servers.gpus.possible and servers.gpus.in_turns:
            return servers.gpus.stretch(tuning.reserve, tuning.margin, now_s)
        return self._demand.stretch(
            len(servers.up) or 1, tuning.reserve, tuning.margin, now_s, self._memory_s
        )

    @property
    def calls_a_batch(self) -> int:
        return max(1, round(self._limits.max_batch / self._rows * self._batcher.fill))

    @property
    def fixed_share_s(self) -> float:
        """Of an average call, of what a full batch costs before its first call."""
        return self._model.fixed_s / self.calls_a_batch

    def cloud_is_worth_it(self, call: QueuedCall, now_s: float) -> bool:
        # guard: D4.cloud-feasible minus 2
        return self._may_spill(call) and self._cloud_cost(call, now_s) < call.penalty

    def _may_spill(self, call: QueuedCall) -> bool:
        # guard: D4.leave-permission minus 1
        return call.leave is FREELY and call.cloud is not None and self._limits.cloud_room >= 1

    def _cloud_cost(self, call: QueuedCall, now_s: float) -> float:
        assert call.cloud is not None
        return call.price + call.penalty * call.cloud.late(call.deadline_s - now_s)
