"""The least cost that anyone could reach who knew every arrival: a linear relaxation.

Call i arrives at r_i, is due at D_i, takes at least s_i of GPU time and costs alt_i if it is not
served on the premises. The programme chooses the accepted part y_i of every call and, per urgency
tier k, the service S_k(t) given up to the end of each slot, to maximise sum(alt_i * y_i) with

    due_k(t) <= S_k(t) <= arrived_k(t)      what is accepted is served in time, and not before
    S_k(t-1) <= S_k(t)
    sum over k of S_k(t) - S_k(t-1) <= servers * slot

where arrived_k and due_k are the accepted GPU time that has arrived, and is due, by slot t. No
batches, no preemption costs, no ignorance: no policy can do better.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog

from gateway.simulate.workload import Workload

_TIERS = 3
_SERVED, _ARRIVED, _DUE = range(3)


def least_cost(calls: Workload) -> float:
    """J*, in mean cloud calls."""
    programme = _Programme(calls)
    solution = linprog(
        programme.objective(),
        A_ub=programme.at_most(),
        b_ub=programme.limits(),
        A_eq=programme.equal(),
        b_eq=np.zeros(2 * _TIERS * programme.slots),
        bounds=programme.bounds(),
        method="highs",
    )
    if solution.status != 0:
        raise ArithmeticError(f"the bound was not found: {solution.message}")
    return float(calls.alternative.sum() + solution.fun)


class _Programme:
    """Variables: y of each call, then served, arrived and due of each tier and slot."""

    def __init__(self, calls: Workload) -> None:
        self._calls = calls
        slot_s = calls.mode.slot_s
        self._arrive = np.floor(calls.arrive_s / slot_s).astype(np.int64)
        self._due = np.floor((calls.arrive_s + calls.budget_s) / slot_s).astype(np.int64)
        self.slots = int(self._due.max()) + 1
        block = _TIERS * self.slots
        self._eye = sp.identity(block, format="csr")
        step = sp.identity(self.slots) - sp.eye(self.slots, k=-1)
        self._steps = sp.block_diag([step] * _TIERS, format="csr")
        self._nothing = sp.csr_matrix((block, block))
        self._no_calls = sp.csr_matrix((block, len(calls)))

    def objective(self) -> NDArray[np.float64]:
        rest = np.zeros(3 * _TIERS * self.slots)
        return np.concatenate([-self._calls.alternative, rest])

    def bounds(self) -> list[tuple[float, float | None]]:
        rest = 3 * _TIERS * self.slots
        return [(0.0, 1.0)] * len(self._calls) + [(0.0, None)] * rest

    def equal(self) -> sp.csr_matrix:
        """What arrives and falls due in a slot is the accepted part of its calls."""
        return sp.bmat(
            [
                [-self._taken(self._arrive), self._nothing, self._steps, self._nothing],
                [-self._taken(self._due), self._nothing, self._nothing, self._steps],
            ],
            format="csr",
        )

    def at_most(self) -> sp.csr_matrix:
        eye, none = self._eye, self._nothing
        all_tiers = sp.hstack([sp.identity(self.slots)] * _TIERS) @ self._steps
        nothing = sp.csr_matrix((self.slots, eye.shape[0]))
        return sp.bmat(
            [
                [self._no_calls, eye, -eye, none],
                [self._no_calls, -eye, none, eye],
                [self._no_calls, -self._steps, none, none],
                [sp.csr_matrix((self.slots, len(self._calls))), all_tiers, nothing, nothing],
            ],
            format="csr",
        )

    def limits(self) -> NDArray[np.float64]:
        capacity_s = self._calls.servers * self._calls.mode.slot_s
        return np.concatenate([np.zeros(3 * _TIERS * self.slots), np.full(self.slots, capacity_s)])

    def _taken(self, slot: NDArray[np.int64]) -> sp.csr_matrix:
        rows = self._calls.tier * self.slots + slot
        columns = np.arange(len(self._calls))
        shape = (_TIERS * self.slots, len(self._calls))
        return sp.csr_matrix((self._calls.gpu_s, (rows, columns)), shape=shape)
