"""The one door out (M3): what it needs is a clearance, and nobody can come by one wrongly."""

from __future__ import annotations

import ast
import dataclasses
import re
import uuid
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import gateway
from gateway.core.errors import EgressForbidden
from gateway.core.trace_context import Untraced
from gateway.core.types import (
    EVERYWHERE,
    ONPREM_ONLY,
    Classification,
    Decision,
    InferenceRequest,
    Quota,
    Sensitivity,
    ServedModel,
    Tightening,
    Zone,
)
from gateway.endpoints.connectors import Cleared, OnPremDoor
from gateway.endpoints.connectors.egress import CloudDoor
from gateway.pipeline.call_account import CallAccount
from tests.unit.harness import MODEL, Known, Rig, ScriptedConnector, cloud, onprem, request, run

pytestmark = pytest.mark.leaping

PACKAGE = Path(gateway.__file__).parent
CLEAR = Decision((), "onprem_room", EVERYWHERE)


def clear(call: InferenceRequest) -> Classification:
    return Classification(call.id, Sensitivity.CLEAR, "clear", complete=True)


async def clearance_of_a_clear_call() -> Cleared:
    call = request("clear")
    return Cleared(Zone.CLOUD, call, clear(call), CLEAR)


def test_a_clear_call_that_may_leave_gets_its_clearance() -> None:
    assert run(clearance_of_a_clear_call()).request.id.startswith("clear")


@pytest.mark.parametrize(
    ("found", "decision", "asked"),
    [
        pytest.param({"sensitivity": Sensitivity.RESTRICTED}, {}, {}, id="restricted"),
        pytest.param({"request_id": "another"}, {}, {}, id="the-verdict-on-another-call"),
        pytest.param({}, {"zones": ONPREM_ONLY}, {}, id="decided-to-stay"),
        pytest.param({}, {"zones": frozenset()}, {}, id="decided-to-go-nowhere"),
        pytest.param({}, {}, {"zones": ONPREM_ONLY}, id="asked-to-stay"),
    ],
)
def test_no_clearance_without_every_one_of_its_grounds(
    found: dict[str, Any], decision: dict[str, Any], asked: dict[str, Any]
) -> None:
    async def clear_it() -> None:
        call = replace(request("clear"), **asked)
        Cleared(Zone.CLOUD, call, replace(clear(call), **found), replace(CLEAR, **decision))

    with pytest.raises(EgressForbidden):
        run(clear_it())


@pytest.mark.interpreted  # what is compiled takes no such verdict
def test_a_sensitivity_that_is_not_exactly_clear_is_restricted() -> None:
    async def clear_it() -> None:
        call = request("clear")
        Cleared(Zone.CLOUD, call, replace(clear(call), sensitivity=None), CLEAR)  # type: ignore[arg-type]

    with pytest.raises(EgressForbidden):
        run(clear_it())


def test_a_clearance_cannot_be_turned_into_another_calls() -> None:
    cleared = run(clearance_of_a_clear_call())
    with pytest.raises(dataclasses.FrozenInstanceError):
        cleared.request = object()  # type: ignore[misc,assignment]
    with pytest.raises((TypeError, ValueError), match="must be specified"):
        replace(cleared, request=cleared.request)  # type: ignore[call-arg]


def test_a_call_that_was_not_read_for_everything_gets_no_clearance() -> None:
    async def clear_it() -> None:
        call = request("clear")
        Cleared(Zone.CLOUD, call, replace(clear(call), complete=False), CLEAR)

    with pytest.raises(EgressForbidden):
        run(clear_it())


class Impostor:
    """Has all that a clearance has but its type."""

    def __init__(self, call: InferenceRequest) -> None:
        self.request = call


@pytest.mark.parametrize(
    "forge",
    [
        lambda call: call,
        Impostor,
        lambda call: type("Heir", (Cleared,), {"__init__": lambda s, c: None})(call),
        lambda call: None,
    ],
    ids=["the-bare-call", "an-impostor", "an-heir-without-the-check", "nothing"],
)
def test_the_door_opens_to_nothing_but_a_clearance(forge: Any) -> None:
    connector = ScriptedConnector()

    async def knock() -> None:
        await CloudDoor(connector, Zone.CLOUD).infer(forge(request("clear")), ServedModel(MODEL))

    with pytest.raises(EgressForbidden):
        run(knock())
    assert connector.seen == []


async def test_the_door_lets_a_cleared_call_out_once() -> None:
    connector = ScriptedConnector()
    cleared = await clearance_of_a_clear_call()
    reply = await CloudDoor(connector, Zone.CLOUD).infer(cleared, ServedModel(MODEL))
    await reply.aclose()
    (sent,) = connector.seen
    assert sent.payload is cleared.request.payload


async def test_a_callers_tracestate_does_not_leave() -> None:
    connector = ScriptedConnector()
    call = replace(request("clear"), tracestate="vendor=4111111111111111")
    stream = await CloudDoor(connector, Zone.CLOUD).infer(
        Cleared(Zone.CLOUD, call, clear(call), CLEAR), ServedModel(MODEL)
    )
    await stream.aclose()
    assert connector.seen[0].tracestate == ""


async def test_all_else_that_is_known_of_a_call_goes_with_it() -> None:
    before = replace(
        request("clear"), tenant="t", priority=7, labelled=True, pseudonymise=True,
        quotas=(Quota("key a", "key", "t"),), tightening=Tightening(threshold=0.5),
        explained=True, trace=Untraced(), received_s=3.0,
    )  # fmt: skip
    connector = ScriptedConnector()
    cleared = Cleared(Zone.CLOUD, before, clear(before), CLEAR)
    await (await CloudDoor(connector, Zone.CLOUD).infer(cleared, ServedModel(MODEL))).aclose()
    (after,) = connector.seen
    for name in {each.name for each in fields(InferenceRequest)}:
        if name not in ("id", "traceparent", "tracestate"):
            kept, given = getattr(after, name), getattr(before, name)
            assert kept is given or (type(kept) is float and kept == given), name


async def test_what_a_caller_chose_and_nobody_read_stays_behind() -> None:
    """A UUID and a trace id have room for a card number."""
    connector = ScriptedConnector()
    trace = "00-4111111111111111aaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-01"
    chosen: dict[str, Any] = {
        "id": "41111111-1111-1111-aaaa-aaaaaaaaaaaa",
        "traceparent": trace,
    }
    calls: list[InferenceRequest] = []

    call = request("clear", **chosen)
    calls.append(call)
    for _ in range(2):
        cleared = Cleared(Zone.CLOUD, call, clear(call), CLEAR)
        await (await CloudDoor(connector, Zone.CLOUD).infer(cleared, ServedModel(MODEL))).aclose()
    first, second = connector.seen
    assert uuid.UUID(first.id) != uuid.UUID(second.id)
    for sent in (first, second):
        assert "11111111" not in sent.id + sent.traceparent
        assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-01", sent.traceparent)
        assert replace(sent, **chosen) == calls[0]


@pytest.mark.parametrize("zones", [EVERYWHERE, ONPREM_ONLY, frozenset({Zone.CLOUD})])
@pytest.mark.parametrize("order", [("cloud",), ("gpu", "cloud"), ("cloud", "gpu")])
def test_a_router_gone_mad_cannot_send_a_restricted_call_out(
    zones: frozenset[Zone], order: tuple[str, ...]
) -> None:
    """The router is bypassed: a decision made up by hand goes to the dispatcher."""

    async def send() -> tuple[Rig, BaseException | None]:
        rig = Rig(onprem(), cloud())
        rig.registry.states["gpu"].up = False
        call = request("restricted")
        found = Classification(call.id, Sensitivity.RESTRICTED, "entities")
        decision = Decision(tuple(rig.catalog.endpoints[n] for n in order), "onprem_room", zones)
        account = CallAccount(rig.accounts, call)
        try:
            await rig.dispatcher.send(call, Known(found), decision, account)
        except EgressForbidden as error:
            return rig, error
        return rig, None

    rig, error = run(send())
    assert isinstance(error, EgressForbidden)
    assert rig.cloud_seen == []


async def test_what_the_dispatcher_refuses_to_send_out_gives_everything_back() -> None:
    rig = Rig(cloud())
    call = request("restricted")
    found = Classification(call.id, Sensitivity.RESTRICTED, "entities")
    decision = Decision((rig.catalog.endpoints["cloud"],), "onprem_room", EVERYWHERE)
    account = CallAccount(rig.accounts, call)
    with pytest.raises(EgressForbidden):
        await rig.dispatcher.send(call, Known(found), decision, account)
    assert [a.result for a in account.attempts] == ["egress_forbidden"]
    assert rig.registry.states["cloud"].in_flight == 0


def test_an_endpoint_without_the_door_of_its_zone_gets_no_call() -> None:
    """A cloud endpoint that was given the on-prem door by mistake, and the other way round."""

    async def send(kind: str, name: str) -> None:
        rig = Rig(onprem(), cloud())
        state = rig.registry.states[name]
        connector = rig.sites[name].connector
        state.onprem, state.cloud = OnPremDoor(connector), CloudDoor(connector, Zone.CLOUD)
        if name == "cloud":
            state.cloud = None
        else:
            state.onprem = None
        call = request(kind)
        found = replace(clear(call))
        decision = Decision((rig.catalog.endpoints[name],), "onprem_room", EVERYWHERE)
        with pytest.raises(EgressForbidden):
            await rig.dispatcher.send(call, Known(found), decision, CallAccount(rig.accounts, call))
        assert connector.seen == []

    run(send("clear", "cloud"))
    run(send("clear", "gpu"))


def test_nothing_but_the_two_doors_opens_a_connector() -> None:
    """Connectors open with (request, served); members of the family may build on each other."""
    callers = set()
    for path in PACKAGE.rglob("*.py"):
        module = path.relative_to(PACKAGE).as_posix()
        if module.startswith(("endpoints/connectors/", "demo/")):
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Attribute) and node.attr == "_connector":
                callers.add(module)
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "open"
                and ast.unparse(node.func.value) != "os"
                and len(node.args) == 2
            ):
                callers.add(module)
    assert callers == set()
