"""What all fronts do with the headers (or gRPC metadata) of a call: who, which id, how long, where.

Headers read here: `authorization`, `api-key`, `x-api-key`, `x-request-id`, `traceparent`,
`tracestate` (W3C Trace Context), `x-latency-budget-ms`, `x-stainless-read-timeout`,
`x-spillway-placement: onprem|any|cloud`, `x-spillway-spill: never|allow`,
`x-spillway-zones: NAME, ...`, `x-spillway-sensitivity: restricted|CLASS`,
`x-spillway-priority: 0..9`.
Callers can only tighten (M5): `cloud` is a wish, and it is ignored wherever it would loosen
anything; to call a call `clear` is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import methodcaller

from gateway.auth import Caller
from gateway.auth.model_split import serving_model
from gateway.config import LimitSettings
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core import ambient
from gateway.core.aliases import is_random
from gateway.core.deadline import Deadline
from gateway.core.errors import Forbidden, GatewayError, RequestRejected, Unauthenticated
from gateway.core.held_bytes import AnswerShare
from gateway.core.reply import (
    Placement,
)
from gateway.core.structs import value
from gateway.core.trace_context import UNTRACED
from gateway.core.types import (
    CLOUD,
    InferenceRequest,
    Payload,
    Sensitivity,
    TensorCall,
    WireProtocol,
    Zone,
)
from gateway.protocols.oip.datatypes import label
from gateway.protocols.strictjson import JsonBounds
from gateway.server import Services, labels, latency_budget
from gateway.server.labels import RESTRICTED

_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_MEMBER = r"[a-z0-9][a-z0-9_*/@-]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}"
_TRACESTATE = re.compile(rf"{_MEMBER}(?:,[ \t]*{_MEMBER}){{0,31}}")
_LONGEST_TRACESTATE = 512
_TRACE_DIGITS = 32
_IDS = frozenset({"x-request-id", "traceparent"})
_KEYS = ("api-key", "x-api-key", "x-goog-api-key")
_STATED = frozenset(
    {"x-spillway-placement", "x-spillway-spill", "x-spillway-priority", "tracestate", labels.LABEL}
    | {"x-spillway-zones", "x-latency-budget-ms", "x-stainless-read-timeout"}
)


def json_bounds(limits: LimitSettings) -> JsonBounds:
    return JsonBounds(limits.max_json_members, limits.max_json_values, limits.max_json_bytes)


@value
class RequestContext:
    """A call of which only the head has been read."""

    request_id: str
    traceparent: str
    received_s: float
    caller_span: str = ""  # of the caller's traceparent, where it sent a whole one
    recorded_id: str = ""  # in the place of an id that the caller gave
    recorded_trace: str = ""  # and of its trace id


def arrive(headers: Mapping[str, str], services: Services) -> RequestContext:
    """Ids are taken over in their own forms alone: a UUID, a traceparent. Both have room for a
    number all the same, so aliases of them are recorded (C12), and a trace goes on only where its
    id looks drawn by lot."""
    sampler = services.sampler
    if _IDS.isdisjoint(headers):
        ids = ambient.new_trace()
        sampled = sampler.ratio == 1.0 or sampler.samples(ids[:_TRACE_DIGITS])
        own = f"00-{ids}-01" if sampled else f"00-{ids}-00"
        return RequestContext(services.new_id(), own, services.clock())
    given, parent, span = headers.get("x-request-id", ""), headers.get("traceparent", ""), ""
    recorded_id = recorded_trace = ""
    if _UUID.fullmatch(given):
        given = given.lower()
        recorded_id = services.aliases.call_alias(given)
    else:
        given = services.new_id()
    if _TRACEPARENT.fullmatch(parent):
        _, trace, span, stated = parent.split("-")
        recorded_trace = services.aliases.trace_alias(trace)
        if not is_random(trace):
            trace, span = recorded_trace, ""
        elif not is_random(span):
            span = ""
        ids, sampled = f"{trace}-{ambient.random_hex(8)}", sampler.samples(trace, stated)
    else:
        ids = ambient.new_trace()
        sampled = sampler.samples(ids[:_TRACE_DIGITS])
    own = f"00-{ids}-01" if sampled else f"00-{ids}-00"  # with a span of this hop
    return RequestContext(given, own, services.clock(), span, recorded_id, recorded_trace)


def within(outer: RequestContext, services: Services) -> RequestContext:
    """One of the calls of a stream: its own id, and its span within the stream's."""
    _, trace, span, flags = outer.traceparent.split("-")
    own = f"00-{trace}-{ambient.random_hex(8)}-{flags}"
    return RequestContext(services.new_id(), own, services.clock(), span, "", outer.recorded_trace)


def identify(headers: Mapping[str, str], services: Services, names: Sequence[str] = ()) -> Caller:
    """`names`: those in the certificate of the connection. A key may stand in `authorization` or,
    where there is none, in a header that SDKs of Azure OpenAI, Anthropic and Google have for theirs
    (`_KEYS`). Raises Unauthenticated, Unverifiable."""
    authorization = headers.get("authorization")
    if authorization is None:
        key = next(filter(None, map(headers.get, _KEYS)), "")
        authorization = f"Bearer {key}" if key else ""
    return services.callers.identify(authorization, names)


class CallDefaults:
    """What its head, its caller and its model make of a call, whatever stands in its body."""

    __slots__ = (
        "_budget_s", "_caller", "_classes", "_labelled", "_priority", "_protocol", "_pseudonymise",
        "_services", "_tracestate", "_zones", "model",
    )  # fmt: skip

    def __init__(
        self,
        services: Services,
        caller: Caller,
        headers: Mapping[str, str],
        protocol: WireProtocol,
        model: CatalogModel,
    ) -> None:
        """Raises RequestRejected (400), Forbidden (403)."""
        if caller.models is not None and model.name not in caller.models:  # guard: B6.model-scope
            raise Forbidden("this key may not use this model")
        labels.check_headers(headers)
        limits = services.limits
        priority, label, tracestate = caller.most_urgent, "", ""
        stays, zones = CLOUD not in caller.zones, services.zones.everywhere
        budget_s = model.latency_budget_s
        if budget_s is None:
            budget_s = limits.default_latency_budget_ms / 1000
        if caller.latency_budget_s is not None:
            budget_s = min(budget_s, caller.latency_budget_s)
        if not _STATED.isdisjoint(headers):
            # guard: S6.key-precedence -> stays = labels.stays(headers)
            stays = labels.stays(headers) or stays
            zones = labels.zones(headers, services.zones)
            # guard: B6.priority-scope -> priority = max(0,
            #   _priority(headers.get('x-spillway-priority')))
            priority = max(caller.most_urgent, _priority(headers.get("x-spillway-priority")))
            label = labels.label(labels.LABEL, headers.get(labels.LABEL), services.classes)
            tracestate = _tracestate(headers)
            budget_s = min(budget_s, _header_budget_s(headers, limits))  # guard: D1.tightest-budget
        self.model = model
        self._services, self._caller, self._protocol = services, caller, protocol
        self._budget_s, self._priority = budget_s, priority
        if stays or caller.zone_names is not None:  # guard: S6.key-zones -> if stays:
            zones &= services.zones.allowed(stays, caller.zone_names)
        classes = caller.labels
        if label or model.label:
            classes |= {name for name in (model.label, label) if name}
        self._labelled = RESTRICTED in classes
        self._classes = classes - {RESTRICTED} if classes else classes
        self._tracestate, self._zones = tracestate, zones
        self._pseudonymise = caller.pseudonymise and model.pseudonymise

    def request(
        self, arrival: RequestContext, payload: Payload, grpc_remaining_s: float | None = None
    ) -> InferenceRequest:
        """The neutral request. Raises RequestRejected (400), UnknownModel (404)."""
        services, caller, model, trace = self._services, self._caller, self.model, UNTRACED
        budget_s, labelled, classes = self._budget_s, self._labelled, self._classes
        if model.split:
            model = serving_model(services.catalog, model, caller, payload, arrival.request_id)
            labelled = labelled or model.label == RESTRICTED
            if model.label and model.label != RESTRICTED:  # guard: M7.split-label
                classes |= {model.label}
        if isinstance(payload, TensorCall):
            labels.check_parameters(payload)
            if model.tensors_clear:
                _refuse_unknown_tensors(services.catalog, model, payload)
            if payload.version:
                services.catalog.refuse_other_versions(model, payload.version)
            if payload.parameters:
                label = labels.parameter_label(payload, services.classes)
                if label == RESTRICTED:
                    labelled = True
                elif label:
                    classes |= {label}
                budget_s = min(budget_s, _parameter_budget_s(payload, services.limits))
        if grpc_remaining_s is not None:
            # guard: D1.grpc-budget
            budget_s = min(budget_s, _grpc_budget_s(grpc_remaining_s, services.limits))
        received_s, traceparent = arrival.received_s, arrival.traceparent
        if services.new_trace is not None and traceparent.endswith("1"):
            trace = services.new_trace(traceparent, arrival.caller_span, received_s)
        return InferenceRequest(
            arrival.request_id,
            self._protocol,
            caller.tenant,
            model.name,
            payload,
            Deadline(received_s + budget_s, services.clock),
            self._priority,
            self._zones,
            caller.tightening,
            labelled,
            self._pseudonymise,
            caller.quotas,
            False,
            traceparent,
            self._tracestate,
            trace,
            received_s,
            arrival.recorded_id,
            arrival.recorded_trace,
            False,
            AnswerShare(services.held_answers, caller.tenant),
            caller.name,
            classes,
        )


def build(
    services: Services,
    arrival: RequestContext,
    caller: Caller,
    headers: Mapping[str, str],
    protocol: WireProtocol,
    model: CatalogModel,
    payload: Payload,
    grpc_remaining_s: float | None = None,
) -> InferenceRequest:
    """The neutral request. Raises RequestRejected (400), Forbidden (403), UnknownModel (404)."""
    terms = CallDefaults(services, caller, headers, protocol, model)
    return terms.request(arrival, payload, grpc_remaining_s)


WHERE = (
    "x-spillway-zone",
    "x-spillway-endpoint",
    "x-spillway-reason",
    "x-spillway-attempts",
    "x-spillway-sensitivity",
)
READING = "x-spillway-classify-ms"
_MOST_KNOWN = 4096
_where: dict[tuple[Zone, str, str, int, Sensitivity], str] = {}
"""The lines that many answers have in common."""


def placement_lines(request_id: str, traceparent: str, placement: Placement) -> str:
    """What the caller is told of where its call went, as lines of a head of HTTP (S7, C9)."""
    # guard: S7.attempt-count -> key = (placement.zone, placement.endpoint, placement.reason, 0,
    #   placement.sensitivity)
    key = (
        placement.zone,
        placement.endpoint,
        placement.reason,
        placement.attempts,
        placement.sensitivity,
    )
    where = _where.get(key)
    if where is None:
        where = _placement_headers(*key)
    lines = (
        f"x-request-id: {request_id}\r\ntraceparent: {traceparent}\r\n{where}"
        f"{READING}: {placement.classify_s * 1000:.3f}\r\n"
    )
    if placement.pseudonymised or placement.limits or placement.data_class:
        lines += "".join(
            [f"{name}: {value}\r\n" for name, value in extra_headers(placement).items()]
        )
    return lines


def _placement_headers(
    zone: Zone, endpoint: str, reason: str, attempts: int, sensitivity: Sensitivity
) -> str:
    if len(_where) >= _MOST_KNOWN:
        _where.clear()
    # guard: S7.answer-zone -> key = ('', endpoint, reason, attempts, sensitivity.word)
    key = (zone.name, endpoint, reason, attempts, sensitivity.word)
    lines = _where[zone, endpoint, reason, attempts, sensitivity] = "".join(
        [f"{name}: {each}\r\n" for name, each in zip(WHERE, key, strict=True)]
    )
    return lines


def placement_headers(arrival: RequestContext, placement: Placement | None) -> dict[str, str]:
    """The same as gRPC trailing metadata; or the headers of an answer that is no call's."""
    if placement is None:
        return {"x-request-id": arrival.request_id, "traceparent": arrival.traceparent}
    lines = placement_lines(arrival.request_id, arrival.traceparent, placement)
    return dict(map(_parted, lines[:-2].split("\r\n")))


_parted: Callable[[str], list[str]] = methodcaller("split", ": ", 1)


def extra_headers(placement: Placement) -> dict[str, str]:
    """Of few calls."""
    headers = dict(placement.limits)
    if placement.pseudonymised:
        headers["x-spillway-pseudonymised"] = str(placement.pseudonymised)
    if placement.unrestored:
        headers["x-spillway-unrestored"] = str(placement.unrestored)
    if placement.data_class:
        headers["x-spillway-class"] = placement.data_class
    return headers


def error_headers(arrival: RequestContext, error: GatewayError) -> dict[str, str]:
    headers = placement_headers(arrival, None)
    headers["x-spillway-reason"] = error.reason  # guard: A1.refusal-reason
    headers.update(error.extra_headers)
    if isinstance(error, Unauthenticated):
        headers["www-authenticate"] = "Bearer"
    if error.retry_after_s is not None:
        # guard: A1.retry-after
        headers["retry-after"] = str(max(1, round(error.retry_after_s + 0.5)))
        headers["retry-after-ms"] = str(max(1, round(error.retry_after_s * 1000)))
    return headers


def _refuse_unknown_tensors(catalog: Catalog, model: CatalogModel, call: TensorCall) -> None:
    """What a model does not have would be sent on unlooked at where its tensors are declared clear.
    Raises RequestRejected."""
    if not catalog.may_leave(model):
        return
    names = catalog.tensor_names(model)
    if names is None:
        return  # the classifier keeps it on the premises
    for at, tensor in enumerate(call.inputs):
        if tensor.name not in names.inputs:
            raise _unknown_tensor("inputs", at, tensor.name, names.inputs)
    if names.outputs is None:
        return
    for at, output in enumerate(call.outputs):
        if output.name not in names.outputs:
            raise _unknown_tensor("outputs", at, output.name, names.outputs)


def _unknown_tensor(kind: str, at: int, name: str, known: Collection[str]) -> RequestRejected:
    return RequestRejected(
        f"{label(kind, at, name)}: the model has no {kind[:-1]} of this name; "
        f"it has {', '.join(sorted(known))}",
        reason="unknown_tensor",
    )


def _parameter_budget_s(call: TensorCall, limits: LimitSettings) -> float:
    stated = call.parameters.get("timeout")
    if stated is None:
        return math.inf
    return latency_budget.from_v2_timeout_us(stated, limits.max_latency_budget_ms / 1000)


def _grpc_budget_s(remaining_s: float, limits: LimitSettings) -> float:
    stated_s = latency_budget.from_grpc_s(remaining_s, limits.max_latency_budget_ms / 1000)
    return math.inf if stated_s is None else stated_s


def _header_budget_s(headers: Mapping[str, str], limits: LimitSettings) -> float:
    max_s = limits.max_latency_budget_ms / 1000
    stated, hinted = headers.get("x-latency-budget-ms"), headers.get("x-stainless-read-timeout")
    stated_s = math.inf if stated is None else latency_budget.from_header_ms(stated, max_s)
    hinted_s = None if hinted is None else latency_budget.from_stainless_s(hinted, max_s)
    return stated_s if hinted_s is None else min(stated_s, hinted_s)


def _priority(raw: str | None) -> int:
    if raw is None:
        return 0
    if len(raw) != 1 or raw not in "0123456789":
        raise RequestRejected("x-spillway-priority: must be a digit, 0 the most urgent")
    return int(raw)


def _tracestate(headers: Mapping[str, str]) -> str:
    """It goes with a traceparent that was taken over, and only in its own form."""
    given, parent = headers.get("tracestate", ""), headers.get("traceparent", "")
    if not _TRACEPARENT.fullmatch(parent) or len(given) > _LONGEST_TRACESTATE:
        return ""
    return given if _TRACESTATE.fullmatch(given) and is_random(parent[3:35]) else ""
