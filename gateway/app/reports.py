"""What a process says of itself: `/status`, `/metrics`, and what its sibling workers ask."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gateway import __version__
from gateway.accounting.pricing import usd
from gateway.app.console import ProcessConsole
from gateway.app.generations import LiveGenerations
from gateway.app.process_parts import ProcessParts
from gateway.app.reload import LastReload
from gateway.core import compiled
from gateway.endpoints.versions.parts import EndpointParts
from gateway.server import status

if TYPE_CHECKING:
    from gateway.cluster.workers.worker import Worker


class ProcessReports:
    def __init__(
        self,
        generations: LiveGenerations,
        parts: ProcessParts,
        console: ProcessConsole,
        last_reload: Callable[[], LastReload | None],
        worker: Worker | None,
    ) -> None:
        self._generations = generations
        self._parts = parts
        self._last_reload = last_reload
        self._worker = worker
        self.console_part = console.part
        self.explained = console.explained

    def refresh_gauges(self) -> None:
        core, parts, metrics = self._generations.newest, self._parts, self._parts.metrics
        status.publish(metrics, core.site.states, core.site.parts.queues)
        metrics.held_bytes.set(parts.shared.held_bytes.bytes)
        metrics.held_answer_bytes.set(parts.shared.held_answers.bytes)
        metrics.ready.set(core.services.inspection.ready())
        left = parts.spill.budgets.left()
        metrics.spill_budget_left.set(math.inf if left is None else usd(left))
        if core.node is not None:
            core.node.publish()
        if core.shadows is not None:
            core.shadows.publish()
        if self._worker is not None and self._worker.owns:
            metrics.worker_restarts.set(self._worker.memory.restarts)

    def render_metrics(self, tenants: bool) -> bytes:
        self.refresh_gauges()
        return self._parts.metrics.render(tenants)

    def status(self) -> dict[str, Any]:
        core, last = self._generations.newest, self._last_reload()
        return {
            "version": __version__,
            "compiled": compiled.is_compiled(),
            "policy": core.policy,
            "settings": {
                "policy": core.policy,
                "loaded_at": round(self._generations.loaded_s, 3),
                "still_in_use": [c.policy for c in self._generations.live[:-1]],
                "last_reload": None if last is None else last.document(),
            },
            "detector": core.classifier.version,
            "development_mode": core.callers.anybody,
            "draining": self._parts.admission.draining,
            "ready": core.services.inspection.ready(),
            "onprem_up": core.site.parts.registry.onprem_up(),
            "calls_in_flight": self._generations.open_calls(),
            "public_models": {
                name: model.public_reason
                for name, model in core.settings.models.items()
                if model.public
            },
            "endpoints": status.report(core.site.states),
            "queues": core.site.parts.queues.report(),
            "shadows": [] if core.shadows is None else core.shadows.report(),
            "models": sorted(core.site.catalog.names()),
            "cluster": None if core.node is None else core.node.report(),
            "workers": None,
        }

    def worker_status(self, number: int) -> dict[str, Any]:
        """What the others tell of this one in their status."""
        core = self._generations.newest
        return {
            "worker": number,
            "process": os.getpid(),
            "policy": core.policy,
            "calls_in_flight": self._generations.open_calls(),
            "draining": self._parts.admission.draining,
            "drained": [n for n, state in core.site.states.items() if state.drained],
        }

    def serving(self) -> tuple[EndpointParts, str]:
        core = self._generations.newest
        return core.site.parts, core.policy
