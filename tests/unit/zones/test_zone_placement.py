"""A call of a class goes to the zones that its class admits, and by each guard alone to no other
(M7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.cluster.owner import staying
from gateway.config.zones import named
from gateway.core.errors import EgressForbidden, GatewayError
from gateway.core.types import (
    CLOUD,
    ONPREM,
    ONPREM_ONLY,
    Classification,
    Decision,
    InferenceRequest,
    Sensitivity,
    ServedModel,
    Zone,
)
from gateway.endpoints.connectors import Cleared
from gateway.endpoints.connectors.egress import CloudDoor
from gateway.pipeline.call_account import CallAccount
from gateway.scheduling.routing import filters
from tests.unit.harness import (
    FAILS,
    MODEL,
    Known,
    Plan,
    Rig,
    ScriptedConnector,
    Setup,
    Site,
    cloud,
    onprem,
    request,
    run,
    state_of,
)

pytestmark = pytest.mark.leaping

EU, US, LAB = named("eu"), named("us"), named("onprem-lab")
ALL = frozenset({ONPREM, LAB, CLOUD, EU, US})
CLASSES = {"personal": frozenset({EU}), "internal": frozenset({EU, US})}


def site(zone: Zone, *plans: Plan) -> Site:
    return Site(zone.name, zone, ScriptedConnector(*plans))


def graded(call: InferenceRequest, *, complete: bool = True) -> Classification:
    kind = call.id.partition("-")[0]
    if kind == "clear":
        return Classification(
            call.id,
            Sensitivity.CLEAR,
            "clear",
            complete=complete,
            admitted=frozenset({CLOUD, EU, US}),
        )
    return Classification(
        call.id, Sensitivity.RESTRICTED, "entities", {"PERSON": 1}, complete=complete,
        data_class=kind, admitted=CLASSES[kind],
    )  # fmt: skip


class Graded:
    """The class of a call is what its id begins with; `door` finds another one."""

    def __init__(self, door: str = "") -> None:
        self._door = door

    def classify_now(self, call: InferenceRequest) -> Classification | None:
        return graded(call, complete=False)

    async def classify(self, call: InferenceRequest) -> Classification:
        raise AssertionError("it is known at once")

    async def complete(self, call: InferenceRequest, before: Classification) -> Classification:
        whole = replace(before, complete=True)
        if not self._door:
            return whole
        return replace(whole, data_class=self._door, admitted=CLASSES[self._door])


def rig(*sites: Site, door: str = "") -> Rig:
    return Rig(*sites, setup=Setup(classifier=Graded(door)))


def seen(made: Rig) -> dict[str, int]:
    return {name: n for name, s in made.sites.items() if (n := len(s.connector.seen))}


@pytest.mark.parametrize(
    ("kind", "places"),
    [("personal", {"eu": 1}), ("internal", {"eu": 1}), ("clear", {"eu": 1})],
)
async def test_a_call_leaves_for_the_zones_that_its_class_admits(
    kind: str, places: dict[str, int]
) -> None:
    made = rig(cloud(), site(EU), site(US))
    ended = await made.call(request(kind, zones=ALL))
    assert ended.error is None
    assert seen(made) == places
    assert ended.placement is not None
    assert ended.placement.zone.name == ended.placement.endpoint
    assert ended.placement.data_class == ("" if kind == "clear" else kind)
    record = made.log.lines[0]
    assert record.get("class") == (None if kind == "clear" else kind)
    assert set(record["zones"]) - {"onprem", "onprem-lab"} == {
        zone.name for zone in (CLASSES.get(kind) or {CLOUD, EU, US})
    }


@pytest.mark.parametrize("kind", ["personal", "internal"])
async def test_what_fails_over_fails_over_within_them(kind: str) -> None:
    made = rig(site(EU, FAILS), site(US, FAILS), cloud())
    ended = await made.call(request(kind, zones=ALL))
    assert isinstance(ended.error, GatewayError)
    assert seen(made).keys() == {zone.name for zone in CLASSES[kind]}
    assert made.leftovers() == {}


async def test_what_the_door_finds_shrinks_the_zones() -> None:
    made = rig(site(US), site(EU), door="personal")
    ended = await made.call(request("internal", zones=frozenset({US, ONPREM})))
    assert isinstance(ended.error, GatewayError)
    assert seen(made) == {}
    ended = await made.call(request("internal", zones=ALL))
    assert ended.error is None
    assert seen(made) == {"eu": 1}


async def test_a_call_of_a_class_queues_on_the_premises_as_one_that_may_leave() -> None:
    made = rig(onprem(), site(EU))
    ended = await made.call(request("personal", zones=ALL))
    assert ended.placement is not None
    assert (ended.placement.endpoint, ended.placement.reason) == ("gpu", "onprem_room")


async def test_a_zone_on_the_premises_that_a_caller_leaves_out_has_none_of_its_calls() -> None:
    made = rig(onprem(), site(LAB))
    for _ in range(4):
        await made.call(request("personal", zones=frozenset({LAB, EU})))
    assert seen(made) == {"onprem-lab": 4}
    made.eject("onprem-lab")
    refused = await made.call(request("personal", zones=frozenset({LAB, EU})))
    assert isinstance(refused.error, GatewayError)
    assert "gpu" not in seen(made)


def test_the_filter_says_why() -> None:
    async def state(zone: Zone) -> str | None:
        made = rig(onprem(), site(EU), site(US), cloud())
        call = request("personal", zones=ALL)
        name = {ONPREM: "gpu"}.get(zone, zone.name)
        return filters.keeps_restricted_onprem(call, graded(call), state_of(made, name))

    told = {zone.name: run(state(zone)) for zone in (ONPREM, EU, US, CLOUD)}
    assert told == {"onprem": None, "eu": None, "us": "not_admitted", "cloud": "not_admitted"}


# The clearance and the door, each alone


def clearance(zone: Zone, call: InferenceRequest) -> Cleared:
    return Cleared(zone, call, graded(call), Decision((), "spill_queue", ALL))


async def test_a_clearance_names_a_zone_that_the_class_admits() -> None:
    call = request("personal", zones=ALL)
    assert clearance(EU, call).zone is EU
    for zone in (US, CLOUD, ONPREM):
        with pytest.raises(EgressForbidden):
            clearance(zone, call)


@pytest.mark.parametrize("narrowed", ["decided", "asked", "unread"])
async def test_a_clearance_takes_the_word_of_all(narrowed: str) -> None:
    call = request("personal", zones=ALL - {EU} if narrowed == "asked" else ALL)
    decision = Decision((), "spill_queue", ALL - {EU} if narrowed == "decided" else ALL)
    with pytest.raises(EgressForbidden):
        Cleared(EU, call, graded(call, complete=narrowed != "unread"), decision)


async def test_a_door_opens_for_a_clearance_of_its_own_zone_alone() -> None:
    connector = ScriptedConnector()
    cleared = clearance(EU, request("personal", zones=ALL))
    for zone in (US, CLOUD, Zone("eu")):
        with pytest.raises(EgressForbidden):
            CloudDoor(connector, zone).infer(cleared, ServedModel(MODEL))
    assert connector.seen == []
    await CloudDoor(connector, EU).infer(cleared, ServedModel(MODEL))
    assert len(connector.seen) == 1


async def test_a_router_gone_mad_cannot_send_a_call_to_another_zone() -> None:
    made = rig(site(US))
    call = request("personal", zones=ALL)
    decision = Decision((made.catalog.endpoints["us"],), "cloud_only", ALL)
    account = CallAccount(made.accounts, call)
    with pytest.raises(EgressForbidden):
        await made.dispatcher.send(call, Known(graded(call)), decision, account)
    assert seen(made) == {}


async def test_a_queue_cannot_give_a_call_to_a_server_outside_its_zones() -> None:
    made = rig(onprem(), site(LAB))
    made.registry.states["gpu"].up = False
    call = request("personal", zones=ONPREM_ONLY)
    places = tuple(made.catalog.endpoints[name] for name in ("gpu", "onprem-lab"))
    decision = Decision(places, "onprem_room", ONPREM_ONLY)
    account = CallAccount(made.accounts, call)
    with pytest.raises(EgressForbidden):
        await made.dispatcher.send(call, Known(graded(call)), decision, account)
    assert seen(made) == {}


async def test_what_is_forwarded_to_an_owner_stays_on_its_premises() -> None:
    made = rig(onprem(), site(LAB), site(EU))
    places = made.catalog.endpoints
    assert staying(places["onprem-lab"]).zones == {LAB}
    assert staying(places["eu"]).zones == frozenset()


def test_zones_are_one_object_for_each_name() -> None:
    assert named("eu") is EU
    assert named("eu") is not named("eu2")
    assert (EU.onprem, LAB.onprem, ONPREM.onprem, CLOUD.onprem) == (False, True, True, False)
    assert not named("onpremises").onprem
