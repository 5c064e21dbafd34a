"""The demo's checker: it must see a leak, and must not believe itself where witnesses disagree."""

from __future__ import annotations

import httpx
import pytest

from gateway.demo.cloud.process import SimulatedCloud
from gateway.demo.proof import prove, weigh
from gateway.demo.summary import Ended
from tests.live import LoopThread, simulated_cloud
from tests.unit.demo.demo_calls import call, decided, ended, kept, refused, spilled


def test_a_run_without_contradictions_holds() -> None:
    clear = spilled(marker="tide")
    proof = weigh([kept(marker="alma"), refused(), clear], {"tide"}, 1000)
    assert proof.holds
    assert (proof.restricted_calls, proof.markers) == (2, 2)
    assert (proof.controls, proof.controls_detected) == (1, 1)


def test_a_marker_of_a_restricted_call_in_the_cloud_is_a_leak() -> None:
    leaked = kept(marker="alma")
    proof = weigh([leaked, kept(), spilled(marker="tide")], {"alma", "tide"}, 1000)
    assert proof.leaked == (leaked.call.request_id,)
    assert not proof.holds


def test_a_search_that_misses_what_the_cloud_answered_proves_nothing() -> None:
    proof = weigh([kept(), spilled(marker="tide"), spilled(marker="moss")], {"tide"}, 1000)
    assert (proof.controls, proof.controls_detected) == (2, 1)
    assert not proof.holds


@pytest.mark.parametrize(
    ("contradicting", "said"),
    [
        (ended(call(), None), "there is no decision record"),
        (ended(call(restricted=True), decided("onprem")), "its record says clear"),
        (
            ended(call(restricted=True), decided("onprem", "cloud", restricted=True), ok=False),
            "its record names the cloud",
        ),
        (
            ended(call(restricted=True), decided("onprem", restricted=True), zone="cloud"),
            "its answer's headers name the cloud",
        ),
        (ended(call(marker="seen"), decided("onprem")), "its record does not say so"),
        (
            ended(call(), decided("onprem"), zone="cloud"),
            "its answer's headers say cloud and its record onprem",
        ),
    ],
)
def test_each_contradiction_is_told_and_breaks_the_proof(contradicting: Ended, said: str) -> None:
    proof = weigh([contradicting], {"seen"}, 1000)
    assert any(said in line for line in proof.disagreements)
    assert not proof.holds


def test_a_call_that_never_reached_the_gateway_contradicts_nothing() -> None:
    assert weigh([ended(call(), None, ok=False, status="unreached")], set(), 0).holds


def test_the_search_reads_what_really_reached_the_cloud(loop_thread: LoopThread) -> None:
    """Sent past any gateway: the bytes alone must give the caller away."""
    home, leaked = kept(marker="amber-heron"), kept(marker="cobalt-nutmeg")
    clear = spilled(marker="willow-quartz")
    with simulated_cloud(loop_thread) as cloud:
        loop_thread.run(_ask(cloud, "a note willow-quartz"))
        assert loop_thread.run(prove(cloud, [home, leaked, clear])).holds
        loop_thread.run(_ask(cloud, "a note cobalt-nutmeg"))
        proof = loop_thread.run(prove(cloud, [home, leaked, clear]))
    assert proof.leaked == (leaked.call.request_id,)
    assert proof.cloud_bytes > 100


async def _ask(cloud: SimulatedCloud, text: str) -> None:
    body = {"model": "minilm", "input": text}
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        answer = await client.post(f"{cloud.http_url}/v1/embeddings", json=body)
    assert answer.status_code == 200
