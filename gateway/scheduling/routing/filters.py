"""Hard rules. A filter can veto an endpoint; no score can bring it back.

Each returns why the endpoint may not serve the call (a reason code of the decision record), or
None when it may.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.core.types import (
    Classification,
    EndpointSnapshot,
    InferenceRequest,
    TensorCall,
)
from gateway.scheduling.routing.fit import speaks
from gateway.scheduling.routing.needs import lacking

Filter = Callable[[InferenceRequest, Classification, EndpointSnapshot], str | None]


def keeps_restricted_onprem(
    request: InferenceRequest, classification: Classification, state: EndpointSnapshot
) -> str | None:
    """The first placement guard. Built in: no setting takes it out (BEHAVIOURS M1, M7)."""
    admitted = classification.admits(state.endpoint.zone)
    # guard: M1.filter -> return None
    return None if admitted else "restricted" if classification.stays else "not_admitted"


def cannot_serve(
    request: InferenceRequest, classification: Classification, state: EndpointSnapshot
) -> str | None:
    """What every other rule says, in the order in which a caller is told."""
    endpoint, payload = state.endpoint, request.payload
    tensors = payload if isinstance(payload, TensorCall) else None
    # what the caller and its key allow (M5, S6)
    if endpoint.zone not in request.zones:
        return "placement"  # guard: S6.allowed-zones
    # a stateful sequence lives in one server; a later call of it may be restricted, so it never
    # starts in the cloud
    if tensors is not None and not endpoint.zone.onprem and tensors.sequence is not None:
        return "stateful"  # guard: M1.sequences
    if not speaks(request, endpoint):
        return "protocol"
    # a call that needs what the endpoint has not gets the same answer whatever the load
    if tensors is None and lacking(request, endpoint, state.served) is not None:
        return "capability"  # guard: S10.capability-filter
    # a caller who names a version gets that one or none: where the settings pin another one for
    # an endpoint, neither is put in the place of the other
    if tensors is not None and not state.served.grants(tensors.version):
        return "version"
    if not state.available:  # guard: A6.ejected-filter
        return state.unavailable_why or "unavailable"
    if not state.room:
        return "queue_full" if endpoint.zone.onprem else "cloud_full"
    return None


FILTERS: tuple[Filter, ...] = (cannot_serve,)
