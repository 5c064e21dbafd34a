"""The console over a whole gateway between scripted endpoints."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gateway.accounting.audit.actions import Actions
from gateway.accounting.ledger.limits import BudgetLimits
from gateway.accounting.live.decisions import Decisions
from gateway.accounting.live.feed import Feed
from gateway.accounting.measures import Ended, Measures, measures_for
from gateway.accounting.metrics import Metrics
from gateway.accounting.spill import SpillBudgets, SpillControl, SpillStop
from gateway.config import LimitSettings, OperatorSettings
from gateway.server.console import page
from gateway.server.console.front import ConsoleFront
from gateway.server.console.operators import IssuedIds, Operators
from gateway.server.console.picture import ConsoleSources, Picture
from gateway.server.console.spend import BudgetSpend
from gateway.server.http import App
from tests.unit.fronts.http_rig import Pipeline, services
from tests.unit.harness import Rig, Setup, Site, cloud, now_s, onprem

ATTEMPT = {
    "endpoint": "gpu", "zone": "onprem", "zones": ["onprem"], "result": "served",
    "queued_s": 0.001, "took_s": 0.02, "price_usd": 0.0,
}  # fmt: skip


def attempt(endpoint: str = "gpu", result: str = "served", **changes: Any) -> dict[str, Any]:
    zone = "cloud" if endpoint.startswith("cloud") else "onprem"
    return {**ATTEMPT, "endpoint": endpoint, "zone": zone, "result": result, **changes}


def record(
    attempts: Iterable[Mapping[str, Any]] = (ATTEMPT,), call: str = "1", **changes: Any
) -> dict[str, Any]:
    """A line of the decision log."""
    return {
        "kind": "call", "time": 1700000000.0, "id": call, "number": 1, "trace": "a" * 32,
        "tenant": "t", "protocol": "openai", "operation": "chat.completions", "model": "m",
        "budget_s": 1.0, "priority": 0, "input_bytes": None, "allowed": ["cloud", "onprem"],
        "sensitivity": "clear", "classify_reason": "clear", "entities": {}, "pseudonymised": {},
        "classify_s": 0.0005, "looked_for": "everything", "reason": "onprem_room",
        "zones": ["cloud", "onprem"], "latency_critical": False, "vetoes": {},
        "predicted_s": {"gpu": 0.02, "cloud": 0.2}, "attempts": list(attempts), "took_s": 0.021,
        "total_tokens": None, "policy": "abc", "outcome": "served", "end_reason": "onprem_room",
        **changes,
    }  # fmt: skip


def live() -> Decisions:
    """Of a gateway that serves nobody."""
    return Decisions(Measures(Metrics()), now_s)


def ended(
    begun: Mapping[str, Any], end: Mapping[str, Any] | None = None, at_s: float | None = None
) -> Ended:
    """A call as its account tells of it. It ends now unless told."""
    end = begun if end is None else end
    zone = end["attempts"][-1]["zone"] if end["attempts"] else "none"
    at_s = now_s() if at_s is None else at_s
    return begun, end, zone, end["outcome"], end.get("end_reason", ""), end["took_s"], at_s


class Desk:
    """Build it inside a running loop."""

    def __init__(
        self,
        *sites: Site,
        stop_file: Path | None = None,
        operators: Mapping[str, OperatorSettings] | None = None,
        keys_configured: bool = False,
        issued_ids: IssuedIds = lambda token: (),
    ) -> None:
        stop, budgets = (
            SpillStop(stop_file, now_s),
            SpillBudgets(BudgetLimits.usd(day=5.0), {}, now_s),
        )
        setup = Setup(spill=SpillControl(stop, budgets))
        self.rig = Rig(*(sites or (onprem(), cloud())), setup=setup)
        measures = measures_for(self.rig.metrics)
        self.decisions = Decisions(measures, now_s)
        measures.watch = self.decisions.take
        self.sight = ConsoleSources(
            registry=self.rig.registry,
            queues=self.rig.queues,
            catalog=self.rig.catalog,
            admission=self.rig.admission,
            calls=lambda: self.rig.accounts.open_calls,
            decisions=self.decisions,
            stop=lambda: stop,
            spend=BudgetSpend(budgets),
            max_waiting=512,
            default_budget_s=60.0,
            policy=lambda: "abc",
            version="0",
            clock=now_s,
        )
        self.actions = Actions(self.rig.log)
        self.feed = Feed(self.decisions, Picture(self.sight))
        self.operators = Operators(operators or {}, keys_configured, issued_ids)
        self.front = ConsoleFront(
            self.sight, self.feed, self.operators, LimitSettings(), self.rig.metrics,
            page.files(), self.actions,
        )  # fmt: skip

    def app(self) -> Any:
        return App(services(Pipeline()), [self.front.front()])


def told(event: bytes) -> tuple[str, str, dict[str, Any]]:
    """Its kind, its id, its data."""
    lines = dict(line.split(": ", 1) for line in event.decode().strip().splitlines())
    return lines["event"], lines["id"], json.loads(lines["data"])
