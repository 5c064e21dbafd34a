"""What each attempt costs is kept, however it ends (B2, B3, A7), and no ledger that is down holds
up a call that stays (B2, O5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.accounting.ledger.entry import Entry
from gateway.accounting.ledger.limits import BudgetLimits
from gateway.accounting.pricing import nano
from gateway.accounting.spill import SpillBudgets, SpillControl, SpillStop
from gateway.core.errors import Unconnected, UpstreamFailed
from gateway.core.types import ServedModel, Usage, Zone
from tests.unit.harness import (
    ANSWERS,
    BUSY,
    FAILS,
    GARBAGE,
    HANGS,
    MODEL,
    REFUSES,
    Plan,
    Rig,
    Setup,
    Site,
    cloud,
    cut_after,
    now_s,
    onprem,
    request,
)

pytestmark = pytest.mark.leaping

STREAMED = Plan(frames=3)


class Book:
    """A ledger that is a list."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def post(self, entry: Entry) -> None:
        self.entries.append(entry)


def kept(*sites: Site, setup: Setup | None = None) -> tuple[Rig, list[Entry]]:
    rig, book = Rig(*sites, setup=setup), Book()
    rig.accounts.ledger = book
    for site in sites:
        hour_usd = 3.6 if site.zone is Zone.ONPREM else 0.0
        endpoint = rig.catalog.endpoints[site.name]
        served = ServedModel(MODEL, price_usd=site.price_usd, gpu_usd_per_hour=hour_usd)
        assert isinstance(endpoint.models, dict)
        endpoint.models[MODEL] = served
    return rig, book.entries


@pytest.mark.parametrize(
    ("plan", "streamed", "result"),
    [
        (ANSWERS, False, "served"),
        (STREAMED, True, "served"),
        (GARBAGE, False, "upstream_failed"),
        (cut_after(2), True, "upstream_unreachable"),
        (HANGS, False, "deadline_exceeded"),
    ],
    ids=["answered", "streamed", "nonsense", "cut", "late"],
)
async def test_an_attempt_in_the_cloud_is_paid_for_where_it_may_have_been_served(
    plan: Plan, streamed: bool, result: str
) -> None:
    rig, entries = kept(cloud(plan))
    call = request("clear", streamed=streamed, budget_s=1.0)
    await rig.call(call)
    (entry,) = entries
    assert (entry.result, entry.nano_usd) == (result, nano(0.001))
    assert (entry.call, entry.zone, entry.model) == (call.id, Zone.CLOUD.name, MODEL)
    assert entry.reason == "cloud_only"


REFUSED_503 = Plan(error=lambda: UpstreamFailed("503", unserved=True))


@pytest.mark.parametrize(
    "plan",
    [BUSY, REFUSED_503, REFUSES, Plan(error=lambda: Unconnected("connect error"))],
    ids=["429", "503", "422", "no-connection"],
)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_what_was_not_served_costs_nothing_and_closes_no_budget(
    plan: Plan, streamed: bool
) -> None:
    """By tokens: without any that were counted the most that the call could cost would be due."""

    spill = SpillControl(SpillStop(None, now_s), SpillBudgets(BudgetLimits.usd(1.0), {}, now_s))
    rig, entries = kept(cloud(plan), setup=Setup(spill=spill))
    models: Any = rig.catalog.endpoints["cloud"].models
    models[MODEL] = ServedModel(MODEL, price_usd_per_1k_tokens=0.03)
    for _ in range(4):
        await rig.call(request("clear", streamed=streamed))
        await asyncio.sleep(60)
    assert len(entries) >= 4
    assert {e.nano_usd for e in entries} == {0}
    assert spill.budgets.left() == nano(1.0)
    assert spill.budgets.reserved() == 0


async def test_what_the_endpoint_counted_of_a_refused_call_is_paid() -> None:
    """Tokens that it says are on its bill."""

    plan = Plan(error=REFUSED_503.error, fails_at=0, usage=Usage(1000, 0))
    rig, entries = kept(cloud(plan))
    models: Any = rig.catalog.endpoints["cloud"].models
    models[MODEL] = ServedModel(MODEL, price_usd_per_1k_tokens=0.001)
    await rig.call(request("clear"))
    assert [e.nano_usd for e in entries] == [nano(0.001)]


async def test_a_stream_that_breaks_after_some_tokens_costs_what_came() -> None:
    rig, entries = kept(cloud(cut_after(7)))
    models: Any = rig.catalog.endpoints["cloud"].models
    models[MODEL] = ServedModel(
        MODEL, price_usd_per_1k_input_tokens=0.0, price_usd_per_1k_output_tokens=1.0
    )
    await rig.call(request("clear", streamed=True))
    assert [e.nano_usd for e in entries] == [nano(0.007)]


async def test_who_leaves_in_the_middle_has_used_the_cloud() -> None:
    rig, entries = kept(cloud(STREAMED))
    await rig.call(request("clear", streamed=True), read=1)
    assert [(e.result, e.nano_usd) for e in entries] == [("cancelled", nano(0.001))]


async def test_both_of_two_tries_are_paid_for() -> None:
    rig, entries = kept(cloud(FAILS, name="one"), cloud(name="other"))
    call = request("clear")
    assert (await rig.call(call)).error is None
    assert [e.nano_usd for e in entries] == [nano(0.001)] * 2
    assert {e.call for e in entries} == {call.id}


async def test_an_attempt_that_was_never_sent_costs_nothing() -> None:
    """It is on record, as every attempt is."""

    budgets = SpillBudgets(BudgetLimits(), {}, now_s)
    spill = SpillControl(SpillStop(None, now_s), budgets)
    rig, entries = kept(cloud(Plan(open_s=0.5)), setup=Setup(spill=spill))
    first = asyncio.create_task(rig.call(request("clear", budget_s=5.0)))
    await asyncio.sleep(0.1)
    spill.leases = _Down()
    rig.registry.catalog.endpoints["cloud"]
    await rig.call(request("clear2"))
    await first
    assert sum(e.nano_usd for e in entries) == nano(0.001)


async def test_on_the_premises_a_call_costs_its_share_of_the_servers_time() -> None:
    """3.60 USD an hour are a nano-dollar a nanosecond in thousandths: 100 ms are 0.0001 USD."""

    rig, entries = kept(onprem(Plan(open_s=0.1)))
    await rig.call(request("restricted"))
    (entry,) = entries
    assert entry.gpu_ns == 100_000_000
    assert entry.nano_usd == nano(0.0001)
    assert entry.restricted
    assert entry.cloud_nano_usd is None, "it could not have gone there"


async def test_calls_that_are_there_together_share_what_it_takes() -> None:
    rig, entries = kept(onprem(Plan(open_s=0.1)), setup=Setup(max_batch=4))
    since_s = now_s()
    await asyncio.gather(*(rig.call(request(f"clear{n}")) for n in range(8)))
    took_ns = (now_s() - since_s) * 1e9
    assert took_ns < 4 * 100_000_000
    assert sum(e.gpu_ns for e in entries) == pytest.approx(took_ns, abs=10)


async def test_a_failed_attempt_on_the_premises_has_used_the_server() -> None:
    rig, entries = kept(onprem(Plan(open_s=0.1, error=FAILS.error)))
    await rig.call(request("restricted"))
    assert [e.gpu_ns for e in entries] == [100_000_000]


@pytest.mark.parametrize(("which", "usd"), [("clear", 0.001), ("restricted", None)])
async def test_what_the_cloud_would_have_cost_is_known_of_calls_that_could_go_there(
    which: str, usd: float | None
) -> None:
    rig, entries = kept(onprem(), cloud())
    await rig.call(request(which))
    (entry,) = entries
    assert entry.zone == Zone.ONPREM.name
    assert entry.cloud_nano_usd == (None if usd is None else nano(usd))


async def test_the_cost_on_record_is_that_in_the_ledger() -> None:
    rig, entries = kept(onprem(Plan(open_s=0.1)))
    await rig.call(request("clear"))
    (record,) = rig.log.lines
    assert record["attempts"][0]["price_usd"] * 1e9 == entries[0].nano_usd


@pytest.mark.parametrize(
    ("usage", "total", "usd"),
    [
        (Usage(1000, 0), None, 0.001),
        (Usage(0, 1000), None, 0.004),
        (None, 1000, 0.004),  # nobody knows of which kind: taken for the dearer
    ],
)
async def test_tokens_are_paid_as_the_endpoint_counted_them(
    usage: Usage | None, total: int | None, usd: float
) -> None:
    rig, entries = kept(cloud(Plan(tokens=total, usage=usage)))
    served = ServedModel(
        MODEL, price_usd_per_1k_input_tokens=0.001, price_usd_per_1k_output_tokens=0.004
    )
    models: Any = rig.catalog.endpoints["cloud"].models
    models[MODEL] = served
    await rig.call(request("clear"))
    assert [e.nano_usd for e in entries] == [nano(usd)]


class _Down:
    """Leases of a ledger that cannot be written."""

    down = True

    def has(self, tenant: str, nano_usd: int) -> bool:
        return False

    async def take(self, tenant: str, nano_usd: int) -> str:
        raise AssertionError("nobody asks a ledger that is down")

    def settle(self, tenant: str, reserved: int, spent: int) -> None:
        raise AssertionError("nothing was reserved")

    def allow(self, limits: object) -> None:
        raise AssertionError("nothing is reloaded")


@pytest.mark.parametrize("which", ["clear", "restricted"])
async def test_while_the_ledger_is_down_all_calls_are_served_on_the_premises(which: str) -> None:
    spill = SpillControl(SpillStop(None, now_s), SpillBudgets(BudgetLimits(), {}, now_s))
    spill.leases = _Down()
    rig, _ = kept(onprem(), cloud(), setup=Setup(spill=spill))
    ended = await rig.call(request(which))
    assert ended.placement is not None
    assert ended.placement.zone is Zone.ONPREM
    alone, _ = kept(cloud(), setup=Setup(spill=spill))
    assert "ledger_down" in str((await alone.call(request("clear"))).error)
    assert alone.cloud_seen == []


async def test_a_used_up_budget_never_blocks_the_premises() -> None:
    spill = SpillControl(SpillStop(None, now_s), SpillBudgets(BudgetLimits.usd(total=0), {}, now_s))
    rig, entries = kept(onprem(), cloud(), setup=Setup(spill=spill))
    for n in range(20):
        assert (await rig.call(request(f"clear{n}"))).error is None
    assert {e.zone for e in entries} == {Zone.ONPREM.name}
