"""Attempts: what fails over and what does not, within one deadline, up to the commit point."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import pytest

from gateway.config import QueueSettings
from gateway.core.errors import (
    AnswersFull,
    DeadlineExceeded,
    NoEligibleEndpoint,
    OnpremUnavailable,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamUnreachable,
)
from gateway.core.reply import received
from gateway.core.types import Zone
from gateway.pipeline.call_account import CallAccount
from gateway.scheduling.routing.policy import Policy
from tests.unit.harness import (
    ANSWERS,
    BUG,
    BUSY,
    EMPTY,
    FAILS,
    GARBAGE,
    HANGS,
    HANGS_BEFORE_FIRST_FRAME,
    REFUSES,
    UNREACHABLE,
    Ended,
    Known,
    Plan,
    Rig,
    ScriptedConnector,
    Setup,
    Site,
    cloud,
    cut_after,
    idle_after_s,
    now_s,
    onprem,
    request,
    run,
)


@dataclass(frozen=True, slots=True)
class Done:
    """One call, and what the endpoints saw of it."""

    ended: Ended
    rig: Rig

    @property
    def tried(self) -> list[str]:
        (end,) = [line for line in self.rig.log.lines if line["outcome"] != "sent"]
        return [f"{a['endpoint']}: {a['result']}" for a in end["attempts"]]


def one(
    *sites: Site,
    kind: str = "clear",
    budget_s: float = 1.0,
    streamed: bool = False,
    setup: Setup | None = None,
) -> Done:
    async def main() -> Done:
        rig = Rig(*sites, setup=setup)
        ended = await rig.call(request(kind, budget_s, streamed=streamed))
        await asyncio.sleep(1)
        assert rig.leftovers() == {}
        return Done(ended, rig)

    return run(main())


# A5: what fails over


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("plan", "result"),
    [
        pytest.param(UNREACHABLE, "upstream_unreachable", id="connect-error"),
        pytest.param(BUSY, "upstream_busy", id="429"),
        pytest.param(FAILS, "upstream_failed", id="5xx"),
        pytest.param(GARBAGE, "upstream_failed", id="nonsense"),
        pytest.param(EMPTY, "upstream_failed", id="an-answer-without-a-frame"),
        pytest.param(idle_after_s(0.1), "upstream_unreachable", id="idle-stream"),
        pytest.param(cut_after(0), "upstream_unreachable", id="cut-before-the-first-frame"),
    ],
)
def test_a_failure_of_the_endpoint_fails_over(plan: Plan, result: str, streamed: bool) -> None:
    done = one(onprem(plan), cloud(), streamed=streamed)
    assert done.ended.error is None
    assert done.ended.placement is not None
    assert done.ended.placement.zone is Zone.CLOUD
    assert done.ended.placement.reason == "failover"
    assert done.ended.placement.attempts == 2
    assert done.tried == [f"gpu: {result}", "cloud: served"]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("plan", "error", "result"),
    [
        pytest.param(REFUSES, UpstreamRefused, "upstream_refused", id="4xx"),
        pytest.param(HANGS, DeadlineExceeded, "deadline_exceeded", id="the-deadline"),
        pytest.param(BUG, ValueError, "internal", id="a-bug-of-ours"),
    ],
)
def test_what_another_endpoint_could_not_mend_does_not_fail_over(
    plan: Plan, error: type[Exception], result: str, streamed: bool
) -> None:
    done = one(onprem(plan), cloud(), streamed=streamed)
    assert isinstance(done.ended.error, error)
    assert done.rig.cloud_seen == []
    assert done.tried == [f"gpu: {result}"]


def test_a_refusal_keeps_the_status_of_the_endpoint() -> None:
    error = one(onprem(REFUSES), cloud()).ended.error
    assert isinstance(error, UpstreamRefused)
    assert error.http_status == 422


def test_when_every_endpoint_fails_the_caller_learns_of_the_last() -> None:
    done = one(onprem(FAILS), cloud(UNREACHABLE))
    assert isinstance(done.ended.error, UpstreamUnreachable)
    assert done.tried == ["gpu: upstream_failed", "cloud: upstream_unreachable"]


def test_no_more_endpoints_are_tried_than_the_policy_says() -> None:
    sites = [onprem(FAILS, name=f"gpu{i}") for i in range(4)]
    done = one(*sites, setup=Setup(policy=Policy(max_attempts=3)))
    assert len(done.tried) == 3


# M1, M2, M4: restricted calls


@pytest.mark.parametrize(
    "plan",
    [
        UNREACHABLE, FAILS, BUSY, EMPTY, GARBAGE, idle_after_s(0.1), cut_after(0),
    ],
)  # fmt: skip
def test_a_restricted_call_fails_over_to_the_other_gpu_and_never_out(plan: Plan) -> None:
    done = one(onprem(plan), cloud(), onprem(name="gpu2"), kind="restricted")
    assert done.ended.placement is not None
    assert done.ended.placement.endpoint == "gpu2"
    assert done.rig.cloud_seen == []


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("plan", [UNREACHABLE, FAILS, BUSY, EMPTY, GARBAGE, cut_after(0)])
def test_a_restricted_call_that_no_gpu_can_serve_is_refused_with_its_reason(
    plan: Plan, streamed: bool
) -> None:
    done = one(onprem(plan), cloud(), kind="restricted", streamed=streamed)
    error = done.ended.error
    assert isinstance(error, OnpremUnavailable)
    assert (error.http_status, error.grpc_status) == (503, "UNAVAILABLE")
    assert error.reason == "onprem_unavailable_restricted"
    assert error.retry_after_s is not None
    assert error.retry_after_s > 0
    assert done.rig.cloud_seen == []


def test_the_record_shows_what_each_attempt_was_allowed() -> None:
    async def main() -> None:
        rig = Rig(onprem(FAILS), cloud(FAILS), onprem(FAILS, name="gpu2"))
        for kind in ("restricted", "clear"):
            await rig.call(request(kind))
        for line in rig.log.lines:
            allowed = {"onprem"} if line["sensitivity"] == "restricted" else {"onprem", "cloud"}
            assert len(line["attempts"]) == 2
            for attempt in line["attempts"]:
                assert set(attempt["zones"]) == allowed
                assert attempt["zone"] in attempt["zones"]

    run(main())


# D1, D5: one deadline


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("kind", ["clear", "restricted"])
@pytest.mark.parametrize("plan", [HANGS, HANGS_BEFORE_FIRST_FRAME, Plan(frames=9, frame_s=0.2)])
def test_a_call_to_an_endpoint_that_hangs_ends_at_its_deadline(
    plan: Plan, kind: str, streamed: bool
) -> None:
    async def main() -> float:
        rig = Rig(onprem(plan), onprem(plan, name="gpu2"), cloud(plan))
        start_s = now_s()
        ended = await rig.call(request(kind, 0.75, streamed=streamed))
        if streamed or plan.frames == 1:
            assert isinstance(ended.error, DeadlineExceeded)
        assert rig.leftovers() == {}
        return ended.at_s - start_s

    assert run(main()) <= 0.75 + 0.05


def test_attempts_share_the_one_deadline() -> None:
    slow_failure = Plan(open_s=0.4, error=lambda: UpstreamFailed("500"))
    sites = [onprem(slow_failure, name=f"gpu{i}") for i in range(4)]

    async def main() -> float:
        rig = Rig(*sites, setup=Setup(policy=Policy(max_attempts=4)))
        start_s = now_s()
        ended = await rig.call(request("clear", 1.0))
        assert isinstance(ended.error, DeadlineExceeded)
        return ended.at_s - start_s

    assert run(main()) == pytest.approx(1.0, abs=0.05)


def test_no_attempt_starts_that_cannot_finish() -> None:
    slow_failure = Plan(open_s=0.9, error=lambda: UpstreamFailed("500"))
    slow = Site("slow", Zone.ONPREM, expected_ms=500)
    done = one(onprem(slow_failure), slow)
    assert slow.connector.seen == []
    assert isinstance(done.ended.error, UpstreamFailed)


def test_no_attempt_in_the_cloud_starts_that_cannot_finish() -> None:
    slow_failure = Plan(open_s=0.7, error=lambda: UpstreamFailed("500"))
    done = one(onprem(slow_failure), replace(cloud(), expected_ms=500))
    assert done.rig.cloud_seen == []
    assert isinstance(done.ended.error, UpstreamFailed)


def test_an_attempt_that_cannot_finish_does_not_stand_in_the_way_of_one_that_can() -> None:
    slow_failure = Plan(open_s=0.7, error=lambda: UpstreamFailed("500"))
    slow = Site("a-slow", Zone.ONPREM, expected_ms=500)
    fast = Site("fast", Zone.ONPREM, expected_ms=10, price_usd=0.5)  # ranks last
    done = one(onprem(slow_failure), slow, fast, setup=Setup(policy=Policy(max_attempts=3)))
    assert done.tried == ["gpu: upstream_failed", "fast: served"]


def test_another_attempt_waits_for_a_server_that_can_finish_and_takes_none_that_cannot() -> None:
    """The slow one is free at once, and the fast one in time."""

    async def main() -> None:
        slow_failure = Plan(open_s=0.7, error=lambda: UpstreamFailed("500"))
        fast = replace(onprem(Plan(open_s=0.75), ANSWERS, name="fast"), max_in_flight=1)
        slow = Site("slow", Zone.ONPREM, expected_ms=500)
        rig = Rig(fast, onprem(slow_failure), slow)
        busy = asyncio.create_task(rig.call(request("restricted", 60.0)))
        await asyncio.sleep(0)
        ended = await rig.call(request("restricted", 1.0))
        assert (await busy).error is None
        assert len(rig.sites["gpu"].connector.seen) == 1, "which failed"
        assert ended.placement is not None
        assert ended.placement.endpoint == "fast"
        assert slow.connector.seen == []
        assert rig.leftovers() == {}

    run(main())


def test_a_call_whose_endpoint_goes_down_does_not_wait_for_its_deadline() -> None:
    """A frozen server keeps its connections: the watch tells who waits for it."""

    async def main() -> Ended:
        rig = Rig(onprem(HANGS), cloud())
        task = asyncio.create_task(rig.call(request("clear", 100.0)))
        await asyncio.sleep(0.1)
        rig.registry.states["gpu"].up = False
        rig.registry.states["gpu"].give_up_waiting()
        return await task

    ended = run(main())
    assert ended.placement is not None
    assert ended.placement.zone is Zone.CLOUD


def test_calls_that_waited_for_an_endpoint_that_failed_do_not_go_there() -> None:
    """A6: ejected means ejected, also for those who queued before (never "bypass")."""

    async def main() -> tuple[Rig, list[Ended]]:
        slow_failure = Plan(open_s=0.1, error=lambda: UpstreamFailed("500"))
        rig = Rig(
            onprem(slow_failure),
            setup=Setup(queue=QueueSettings(lead_ms=0)),
        )
        return rig, await asyncio.gather(*(rig.call(request("restricted", 10.0)) for _ in range(9)))

    rig, ended = run(main())
    assert {e.reason for e in ended} == {"onprem_unavailable_restricted"}
    assert len(rig.sites["gpu"].connector.seen) == 3, "three failures open the breaker"
    assert rig.leftovers() == {}


# A3, A4: the commit point, and callers who leave


def test_after_the_first_frame_a_broken_stream_ends_with_its_error_and_no_second_answer() -> None:
    done = one(onprem(cut_after(2)), cloud(ANSWERS), streamed=True)
    call = done.rig.sites["gpu"].connector.seen_ids[0].encode()
    assert done.ended.frames == (call + b"/0", call + b"/1")
    assert isinstance(done.ended.error, UpstreamUnreachable)
    assert done.rig.cloud_seen == []
    assert done.tried == ["gpu: upstream_unreachable"]


def test_before_the_first_frame_another_endpoint_answers_the_whole_call() -> None:
    done = one(onprem(cut_after(0)), cloud(Plan(frames=3)), streamed=True)
    (call,) = done.rig.cloud_seen
    assert done.ended.frames == tuple(b"%s/%d" % (call.id.encode(), i) for i in range(3))


def test_a_stream_that_outlives_its_budget_ends_with_the_deadline() -> None:
    done = one(onprem(Plan(frames=9, frame_s=0.2)), cloud(), streamed=True)
    assert isinstance(done.ended.error, DeadlineExceeded)
    assert len(done.ended.frames) == 4
    assert done.rig.cloud_seen == []


@pytest.mark.parametrize("read", [0, 1, 2])
def test_a_caller_who_leaves_a_stream_closes_the_upstream_at_once(read: int) -> None:
    async def main() -> None:
        rig = Rig(onprem(Plan(frames=9, frame_s=0.01)))
        start_s = now_s()
        await rig.call(request("clear", 10.0, streamed=True), read=read)
        assert now_s() - start_s < 0.1
        assert rig.leftovers() == {}
        assert list(rig.log.ends().values()) == [["cancelled"]]

    run(main())


@pytest.mark.parametrize("plan", [HANGS, HANGS_BEFORE_FIRST_FRAME])
def test_a_caller_who_leaves_before_the_answer_closes_the_upstream_within_100_ms(
    plan: Plan,
) -> None:
    async def main() -> None:
        rig = Rig(onprem(plan), cloud())
        task = asyncio.create_task(rig.call(request("clear", 10.0)))
        await asyncio.sleep(0.5)
        assert len(rig.sites["gpu"].connector.seen) == 1
        task.cancel()
        await asyncio.sleep(0.1)
        assert rig.leftovers() == {}
        assert rig.sites["gpu"].connector.opening == set()
        assert rig.cloud_seen == []

    run(main())


def test_an_answer_ends_once_also_when_its_caller_goes_on_reading() -> None:
    async def main() -> None:
        rig = Rig(onprem(Plan(frames=1)))
        reply = await rig.pipeline.handle(request("clear", streamed=True))
        assert len(await received(reply.frames)) == 1
        assert await received(reply.frames) == []
        await reply.frames.aclose()
        assert list(rig.log.ends().values()) == [["served"]]

    run(main())


# What an attempt costs


def test_an_attempt_that_never_left_costs_nothing() -> None:
    async def main() -> None:
        rig = Rig(Site("gpu", Zone.ONPREM, price_usd=1.0))
        rig.registry.states["gpu"].up = False
        call = request("clear")
        account = CallAccount(rig.accounts, call)
        rig.registry.states["gpu"].up = True
        found = await rig.classifier.classify(call)
        states = rig.snapshots.snapshot(call, restricted=False)
        decision = Policy().decide(call, found, states)
        rig.registry.states["gpu"].up = False
        with pytest.raises(NoEligibleEndpoint):
            await rig.dispatcher.send(call, Known(found), decision, account)
        assert account.attempts == []
        assert rig.sites["gpu"].connector.seen == []

    run(main())


def test_a_failed_attempt_is_paid_like_a_served_one() -> None:
    async def main() -> list[float]:
        rig = Rig(Site("gpu", Zone.ONPREM, ScriptedConnector(FAILS, ANSWERS), price_usd=0.5))
        await rig.call(request("restricted"))
        await rig.call(request("restricted"))
        return [a["price_usd"] for line in rig.log.lines for a in line["attempts"]]

    assert run(main()) == [0.5, 0.5]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_an_answer_that_finds_no_room_is_asked_for_nowhere_else(streamed: bool) -> None:
    full = Plan(error=lambda: AnswersFull("as many bytes are held as may be"))
    done = one(onprem(full), cloud(ANSWERS), streamed=streamed)
    assert isinstance(done.ended.error, AnswersFull)
    assert done.tried == ["gpu: answers_full"]
    assert done.rig.cloud_seen == []
