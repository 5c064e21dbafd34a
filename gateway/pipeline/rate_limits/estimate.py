"""How many tokens a call may come to, before anybody has counted them."""

from __future__ import annotations

from gateway.core.operations.tokens import stated
from gateway.core.types import DocumentCall, InferenceRequest, JsonDocument

_CHARACTERS_A_TOKEN = 4.0
_DEFAULT_OUTPUT_TOKENS = 256.0
_STRINGS = {str}
_TEXTS = {str, dict, list}  # types of what has characters, or may


def tokens(request: InferenceRequest) -> float:
    """Tensors have none that could be counted."""
    call = request.payload
    if not isinstance(call, DocumentCall):
        return 0.0
    document = call.document
    writes = call.operation.writes
    out = float(stated(document) or _DEFAULT_OUTPUT_TOKENS) if writes else 0.0
    answers = document.get("n")
    if isinstance(answers, int) and answers > 1:
        out *= answers
    return 1.0 + _characters(document) / _CHARACTERS_A_TOKEN + out


def _characters(document: JsonDocument) -> int:
    """Of all strings in it; a parsed document has no types but these."""
    count, left = 0, list(document.values())
    while left:
        item = left.pop()
        kind = type(item)
        if kind is str:
            count += len(item)
        elif kind is dict:
            left += item.values()
        elif kind is list:
            kinds = set(map(type, item))
            if kinds == _STRINGS:
                count += sum(map(len, item))
            elif not kinds.isdisjoint(_TEXTS):
                left += item
    return count
