"""How servers execute the calls of models: as declared, and as servers say themselves.

Where a model's calls end one by one (generation, streams), every call counts as a batch of its own
in one of many instances, and its server makes what batches it likes: one long answer would else
keep the next batch from being sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.core.errors import UnknownModel

_AHEAD: Final = 2
"""Batches' worth of calls with a server that makes the batches: the running and the next."""

Key = tuple[str, tuple[str, ...]]
"""A model and its servers."""


@dataclass(frozen=True, slots=True)
class Execution:
    """How a server executes a model's calls."""

    rows: int = 1  # of its largest batch
    instances: int = 1  # batches side by side
    one_by_one: bool = False  # calls end on their own, whatever batch they were in
    shares_gpu: bool = True  # with the other models of its server
    apart: bool = False  # rows of several calls may not share a batch: one call at a time

    @property
    def together(self) -> int:
        """Rows of several calls in one batch."""
        return 1 if self.apart else self.rows


@dataclass(frozen=True, slots=True)
class Layout:
    """What a model's queue has in front of it."""

    rows: int  # of a batch
    alone: bool  # calls end one by one, so each is a batch of its own
    ahead: bool  # the next batch is sent before the last has ended
    instances: Mapping[str, int]  # batches side by side, by server
    shared: tuple[str, ...]  # servers that have a GPU with other models


class Executions:
    def __init__(self, declared: Callable[[str, str], Execution]) -> None:
        """`declared`: of a model and a server, what the settings say of its execution."""
        self._declared = declared
        self._known: dict[tuple[str, str], Execution] = {}  # by model and server

    def execution(self, model: str, server: str) -> Execution:
        execution = self._known.get((model, server))
        if execution is None:
            execution = self._known[model, server] = self._declared(model, server)
        return execution

    def window(self, model: str, server: str) -> int:
        """Calls that a server has at most: those of the running batches and of the next."""
        execution = self.execution(model, server)
        return 1 if execution.apart else _AHEAD * execution.rows * execution.instances

    def rows(self, model: str) -> int:
        """Of the largest batch of a model that is known."""
        return max((e.rows for (name, _), e in self._known.items() if name == model), default=1)

    def layout(self, key: Key) -> Layout:
        model, servers = key
        executions = {name: self.execution(model, name) for name in servers}
        alone = any(e.one_by_one for e in executions.values())
        apart = any(e.apart for e in executions.values())
        # guard: E4.batch-ahead minus 4
        return Layout(
            rows=1 if alone or apart else max(e.rows for e in executions.values()),
            alone=alone,
            ahead=not (alone or apart),
            instances={name: _side_by_side(e, alone) for name, e in executions.items()},
            shared=() if alone else tuple(n for n, e in executions.items() if e.shares_gpu),
        )

    def learn(self, model: str, server: str, learned: Execution) -> tuple[Execution, Execution]:
        """What a server says of itself; what was declared may say more. Returns what held before,
        and what does now."""
        before = self.execution(model, server)
        execution = self._known[model, server] = Execution(
            max(before.rows, learned.rows),
            max(before.instances, learned.instances),
            before.one_by_one or learned.one_by_one,
            before.shares_gpu,
            learned.apart,
        )
        return before, execution

    def take_over(
        self, before: Executions, servers: Collection[str]
    ) -> Mapping[tuple[str, str], Execution]:
        """What another version has learnt of these servers holds here, where both declare the same.
        Returns what was known here, to be learnt anew."""
        previous, self._known = self._known, {}
        for (model, name), execution in before._known.items():
            if name in servers and self._alike(before, model, name):
                self._known[model, name] = execution
        return previous

    def knows(self, model: str, servers: Sequence[str]) -> bool:
        return all((model, name) in self._known for name in servers)

    def _alike(self, before: Executions, model: str, server: str) -> bool:
        return self._stated(model, server) == before._stated(model, server) is not None

    def _stated(self, model: str, server: str) -> Execution | None:
        """What is declared; None where the settings have no such model."""
        try:
            return self._declared(model, server)
        except UnknownModel:
            return None


def _side_by_side(execution: Execution, alone: bool) -> int:
    if execution.apart:  # guard: E4.batch-concurrency
        return 1
    return _AHEAD * execution.rows * execution.instances if alone else execution.instances
