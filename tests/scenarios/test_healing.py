"""A real Triton that is killed, stopped, hung, slowed or broken: out, and back once it has healed.

Only the order of events is asserted; `loadtests/failures/heal.py` has the seconds.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.demo.cloud.process import SimulatedCloud
from tests.live import wait_until
from tests.scenarios.faulty import Call, Patient, Pump, patient

_PATIENCE_S = 60.0

pytest.importorskip("pytriton", reason="the embedded Triton needs Python 3.11 or 3.12")


@pytest.fixture(scope="module")
def bed(outside: SimulatedCloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Patient]:
    with patient(outside, tmp_path_factory.mktemp("bed")) as one:
        wait_until(one.proven, _PATIENCE_S)
        yield one


def stopped(bed: Patient) -> Callable[[], None]:
    return bed.stop()


def killed(bed: Patient) -> Callable[[], None]:
    bed.kill()
    return lambda: None


def stub_killed(bed: Patient) -> Callable[[], None]:
    bed.kill_stub()
    return lambda: None


def switched(**state: object) -> Callable[[Patient], Callable[[], None]]:
    def fault(bed: Patient) -> Callable[[], None]:
        bed.switch(**state)
        return bed.switch

    return fault


def served(call: Call, zone: str) -> bool:
    return call.status == 200 and call.zone == zone


async def through(bed: Patient, fault: Callable[[Patient], Callable[[], None]]) -> list[Call]:
    """Well, ill until clear calls are served in the cloud and nothing is there, well again."""
    pump = Pump(bed.gateway.http_url)
    async with pump.running():
        for _ in range(20):
            await pump.until(lambda c: served(c, "onprem"), _PATIENCE_S)
        heal = fault(bed)
        await pump.until(lambda c: not c.restricted and served(c, "cloud"), _PATIENCE_S)
        heal()
        await pump.until(lambda c: c.restricted and served(c, "onprem"), _PATIENCE_S)
        await pump.until(lambda c: not c.restricted and served(c, "onprem"), _PATIENCE_S)
    return pump.calls


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(switched(fails=True), id="fails"),
        pytest.param(switched(hangs=True), id="hangs"),
        pytest.param(stopped, id="stopped"),
        pytest.param(stub_killed, id="stub-killed"),
    ],
)
def test_clear_calls_leave_it_restricted_ones_stay_and_all_return(
    bed: Patient, fault: Callable[[Patient], Callable[[], None]]
) -> None:
    leave_and_return(bed, fault)


def test_clear_calls_leave_a_slow_one(outside: SimulatedCloud, tmp_path: Path) -> None:
    """It has its own bed: who took 1.5 s before is given more time before it counts as hung."""
    with patient(outside, tmp_path) as bed:
        wait_until(bed.proven, _PATIENCE_S)
        leave_and_return(bed, switched(delay_s=1.5))


def leave_and_return(bed: Patient, fault: Callable[[Patient], Callable[[], None]]) -> None:
    calls = asyncio.run(through(bed, fault))
    assert not [c for c in calls if c.restricted and c.zone == "cloud"]
    assert not [c for c in calls if not c.restricted and c.status != 200], "clear calls see nothing"
    refused = [c for c in calls if c.restricted and c.status != 200]
    assert {c.status for c in refused} <= {503, 500}
    for call in refused:
        if call.status == 503:
            assert int(call.retry_after) >= 1
    records = [r for r in bed.gateway.records() if r["kind"] == "call"]
    restricted = [r for r in records if r["sensitivity"] == "restricted"]
    assert restricted
    assert not [a for r in restricted for a in r["attempts"] if a["zone"] == "cloud"]
    assert not [r for r in records if r["id"].startswith("canary")], "canaries are nobody's calls"


def test_restricted_calls_wait_for_a_killed_server_to_be_up_again(bed: Patient) -> None:
    def waited() -> int:
        found = re.search(
            r'spillway_recovery_waits_total{result="back"} (\d+)', bed.gateway.metrics()
        )
        return int(found[1]) if found else 0

    before = waited()
    calls = asyncio.run(through(bed, killed))
    assert waited() > before
    assert not [c for c in calls if c.restricted and c.zone == "cloud"]
    late = [c for c in calls if c.restricted and c.status == 200 and c.done_s - c.sent_s > 0.3]
    assert late, "some were answered after a wait"


def test_a_stopped_server_is_down_with_stale_statistics_until_it_goes_on(bed: Patient) -> None:
    wait_until(lambda: bed.health()["statistics"] == "fresh", _PATIENCE_S)
    heal = bed.stop()
    try:
        wait_until(lambda: bed.health()["statistics"] == "stale", _PATIENCE_S)
        wait_until(lambda: not bed.health()["up"], _PATIENCE_S)
        assert 'spillway_statistics_stale{endpoint="local"} 1.0' in bed.gateway.metrics()
    finally:
        heal()
    wait_until(lambda: bed.health()["statistics"] == "fresh", _PATIENCE_S)
    wait_until(lambda: bed.health()["health"] == "trusted", _PATIENCE_S)


def test_a_server_that_stays_stopped_is_started_again(
    outside: SimulatedCloud, tmp_path: Path
) -> None:
    async def again(bed: Patient) -> list[Call]:
        pump = Pump(bed.gateway.http_url)
        async with pump.running():
            await pump.until(lambda c: c.restricted and served(c, "onprem"), _PATIENCE_S)
            bed.stop()
            await pump.until(lambda c: c.restricted and c.status == 503, _PATIENCE_S)
            await pump.until(lambda c: c.restricted and served(c, "onprem"), _PATIENCE_S)
        return pump.calls

    with patient(outside, tmp_path, health={"embedded_silent_s": 3.0}) as bed:
        wait_until(bed.proven, _PATIENCE_S)
        stopped_pid = bed.gateway.triton_pid()
        calls = asyncio.run(again(bed))
        assert bed.gateway.triton_pid() != stopped_pid
        assert "spillway_embedded_triton_restarts_total 1.0" in bed.gateway.metrics()
    assert not [c for c in calls if c.restricted and c.zone == "cloud"]


def test_a_model_that_executes_nothing_is_a_stall_that_is_told(bed: Patient) -> None:
    def stalls() -> float:
        found = re.search(
            r'spillway_endpoint_stalls_total{endpoint="local"} (\S+)', bed.gateway.metrics()
        )
        return float(found[1]) if found else 0.0

    async def hang() -> None:
        pump = Pump(bed.gateway.http_url)
        async with pump.running():
            for _ in range(20):
                await pump.until(lambda c: served(c, "onprem"), _PATIENCE_S)
            bed.switch(hangs=True)
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    while await asyncio.to_thread(stalls) == before:  # noqa: ASYNC110 - a process
                        await asyncio.sleep(0.2)
            finally:
                bed.switch()
            await pump.until(lambda c: c.restricted and served(c, "onprem"), _PATIENCE_S)

    before = stalls()
    asyncio.run(hang())
    assert "stalled" in Path(bed.gateway.log_path).read_text()
