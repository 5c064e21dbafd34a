"""A second try beside a late first one: only without effect, only where it may go (A7)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.core.errors import UpstreamFailed
from gateway.core.operations.chat import CHAT
from gateway.core.operations.responses import RESPONSES
from gateway.core.types import (
    ONPREM_ONLY,
    Classification,
    DocumentCall,
    InferenceRequest,
    Payload,
    Sensitivity,
    TensorCall,
)
from gateway.pipeline.call_account import CallAccount
from gateway.pipeline.retries import RetryBudget
from gateway.scheduling.routing.policy import Policy
from tests.unit.harness import (
    ANSWERS,
    FAILS,
    HANGS,
    Ended,
    Known,
    Plan,
    Rig,
    Setup,
    Site,
    cloud,
    now_s,
    onprem,
    request,
    run,
)

LATE = Plan(open_s=2.0)
QUICK = [ANSWERS] * 20


def hedged(
    *sites: Site,
    payload: Payload | None = None,
    kind: str = "clear",
    hedging: bool = True,
    retries: RetryBudget | None = None,
    warm: int = 20,
    tries: int = 2,
) -> tuple[Ended, list[str], float, Rig]:
    """One call after `warm` quick ones that taught how fast the first endpoint is: how it ended,
    what was tried, how long it took."""

    async def main() -> tuple[Ended, list[str], float, Rig]:
        policy = Policy(max_attempts=tries)
        rig = Rig(*sites, setup=Setup(policy=policy, hedging=hedging, retries=retries))
        for i in range(warm):
            await rig.call(request(f"clear{i}"))
        began_s = now_s()
        call = request(kind, 10.0)
        ended = await rig.call(replace(call, payload=payload or call.payload))
        took_s = now_s() - began_s
        await asyncio.sleep(1)
        assert rig.leftovers() == {}
        last = rig.log.lines[-1]
        return ended, [f"{a['endpoint']}: {a['result']}" for a in last["attempts"]], took_s, rig

    return run(main())


def test_whoever_answers_first_counts_and_the_other_is_cancelled_and_paid_for() -> None:
    ended, tried, took_s, rig = hedged(onprem(*QUICK, LATE), cloud())
    assert ended.error is None
    assert sorted(tried) == ["cloud: served", "gpu: cancelled"]
    assert took_s < 0.5
    assert len(rig.cloud_seen) == 1


def test_a_first_answer_that_comes_after_all_ends_the_second_try() -> None:
    ended, tried, _, rig = hedged(onprem(*QUICK, Plan(open_s=0.1)), cloud(Plan(open_s=5.0)))
    assert ended.error is None
    assert sorted(tried) == ["cloud: cancelled", "gpu: served"]
    prices = [a["price_usd"] for a in rig.log.lines[-1]["attempts"] if a["zone"] == "cloud"]
    assert prices == [0.001], "what was sent is paid for, answered or not"


def test_it_is_off_unless_it_is_asked_for() -> None:
    _, tried, _, rig = hedged(onprem(*QUICK, LATE), cloud(), hedging=False)
    assert tried == ["gpu: served"]
    assert rig.cloud_seen == []


def test_a_restricted_call_is_never_hedged_out_of_the_premises() -> None:
    _, tried, _, rig = hedged(onprem(*QUICK, LATE), cloud(), kind="restricted")
    assert tried == ["gpu: served"]
    assert rig.cloud_seen == []


def test_a_call_within_the_usual_time_is_sent_once() -> None:
    _, tried, _, _ = hedged(onprem(), cloud())
    assert tried == ["gpu: served"]


def test_without_figures_nobody_is_late() -> None:
    _, tried, _, _ = hedged(onprem(LATE), cloud(), warm=0)
    assert tried == ["gpu: served"]


def test_a_second_try_that_fails_leaves_the_first() -> None:
    ended, tried, _, _ = hedged(onprem(*QUICK, LATE), cloud(FAILS))
    assert ended.error is None
    assert sorted(tried) == ["cloud: upstream_failed", "gpu: served"]


def test_a_first_try_that_fails_leaves_the_second() -> None:
    slow_failure = Plan(open_s=0.5, error=lambda: UpstreamFailed("500"))
    ended, tried, _, _ = hedged(onprem(*QUICK, slow_failure), cloud(Plan(open_s=1.0)))
    assert ended.error is None
    assert sorted(tried) == ["cloud: served", "gpu: upstream_failed"]


def test_hedges_are_taken_from_the_second_tries_in_hand() -> None:
    retries = RetryBudget(lambda: 0.0, share=0.0, reserve=0.0)
    _, tried, _, _ = hedged(onprem(*QUICK, LATE), cloud(), retries=retries)
    assert tried == ["gpu: served"]


def test_where_one_endpoint_may_be_tried_there_is_no_second_beside_it() -> None:
    _, tried, _, rig = hedged(onprem(*QUICK, LATE), cloud(), tries=1)
    assert tried == ["gpu: served"]
    assert rig.cloud_seen == []


def test_a_try_beside_another_is_one_of_those_that_a_call_has() -> None:
    slow_failure = Plan(open_s=0.5, error=lambda: UpstreamFailed("500"))
    sites = [onprem(*QUICK, slow_failure), cloud(FAILS), cloud(name="cloud2")]
    _, tried, _, _ = hedged(*sites)
    assert sorted(tried) == ["cloud: upstream_failed", "gpu: upstream_failed"]


def test_a_place_that_cannot_finish_in_time_is_no_second_try() -> None:
    """D5: the call has ten seconds."""
    slow = replace(cloud(), expected_ms=12_000)
    _, tried, _, rig = hedged(onprem(*QUICK, LATE), slow)
    assert tried == ["gpu: served"]
    assert rig.cloud_seen == []


@pytest.mark.parametrize("cancelled", [1, 2, 3])
def test_a_caller_who_leaves_ends_both_tries(cancelled: int) -> None:
    """Also one that is cancelled again while the tries end: by a drain, by a server that stops."""

    async def main() -> None:
        rig = Rig(onprem(*QUICK, HANGS), cloud(HANGS), setup=Setup(hedging=True))
        for i in range(20):
            await rig.call(request(f"clear{i}"))
        calling = asyncio.create_task(rig.call(request("clear", 30.0)))
        await asyncio.sleep(1.0)
        assert len(rig.cloud_seen) == 1
        for _ in range(cancelled):
            calling.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(calling, return_exceptions=True)
        await asyncio.sleep(1.0)
        assert rig.leftovers() == {}
        results = [a["result"] for a in rig.log.lines[-1]["attempts"]]
        assert results == ["cancelled", "cancelled"]

    run(main())


WITH_AN_EFFECT: dict[str, Payload] = {
    "responses": DocumentCall(RESPONSES, {}),
    "streamed": DocumentCall(CHAT, {}, streamed=True),
    "sequence": TensorCall((), parameters={"sequence_id": 7}),
}


@pytest.mark.parametrize("what", sorted(WITH_AN_EFFECT))
def test_a_call_with_an_effect_is_sent_once(what: str) -> None:
    _, tried, _, rig = hedged(onprem(*QUICK, LATE), cloud(), payload=WITH_AN_EFFECT[what])
    assert tried == ["gpu: served"]
    assert rig.cloud_seen == []


class _RestrictedAtTheDoor:
    """What is looked for only in a call that would leave is found then."""

    def classify_now(self, request: InferenceRequest) -> None:
        """There is always something to wait for."""

    async def classify(self, request: InferenceRequest) -> Classification:
        return Classification(request.id, Sensitivity.CLEAR, "clear")

    async def complete(
        self, request: InferenceRequest, classification: Classification
    ) -> Classification:
        return Classification(request.id, Sensitivity.RESTRICTED, "entities", complete=True)


def test_a_second_try_in_the_cloud_is_read_in_full_first() -> None:
    async def main() -> None:
        setup = Setup(hedging=True, classifier=_RestrictedAtTheDoor())
        rig = Rig(onprem(*QUICK, LATE), cloud(), setup=setup)
        for i in range(20):
            await rig.call(request(f"clear{i}"))
        call = request("clear", 10.0)
        assert (await rig.call(call)).error is None
        (record,) = rig.log.of(call.id)
        assert [(a["endpoint"], a["result"]) for a in record["attempts"]] == [("gpu", "served")]
        assert rig.cloud_seen == []

    run(main())


def test_a_place_outside_the_allowed_zones_is_no_second_try() -> None:
    """The decision names it all the same: the zones hold by themselves (M2)."""

    async def main() -> None:
        rig = Rig(onprem(*QUICK, LATE), cloud(), setup=Setup(hedging=True))
        for i in range(20):
            await rig.call(request(f"clear{i}"))
        call = request("clear", 10.0)
        found = await rig.classifier.classify(call)
        states = rig.snapshots.snapshot(call)
        decision = replace(Policy().decide(call, found, states), zones=ONPREM_ONLY)
        assert [e.name for e in decision.attempts] == ["gpu", "cloud"]
        account = CallAccount(rig.accounts, call)
        opened = await rig.dispatcher.send(call, Known(found), decision, account)
        opened.end(None)
        assert [a.endpoint for a in account.attempts] == ["gpu"]
        assert rig.cloud_seen == []

    run(main())
