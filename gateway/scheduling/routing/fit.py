"""What an endpoint can serve at all, whatever its state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gateway.config.endpoint_kinds import KINDS
from gateway.core.types import DocumentCall, Endpoint, InferenceRequest, TensorCall
from gateway.scheduling.routing.needs import lacking, serves, translated


def speaks(request: InferenceRequest, endpoint: Endpoint) -> bool:
    """Whether the endpoint's kind and provider serve such calls."""
    call = request.payload
    if not isinstance(call, DocumentCall):
        return KINDS[endpoint.kind].tensors
    return serves(endpoint, call.operation) or translated(endpoint, call.operation) is not None


def requested_version(request: InferenceRequest) -> str:
    """Empty when the caller names none."""
    return request.payload.version if isinstance(request.payload, TensorCall) else ""


def able(request: InferenceRequest, endpoints: Iterable[Endpoint]) -> Iterator[Endpoint]:
    for endpoint in endpoints:
        served = endpoint.models[request.model]
        granted = served.grants(requested_version(request))
        # guard: S10.capable-queue minus 3
        if granted and speaks(request, endpoint) and lacking(request, endpoint, served) is None:
            yield endpoint
