"""What a call needs of the endpoint that serves it, by the fields of its operation.

An endpoint that cannot honour a field of a call is no place for the call, whatever the load: what
would be left out changes the answer, and nothing is left out in silence. Fields that every kind
honours, or that change nothing of an answer, need nothing. A field that nobody knows is handed on
to those who take any. Where an endpoint serves a call by another operation, it must honour the call
in the words of that.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.config.endpoint_kinds import KINDS
from gateway.core.operations.registry import OPERATIONS
from gateway.core.operations.spec import CapabilityNeed, OperationSpec, OperationTranslation
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


def serves(endpoint: Endpoint, operation: OperationSpec) -> bool:
    """Whether the endpoint's kind and provider have the operation."""
    offered = endpoint.operations
    return KINDS[endpoint.kind].serves(operation) and (offered is None or operation.name in offered)


def translated(endpoint: Endpoint, operation: OperationSpec) -> OperationTranslation | None:
    """How the endpoint serves an operation that it has not."""
    made = operation.translation
    if made is None or serves(endpoint, operation) or not serves(endpoint, made.operation):
        return None
    return made


def lacking(
    request: InferenceRequest, endpoint: Endpoint, served: ServedModel
) -> CapabilityNeed | None:
    """The first need of the call that the endpoint does not serve; None: it serves the call."""
    call = request.payload
    if not isinstance(call, DocumentCall):
        return None
    made = translated(endpoint, call.operation)
    if made is None:
        return _lacking(call, endpoint, served)
    for need in made.needs(call.document):  # guard: S14.unsaid-words
        return need
    chat = DocumentCall(made.operation, made.document(call.document))
    wanting = _lacking(chat, endpoint, served)
    if wanting is None and KINDS[endpoint.kind].unsaid is None:
        wanting = next(iter(made.document_needs(chat.document)), None)  # guard: S14.unsaid-chat
    if wanting is None:
        return None
    return CapabilityNeed(wanting.capability, made.field(call.document, wanting.field))


def _lacking(call: DocumentCall, endpoint: Endpoint, served: ServedModel) -> CapabilityNeed | None:
    """Of a call of an operation that the endpoint has."""
    kind = KINDS[endpoint.kind]
    if call.translation is not None and kind.unsaid is None and call.translation.unsaid:
        return call.translation.unsaid[0]  # guard: S13.unsaid-fields
    if not _is_limited(endpoint, served):
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
    return _is_limited(endpoint, served) or any(
        translated(endpoint, operation) for operation in OPERATIONS.values()
    )


def _is_limited(endpoint: Endpoint, served: ServedModel) -> bool:
    """Whether there are such calls of operations that it has."""
    return bool(served.lacks or served.refuses) or KINDS[endpoint.kind].limited
