"""What all fronts do with the headers (or gRPC metadata) of a call: who, which id, how long, where.

Headers read here: `authorization`, `x-request-id`, `traceparent`, `tracestate` (W3C Trace Context),
`x-latency-budget-ms`, `x-stainless-read-timeout`, `x-spillway-placement: onprem|any|cloud`,
`x-spillway-spill: never|allow`, `x-spillway-sensitivity: restricted`, `x-spillway-priority: 0..9`.
Callers can only tighten (M5): `cloud` is a wish, and it is ignored wherever it would loosen
anything; to call a call `clear` is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from gateway import ambient, budget
from gateway.callers import Caller
from gateway.catalog import CatalogModel
from gateway.config import LimitSettings
from gateway.deadline import Deadline
from gateway.errors import Forbidden, GatewayError, RequestRejected, Unauthenticated
from gateway.fronts import Services
from gateway.tracing import UNTRACED
from gateway.types import (
    ONPREM_ONLY,
    InferenceRequest,
    Parameter,
    Payload,
    Placement,
    Sensitivity,
    TensorCall,
    WireProtocol,
    Zone,
)
from gateway.values import value

_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_LABEL, _LABEL_PARAMETER = "x-spillway-sensitivity", "spillway_sensitivity"
_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_MEMBER = r"[a-z0-9][a-z0-9_*/@-]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}"
_TRACESTATE = re.compile(rf"{_MEMBER}(?:,[ \t]*{_MEMBER}){{0,31}}")
_LONGEST_TRACESTATE = 512
_STATED = frozenset(
    {"x-spillway-placement", "x-spillway-spill", "x-spillway-priority", "tracestate", _LABEL}
    | {"x-latency-budget-ms", "x-stainless-read-timeout"}
)


@value
class Arrival:
    """A call of which only the head has been read."""

    request_id: str
    traceparent: str
    received_s: float
    caller_span: str = ""  # of the caller's traceparent, where it sent a whole one


def arrive(headers: Mapping[str, str], services: Services) -> Arrival:
    """Ids are taken over only in forms that cannot carry content (C12): a UUID, a traceparent."""
    given, parent = headers.get("x-request-id"), headers.get("traceparent")
    if given is None or not _UUID.fullmatch(given):
        given = services.new_id()
    trace = span = stated = ""
    if parent is not None and _TRACEPARENT.fullmatch(parent):
        _, trace, span, stated = parent.split("-")
    trace = trace or ambient.random_hex(16)
    flags = "01" if services.sampler.samples(trace, stated) else "00"
    own = f"00-{trace}-{ambient.random_hex(8)}-{flags}"  # with a span of this hop
    return Arrival(given.lower(), own, services.clock(), span)


def identify(headers: Mapping[str, str], services: Services, names: Sequence[str] = ()) -> Caller:
    """`names`: those in the certificate of the connection."""
    return services.callers.identify(headers.get("authorization", ""), names)


def build(
    services: Services,
    arrival: Arrival,
    caller: Caller,
    headers: Mapping[str, str],
    protocol: WireProtocol,
    model: CatalogModel,
    payload: Payload,
    grpc_remaining_s: float | None = None,
) -> InferenceRequest:
    """The neutral request. Raises RequestRejected (400), Forbidden (403), UnknownModel (404)."""
    if caller.models is not None and model.name not in caller.models:
        raise Forbidden("this key may not use this model")
    limits, trace = services.limits, UNTRACED
    zones, priority, labelled, tracestate = caller.zones, caller.most_urgent, False, ""
    budget_s = model.latency_budget_s
    if budget_s is None:
        budget_s = limits.default_latency_budget_ms / 1000
    if caller.latency_budget_s is not None:
        budget_s = min(budget_s, caller.latency_budget_s)
    if isinstance(payload, TensorCall):
        if payload.version:
            services.catalog.refuse_other_versions(model, payload.version)
        if payload.parameters:
            labelled = _labelled(headers, payload)
            budget_s = min(budget_s, _of_parameters_s(payload, limits))
    if grpc_remaining_s is not None:
        budget_s = min(budget_s, _of_grpc_s(grpc_remaining_s, limits))
    if not _STATED.isdisjoint(headers):
        zones = caller.zones & _zones(headers)
        priority = max(caller.most_urgent, _priority(headers.get("x-spillway-priority")))
        labelled = _labelled(headers, payload)
        tracestate = _tracestate(arrival, headers)
        budget_s = min(budget_s, _of_headers_s(headers, limits))
    if services.new_trace is not None and arrival.traceparent.endswith("1"):
        trace = services.new_trace(arrival.traceparent, arrival.caller_span, arrival.received_s)
    return InferenceRequest(
        id=arrival.request_id,
        protocol=protocol,
        tenant=caller.tenant,
        model=model.name,
        payload=payload,
        deadline=Deadline(arrival.received_s + budget_s, services.clock),
        priority=priority,
        zones=zones,
        tightening=caller.tightening,
        labelled=labelled,
        pseudonymise=caller.pseudonymise and model.pseudonymise,
        quotas=caller.quotas,
        traceparent=arrival.traceparent,
        tracestate=tracestate,
        trace=trace,
        received_s=arrival.received_s,
    )


def placement_headers(arrival: Arrival, placement: Placement | None) -> dict[str, str]:
    """What the caller is told, the same as HTTP headers and as gRPC trailing metadata (S7, C9)."""
    if placement is None:
        return {"x-request-id": arrival.request_id, "traceparent": arrival.traceparent}
    told = {
        "x-request-id": arrival.request_id,
        "traceparent": arrival.traceparent,
        "x-spillway-zone": placement.zone.word,
        "x-spillway-endpoint": placement.endpoint,
        "x-spillway-reason": placement.reason,
        "x-spillway-attempts": str(placement.attempts),
        "x-spillway-sensitivity": placement.sensitivity.word,
        "x-spillway-classify-ms": f"{placement.classify_s * 1000:.3f}",
    }
    if placement.pseudonymised:
        told["x-spillway-pseudonymised"] = str(placement.pseudonymised)
    if placement.limits:
        told.update(placement.limits)
    return told


def error_headers(arrival: Arrival, error: GatewayError) -> dict[str, str]:
    told = placement_headers(arrival, None)
    told["x-spillway-reason"] = error.reason
    told.update(error.told)
    if isinstance(error, Unauthenticated):
        told["www-authenticate"] = "Bearer"
    if error.retry_after_s is not None:
        told["retry-after"] = str(max(1, round(error.retry_after_s + 0.5)))
        told["retry-after-ms"] = str(max(1, round(error.retry_after_s * 1000)))
    return told


def _of_parameters_s(call: TensorCall, limits: LimitSettings) -> float:
    stated = call.parameters.get("timeout")
    if stated is None:
        return math.inf
    return budget.from_v2_timeout_us(stated, limits.max_latency_budget_ms / 1000)


def _of_grpc_s(remaining_s: float, limits: LimitSettings) -> float:
    stated_s = budget.from_grpc_s(remaining_s, limits.max_latency_budget_ms / 1000)
    return math.inf if stated_s is None else stated_s


def _of_headers_s(headers: Mapping[str, str], limits: LimitSettings) -> float:
    max_s = limits.max_latency_budget_ms / 1000
    stated, hinted = headers.get("x-latency-budget-ms"), headers.get("x-stainless-read-timeout")
    stated_s = math.inf if stated is None else budget.from_header_ms(stated, max_s)
    hinted_s = None if hinted is None else budget.from_stainless_s(hinted, max_s)
    return stated_s if hinted_s is None else min(stated_s, hinted_s)


def _zones(headers: Mapping[str, str]) -> frozenset[Zone]:
    placement = headers.get("x-spillway-placement", "any").lower()
    if placement not in ("onprem", "any", "cloud"):
        raise RequestRejected("x-spillway-placement: must be onprem, any or cloud")
    spill = headers.get("x-spillway-spill", "allow").lower()
    if spill not in ("never", "allow"):
        raise RequestRejected("x-spillway-spill: must be never or allow")
    return ONPREM_ONLY if placement == "onprem" or spill == "never" else frozenset(Zone)


def _labelled(headers: Mapping[str, str], payload: Payload) -> bool:
    """Whether the caller says that its call is restricted; the one thing that it can say of it. A
    stream has one set of metadata for many calls, hence the request parameter."""
    stated: dict[str, Parameter | None] = {_LABEL: headers.get(_LABEL)}
    if isinstance(payload, TensorCall):
        stated[f"parameter {_LABEL_PARAMETER}"] = payload.parameters.get(_LABEL_PARAMETER)
    for name, label in stated.items():
        if label is not None and str(label).lower() != Sensitivity.RESTRICTED.value:
            raise RequestRejected(
                f"{name}: can only be restricted; leave it out to have the call read"
            )
    return any(label is not None for label in stated.values())


def _priority(raw: str | None) -> int:
    if raw is None:
        return 0
    if len(raw) != 1 or raw not in "0123456789":
        raise RequestRejected("x-spillway-priority: must be a digit, 0 the most urgent")
    return int(raw)


def _tracestate(arrival: Arrival, headers: Mapping[str, str]) -> str:
    """It goes with a traceparent that was taken over, and only in its own form."""
    given = headers.get("tracestate", "")
    taken = bool(arrival.caller_span) and len(given) <= _LONGEST_TRACESTATE
    return given if taken and _TRACESTATE.fullmatch(given) else ""
