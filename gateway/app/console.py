"""The console of the process: what it shows follows the newest generation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway import __version__
from gateway.accounting.ledger.reading import LedgerReader
from gateway.accounting.live import shares
from gateway.accounting.live.explanation import explanation
from gateway.accounting.live.feed import Feed
from gateway.app.generation import Core
from gateway.app.generations import LiveGenerations
from gateway.app.process_parts import ProcessParts
from gateway.config import Settings
from gateway.core import ambient
from gateway.core.deadline import Clock
from gateway.core.tasks import BackgroundTasks
from gateway.server.console import page
from gateway.server.console.front import ConsoleFront
from gateway.server.console.operators import Operators
from gateway.server.console.picture import ConsoleSources, Picture, ignore_drained
from gateway.server.console.spend import BudgetSpend, LedgerSpend, Spend
from gateway.server.http import Front

if TYPE_CHECKING:
    from gateway.cluster.workers.siblings import SiblingWorker
    from gateway.cluster.workers.worker import Worker


class ProcessConsole:
    def __init__(
        self,
        parts: ProcessParts,
        generations: LiveGenerations,
        background: BackgroundTasks,
        clock: Clock,
        worker: Worker | None,
        siblings: SiblingWorker | None,
    ) -> None:
        self._parts = parts
        self._process_id = ambient.random_hex(8)  # what it is told apart by when started again
        core = generations.newest
        budgets = parts.spill.budgets
        spend: Spend = BudgetSpend(budgets)
        if parts.ledger is not None:
            spend = LedgerSpend(
                budgets,
                lambda: LedgerReader.from_settings(generations.newest.settings).saved_today(),
                background.spawn,
                clock,
            )
        self._sources = ConsoleSources(
            registry=core.site.parts.registry,
            queues=core.site.parts.queues,
            catalog=core.site.catalog,
            admission=parts.admission,
            calls=generations.open_calls,
            decisions=parts.decisions,
            stop=lambda: parts.spill.stop,
            spend=spend,
            max_waiting=core.settings.queue.max_waiting,
            default_budget_s=core.settings.limits.default_latency_budget_ms / 1000,
            policy=lambda: generations.newest.policy,
            version=__version__,
            clock=clock,
            announce_drained=ignore_drained if siblings is None else siblings.announce_drained,
            worker=1 if worker is None else worker.place.number,
            shares=shares.alone() if siblings is None else siblings.shares(),
            decides=worker is None or worker.owns,
        )
        self._picture = Picture(self._sources)
        self.feed = Feed(
            parts.decisions, self._picture, shares=self._sources.shares,
            worker=self._sources.worker,
        )  # fmt: skip

    def follow(self, core: Core) -> None:
        """Show these settings from now on."""
        sources, parts = self._sources, core.site.parts
        sources.registry, sources.queues = parts.registry, parts.queues
        sources.catalog = core.site.catalog
        sources.max_waiting = core.settings.queue.max_waiting
        sources.default_budget_s = core.settings.limits.default_latency_budget_ms / 1000

    def fronts(self, settings: Settings, operators: Operators) -> list[Front]:
        if not settings.console.enabled:
            return []
        front = ConsoleFront(
            self._sources, self.feed, operators, settings.limits, self._parts.metrics,
            page.files(), self._parts.actions,
        )  # fmt: skip
        return [front.front()]

    def part(self, question: dict[str, Any]) -> dict[str, Any]:
        """For the worker that serves the page."""
        return shares.answer(
            question, self._process_id, self._sources.worker, self._parts.decisions, self._picture
        )

    def explained(self, seq: int) -> dict[str, Any] | None:
        decision = self._parts.decisions.find(seq)
        return None if decision is None else explanation(decision)
