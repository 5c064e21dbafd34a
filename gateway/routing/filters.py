"""Hard rules. A filter can veto an endpoint; no score can bring it back.

Each returns why the endpoint may not serve the call (a reason code of the decision record), or
None when it may.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.routing.fit import asked_version, speaks
from gateway.types import (
    EVERYWHERE,
    Classification,
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
    if request.zones is EVERYWHERE:
        return None
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
    return None if speaks(request, state.endpoint) else "protocol"


def serves_the_version(
    request: InferenceRequest, found: Classification, state: EndpointState
) -> str | None:
    """A caller who names a version gets that one or none: where the settings pin another one for
    an endpoint, neither is put in the place of the other."""
    return None if state.served.grants(asked_version(request)) else "version"


def is_available(
    request: InferenceRequest, found: Classification, state: EndpointState
) -> str | None:
    return None if state.available else (state.unavailable_why or "unavailable")


def has_room(request: InferenceRequest, found: Classification, state: EndpointState) -> str | None:
    if state.room:
        return None
    return "queue_full" if state.endpoint.zone is Zone.ONPREM else "cloud_full"


FILTERS: tuple[Filter, ...] = (
    honours_placement,
    keeps_sequences_onprem,
    speaks_the_protocol,
    serves_the_version,
    is_available,
    has_room,
)
