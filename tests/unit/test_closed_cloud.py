"""The cloud is closed to calls that were cleared: by money, by the switch, by what it can take, and
by second tries that nobody earned (S5, A5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.accounting.ledger.limits import BudgetLimits
from gateway.accounting.spill import SpillBudgets, SpillControl, SpillStop
from gateway.core.errors import NoEligibleEndpoint, SpillClosed, UpstreamBusy, UpstreamFailed
from gateway.core.types import Zone
from gateway.pipeline.retries import RetryBudget
from tests.unit.harness import (
    ANSWERS,
    BUSY,
    FAILS,
    Plan,
    Rig,
    Setup,
    cloud,
    now_s,
    onprem,
    request,
    run,
)


def budgeted(usd: float) -> Callable[[], SpillControl]:
    return lambda: SpillControl(
        SpillStop(None, now_s), SpillBudgets(BudgetLimits.usd(usd), {}, now_s)
    )


def test_a_used_up_budget_keeps_clear_calls_on_the_premises() -> None:
    async def main() -> None:
        rig = Rig(onprem(), cloud(), setup=Setup(spill=budgeted(0.0)()))
        ended = await rig.call(request("clear"))
        assert ended.placement is not None
        assert ended.placement.zone is Zone.ONPREM
        assert rig.cloud_seen == []

    run(main())


def test_with_nowhere_else_to_go_a_call_is_refused_and_told_why() -> None:
    async def main() -> None:
        rig = Rig(cloud(), setup=Setup(spill=budgeted(0.0)()))
        ended = await rig.call(request("clear"))
        assert isinstance(ended.error, NoEligibleEndpoint)
        assert "spill_budget" in ended.error.message
        assert rig.cloud_seen == []

    run(main())


def test_what_was_put_aside_is_there_again_when_calls_have_ended() -> None:
    """A2: settled when each call ends, and forgotten after a day as what was spent is."""

    async def main() -> None:
        rig = Rig(cloud(), setup=Setup(spill=budgeted(0.02)()))
        for _ in range(2):
            ended = [await rig.call(request("clear")) for _ in range(21)]
            assert sum(e.error is None for e in ended) == 20
            await asyncio.sleep(25 * 3600)

    run(main())


def test_a_burst_cannot_overshoot_the_budget() -> None:
    """Every call is decided on before the first of them has cost anything."""

    async def main() -> None:
        rig = Rig(cloud(Plan(open_s=0.5)), setup=Setup(spill=budgeted(0.02)()))
        calls = [rig.call(request(f"clear{i}", budget_s=5.0)) for i in range(200)]
        ended = await asyncio.gather(*calls)
        assert sum(e.error is None for e in ended) == 20
        assert len(rig.cloud_seen) == 20
        assert rig.leftovers() == {}

    run(main())


def test_the_switch_also_stops_calls_that_were_decided_on_and_not_yet_sent(
    tmp_path: Path,
) -> None:
    """It comes while the on-prem server still fails a call that would go on to the cloud."""

    async def main() -> None:
        file = tmp_path / "stop"
        spill = SpillControl(SpillStop(file, now_s), SpillBudgets(BudgetLimits(), {}, now_s))
        slow_failure = Plan(open_s=0.5, error=lambda: UpstreamFailed("it answered 500"))
        rig = Rig(onprem(slow_failure), cloud(), setup=Setup(spill=spill))
        calling = asyncio.create_task(rig.call(request("clear", budget_s=5.0)))
        await asyncio.sleep(0.2)
        file.touch()
        ended = await calling
        assert isinstance(ended.error, SpillClosed)
        assert ended.error.reason == "spill_stopped"
        assert rig.cloud_seen == []
        assert rig.leftovers() == {}

    run(main())


def test_an_endpoint_that_says_when_to_come_back_is_left_alone_until_then() -> None:
    async def main() -> None:
        busy = Plan(error=lambda: UpstreamBusy("429", retry_after_s=3.0))
        rig = Rig(cloud(busy, ANSWERS, name="a"), cloud(name="b"))
        first = await rig.call(request("clear1"))
        assert first.placement is not None
        assert first.placement.endpoint == "b"
        for i in range(5):
            await rig.call(request(f"clear2{i}"))
        assert len(rig.sites["a"].connector.seen) == 1
        await asyncio.sleep(3.0)
        state = {s.endpoint.name: s for s in rig.snapshots.snapshot(request("clear3"))}
        assert state["a"].room

    run(main())


@pytest.mark.parametrize(("in_hand", "tries"), [(0.0, 1), (1.0, 2)])
def test_a_call_is_tried_again_only_while_second_tries_are_in_hand(
    in_hand: float, tries: int
) -> None:
    async def main() -> None:
        retries = RetryBudget(now_s, share=0.0, reserve=in_hand)
        rig = Rig(onprem(FAILS), cloud(FAILS), setup=Setup(retries=retries))
        await rig.call(request("clear"))
        assert sum(len(s.connector.seen) for s in rig.sites.values()) == tries

    run(main())


RESERVE = 32


@pytest.mark.parametrize("plan", [FAILS, BUSY], ids=["fails", "busy"])
def test_under_total_failure_the_tries_are_at_most_a_tenth_more_than_the_calls(plan: Plan) -> None:
    """Also where nothing is ejected, because no endpoint is at fault: all are full."""

    async def main() -> None:
        rig = Rig(onprem(plan), onprem(plan, name="gpu2"), cloud(plan))
        calls = 1000
        for i in range(calls):
            await rig.call(request(f"clear{i}"))
        tries = sum(len(s.connector.seen) for s in rig.sites.values())
        assert tries <= 1.1 * calls + RESERVE

    run(main())


def test_calls_that_wait_for_a_second_place_together_take_no_more_than_are_in_hand() -> None:
    async def main() -> None:
        retries = RetryBudget(now_s, share=0.0, reserve=2.0)
        slow_failure = Plan(open_s=0.1, error=lambda: UpstreamFailed("it answered 500"))
        rig = Rig(
            onprem(*[slow_failure] * 10),
            onprem(Plan(open_s=0.3), name="gpu2"),
            setup=Setup(retries=retries),
        )
        calls = [rig.call(request(f"restricted{i}", budget_s=5.0)) for i in range(12)]
        ended = await asyncio.gather(*calls)
        sent = [[a for a in line["attempts"] if a["took_s"]] for line in rig.log.lines]
        second = [attempts for attempts in sent if len(attempts) == 2]
        assert 0 < len(second) <= 2
        assert any(e.error is not None for e in ended)
        assert rig.leftovers() == {}

    run(main())
