"""S3, S8: a server's own statistics, when they are old, and when they show that it stands still."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

import pytest
from tritonclient.grpc import service_pb2

from gateway.core.errors import UpstreamUnreachable
from gateway.core.reply import RestBody
from gateway.endpoints.health.model_health import CanaryResult
from gateway.endpoints.health.statistics import read
from gateway.endpoints.health.statistics_poller import Scraping
from gateway.server import status
from tests.unit.harness import (
    HANGS,
    MODEL,
    Plan,
    Rig,
    ScriptedConnector,
    now_s,
    onprem,
    request,
    run,
)


@dataclass
class Told:
    """A server that says how many executions it has had, or nothing."""

    executions: int = 0
    silent: bool = False
    refuses: bool = False
    asked: int = 0
    models: list[str] = field(default_factory=lambda: [MODEL])

    async def rest(self, path: str, timeout_s: float) -> RestBody:
        raise AssertionError("statistics are asked by gRPC")

    async def grpc(self, method: str, message: bytes, timeout_s: float) -> bytes:
        assert method == "ModelStatistics"
        self.asked += 1
        if self.silent:
            await asyncio.Event().wait()
        if self.refuses:
            raise UpstreamUnreachable("it cannot be connected to")
        told: bytes = service_pb2.ModelStatisticsResponse(
            model_stats=[
                service_pb2.ModelStatistics(name=name, execution_count=self.executions)
                for name in self.models
            ]
        ).SerializeToString()
        return told


class Watched:
    """One on-prem server of kind triton with statistics."""

    def __init__(
        self, connector: ScriptedConnector | None = None, max_in_flight: int = 256
    ) -> None:
        site = replace(onprem(), connector=connector or ScriptedConnector())
        self.rig = Rig(replace(site, max_in_flight=max_in_flight))
        self.told = Told()
        self.state = self.rig.registry.states["gpu"]
        self.state.inspector = self.told
        self.scraping = Scraping(self.rig.registry, self.rig.outcomes, self.rig.metrics, now_s)
        assert self.state.statistics is not None
        self.statistics = self.state.statistics
        self.task = asyncio.create_task(self.scraping.run())

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def metric(self, name: str) -> float:
        status.publish(self.rig.metrics, self.rig.registry.states, self.rig.queues)
        return self.rig.metrics.registry.get_sample_value(name, {"endpoint": "gpu"}) or 0.0

    @property
    def health(self) -> str:
        return self.rig.registry.model_state("gpu", MODEL).health.state


# S3


@pytest.mark.parametrize("how", ["silent", "refuses"])
def test_old_statistics_are_a_state_of_their_own_and_stop_nothing(how: str) -> None:
    async def main() -> None:
        watched = Watched()
        await asyncio.sleep(0.1)
        assert (watched.statistics.state, watched.metric("spillway_statistics_stale")) == (
            "fresh", 0.0,
        )  # fmt: skip
        setattr(watched.told, how, True)
        await asyncio.sleep(5)
        assert (watched.statistics.state, watched.metric("spillway_statistics_stale")) == (
            "stale", 1.0,
        )  # fmt: skip
        (endpoint,) = status.report(watched.rig.registry.states)
        assert endpoint["statistics"] == "stale"
        (state,) = watched.rig.snapshots.snapshot(request())
        assert state.stale
        assert (await watched.rig.call(request("restricted"))).error is None, "calls go on"
        setattr(watched.told, how, False)
        await asyncio.sleep(2.5)
        assert watched.statistics.state == "fresh"
        await watched.close()

    run(main())


def test_while_statistics_are_old_the_own_count_of_calls_says_that_it_is_not_idle() -> None:
    async def main() -> None:
        watched = Watched(ScriptedConnector(Plan(open_s=50)))
        watched.told.refuses = True
        calls = [asyncio.create_task(watched.rig.call(request("restricted", 60))) for _ in range(5)]
        await asyncio.sleep(4)
        (state,) = watched.rig.snapshots.snapshot(request())
        assert state.stale
        assert (state.in_flight, state.waiting) == (2, 3)
        assert state.predicted_s > state.p50_s
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await watched.close()

    run(main())


def test_a_server_without_statistics_is_not_called_stale() -> None:
    async def main() -> None:
        rig = Rig(onprem())
        Scraping(rig.registry, rig.outcomes, rig.metrics, now_s)
        (state,) = rig.snapshots.snapshot(request())
        assert not state.stale

    run(main())


def test_a_server_that_is_down_is_not_asked() -> None:
    async def main() -> None:
        watched = Watched()
        watched.state.up = False
        await asyncio.sleep(5)
        assert watched.told.asked == 0
        await watched.close()

    run(main())


def test_nonsense_does_not_end_the_readings() -> None:
    async def main() -> None:
        watched = Watched()
        grpc = watched.told.grpc

        async def nonsense(method: str, message: bytes, timeout_s: float) -> bytes:
            return b"\xff\xff"

        watched.told.grpc = nonsense  # type: ignore[method-assign]
        await asyncio.sleep(4)
        states = [watched.statistics.state]
        watched.told.grpc = grpc  # type: ignore[method-assign]
        await asyncio.sleep(1.5)
        states.append(watched.statistics.state)
        assert states == ["stale", "fresh"]
        await watched.close()

    run(main())


def test_versions_and_batches_of_a_model_are_added_up() -> None:
    def of(version: str, size: int, count: int, ns: int) -> service_pb2.ModelStatistics:
        return service_pb2.ModelStatistics(
            name="m",
            version=version,
            execution_count=count,
            inference_count=size * count,
            batch_stats=[
                service_pb2.InferBatchStatistics(
                    batch_size=size,
                    compute_infer=service_pb2.StatisticDuration(count=count, ns=ns),
                )
            ],
        )

    message = service_pb2.ModelStatisticsResponse(
        model_stats=[of("1", 4, 3, 9_000_000), of("2", 4, 1, 1_000_000), of("3", 1, 2, 500_000)]
    )
    found = read(message.SerializeToString())["m"]
    assert (found.executions, found.inferences) == (6, 18)
    assert found.batches[4].count == 4
    assert found.batches[4].compute_s == pytest.approx(0.01)
    assert found.batches[1].count == 2


# S8


def test_calls_in_flight_and_no_execution_is_a_stall_that_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        watched = Watched(ScriptedConnector(*[Plan()] * 20, *[HANGS] * 99))
        for _ in range(20):
            await watched.rig.call(request())
        watched.rig.registry.model_state("gpu", MODEL).health.prove()
        call = asyncio.create_task(watched.rig.call(request("restricted", 60.0)))
        await asyncio.sleep(1.5)
        assert watched.metric("spillway_endpoint_stalls_total") == 0
        await asyncio.sleep(2)
        assert watched.metric("spillway_endpoint_stalls_total") == 1
        assert watched.rig.registry.model_state("gpu", MODEL).health.doubts.stalled
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await watched.close()

    run(main())
    assert "stalled" in caplog.text


def test_a_stall_is_told_once_although_canaries_took_the_model_out_before() -> None:
    async def main() -> None:
        watched = Watched(ScriptedConnector(*[Plan()] * 20, *[HANGS] * 99))
        for _ in range(20):
            await watched.rig.call(request())
        model_state = watched.rig.registry.model_state("gpu", MODEL)
        model_state.health.prove()
        call = asyncio.create_task(watched.rig.call(request("restricted", 60.0)))
        await asyncio.sleep(0.5)
        model_state.health.open()
        watched.rig.registry.states["gpu"].give_up_waiting()
        model_state.health.asking()
        model_state.health.observe(CanaryResult.LATE, 0.7, model_state.times)
        await asyncio.gather(call, return_exceptions=True)
        assert watched.metric("spillway_endpoint_stalls_total") == 0
        await asyncio.sleep(6)
        assert model_state.in_flight == 0
        assert watched.metric("spillway_endpoint_stalls_total") == 1
        await watched.close()

    run(main())


@pytest.mark.parametrize("ends", ["a canary passes", "a call is answered", "it starts anew"])
def test_a_model_that_was_silent_and_has_nothing_to_do_is_not_stalled(ends: str) -> None:
    async def main() -> None:
        watched = Watched(ScriptedConnector(*[Plan()] * 99))
        for _ in range(20):
            await watched.rig.call(request())
        model_state = watched.rig.registry.model_state("gpu", MODEL)
        model_state.health.prove()
        model_state.health.asking()
        model_state.health.observe(CanaryResult.LATE, 0.7, model_state.times)
        await asyncio.sleep(0.2)
        if ends == "a canary passes":
            model_state.health.asking()
            model_state.health.observe(CanaryResult.GOOD, 0.01, model_state.times)
        elif ends == "a call is answered":
            await watched.rig.call(request("restricted"))
        else:
            model_state.health.server_up()
        await asyncio.sleep(10)
        assert watched.metric("spillway_endpoint_stalls_total") == 0
        await watched.close()

    run(main())


def test_where_no_canary_can_tell_a_stall_ejects_by_itself_after_longer() -> None:
    async def main() -> None:
        watched = Watched(ScriptedConnector(*[Plan()] * 20, *[Plan(open_s=40)] * 99))
        for _ in range(20):
            await watched.rig.call(request())
        # a try would be given up as well, later
        patient = watched.rig.registry.health.model_copy(update={"response_floor_ms": 60_000.0})
        watched.rig.registry.health = patient
        call = asyncio.create_task(watched.rig.call(request("restricted", 60.0)))
        await asyncio.sleep(6)
        assert watched.health == "trusted"
        await asyncio.sleep(4)
        assert watched.health == "ejected"
        ended = await call
        assert ended.error is not None
        assert ended.at_s == pytest.approx(now_s(), abs=5)
        await watched.close()

    run(main())


@pytest.mark.parametrize("executes", [True, False], ids=["executing", "idle"])
def test_a_server_that_executes_or_has_nothing_to_do_is_not_stalled(executes: bool) -> None:
    async def main() -> None:
        watched = Watched(ScriptedConnector(*[Plan()] * 20, *[Plan(open_s=4.0)] * 99))
        for _ in range(20):
            await watched.rig.call(request())
        calls = []
        for _ in range(20):
            if executes:
                calls.append(asyncio.create_task(watched.rig.call(request("restricted", 60.0))))
                watched.told.executions += 1
            await asyncio.sleep(1)
        assert watched.metric("spillway_endpoint_stalls_total") == 0
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await watched.close()

    run(main())
