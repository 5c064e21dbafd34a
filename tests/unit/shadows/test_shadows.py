"""Shadow policies beside a live one: what they decide, and that nothing comes of it (O4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gateway.core.deadline import Clock
from gateway.core.errors import OnpremUnavailable
from gateway.core.types import Classification, InferenceRequest, Sensitivity, Zone
from gateway.pipeline.shadow.shadow import Rules
from gateway.scheduling.calls import Action, QueuedCall, Scheduling
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.queued_calls import Weights
from gateway.scheduling.routing.policy import Policy
from gateway.scheduling.rules.baselines import OnArrival, never
from gateway.scheduling.servers.sharing import SharedGpu
from tests.unit.harness import (
    MODEL,
    Rig,
    ScriptedClassifier,
    now_s,
    request,
    run,
    verdict,
)
from tests.unit.shadows.rig import WARM_CALLS, Traffic, asked, rig_with, shadowed

pytestmark = pytest.mark.leaping

ALWAYS = {"policy": "static_split", "spill": True}  # whatever the cloud can answer in time leaves
NEVER = {"spill": False}
LONG_S = 30.0
CALLS = 400


def told(rig: Rig, call: InferenceRequest) -> Mapping[str, Mapping[str, str | None]]:
    """What its record says of the shadows."""
    found = rig.log.of(call.id)[0]["shadows"]
    assert isinstance(found, dict)
    return found


# --- what they decide ---


@pytest.mark.parametrize(("load", "most"), [(1.5, 0.05), (2.0, 0.08)])
def test_a_shadow_with_the_live_policy_decides_like_it(load: float, most: float) -> None:
    """It differs by what lies on the edge, as the live policy does from itself: at twice the load
    it decides 5 to 8 % of the calls otherwise when its batches take other times of the same kind.
    """
    done = run(shadowed({"same": {}}, Traffic(calls=CALLS, load=load)))
    report = done.report("same")
    spilled = sum(n for (live, _), n in done.decided("same").items() if live == "cloud")
    assert report["compared"] == CALLS + WARM_CALLS
    assert spilled > 0.05 * CALLS, "nearly nothing was spilled: this test could not fail"
    assert report["differ"] <= most * CALLS
    assert abs(done.zones("same")["cloud"] - spilled) <= 0.02 * CALLS


@pytest.mark.parametrize("rules", [{"policy": "price_on_arrival"}, {"spill": False}])
def test_what_a_shadow_predicts_is_what_happens_once_it_is_live(rules: dict[str, Any]) -> None:
    """The same arrivals twice: with other rules live than now, and with these."""
    traffic = Traffic(calls=CALLS, load=1.6)
    foretold = run(shadowed({"it": rules}, traffic))
    became = run(shadowed({"it": {}}, traffic, **rules))
    live: dict[str, int] = {}
    for (zone, _), calls in became.decided("it").items():
        live[zone] = live.get(zone, 0) + calls
    for zone in ("onprem", "cloud", "refused"):
        assert abs(foretold.zones("it").get(zone, 0) - live.get(zone, 0)) <= 0.04 * CALLS, zone
    predicted, happened = foretold.report("it"), became.report("it")
    assert abs(predicted["missed"]["shadow"] - happened["missed"]["live"]) <= 0.04 * CALLS
    usd = predicted["cloud_usd"]["shadow"], happened["cloud_usd"]["live"]
    assert abs(usd[0] - usd[1]) <= 0.1 * max(usd)


async def test_a_shadow_that_keeps_every_call_sees_its_own_queue_grow() -> None:
    rig = rig_with({"never": NEVER})
    budgets_s = [LONG_S] * 40 + [0.25] * 80
    calls = [asyncio.create_task(rig.call(request(budget_s=b))) for b in budgets_s]
    await asyncio.sleep(0.15)
    assert rig.shadows is not None
    rig.shadows.publish()
    labels = {"shadow": "never", "model": MODEL}
    waits = rig.metrics.registry.get_sample_value("spillway_shadow_waiting", labels)
    ((_, group),) = tuple(rig.queues)
    live = group.waiting
    await asyncio.gather(*calls)
    await asyncio.sleep(LONG_S)
    rig.shadows.publish()
    assert waits is not None
    assert waits > live
    assert decided(rig).get(("cloud", "refused"), 0) > 0, "so late that it would have had to refuse"


def decided(rig: Rig) -> dict[tuple[str, str], int]:
    """Of the first shadow: calls by live zone and its own."""
    assert rig.shadows is not None
    found: Any = rig.shadows.report()[0]["decisions"]
    return {(d["live_zone"], d["shadow_zone"]): d["calls"] for d in found}


def test_a_shadow_that_sends_everything_away_keeps_what_is_restricted() -> None:
    done = run(shadowed({"always": ALWAYS}, Traffic(calls=200, load=0.5, budgets_s=(1.0,))))
    clear = sum(1 for line in done.rig.log.lines if line["sensitivity"] == "clear")
    assert done.zones("always") == {"cloud": clear, "onprem": 200 + WARM_CALLS - clear}
    for line in done.rig.log.lines:
        away = line["sensitivity"] == "clear"
        found = line["shadows"]["always"]
        assert (found["zone"], found["reason"]) == (
            ("cloud", "spill_rule") if away else ("onprem", "restricted")
        )
    assert done.report("always")["cloud_usd"]["shadow"] == pytest.approx(0.002 * clear)
    assert done.report("always")["cloud_usd"]["live"] == 0.0


async def test_no_shadow_sends_a_restricted_call_away_when_nobody_else_is_left() -> None:
    rig = rig_with({"always": ALWAYS})
    rig.eject("gpu")
    call, clear = request("restricted"), request("clear")
    ended, _ = await rig.call(call), await rig.call(clear)
    assert isinstance(ended.error, OnpremUnavailable)
    restricted = {"zone": "refused", "reason": "onprem_unavailable_restricted"}
    assert told(rig, call)["always"] == restricted
    assert told(rig, clear)["always"] == {"zone": "cloud", "reason": "spill_unavailable"}


async def test_the_cloud_of_a_shadow_is_as_large_as_the_live_one() -> None:
    rig = rig_with({"always": ALWAYS})
    rig.clouds.limit("cloud").refused(now_s(), 6, 0.0)  # from now on it takes four
    await asyncio.sleep(0.01)
    calls = [request(budget_s=LONG_S) for _ in range(10)]
    await asyncio.gather(*(rig.call(call) for call in calls))
    assert [told(rig, call)["always"]["zone"] for call in calls].count("cloud") == 4


# --- and what comes of it: nothing ---


class Late(ScriptedClassifier):
    """What is restricted is found only at the door."""

    async def classify(self, request: InferenceRequest) -> Classification:
        return Classification(request.id, Sensitivity.CLEAR, "clear", complete=False)

    async def complete(
        self, request: InferenceRequest, classification: Classification
    ) -> Classification:
        return verdict(request, self._reason)


async def test_a_call_that_turns_out_to_be_restricted_is_decided_on_anew() -> None:
    rig = rig_with({"always": ALWAYS}, classifier=Late(), policy="static_split")
    call = request("restricted", LONG_S)
    ended = await rig.call(call)
    record, found = rig.log.of(call.id)[0], decided(rig)
    assert ended.placement is not None
    assert ended.placement.zone is Zone.ONPREM
    assert record["shadows"] == {"always": {"zone": "onprem", "reason": "restricted"}}
    assert found == {("onprem", "onprem"): 1}


async def test_of_a_call_that_nobody_could_decide_on_anew_the_record_says_nothing() -> None:
    rig = rig_with(
        {"always": ALWAYS}, classifier=Late(reason="failed"), block_unknown=True,
        policy="static_split",
    )  # fmt: skip
    call = request("restricted", LONG_S)
    ended = await rig.call(call)
    record, found = rig.log.of(call.id)[0], decided(rig)
    assert ended.reason == "unknown_blocked"
    assert record["sensitivity"] == "restricted"
    assert record["shadows"] == {}
    assert found == {}


def test_shadows_change_no_placement_and_reach_no_endpoint() -> None:
    """The same calls with and without them end in the same way at the same time."""

    async def main(shadows: dict[str, dict[str, Any]]) -> Any:
        rig = rig_with(shadows)
        calls = [
            asyncio.create_task(rig.call(request(kind, budget_s)))
            for budget_s in (0.1, 0.3, LONG_S)
            for kind in ("clear", "restricted")
            for _ in range(12)
        ]
        ended = await asyncio.gather(*calls)
        seen = {name: len(site.connector.seen) for name, site in rig.sites.items()}
        return [(e.placement and e.placement.zone, e.reason, e.at_s) for e in ended], seen

    every: dict[str, dict[str, Any]] = {
        "always": ALWAYS,
        "never": NEVER,
        "same": {},
        "patient": {"margin": 3.0},
    }
    assert run(main(every)) == run(main({}))


# --- its place ---

NewScheduling = Callable[[Mapping[str, BatchModel], int], Scheduling]


def rules(new: NewScheduling) -> Rules:
    def made(
        servers: Mapping[str, BatchModel], rows: int, ahead: bool, gpus: Mapping[str, SharedGpu]
    ) -> Scheduling:
        return new(servers, rows)

    return Rules(Policy(), Weights(), made)


async def test_a_shadow_is_asked_when_the_live_call_is_on_its_way() -> None:
    at_the_server: list[int] = []

    rig = rig_with({}, max_batch=1)
    server = rig.sites["gpu"].connector

    class Asked(OnArrival):
        def arrive(self, call: QueuedCall, now_s: float) -> list[Action]:
            at_the_server.append(len(server.seen))
            return super().arrive(call, now_s)

    asked(rig, {"it": rules(lambda servers, rows: Asked(servers, rows, never))})
    await rig.call(request())
    assert at_the_server == [1]


class Broken(OnArrival):
    def arrive(self, call: QueuedCall, now_s: float) -> list[Action]:
        raise RuntimeError("a bug")


async def test_a_shadow_that_fails_is_counted_and_felt_by_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = rig_with({})
    shadows = asked(
        rig,
        {
            "broken": rules(lambda servers, rows: Broken(servers, rows, never)),
            "well": rules(lambda servers, rows: OnArrival(servers, rows, never)),
        },
    )
    calls = [request() for _ in range(3)]
    ended = [await rig.call(call) for call in calls]
    await asyncio.sleep(1.0)
    shadows.publish()
    record, (broken, well), leftovers = told(rig, calls[0]), shadows.report(), rig.leftovers()
    assert [e.reason for e in ended] == ["", "", ""]
    assert record["broken"] == {"zone": None, "reason": "shadow_failed"}
    assert record["well"] == {"zone": "onprem", "reason": "onprem_room"}
    assert (broken["errors"], broken["compared"]) == (3, 0)
    assert (well["errors"], well["compared"]) == (0, 3)
    assert leftovers == {}
    assert [r.message for r in caplog.records] == ["shadow broken failed; it begins anew"]


def slow_clock(each_s: float) -> Clock:
    """Every look at it costs so much time: all that a shadow does takes long."""
    looks = 0

    def clock() -> float:
        nonlocal looks
        looks += 1
        return now_s() + looks * each_s

    return clock


async def test_a_shadow_that_takes_too_much_time_is_left_out_for_a_while() -> None:
    rig = rig_with({})
    shadows = asked(
        rig, {"it": rules(lambda s, rows: OnArrival(s, rows, never))}, 0.001, slow_clock(0.004)
    )
    calls = [request() for _ in range(30)]
    ended = [await rig.call(call) for call in calls]
    record = told(rig, calls[-1])
    report: dict[str, Any] = shadows.report()[0]
    assert {e.reason for e in ended} == {""}
    assert record["it"] == {"zone": None, "reason": "shadow_skipped"}
    assert report["skipped"] > 10
    assert report["compared"] + report["skipped"] <= 30
    assert report["seconds"] > 0.0


def test_what_happens_in_no_server_teaches_nobody() -> None:
    """The live queue's figures are of the live batches alone."""

    def batches(shadows: dict[str, dict[str, Any]]) -> tuple[int, float]:
        done = run(shadowed(shadows, Traffic(calls=100)))
        ((_, group),) = tuple(done.rig.queues)
        model = group.scheduling.servers.model("gpu")
        return model.batches, model.fixed_s

    assert batches({"never": NEVER, "always": ALWAYS}) == batches({"same": {}})


async def test_a_caller_who_leaves_takes_its_call_from_the_shadows() -> None:
    rig = rig_with({"never": NEVER})
    calls = [asyncio.create_task(rig.call(request(budget_s=LONG_S))) for _ in range(60)]
    await asyncio.sleep(0.01)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls)
    assert rig.shadows is not None
    rig.shadows.publish()
    report = rig.shadows.report()[0]
    assert report["waiting"] == {MODEL: 0}
    assert report["compared"] == 0


# --- asked about ---


async def test_explain_tells_what_each_would_do_and_keeps_nothing_of_it() -> None:
    rig = rig_with({"always": ALWAYS, "never": NEVER})
    explained = await rig.pipeline.explain(request(budget_s=LONG_S))
    restricted = await rig.pipeline.explain(request("restricted", LONG_S))
    assert rig.shadows is not None
    reports = rig.shadows.report()
    assert explained.decision is not None
    assert explained.decision.attempts[0].zone is Zone.ONPREM
    assert explained.shadows == {
        "always": {"zone": "cloud", "reason": "spill_rule"},
        "never": {"zone": "onprem", "reason": "onprem_only"},
    }
    assert restricted.shadows["always"] == {"zone": "onprem", "reason": "restricted"}
    assert [(r["compared"], r["waiting"]) for r in reports] == [(0, {MODEL: 0})] * 2
    assert rig.log.lines == []
