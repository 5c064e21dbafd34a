"""What is costly to look for is looked for at the door, and only there (clearance at the door)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from gateway.core.errors import OnpremUnavailable
from gateway.core.types import Classification, InferenceRequest, Sensitivity, Zone
from tests.unit.harness import FAILS, Rig, Setup, Site, cloud, onprem, request

pytestmark = pytest.mark.leaping


@dataclass
class TwoLooks:
    """The first look finds nothing; the second a name in the kinds of calls that `named` lists."""

    named: frozenset[str] = frozenset()
    completed: list[str] = field(default_factory=list)

    def classify_now(self, request: InferenceRequest) -> None:
        """There is always something to wait for."""

    async def classify(self, request: InferenceRequest) -> Classification:
        return Classification(request.id, Sensitivity.CLEAR, "clear", classify_s=0.001)

    async def complete(
        self, request: InferenceRequest, classification: Classification
    ) -> Classification:
        self.completed.append(request.id.split("-")[0])
        if request.id.split("-")[0] in self.named:
            return replace(
                classification,
                sensitivity=Sensitivity.RESTRICTED,
                reason="entities",
                entities={"PERSON": 1},
                complete=True,
            )
        return replace(classification, complete=True)


def rig_of(looks: TwoLooks, *sites: Site) -> Rig:
    return Rig(*sites, setup=Setup(classifier=looks))


async def test_a_call_that_is_served_at_once_on_the_premises_is_not_searched_for_names() -> None:
    looks = TwoLooks()
    rig = rig_of(looks, onprem(), cloud())
    ended = await rig.call(request("clear"))
    assert ended.placement is not None
    assert ended.placement.zone is Zone.ONPREM
    assert looks.completed == []
    assert rig.log.lines[-1]["looked_for"] == "patterns"


async def test_a_call_that_would_leave_is_searched_first_and_leaves_when_nothing_is_found() -> None:
    looks = TwoLooks()
    rig = rig_of(looks, cloud())
    ended = await rig.call(request("clear"))
    assert ended.placement is not None
    assert ended.placement.zone is Zone.CLOUD
    assert looks.completed == ["clear"]
    assert rig.log.lines[-1]["looked_for"] == "everything"


async def test_a_name_found_at_the_door_turns_a_failing_over_call_back_to_the_premises() -> None:
    """On-prem fails, the cloud would be next: with a name in it, on-prem is all there is."""

    looks = TwoLooks(named=frozenset({"named"}))
    rig = rig_of(looks, onprem(FAILS), cloud())
    ended = await rig.call(request("named"))
    assert isinstance(ended.error, OnpremUnavailable)
    assert looks.completed == ["named"]
    assert rig.cloud_seen == []
    record = rig.log.lines[-1]
    assert record["sensitivity"] == "restricted"
    assert record["entities"] == {"PERSON": 1}
    zones = [frozenset(a["zones"]) for a in record["attempts"]]
    assert zones == [{"onprem", "cloud"}, {"onprem"}]
    assert rig.leftovers() == {}


async def test_a_call_that_the_search_restricts_is_decided_anew_and_served_on_the_premises() -> (
    None
):
    """The server is expected to be late; with a name in it, the call takes its chance there."""

    looks = TwoLooks(named=frozenset({"named"}))
    slow = replace(onprem(), expected_ms=60_000)
    rig = Rig(slow, cloud(), setup=Setup(classifier=looks))
    ended = await rig.call(request("named", budget_s=0.9))
    assert "named" in looks.completed
    assert ended.placement is not None
    assert ended.placement.zone is Zone.ONPREM
    assert "named" not in {r.id.split("-")[0] for r in rig.cloud_seen}


async def test_explain_looks_as_far_as_the_live_decision_would() -> None:
    looks = TwoLooks(named=frozenset({"named"}))
    rig = rig_of(looks, onprem(), cloud())
    stays = await rig.pipeline.explain(request("stays"))
    assert stays.decision is not None
    assert looks.completed == []
    rig.eject("gpu")
    leaves = await rig.pipeline.explain(request("leaves"))
    assert leaves.decision is not None
    assert leaves.decision.attempts[0].zone is Zone.CLOUD
    assert leaves.classification.complete
    named = await rig.pipeline.explain(request("named"))
    assert named.classification.restricted
    assert isinstance(named.refusal, OnpremUnavailable)
