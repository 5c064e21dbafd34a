"""Hard rules. A filter can veto an endpoint; no score can bring it back.

Each returns why the endpoint may not serve the call (a reason code of the decision record), or
None when it may.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.types import (
    Classification,
    DocumentCall,
    EndpointState,
    InferenceRequest,
    TensorCall,
    Zone,
)

Filter = Callable[[InferenceRequest, Classification, EndpointState], str | None]


def keeps_restricted_onprem(
    request: InferenceRequest, found: Classification, state: EndpointState
) -> str | None:
    """The first placement guard. Built in: no setting takes it out (BEHAVIOURS M1)."""
    return "restricted" if found.restricted and state.endpoint.zone is Zone.CLOUD else None


def honours_placement(
    request: InferenceRequest, found: Classification, state: EndpointState
) -> str | None:
    """What the caller and its key allow (M5, S6)."""
    return None if state.endpoint.zone in request.zones else "placement"


def keeps_sequences_onprem(
    request: InferenceRequest, found: Classification, state: EndpointState
) -> str | None:
    """A stateful sequence lives in one server; a later call of it may be restricted, so it never
    starts in the cloud."""
    stateful = isinstance(request.payload, TensorCall) and request.payload.sequence is not None
    return "stateful" if stateful and state.endpoint.zone is Zone.CLOUD else None


def speaks_the_protocol(
    request: InferenceRequest, found: Classification, state: EndpointState
) -> str | None:
    """Tensors go to Triton and KServe services, documents to OpenAI services and to Triton."""
    if isinstance(request.payload, DocumentCall):
        return "protocol" if state.endpoint.kind == "kserve" else None
    return "protocol" if state.endpoint.kind == "openai" else None


def serves_the_version(
    request: InferenceRequest, found: Classification, state: EndpointState
) -> str | None:
    """A caller who names a version gets that one or none: where the settings pin another one for
    an endpoint, neither is put in the place of the other."""
    asked = request.payload.version if isinstance(request.payload, TensorCall) else ""
    return None if state.served.grants(asked) else "version"


def is_available(
    request: InferenceRequest, found: Classification, state: EndpointState
) -> str | None:
    return None if state.available else (state.unavailable_why or "unavailable")


def has_room(request: InferenceRequest, found: Classification, state: EndpointState) -> str | None:
    return None if state.room else "queue_full"


FILTERS: tuple[Filter, ...] = (
    honours_placement,
    keeps_sequences_onprem,
    speaks_the_protocol,
    serves_the_version,
    is_available,
    has_room,
)
