"""What becomes of calls that are with an endpoint when it falls ill, and when it is back."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.core.errors import UpstreamUnreachable
from gateway.core.operations.chat import CHAT
from gateway.core.types import DocumentCall, InferenceRequest, Payload, ServedModel, Zone
from gateway.endpoints.health.canary_runner import CanaryRunner
from gateway.endpoints.health.prober import Watch
from gateway.endpoints.state import EndpointState
from gateway.scheduling.executions import Execution
from gateway.scheduling.routing.policy import Policy
from tests.unit.harness import (
    ANSWERS,
    HANGS,
    MODEL,
    Plan,
    Rig,
    ScriptedConnector,
    Setup,
    cloud,
    now_s,
    onprem,
    request,
    run,
    verdict,
)


async def learned_nothing(name: str, state: EndpointState) -> bool:
    return True


def leap(seconds: float) -> None:
    """The process is late: time passes and nothing runs."""
    asyncio.get_running_loop()._leap.now_s += seconds  # type: ignore[attr-defined]


# A response timeout for each try


@pytest.mark.parametrize(("warm", "after_s"), [(True, 5.0), (False, 30.0)])
def test_a_try_is_given_up_long_before_a_far_deadline_and_the_call_goes_elsewhere(
    warm: bool, after_s: float
) -> None:
    async def main() -> None:
        plans = [*[ANSWERS] * (20 if warm else 0), HANGS]
        rig = Rig(onprem(*plans), cloud())
        for _ in range(20 if warm else 0):
            await rig.call(request())
        since_s = now_s()
        ended = await rig.call(request("clear", 3000.0, streamed=True))
        assert ended.placement is not None
        assert ended.placement.zone is Zone.CLOUD
        assert ended.at_s - since_s == pytest.approx(after_s, abs=0.1)
        first, _ = rig.log.lines[-1]["attempts"]
        assert first["result"] == "upstream_timeout"
        assert not rig.registry.model_state("gpu", MODEL).breaker.closed, (
            "nobody was answered meanwhile"
        )

    run(main())


def test_one_try_that_is_given_up_ejects_nothing_that_answers_others() -> None:
    async def main() -> None:
        rig = Rig(onprem(*[ANSWERS] * 20, HANGS, *[ANSWERS] * 50), cloud())
        for _ in range(20):
            await rig.call(request())
        hung = asyncio.create_task(rig.call(request("clear", 3000.0, streamed=True)))
        for _ in range(6):
            await asyncio.sleep(1)
            await rig.call(request())
        assert (await hung).placement is not None
        assert rig.registry.model_state("gpu", MODEL).breaker.closed

    run(main())


# Given up by the gateway


def test_calls_that_leave_a_slow_model_are_no_failures_of_it() -> None:
    async def main() -> None:
        rig = Rig(onprem(HANGS), cloud(), setup=Setup(max_batch=8))
        calls = [asyncio.create_task(rig.call(request("clear", 60.0))) for _ in range(9)]
        kept = asyncio.create_task(rig.call(request("restricted", 60.0)))
        await asyncio.sleep(0.5)
        rig.outcomes.became_slow("gpu", MODEL)
        assert {e.placement.zone for e in await asyncio.gather(*calls) if e.placement} == {
            Zone.CLOUD
        }
        assert not kept.done()
        assert rig.registry.model_state("gpu", MODEL).breaker.closed
        kept.cancel()
        await asyncio.gather(kept, return_exceptions=True)

    run(main())


def test_the_decision_leaves_what_is_slow_to_calls_with_no_other_place() -> None:
    async def main() -> None:
        rig = Rig(onprem(), cloud())
        rig.registry.model_state("gpu", MODEL).health.slow_since_s = now_s()
        calls = request("clear", 60.0), request("restricted", 60.0)
        chosen = []
        for call in calls:
            states = rig.snapshots.snapshot(call)
            decision = Policy().decide(call, verdict(call), states)
            chosen.append(([e.name for e in decision.attempts], dict(decision.vetoes).get("gpu")))
        assert chosen == [(["cloud"], "slow"), (["gpu"], None)]

    run(main())


# Slow start


@pytest.mark.parametrize("zone", [Zone.ONPREM, Zone.CLOUD])
def test_what_is_back_gets_its_calls_by_degrees(zone: Zone) -> None:
    async def main() -> None:
        site = onprem(Plan(open_s=60.0)) if zone is Zone.ONPREM else cloud(Plan(open_s=60.0))
        rig = Rig(replace(site, max_in_flight=20), setup=Setup(max_batch=10))
        rig.queues.learn(MODEL, site.name, Execution(10, one_by_one=True))
        rig.registry.model_state(site.name, MODEL)
        await asyncio.sleep(10)
        rig.outcomes.returned(site.name, MODEL)
        calls = [asyncio.create_task(rig.call(request("clear", 90.0))) for _ in range(20)]
        await asyncio.sleep(0.01)
        in_flight = rig.registry.states[site.name].in_flight
        assert 1 <= in_flight <= 3
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await asyncio.sleep(4)
        calls = [asyncio.create_task(rig.call(request("clear", 90.0))) for _ in range(20)]
        await asyncio.sleep(0.01)
        assert rig.registry.states[site.name].in_flight == 20
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    run(main())


# The probe


class Silent(ScriptedConnector):
    """Answers inferences, and no probe."""

    late_s = 0.0

    async def ready(self) -> bool:
        if self.late_s:
            await asyncio.sleep(0.5)
            leap(self.late_s)
        await asyncio.Event().wait()
        return True


def test_a_server_that_answers_calls_and_no_probe_is_busy_and_not_down() -> None:
    async def main() -> None:
        rig = Rig(replace(onprem(), connector=Silent()))
        watch = Watch(rig.registry.states, learned_nothing, rig.metrics)
        look = asyncio.create_task(watch.probe("gpu"))
        await asyncio.sleep(0.2)
        await rig.call(request())
        await look
        assert rig.registry.states["gpu"].up
        await watch.probe("gpu")
        assert not rig.registry.states["gpu"].up, "silent, and nobody was answered"

    run(main())


def test_a_probe_that_this_process_was_too_late_to_read_says_nothing() -> None:
    async def main() -> None:
        connector = Silent()
        connector.late_s = 3.0
        rig = Rig(replace(onprem(), connector=connector))
        await Watch(rig.registry.states, learned_nothing, rig.metrics).probe("gpu")
        assert rig.registry.states["gpu"].up

    run(main())


def test_a_canary_that_this_process_was_too_late_to_read_says_nothing() -> None:
    async def main() -> None:
        rig = Rig(onprem(HANGS), cloud())
        rig.catalog.models[MODEL] = replace(rig.catalog.models[MODEL], canary=True)
        model_state = rig.registry.model_state("gpu", MODEL)
        model_state.health.prove()
        for _ in range(20):
            model_state.times.observe(0.01)

        async def payload(name: str, state: EndpointState, model: str) -> Payload:
            return DocumentCall(CHAT, {})

        async def late(
            name: str, state: EndpointState, call: InferenceRequest, served: ServedModel
        ) -> None:
            await asyncio.sleep(0.5)
            leap(3.0)
            await asyncio.Event().wait()

        tending = CanaryRunner(
            rig.registry, rig.outcomes, rig.recovery, payload, late,  # type: ignore[arg-type]
            rig.metrics, now_s,
        )  # fmt: skip
        task = asyncio.create_task(tending.run())
        hung = asyncio.create_task(rig.call(request("restricted", 60.0)))
        await asyncio.sleep(3)
        assert model_state.health.state == "trusted"
        for one in (task, hung):
            one.cancel()
        await asyncio.gather(task, hung, return_exceptions=True)

    run(main())


def test_a_connection_that_is_refused_is_no_silence() -> None:
    async def main() -> None:
        rig = Rig(onprem(Plan(error=lambda: UpstreamUnreachable("refused"))), cloud())
        await rig.call(request())
        assert rig.registry.model_state("gpu", MODEL).health.answers.unanswered_since_s is None

    run(main())
