"""A drained endpoint gets no new calls and finishes those that it has; the kill switch by hand."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.accounting.spill import SpillStop
from gateway.core.errors import OnpremUnavailable
from tests.unit.console.console_rig import Desk
from tests.unit.harness import Plan, Rig, Setup, cloud, onprem, request
from tests.unit.spill.clock import HandClock

pytestmark = pytest.mark.leaping

LONG = Plan(open_s=2.0)
STREAM = Plan(frames=4, frame_s=20.0)


async def test_new_calls_go_elsewhere_and_the_decision_says_why() -> None:
    rig = Rig(onprem(), cloud())
    rig.registry.drain("gpu", True)
    ended = await rig.call(request("clear"))
    assert ended.placement is not None
    assert (ended.placement.endpoint, ended.placement.reason) == ("cloud", "spill_unavailable")
    assert rig.log.lines[-1]["vetoes"] == {"gpu": "drained"}


async def test_a_restricted_call_is_refused_and_does_not_leave_for_a_drained_server() -> None:
    rig = Rig(onprem(), cloud())
    rig.registry.drain("gpu", True)
    ended = await rig.call(request("restricted"))
    assert isinstance(ended.error, OnpremUnavailable)
    assert rig.cloud_seen == []
    assert rig.log.lines[-1]["vetoes"] == {"gpu": "drained", "cloud": "restricted"}


async def test_restricted_calls_go_to_the_server_that_is_left() -> None:
    rig = Rig(onprem(), onprem(name="gpu2"), cloud())
    rig.registry.drain("gpu", True)
    ended = [await rig.call(request("restricted")) for _ in range(4)]
    assert {e.placement.endpoint for e in ended if e.placement} == {"gpu2"}
    assert len(rig.sites["gpu2"].connector.seen) == 4


async def test_what_runs_there_finishes() -> None:
    rig = Rig(onprem(LONG))
    running = asyncio.create_task(rig.call(request("restricted", 9.0)))
    await asyncio.sleep(0.5)
    rig.registry.drain("gpu", True)
    assert (await running).error is None
    assert rig.leftovers() == {}


async def test_a_stream_that_is_silent_for_long_is_not_cut_while_its_server_is_up() -> None:
    rig = Rig(onprem(STREAM))
    running = asyncio.create_task(rig.call(request("clear", 600.0, streamed=True)))
    await asyncio.sleep(1.0)
    rig.registry.drain("gpu", True)
    ended = await running
    assert ended.error is None
    assert len(ended.frames) == 4


async def test_who_waits_for_it_is_told_at_once() -> None:
    rig = Rig(replace(onprem(LONG), max_in_flight=1), cloud(), setup=Setup())
    calls = [asyncio.create_task(rig.call(request("restricted", 60.0))) for _ in range(4)]
    await asyncio.sleep(0.12)
    rig.registry.drain("gpu", True)
    for _ in range(20):  # no time passes: the queue looks by itself soon enough
        await asyncio.sleep(0)
    waited = [c for c in calls if c.done()]
    assert len(waited) == 3
    assert all(isinstance(c.result().error, OnpremUnavailable) for c in waited)
    assert rig.cloud_seen == []
    await asyncio.gather(*calls)


async def test_un_drained_it_takes_calls_again() -> None:
    rig = Rig(onprem(), cloud())
    rig.registry.drain("gpu", True)
    await rig.call(request("clear"))
    rig.registry.drain("gpu", False)
    ended = await rig.call(request("restricted"))
    assert ended.error is None


async def test_a_drained_cloud_gets_nothing() -> None:
    rig = Rig(onprem(LONG), cloud())
    rig.registry.drain("cloud", True)
    await asyncio.gather(*(rig.call(request("clear", 3.0)) for _ in range(5)))
    assert rig.cloud_seen == []


async def test_the_page_tells_draining_from_drained() -> None:
    desk = Desk(onprem(LONG), cloud())
    running = asyncio.create_task(desk.rig.call(request("restricted", 9.0)))
    await asyncio.sleep(0.5)
    desk.rig.registry.drain("gpu", True)
    seen = [_state(desk)]
    await running
    assert [*seen, _state(desk)] == ["draining", "drained"]


def _state(desk: Desk) -> str:
    looker = desk.feed.join()
    told = desk.feed._sections.sections()["endpoints"]
    desk.feed.leave(looker)
    return next(str(e["state"]) for e in told if e["name"] == "gpu")


def test_the_switch_is_the_file_whoever_turns_it(tmp_path: Path) -> None:
    file = tmp_path / "stop"
    stop = SpillStop(file, HandClock())
    seen = [(stop.on, file.exists())]
    for on in (True, False, False):
        stop.turn(on)
        seen.append((stop.on, file.exists()))  # at once, not at the next look
    assert seen == [(False, False), (True, True), (False, False), (False, False)]


def test_a_switch_that_cannot_be_turned_says_so(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="spill_stop_file"):
        SpillStop(None, HandClock()).turn(True)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        SpillStop(tmp_path / "file" / "below", HandClock()).turn(True)
