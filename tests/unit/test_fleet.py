"""What routing may know of every endpoint, and what the watch may change of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.accounting.ledger.limits import BudgetLimits
from gateway.accounting.spill import SpillBudgets, SpillControl, SpillStop
from gateway.core.errors import (
    ModelDead,
    ModelFailed,
    NoEligibleEndpoint,
    OnpremUnavailable,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamUnreachable,
)
from gateway.core.types import EndpointSnapshot, ServedModel
from gateway.endpoints.candidates import price_usd
from gateway.endpoints.prober import Watch
from gateway.endpoints.state import EndpointState
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.queues import Execution
from gateway.server import status
from tests.unit.harness import (
    MODEL,
    Plan,
    Rig,
    ScriptedConnector,
    Setup,
    Site,
    cloud,
    now_s,
    onprem,
    request,
    run,
)

HOLDS = Plan(open_s=1.0)


def state_of(rig: Rig, name: str, restricted: bool = False) -> EndpointSnapshot:
    states = rig.fleet.snapshot(request(budget_s=5.0), restricted)
    return next(s for s in states if s.endpoint.name == name)


async def learned_nothing(name: str, place: EndpointState) -> bool:
    return True


# The snapshot


def test_an_unknown_endpoint_costs_what_the_settings_expect() -> None:
    async def main() -> None:
        state = state_of(Rig(replace(onprem(), expected_ms=300)), "gpu")
        assert (state.cold, state.p50_s) == (True, 0.3)
        assert state.predicted_s == pytest.approx(0.39)

    run(main())


def test_what_has_been_seen_of_an_endpoint_counts_more_than_what_was_expected() -> None:
    async def main() -> None:
        rig = Rig(replace(onprem(Plan(open_s=0.04)), expected_ms=300))
        for _ in range(5):
            await rig.call(request())
        state = state_of(rig, "gpu")
        assert not state.cold
        assert state.p50_s == pytest.approx(0.04)

    run(main())


def test_calls_count_as_soon_as_they_are_sent() -> None:
    """S2: a burst between two looks at the server cannot overshoot its room."""

    async def main() -> None:
        rig = Rig(onprem(HOLDS), cloud(HOLDS), setup=Setup(max_batch=2))
        calls = [asyncio.create_task(rig.call(request("restricted", 9.0))) for _ in range(7)]
        await asyncio.sleep(0)
        state = state_of(rig, "gpu")
        assert (state.in_flight, state.waiting, state.batch) == (1, 6, 2)
        assert state.predicted_s > state.p50_s
        await asyncio.gather(*calls)
        after = state_of(rig, "gpu")
        assert (after.in_flight, after.waiting) == (0, 0)

    run(main())


def test_a_cloud_endpoint_takes_as_many_as_its_settings_say() -> None:
    async def main() -> None:
        rig = Rig(replace(cloud(HOLDS), max_in_flight=2))
        calls = [asyncio.create_task(rig.call(request(budget_s=9.0))) for _ in range(2)]
        await asyncio.sleep(0)
        assert not state_of(rig, "cloud").room
        await asyncio.gather(*calls)
        assert state_of(rig, "cloud").room

    run(main())


def test_an_endpoint_is_drained_with_its_further_places() -> None:
    async def main() -> None:
        rig = Rig(onprem(), onprem(name="gpu#m:2"), onprem(name="gpu2"), cloud())

        def drained() -> set[str]:
            return {name for name, place in rig.fleet.places.items() if place.drained}

        rig.fleet.drain("gpu", True)
        assert drained() == {"gpu", "gpu#m:2"}
        rig.fleet.drain("gpu#m:2", False)
        assert drained() == {"gpu"}
        rig.fleet.drain("gpu", False)
        assert drained() == set()

    run(main())


def test_all_places_of_an_endpoint_are_on_its_gpus() -> None:
    async def main() -> None:
        rig = Rig(onprem(), onprem(name="gpu#m:2"), onprem(name="gpu2"))
        times = {name: place.gpu_time for name, place in rig.fleet.places.items()}
        assert times["gpu"] is times["gpu#m:2"] is not times["gpu2"]

    run(main())


@pytest.mark.parametrize(("why", "up", "eject"), [("down", False, False), ("ejected", True, True)])
def test_an_endpoint_that_is_out_says_why(why: str, up: bool, eject: bool) -> None:
    async def main() -> None:
        rig = Rig(onprem())
        rig.fleet.place("gpu").up = up
        if eject:
            rig.eject("gpu")
        state = state_of(rig, "gpu")
        assert (state.available, state.unavailable_why) == (False, why)
        assert not rig.fleet.model_ready(MODEL)

    run(main())


def test_a_slow_spell_does_not_have_restricted_calls_refused_for_ever() -> None:
    async def main() -> list[str]:
        slow, fast = Plan(open_s=5.0), Plan(open_s=0.05)
        rig = Rig(replace(onprem(), connector=ScriptedConnector(*[slow] * 9, *[fast] * 90)))
        for _ in range(9):
            await rig.call(request("restricted", 9.0))
        told = [(await rig.call(request("restricted", 1.0))).reason]
        await asyncio.sleep(31)
        told += [(await rig.call(request("restricted", 1.0))).reason]
        return told

    assert run(main()) == ["deadline_unmeetable", ""]


# What a failure means


@pytest.mark.parametrize(
    ("error", "ejects"),
    [
        (UpstreamFailed("it answered 500"), True),
        (UpstreamUnreachable("it cannot be connected to"), True),
        (UpstreamBusy("it answered 429"), False),
        (ModelFailed("the input has the wrong size"), False),
    ],
    ids=["5xx", "unreachable", "429", "the-models-own"],
)
def test_only_what_is_the_endpoints_fault_ejects_it(error: Exception, ejects: bool) -> None:
    def fails() -> Exception:
        return error

    async def main() -> None:
        rig = Rig(onprem(Plan(error=fails)))
        for _ in range(9):
            await rig.call(request("restricted"))
        assert state_of(rig, "gpu").available is not ejects

    run(main())


def test_a_server_whose_model_has_died_is_ejected_at_once_and_its_keeper_is_told() -> None:
    asked: list[str] = []

    async def main() -> None:
        dead = Plan(error=lambda: ModelDead("its words"))
        rig = Rig(onprem(dead))
        rig.fleet.place("gpu").on_gray = asked.append
        await rig.call(request("restricted"))
        assert not state_of(rig, "gpu").available
        assert len(asked) == 1
        assert MODEL in asked[0]

    run(main())


def test_a_server_that_cannot_serve_the_call_is_no_queue_and_no_bug() -> None:
    """A document, and only a KServe service on the premises: it leaves, or is refused."""

    async def main() -> None:
        rig = Rig(replace(onprem(), kind="kserve"), replace(cloud(), kind="openai"))
        ended = await rig.call(request("clear"))
        assert ended.placement is not None
        assert ended.placement.endpoint == "cloud"
        refused = await rig.call(request("restricted"))
        assert isinstance(refused.error, OnpremUnavailable)

    run(main())


# Readiness


def test_the_gateway_is_ready_while_any_call_has_a_place() -> None:
    async def main() -> None:
        rig = Rig(onprem(), onprem(name="gpu2"), cloud())

        def seen() -> tuple[bool, bool]:
            return rig.fleet.ready(), rig.fleet.onprem_up()

        rig.fleet.place("gpu").up = False
        assert seen() == (True, True)
        rig.fleet.place("gpu2").drained = True
        assert seen() == (True, False), "clear calls are served in the cloud"
        rig.fleet.place("cloud").up = False
        assert seen() == (False, False)
        rig.fleet.place("gpu").up = True
        assert seen() == (True, True)
        only_cloud = Rig(cloud())
        assert (only_cloud.fleet.ready(), only_cloud.fleet.onprem_up()) == (True, False)

    run(main())


@pytest.mark.parametrize("closed", ["settings", "file", "budget"])
def test_a_cloud_that_is_closed_makes_nobody_ready(closed: str, tmp_path: Path) -> None:
    async def main() -> None:
        limits = BudgetLimits.usd(0.0) if closed == "budget" else BudgetLimits()
        file = tmp_path / "stop"
        if closed == "file":
            file.touch()
        spill = SpillControl(
            SpillStop(file, now_s), SpillBudgets(limits, {}, now_s), closed != "settings"
        )
        rig = Rig(onprem(), cloud(), setup=Setup(spill=spill))
        assert rig.fleet.ready()
        rig.fleet.place("gpu").up = False
        assert not rig.fleet.ready()
        assert not rig.fleet.model_ready(MODEL)

    run(main())


def test_without_a_server_to_ask_inspection_says_so() -> None:
    async def main() -> None:
        rig = Rig(onprem())
        for ask in (rig.fleet.server_inspector, lambda: rig.fleet.model_inspector(MODEL)):
            with pytest.raises(NoEligibleEndpoint) as caught:
                ask()
            assert caught.value.retry_after_s

    run(main())


# The watch


class Answers(ScriptedConnector):
    """Says what it is told to: True, False, an exception, or nothing for ever."""

    def __init__(self, *answers: bool | Exception | None) -> None:
        super().__init__()
        self.answers = list(answers)

    async def ready(self) -> bool:
        answer = self.answers.pop(0)
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)


@pytest.mark.parametrize(
    ("was_up", "answers", "up"),
    [
        (False, [True], True),
        (True, [True], True),
        (True, [False], False),
        (True, [UpstreamUnreachable("refused")], False),
        (True, [OSError("refused")], False),
        (True, [ValueError("a bug")], False),
        (True, [None, True], True),
        (True, [None, None], False),
        (False, [None], False),
    ],
)
def test_a_refusal_counts_at_once_and_silence_when_it_comes_twice(
    was_up: bool, answers: list[bool | Exception | None], up: bool
) -> None:
    async def main() -> None:
        rig = Rig(replace(onprem(), connector=Answers(*answers)))
        place = rig.fleet.place("gpu")
        place.up = was_up
        start_s = now_s()
        await Watch(rig.fleet.places, learned_nothing, rig.metrics).probe("gpu")
        assert place.up is up
        assert now_s() - start_s <= 2.0

    run(main())


def test_a_health_probe_never_brings_back_what_fails_inferences() -> None:
    async def main() -> None:
        rig = Rig(replace(onprem(), connector=Answers(*[True] * 9)))
        rig.eject("gpu")
        for _ in range(5):
            await Watch(rig.fleet.places, learned_nothing, rig.metrics).probe("gpu")
        assert not state_of(rig, "gpu").available

    run(main())


def test_a_server_that_answers_nonsense_when_it_comes_up_does_not_end_the_watch() -> None:
    async def nonsense(name: str, place: EndpointState) -> bool:
        raise ValueError("not a message of the protocol")

    async def main() -> None:
        rig = Rig(replace(onprem(), connector=Answers(*[True] * 9)))
        rig.fleet.place("gpu").up = False
        watching = asyncio.create_task(Watch(rig.fleet.places, nonsense, rig.metrics).run())
        await asyncio.sleep(3.5)
        assert not watching.done()
        assert rig.fleet.place("gpu").up
        found = rig.metrics.registry.get_sample_value(
            "spillway_unexpected_errors_total", {"where": "learn"}
        )
        assert found == 1
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    run(main())


def test_a_batch_size_learned_late_widens_the_queue_that_is_already_there() -> None:
    async def main() -> None:
        rig = Rig(onprem(HOLDS))
        calls = [asyncio.create_task(rig.call(request("restricted", 9.0))) for _ in range(10)]
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        rig.fleet.learnt("gpu", MODEL, Execution(rows=4))
        await asyncio.sleep(1.05)
        assert state_of(rig, "gpu").in_flight == 4
        await asyncio.gather(*calls)

    run(main())


# Prices


@pytest.mark.parametrize(
    ("served", "tokens", "usd"),
    [
        (ServedModel(MODEL, price_usd=0.5), None, 0.5),
        (ServedModel(MODEL, price_usd=0.5), 100, 0.5),
        (ServedModel(MODEL, price_usd_per_1k_tokens=2.0), 500, 1.0),
        (ServedModel(MODEL, price_usd_per_1k_tokens=2.0), 0, 0.0),
        (ServedModel(MODEL, price_usd=0.5, price_usd_per_1k_tokens=2.0), 250, 1.0),
    ],
)
def test_a_call_costs_its_price_and_that_of_its_tokens(
    served: ServedModel, tokens: int | None, usd: float
) -> None:
    assert price_usd(served, tokens) == pytest.approx(usd)


def test_tokens_that_are_not_known_yet_are_never_free() -> None:
    async def main() -> None:
        rig = Rig(Site("cloud", cloud().zone, price_usd=0.0))
        endpoint = rig.catalog.endpoints["cloud"]
        dear = {MODEL: ServedModel(MODEL, price_usd_per_1k_tokens=1.0)}
        rig.catalog.endpoints["cloud"] = replace(endpoint, models=dear)
        assert state_of(rig, "cloud").price_usd > 0

    run(main())


# Several models on one server


@pytest.mark.parametrize(
    ("kind", "said", "shares"),
    [
        ("triton", None, True),
        ("kserve", None, False),
        ("triton", False, False),
        ("kserve", True, True),
    ],
)
def test_models_share_the_gpu_of_a_triton_unless_the_settings_say_otherwise(
    kind: str, said: bool | None, shares: bool
) -> None:
    async def main() -> None:
        rig = Rig(onprem())
        place = rig.fleet.place("gpu")
        place.settings = place.settings.model_copy(update={"kind": kind, "shares_gpu": said})
        assert rig.fleet.groups.execution(MODEL, "gpu").shares_gpu == shares

    run(main())


def test_the_metrics_tell_what_models_on_one_server_cost_each_other() -> None:
    async def main() -> None:
        rig = Rig(onprem(), onprem(name="more"))
        groups = rig.fleet.groups

        def shown(metric: str, endpoint: str = "gpu") -> float | None:
            status.publish(rig.metrics, rig.fleet.places, groups)
            return rig.metrics.registry.get_sample_value(metric, {"endpoint": endpoint})

        groups.queue(MODEL, ("gpu",))
        groups.queue(MODEL, ("gpu", "more"))
        assert shown("spillway_gpu_turns") == 0.0
        assert shown("spillway_gpu_contention_ratio") is None
        ((_, gpu),) = groups.shared_gpus()
        for beside in (0.0, 1.0):
            for _ in range(40):
                gpu.observe(0, BatchModel(0.01, 0.0), 1.0, 0.01 * (1 + beside), 0.02 * beside)
        assert shown("spillway_gpu_turns") == 1.0
        assert shown("spillway_gpu_contention_ratio") == pytest.approx(1.0, abs=0.01)
        assert shown("spillway_gpu_turns", "more") is None

    run(main())
