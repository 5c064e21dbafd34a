"""Streams whose endpoint falls silent, or goes out, after the commit point: they end in time, with
an error, and nobody else goes on with them (A4, A5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gateway.core.errors import UpstreamGivenUp, UpstreamSilent
from gateway.core.reply import Frame, Handled
from gateway.core.types import Zone
from tests.unit.harness import MODEL, Ended, Plan, Rig, cloud, now_s, onprem, request, run

FAR_S = 3000.0
Event = Callable[[Rig], None]


def stream(
    plan: Plan, kind: str = "clear", after_s: float = 0.5, event: Event | None = None
) -> tuple[Ended, float]:
    """What became of one with a far deadline, and how long after the event that was."""

    async def main() -> tuple[Ended, float]:
        rig = Rig(onprem(plan), cloud())
        call = asyncio.create_task(rig.call(request(kind, FAR_S, streamed=True)))
        await asyncio.sleep(after_s)
        since_s = now_s()
        if event is not None:
            event(rig)
        ended = await call
        await asyncio.sleep(1)
        assert rig.leftovers() == {}
        assert rig.cloud_seen == [], "after the first frame there is no other place"
        return ended, ended.at_s - since_s

    return run(main())


def goes_down(rig: Rig) -> None:
    rig.registry.states["gpu"].went_down()


def is_ejected(rig: Rig) -> None:
    rig.eject("gpu")
    rig.registry.states["gpu"].give_up_waiting(lambda waiting: waiting.model == MODEL)


def becomes_slow(rig: Rig) -> None:
    rig.outcomes.became_slow("gpu", MODEL)


@pytest.mark.parametrize("kind", ["clear", "restricted"])
@pytest.mark.parametrize(("event", "why"), [(goes_down, "down"), (is_ejected, "ejected")])
def test_a_silent_stream_ends_soon_after_its_endpoint_went_out(
    event: Event, why: str, kind: str
) -> None:
    ended, took_s = stream(Plan(frames=9, hangs_at=2), kind, event=event)
    assert took_s == pytest.approx(1.0, abs=0.1)
    assert isinstance(ended.error, UpstreamGivenUp)
    assert ended.reason == why
    assert len(ended.frames) == 2


@pytest.mark.parametrize("frame_s", [0.3, 2.0])
def test_a_stream_that_goes_on_when_its_endpoint_is_out_may_end(frame_s: float) -> None:
    """A server that stops refuses probes and ends what it has begun."""
    plan = Plan(frames=9, frame_s=frame_s)
    ended, _ = stream(plan, after_s=3.1, event=goes_down)
    assert ended.error is None
    assert len(ended.frames) == 9


def test_one_whose_events_come_together_goes_on() -> None:
    ended, _ = stream(Plan(frames=9, frame_s=0.3, at_once=3))
    assert ended.error is None
    assert len(ended.frames) == 9


def test_one_that_went_on_for_a_while_is_waited_for_no_longer_than_the_others() -> None:
    ended, took_s = stream(Plan(frames=9, frame_s=0.3, hangs_at=5), event=goes_down)
    assert isinstance(ended.error, UpstreamGivenUp)
    assert len(ended.frames) == 5
    assert took_s < 5.0


def test_a_stream_of_a_model_that_became_slow_may_end() -> None:
    ended, _ = stream(Plan(frames=3, frame_s=5.0), after_s=6.0, event=becomes_slow)
    assert ended.error is None
    assert len(ended.frames) == 3


@pytest.mark.parametrize("kind", ["clear", "restricted"])
def test_a_stream_that_stops_is_given_up_long_before_a_far_deadline(kind: str) -> None:
    ended, took_s = stream(Plan(frames=9, hangs_at=2), kind, after_s=0.0)
    assert took_s == pytest.approx(60.0, abs=0.2)
    assert isinstance(ended.error, UpstreamSilent)
    assert ended.reason == "upstream_timeout"
    assert len(ended.frames) == 2
    assert ended.placement is not None
    assert ended.placement.zone is Zone.ONPREM


def test_where_frames_take_long_a_stream_may_be_silent_for_long() -> None:
    ended, took_s = stream(Plan(frames=9, frame_s=20.0, hangs_at=4), after_s=80.5)
    assert took_s == pytest.approx(10 * 20.0, abs=1.0)
    assert isinstance(ended.error, UpstreamSilent)
    assert len(ended.frames) == 4


def test_a_stream_that_stops_counts_as_a_failure_of_its_endpoint() -> None:
    async def main() -> None:
        rig = Rig(onprem(Plan(frames=9, hangs_at=2)), cloud())
        calls = [rig.call(request("clear", FAR_S, streamed=True)) for _ in range(3)]
        await asyncio.gather(*calls)
        assert rig.registry.refuses_call("gpu", request("clear")) == "ejected", "for their caller"
        await rig.call(request("clear", FAR_S, streamed=True, tenant="another"))
        assert not rig.registry.model_state("gpu", MODEL).breaker.closed, "for everybody"

    run(main())


@pytest.mark.parametrize("event", [None, goes_down])
def test_a_caller_that_takes_its_time_is_no_silence_of_the_endpoint(event: Event | None) -> None:
    """The endpoint goes out meanwhile, or does not; its frames come soon after."""

    async def main() -> None:
        rig = Rig(onprem(Plan(frames=4, frame_s=0.5)), cloud())
        reply = await rig.pipeline.handle(request("clear", FAR_S, streamed=True))
        waits_s = [0.0, 500.0, 0.0, 500.0]

        async def read(frame: Frame) -> None:
            wait_s = waits_s.pop(0)
            if wait_s and event is not None:
                event(rig)
            await asyncio.sleep(wait_s)

        await reply.frames.deliver(Handled(read))
        await reply.frames.aclose()
        assert waits_s == []
        assert list(rig.log.ends().values()) == [["served"]]
        assert rig.leftovers() == {}

    run(main())


def test_a_stream_whose_endpoint_is_back_may_be_silent_as_before() -> None:
    async def main() -> None:
        rig = Rig(onprem(Plan(frames=3, frame_s=2.0)), cloud())
        call = asyncio.create_task(rig.call(request("clear", FAR_S, streamed=True)))
        await asyncio.sleep(3.5)
        goes_down(rig)
        rig.registry.states["gpu"].server_up()
        ended = await call
        assert ended.error is None
        assert len(ended.frames) == 3

    run(main())
