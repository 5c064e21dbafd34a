"""Vetoes: who may serve a call at all. The first placement guard is one of them (M1, M3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.types import (
    EVERYWHERE,
    ONPREM_ONLY,
    Classification,
    DocumentCall,
    Endpoint,
    EndpointSnapshot,
    InferenceRequest,
    Payload,
    Sensitivity,
    ServedModel,
    TensorCall,
    WireProtocol,
    Zone,
)
from gateway.scheduling.routing import filters
from gateway.scheduling.routing.filters import FILTERS, keeps_restricted_onprem

DOCUMENT = DocumentCall(CHAT, {})
TENSORS = TensorCall(())


def call(payload: Payload = DOCUMENT, zones: frozenset[Zone] = EVERYWHERE) -> InferenceRequest:
    return InferenceRequest(
        "id", WireProtocol.OPENAI, "t", "m", payload, Deadline(100.0, lambda: 0.0), zones=zones
    )


def found(sensitivity: Sensitivity) -> Classification:
    return Classification("id", sensitivity, "clear")


def state(zone: Zone, kind: str = "triton", **changes: Any) -> EndpointSnapshot:
    made = EndpointSnapshot(Endpoint("e", zone, kind), ServedModel("m"), available=True)
    return replace(made, **changes)


CLEAR, RESTRICTED = found(Sensitivity.CLEAR), found(Sensitivity.RESTRICTED)


@pytest.mark.parametrize(
    ("verdict", "zone", "why"),
    [
        (RESTRICTED, Zone.CLOUD, "restricted"),
        (RESTRICTED, Zone.ONPREM, None),
        (CLEAR, Zone.CLOUD, None),
        (CLEAR, Zone.ONPREM, None),
    ],
)
def test_restricted_calls_stay_on_the_premises(
    verdict: Classification, zone: Zone, why: str | None
) -> None:
    assert keeps_restricted_onprem(call(), verdict, state(zone)) == why


@pytest.mark.interpreted  # what is compiled takes no such verdict
def test_what_is_not_said_to_be_clear_is_restricted() -> None:
    unknown = replace(CLEAR, sensitivity=None)  # type: ignore[arg-type]
    assert keeps_restricted_onprem(call(), unknown, state(Zone.CLOUD)) == "restricted"


@pytest.mark.parametrize(
    ("zones", "zone", "why"),
    [
        (EVERYWHERE, Zone.CLOUD, None),
        (EVERYWHERE, Zone.ONPREM, None),
        (ONPREM_ONLY, Zone.CLOUD, "placement"),
        (ONPREM_ONLY, Zone.ONPREM, None),
        (frozenset({Zone.CLOUD}), Zone.ONPREM, "placement"),
        (frozenset(), Zone.ONPREM, "placement"),
    ],
)
def test_a_call_goes_only_where_its_caller_and_key_allow(
    zones: frozenset[Zone], zone: Zone, why: str | None
) -> None:
    assert filters.cannot_serve(call(zones=zones), CLEAR, state(zone)) == why


@pytest.mark.parametrize(
    ("parameters", "zone", "why"),
    [
        ({"sequence_id": 7}, Zone.CLOUD, "stateful"),
        ({"sequence_id": "a"}, Zone.CLOUD, "stateful"),
        ({"sequence_id": 7}, Zone.ONPREM, None),
        ({"sequence_id": 0}, Zone.CLOUD, None),
        ({"sequence_id": ""}, Zone.CLOUD, None),
        ({}, Zone.CLOUD, None),
    ],
)
def test_a_stateful_sequence_never_starts_in_the_cloud(
    parameters: dict[str, int | str], zone: Zone, why: str | None
) -> None:
    stateful = call(TensorCall((), parameters=parameters))
    assert filters.cannot_serve(stateful, CLEAR, state(zone)) == why


@pytest.mark.parametrize(
    ("payload", "kind", "why"),
    [
        (DOCUMENT, "openai", None), (DOCUMENT, "triton", None), (DOCUMENT, "kserve", "protocol"),
        (TENSORS, "openai", "protocol"), (TENSORS, "triton", None), (TENSORS, "kserve", None),
    ],
)  # fmt: skip
def test_a_call_goes_to_who_speaks_its_protocol(
    payload: Payload, kind: str, why: str | None
) -> None:
    assert filters.cannot_serve(call(payload), CLEAR, state(Zone.ONPREM, kind)) == why


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"available": False, "unavailable_why": "ejected"}, "ejected"),
        ({"available": False}, "unavailable"),
    ],
)
def test_what_is_out_is_not_asked(changes: dict[str, Any], why: str | None) -> None:
    assert filters.cannot_serve(call(), CLEAR, state(Zone.ONPREM, **changes)) == why


@pytest.mark.parametrize(("room", "why"), [(True, None), (False, "queue_full")])
def test_what_is_full_is_not_asked(room: bool, why: str | None) -> None:
    assert filters.cannot_serve(call(), CLEAR, state(Zone.ONPREM, room=room)) == why


def test_every_rule_is_in_force() -> None:
    rules = {
        rule
        for name, rule in vars(filters).items()
        if callable(rule) and getattr(rule, "__module__", "") == filters.__name__
    }
    assert rules == {*FILTERS, keeps_restricted_onprem}
