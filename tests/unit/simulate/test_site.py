"""The gateway of a settings file, simulated: its own scheduler, weights, servers and prices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gateway import config
from gateway.scheduling.rules.baselines import RULES, OnArrival
from gateway.scheduling.rules.failsafe import Guarded
from gateway.scheduling.scheduler import Scheduler
from gateway.simulate.loop import SimulatedWorld
from gateway.simulate.site import SimulatedSite
from gateway.simulate.study import POLICY, StudyFigures, StudyRun, simulate
from gateway.simulate.workload import MODES, TraceError, Workload, build
from tests.unit.simulate.traces import bursty

SETTINGS = """
endpoints:
  gpu: {kind: triton, zone: onprem, grpc: "127.0.0.1:9001", expected_ms: 20}
  dear: {kind: kserve, zone: cloud, url: "http://127.0.0.1:9", expected_ms: 300}
  cheap: {kind: kserve, zone: cloud, url: "http://127.0.0.1:9", expected_ms: 300}
models:
  scorer:
    tensors: clear
    max_batch: 8
    served_by:
      - {endpoint: gpu}
      - {endpoint: dear, price_usd: 0.02}
      - {endpoint: cheap, price_usd: 0.001, price_usd_per_1k_tokens: 0.002}
  local:
    tensors: clear
    served_by: [{endpoint: gpu}]
routing: {miss_penalty_usd: 0.02, restricted_factor: 4}
"""
FAR = SimulatedWorld(network_s=0.0005)


def site(text: str = SETTINGS, model: str | None = None) -> SimulatedSite:
    return SimulatedSite.from_settings(config.parse(text), model)


def routing(**keys: object) -> str:
    stated = ", ".join(f"{key}: {value}" for key, value in keys.items())
    return SETTINGS.replace("restricted_factor: 4}", f"restricted_factor: 4, {stated}}}")


def calls_of(of: SimulatedSite, load: float = 1.5, mode: str = "ms", calls: int = 1200) -> Workload:
    return of.weighed(build(bursty(calls), of.mode(MODES[mode]), load, 1))


def figures(of: SimulatedSite, name: str = POLICY, load: float = 1.5) -> StudyFigures:
    found = simulate(calls_of(of, load), name, run=StudyRun(site=of, world=FAR, lead_s=None))
    return replace(found, took_s=0.0)


def test_the_model_with_a_cloud_endpoint_is_meant_and_its_cheapest_counts() -> None:
    found = site()
    assert (found.model, found.servers, found.cloud) == ("scorer", ("gpu",), "cheap")
    assert site(model="local").cloud is None


def test_the_modelled_servers_and_cloud_are_as_the_settings_say() -> None:
    mode = site().mode(MODES["ms"])
    assert (mode.servers, mode.max_batch) == (1, 8)
    assert mode.fixed_s + mode.per_work_s == pytest.approx(0.02)
    assert mode.rtt_s + mode.cloud_s == pytest.approx(0.3)


def test_what_the_settings_do_not_say_is_as_in_the_mode() -> None:
    text = SETTINGS.replace(", expected_ms: 20", "").replace(", expected_ms: 300", "")
    mode = site(text.replace("    max_batch: 8\n", "")).mode(MODES["s"])
    assert mode == replace(MODES["s"], servers=1)


def test_prices_and_penalties_are_those_of_the_settings() -> None:
    """In mean cloud calls. The decision knows a price before it knows the tokens."""
    found = site()
    plain = build(bursty(), found.mode(MODES["ms"]), 1.5, 1)
    calls = found.weighed(plain)
    usd = 0.001 + 0.002 * plain.tokens / 1000
    assert calls.unit_usd == pytest.approx(usd.mean())
    assert calls.price * calls.unit_usd == pytest.approx(usd)
    assert np.unique(calls.expected_price * calls.unit_usd) == pytest.approx([0.001 + 0.002 * 0.5])
    penalty_usd = calls.penalty * calls.unit_usd
    assert penalty_usd[~calls.restricted] == pytest.approx(0.02)
    assert penalty_usd[calls.restricted] == pytest.approx(0.08)
    prioritised = found.weighed(replace(plain, priority=np.full(len(plain), 2)))
    assert prioritised.penalty == pytest.approx(0.64 * calls.penalty)


def test_without_prices_the_mean_call_costs_what_it_is_said_to() -> None:
    text = SETTINGS.replace(", price_usd: 0.02", "").replace(", price_usd: 0.001", "")
    found = site(text.replace(", price_usd_per_1k_tokens: 0.002", ""))
    plain = replace(build(bursty(), found.mode(MODES["ms"]), 1.5, 1), unit_usd=0.005)
    calls = found.weighed(plain)
    assert np.array_equal(calls.price, plain.price)
    assert calls.penalty[~calls.restricted] == pytest.approx(0.02 / 0.005)


def test_the_scheduler_is_the_one_that_the_live_queues_make() -> None:
    found = site()
    mode = found.mode(MODES["ms"])
    best = found.parts(lambda: 0.0, mode).queues.queue("scorer", ("gpu",)).scheduling
    assert isinstance(best, Guarded)
    assert isinstance(best.deciding, Scheduler)
    assert best.limits.max_batch == 8
    rule = found.following("queue_cap").parts(lambda: 0.0, mode)
    assert isinstance(rule.queues.queue("scorer", ("gpu",)).scheduling, OnArrival)


@pytest.mark.parametrize("name", ["queue_cap", "static_split"])
def test_a_rule_in_the_settings_does_what_the_baseline_of_its_name_does(name: str) -> None:
    chosen = figures(site(routing(policy=name)))
    assert chosen == figures(site(), name)
    assert chosen != figures(site())


@pytest.mark.parametrize(
    "changed",
    [
        routing(margin=3),
        SETTINGS.replace("miss_penalty_usd: 0.02", "miss_penalty_usd: 0.0001"),
        SETTINGS.replace("restricted_factor: 4", "restricted_factor: 1"),
        SETTINGS + "queue: {max_waiting: 4}\n",
        SETTINGS + "queue: {lead_ms: 0}\n",
        SETTINGS.replace("max_batch: 8", "max_batch: 2"),
        SETTINGS.replace("expected_ms: 300}", "expected_ms: 300, max_in_flight: 3}"),
        SETTINGS.replace("expected_ms: 20}", "expected_ms: 20, max_in_flight: 2}"),
        SETTINGS.replace("expected_ms: 300}", "expected_ms: 900}"),
    ],
    ids=["margin", "penalty", "factor", "max_waiting", "lead", "batch", "away", "here", "expected"],
)
def test_every_setting_that_weighs_is_heard(changed: str) -> None:
    before, after = figures(site()), figures(site(changed))
    assert (before.spilled, before.shed, before.attainment) != (
        after.spilled, after.shed, after.attainment,
    )  # fmt: skip


@pytest.mark.parametrize("name", [POLICY, *RULES])
def test_the_kill_switch_keeps_every_call_on_the_premises(name: str) -> None:
    assert figures(site(routing(spill="false")), name).spilled == 0
    assert figures(site(model="local"), name).spilled == 0


def test_a_rule_that_never_lets_a_call_leave_has_no_cloud() -> None:
    assert site().following("onprem_only").cloud is None
    assert site(routing(policy="onprem_only")).cloud is None
    assert site().following("static_split").cloud is not None


def test_calls_that_end_one_by_one_are_no_batches() -> None:
    text = SETTINGS.replace(
        "    tensors: clear\n    max_batch", "    task: generate\n    max_batch"
    )
    found = site(text)
    assert found.mode(MODES["s"]).alone
    calls = calls_of(found, 1.2, "ms", 1500)
    got = simulate(calls, POLICY, run=StudyRun(site=found, world=FAR, lead_s=None))
    assert got.mean_batch == 1.0
    assert 0.5 < got.utilisation <= 1.0
    assert got.attainment.restricted is not None
    assert got.attainment.restricted > 0.9


def test_more_servers_than_the_settings_have_are_like_the_first() -> None:
    found = site()
    three = found.sized(3)
    assert len(set(three.servers)) == 3
    assert {three.settings.endpoints[name].expected_ms for name in three.servers} == {20}
    assert three.sized(1).servers == ("gpu",)
    one, two = (
        simulate(replace(calls_of(found), servers=n), POLICY, run=StudyRun(site=found))
        for n in (1, 3)
    )
    assert two.utilisation < one.utilisation
    assert two.attainment.all > one.attainment.all


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        ("nothing", "no model 'nothing' in the settings; there are: scorer, local"),
        ("far", "no on-prem endpoint"),
    ],
)
def test_a_model_that_cannot_be_simulated_is_refused(model: str, complaint: str) -> None:
    text = SETTINGS.replace(
        "routing:", "  far: {tensors: clear, served_by: [{endpoint: cheap}]}\nrouting:"
    )
    with pytest.raises(TraceError, match=complaint):
        site(text, model)


def test_which_of_several_models_has_to_be_said() -> None:
    text = SETTINGS.replace(
        "  local:\n    tensors: clear\n    served_by: [{endpoint: gpu}]",
        "  local:\n    tensors: clear\n    served_by: [{endpoint: gpu}, {endpoint: cheap}]",
    )
    with pytest.raises(TraceError, match="--model NAME, one of: scorer, local"):
        site(text)
    assert site(text, "local").cloud == "cheap"
