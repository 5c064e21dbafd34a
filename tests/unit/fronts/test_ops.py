"""Who sees what on the operator's side: callers see their own, operators all (B6)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import SecretStr

from gateway.accounting.ledger.report import BadQuestion, ReportQuery
from gateway.accounting.metrics import Metrics
from gateway.config import KeySettings
from gateway.server.http import App
from gateway.server.ops import OpsFront
from tests.unit.fronts.http_rig import Answer, Client, Metadata, Pipeline, services, serving

pytestmark = pytest.mark.anyio

KEYS = {
    "acme": KeySettings(key=SecretStr("acme-key"), tenant="acme", models=("simple",)),
    "globex": KeySettings(key=SecretStr("globex-key"), tenant="globex"),
}
ACME, GLOBEX, OPERATOR, NOBODY = "acme-key", "globex-key", "operator-key", "other"
STATUS: dict[str, Any] = {
    "version": "0",
    "models": ["secret-model", "simple"],
    "endpoints": [
        {
            "endpoint": "gpu",
            "models": {"secret-model": {}, "simple": {}},
            "runs_on": {"secret-model": {}},
        }
    ],
    "queues": [{"model": "secret-model", "servers": {}}, {"model": "simple", "servers": {}}],
}


class Desk:
    def __init__(self) -> None:
        self.asked: list[ReportQuery] = []
        self.metrics, self.metadata = Metrics(), Metadata()
        self.metrics.tenant_calls.labels("acme", "onprem", "served").inc()
        self.metrics.limit_refusals.labels("globex", "key", "requests").inc()
        self.metrics.canaries.labels("gpu", "good").inc()

    async def costs(self, question: ReportQuery) -> dict[str, Any]:
        self.asked.append(question)
        if question.tenant not in (None, "acme"):
            raise BadQuestion(f"no tenant {question.tenant!r} in the ledger; there are: acme")
        return {"tenant": question.tenant}

    async def explain(self, request: Any) -> Any:
        raise AssertionError("nobody asked")

    def operates(self, headers: Mapping[str, str], peer: str | None) -> bool:
        assert peer == "127.0.0.1"
        return headers.get("authorization") == f"Bearer {OPERATOR}"

    def app(self) -> Any:
        given = services(Pipeline(), self.metadata, keys=KEYS)
        front = OpsFront(
            given, self.metrics.render, lambda: STATUS, self.explain, self.costs, self.operates
        )
        return App(given, [front.front()])


@asynccontextmanager
async def asking() -> AsyncIterator[tuple[Desk, Callable[[str, str], Awaitable[Answer]]]]:
    desk = Desk()
    async with serving(desk.app()) as port:
        client = await Client.to(port)

        async def ask(path: str, key: str) -> Answer:
            headers = [("authorization", f"Bearer {key}")] if key else []
            return await client.ask("GET", path, b"", headers)

        yield desk, ask


@pytest.mark.parametrize(
    ("path", "key", "tenant"),
    [
        ("/spillway/costs", ACME, "acme"),
        ("/spillway/costs?by=tenant", ACME, "acme"),
        ("/spillway/costs?tenant=acme", ACME, "acme"),
        ("/spillway/costs", OPERATOR, None),
        ("/spillway/costs?tenant=acme", OPERATOR, "acme"),
    ],
)
async def test_a_caller_sees_the_costs_of_its_tenant_and_an_operator_all(
    path: str, key: str, tenant: str | None
) -> None:
    async with asking() as (desk, ask):
        assert (await ask(path, key)).status == 200
        assert [question.tenant for question in desk.asked] == [tenant]


@pytest.mark.parametrize("tenant", ["globex", "nobody", "ACME"])
async def test_a_caller_that_asks_for_another_tenants_costs_is_refused(tenant: str) -> None:
    async with asking() as (desk, ask):
        answer = await ask(f"/spillway/costs?tenant={tenant}", ACME)
        assert answer.status == 403
        assert "its own tenant" in answer.error
        assert desk.asked == []


async def test_a_tenant_without_costs_learns_of_no_other() -> None:
    async with asking() as (_, ask):
        own = await ask("/spillway/costs", GLOBEX)
        assert (own.status, "acme" in own.error) == (400, False)
        every = await ask("/spillway/costs?tenant=nobody", OPERATOR)
        assert (every.status, "there are: acme" in every.error) == (400, True)


@pytest.mark.parametrize("path", ["/spillway/costs", "/status"])
@pytest.mark.parametrize("key", ["", NOBODY])
async def test_whoever_is_nobody_sees_nothing(path: str, key: str) -> None:
    async with asking() as (desk, ask):
        assert (await ask(path, key)).status == 401
        assert desk.asked == []


async def test_the_status_names_no_model_that_a_key_may_not_use() -> None:
    async with asking() as (_, ask):
        told = await ask("/status", ACME)
        assert told.status == 200
        assert b"secret-model" not in told.body
        assert json.loads(told.body)["models"] == ["simple"]
        for key in (GLOBEX, OPERATOR):
            assert json.loads((await ask("/status", key)).body) == STATUS


@pytest.mark.parametrize("key", ["", NOBODY, ACME])
async def test_the_metrics_name_tenants_to_operators_alone(key: str) -> None:
    async with asking() as (_, ask):
        told = await ask("/metrics", key)
        assert told.status == 200
        assert b"acme" not in told.body
        assert b"globex" not in told.body
        assert b'spillway_canaries_total{endpoint="gpu",result="good"} 1.0' in told.body
        every = await ask("/metrics", OPERATOR)
        assert b'spillway_tenant_calls_total{outcome="served",tenant="acme"' in every.body
        assert b'tenant="globex"' in every.body


def test_every_metric_that_names_tenants_says_so_in_its_label() -> None:
    """Else the page would leave it in."""
    metrics = Metrics()
    named = {
        metric._name
        for metric in vars(metrics).values()
        if any("tenant" in label for label in getattr(metric, "_labelnames", ()))
    }
    assert named == {"spillway_tenant_calls", "spillway_limit_refusals"}


@pytest.mark.parametrize(
    ("ready", "onprem", "statuses"),
    [(True, True, (200, 200)), (True, False, (200, 503)), (False, True, (503, 503))],
)
async def test_ready_is_one_thing_and_a_place_for_restricted_calls_another(
    ready: bool, onprem: bool, statuses: tuple[int, int]
) -> None:
    async with asking() as (desk, ask):
        desk.metadata.alive, desk.metadata.onprem = ready, onprem
        answers = [await ask(path, "") for path in ("/readyz", "/readyz/onprem")]
        assert tuple(answer.status for answer in answers) == statuses
        told = [json.loads(answer.body) for answer in answers]
        assert [one["ready"] for one in told] == [status == 200 for status in statuses]
        assert [one["onprem_up"] for one in told] == [onprem, onprem]
