from __future__ import annotations

import asyncio
import json
import random
import socket
import time
from pathlib import Path

import pytest
import uvloop

from loadtests.load import arrivals
from loadtests.load.generator import run
from loadtests.load.messages import Shape, messages
from loadtests.load.plan import Plan
from loadtests.load.result import CUT, ERROR_IN_STREAM, LOST, NO_CONNECTION, TIMED_OUT, Result
from tests.unit.loadtests.servers import FINE, serving

pytestmark = pytest.mark.anyio

_SMALL = Shape(prompt_bytes=64)


class _Stalling:
    """Answers at once, but for one second in which it answers nobody."""

    def __init__(self) -> None:
        self._until_s = 0.0

    async def __call__(self, call: int, writer: asyncio.StreamWriter) -> None:
        clock = asyncio.get_running_loop().time
        if call == 100:
            self._until_s = clock() + 1.0
        await asyncio.sleep(max(0.0, self._until_s - clock()))
        writer.write(FINE)


async def test_a_stall_is_seen_by_all_who_came_meanwhile() -> None:
    """At 100 calls/s for 3 s, a stall of 1 s delays about 100 of 300 calls: by half a second in
    the mean, and each by when it came. One connection at a time would see one slow call."""
    async with serving(_Stalling()) as url:
        times = arrivals.steady(100)
        plan = Plan(url, _SMALL, arrivals=times, connections=500, window_s=3, warm_up_s=0)
        result = await run(plan)
    assert result.sent == result.answered == 299
    assert result.latency.quantile_s(0.9) > 0.5
    assert result.latency.quantile_s(0.8) > 0.25
    assert result.latency.max_s >= 0.9


async def test_a_closed_loop_leaves_the_stall_to_those_who_were_in_it() -> None:
    async with serving(_Stalling()) as url:
        result = await run(Plan(url, _SMALL, connections=1, window_s=2, warm_up_s=0))
    assert result.latency.max_s >= 0.9
    assert result.latency.quantile_s(0.9) < 0.5


async def test_calls_wait_for_a_connection_and_that_counts() -> None:
    """One connection, 50 ms a call, 40 calls/s: the queue grows, and so do latencies."""

    async def slow(call: int, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.05)
        writer.write(FINE)

    async with serving(slow) as url:
        times = arrivals.steady(40)
        plan = Plan(url, _SMALL, arrivals=times, connections=1, window_s=1, warm_up_s=0)
        result = await run(plan)
    assert result.sent == result.answered == 39
    assert result.latency.max_s > 0.8
    assert result.answered_in_window < result.answered  # the rest came after it


async def test_every_call_is_answered_or_failed_by_how() -> None:
    async def moody(call: int, writer: asyncio.StreamWriter) -> None:
        match call % 5:
            case 0:
                writer.write(b"HTTP/1.1 503 no\r\ncontent-length: 4\r\n\r\nbusy")
            case 1:
                writer.close()
            case 2:
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort")
                writer.close()
            case 3:
                await asyncio.sleep(2)
            case _:
                writer.write(FINE)

    async with serving(moody) as url:
        plan = Plan(url, _SMALL, connections=8, window_s=1, warm_up_s=0.2, timeout_s=0.3)
        result = await run(plan)
    assert set(result.failed) == {"503", LOST, TIMED_OUT}
    assert result.sent == result.answered + result.failed.total()
    assert result.samples["503"].endswith("busy")
    assert len(result.latency) == result.answered > 0


async def test_who_fails_is_no_quick_answer() -> None:
    """A quarter of the calls is answered: the median of what was sent never came."""

    async def refusing(call: int, writer: asyncio.StreamWriter) -> None:
        said = FINE if call % 4 == 0 else b"HTTP/1.1 429 no\r\ncontent-length: 0\r\n\r\n"
        writer.write(said)

    async with serving(refusing) as url:
        result = await run(Plan(url, _SMALL, connections=2, window_s=0.3, warm_up_s=0))
    assert result.quantile_of_sent_s(0.5) == float("inf")
    assert result.quantile_of_sent_s(0.1) < 0.2
    assert result.as_json()["p99_of_sent_ms"] is None


@pytest.mark.parametrize("closed", [True, False])
async def test_without_a_server_calls_fail_and_the_run_ends(closed: bool) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        times = None if closed else arrivals.steady(20)
        result = await run(Plan(url, _SMALL, arrivals=times, window_s=0.5, warm_up_s=0))
    assert set(result.failed) == {NO_CONNECTION}
    assert result.sent == result.failed.total() > 0


async def test_streams_are_counted_by_events_and_how_they_end() -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    bodies = {
        0: b"data: 1\n\ndata: 2\n\ndata: [DONE]\n\n",
        1: b"data: 1\n\n",
        2: b'data: {"error": {"message": "gone"}}\n\n',
    }

    async def streaming(call: int, writer: asyncio.StreamWriter) -> None:
        body = bodies[call % 3]
        writer.write(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))

    async with serving(streaming) as url:
        shape = Shape(kind="stream", prompt_bytes=64)
        result = await run(Plan(url, shape, connections=3, window_s=0.4, warm_up_s=0))
    assert set(result.failed) == {CUT, ERROR_IN_STREAM}
    assert result.chunks == 3 * result.answered > 0
    assert len(result.first_byte) == result.answered


async def test_calls_of_the_warm_up_count_nowhere_else() -> None:
    async def fine(call: int, writer: asyncio.StreamWriter) -> None:
        writer.write(FINE)

    async with serving(fine) as url:
        times = arrivals.steady(100)
        plan = Plan(url, _SMALL, arrivals=times, window_s=0.5, warm_up_s=0.5)
        result = await run(plan)
    assert result.warm_up + result.sent == 99
    assert result.sent == result.answered in (49, 50)
    assert sum(second.answered for second in result.seconds) == result.answered_in_window


async def test_routes_are_counted_by_the_second() -> None:
    async def placed(call: int, writer: asyncio.StreamWriter) -> None:
        zone = b"cloud" if call % 2 else b"onprem"
        writer.write(b"HTTP/1.1 200 OK\r\nX-Zone: %b\r\ncontent-length: 0\r\n\r\n" % zone)

    async with serving(placed) as url:
        plan = Plan(url, _SMALL, connections=1, window_s=0.5, warm_up_s=0, route="x-zone")
        result = await run(plan)
    routes = result.seconds[0].routes
    assert set(routes) == {"cloud", "onprem"}
    assert abs(routes["cloud"] - routes["onprem"]) <= 1
    assert routes.total() == result.answered_in_window


def test_prompts_differ_and_are_as_long_as_asked() -> None:
    source = messages(Shape(prompt_bytes=2048), "127.0.0.1:1")
    seen = set()
    for _ in range(500):
        head, _, body = source.next().partition(b"\r\n\r\n")
        prompt = json.loads(body)["messages"][0]["content"]
        assert len(prompt) == 2048
        assert b"content-length: %d" % len(body) in head
        seen.add(prompt)
    assert len(seen) == 500


def test_bursts_have_the_rate_and_the_variation_that_was_asked() -> None:
    times = arrivals.bursty(100, 3.0, random.Random(1))
    gaps, last_s = [], 0.0
    for _ in range(50_000):
        at_s = next(times)
        gaps.append(at_s - last_s)
        last_s = at_s
    mean = sum(gaps) / len(gaps)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert mean == pytest.approx(0.01, rel=0.1)
    assert deviation / mean == pytest.approx(3.0, rel=0.15)


def test_a_trace_is_stretched_to_a_rate_and_starts_again(tmp_path: Path) -> None:
    recorded = tmp_path / "trace.csv"
    recorded.write_text("seconds,in,out\n10,5,5\n11,5,5\n14,5,5\n")
    as_it_was = arrivals.trace(recorded, None)
    assert [next(as_it_was) for _ in range(4)] == [0.0, 1.0, 4.0, 6.0]
    twice = arrivals.trace(recorded, 1.0)
    assert [next(twice) for _ in range(4)] == [0.0, 0.5, 2.0, 3.0]
    recorded.write_text("seconds\n")
    with pytest.raises(ValueError, match="two arrivals"):
        next(arrivals.trace(recorded, None))


def test_calls_due_while_the_generator_itself_was_starved_are_sent_all_the_same() -> None:
    """On the loop that load is generated with, whose timers come before its sockets."""

    async def fine(call: int, writer: asyncio.StreamWriter) -> None:
        writer.write(FINE)

    async def starved() -> Result:
        async with serving(fine) as url:
            times = arrivals.steady(10)
            plan = Plan(url, _SMALL, arrivals=times, window_s=0.5, warm_up_s=0)
            running = asyncio.create_task(run(plan))
            await asyncio.sleep(0.25)
            time.sleep(1.0)  # noqa: ASYNC251  over the end of the window
            return await running

    result = uvloop.run(starved())
    assert result.sent == result.answered == 4
    assert result.late.max_s > 0.5
    assert result.latency.max_s > 0.5
