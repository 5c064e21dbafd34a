"""What a call needs of the endpoint that serves it, by the fields of its operation.

An endpoint that cannot honour a field of a call is no place for the call, whatever the load: what
would be left out changes the answer, and nothing is left out in silence. Fields that every kind
honours, or that change nothing of an answer, need nothing. A field that nobody knows is handed on
to those who take any.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.config.endpoint_kinds import KINDS
from gateway.core.operations.spec import CapabilityNeed
from gateway.core.types import DocumentCall, Endpoint, InferenceRequest, ServedModel


def needs(call: DocumentCall) -> Iterator[CapabilityNeed]:
    """What the call needs beyond a text and parameters of sampling."""
    fields, document = call.operation.fields, call.document
    for key, value in document.items():
        row = fields.get(key)
        if row is None:
            if value is not None:
                yield CapabilityNeed("other", key)  # guard: S10.unknown-field
        elif row[1](value):
            yield CapabilityNeed(row[0], key)
    yield from call.operation.needs(document)


def lacking(
    request: InferenceRequest, endpoint: Endpoint, served: ServedModel
) -> CapabilityNeed | None:
    """The first need of the call that the endpoint does not serve; None: it serves the call."""
    call = request.payload
    if not isinstance(call, DocumentCall):
        return None
    kind = KINDS[endpoint.kind]
    if call.translation is not None and kind.unsaid is None and call.translation.unsaid:
        return call.translation.unsaid[0]  # guard: S13.unsaid-fields
    if not limited(endpoint, served):
        return None
    for need in needs(call):
        if need.capability not in kind.capabilities or need.capability in served.lacks:
            return need
    for key, accepted in served.refuses.items():
        value = call.document.get(key)
        if value is not None and value not in accepted:  # guard: S10.refused-field
            return CapabilityNeed("other", key)
    if kind.unsaid is not None and kind.serves(call.operation):  # guard: S10.unsaid-words
        return next(iter(kind.unsaid(call.document)), None)
    return None


def limited(endpoint: Endpoint, served: ServedModel) -> bool:
    """Whether there are calls of its protocol that the endpoint cannot serve."""
    return bool(served.lacks or served.refuses) or KINDS[endpoint.kind].limited
