"""How many tokens a call may come to, before anybody has counted them."""

from __future__ import annotations

from typing import Any

from gateway.types import DocumentCall, InferenceRequest, Operation

_CHARACTERS_A_TOKEN = 4.0
_OUT_UNLESS_SAID = 256.0
_OUT_KEYS = ("max_completion_tokens", "max_output_tokens", "max_tokens")


def tokens(request: InferenceRequest) -> float:
    """Tensors have none that could be counted."""
    call = request.payload
    if not isinstance(call, DocumentCall):
        return 0.0
    said = (call.document.get(key) for key in _OUT_KEYS)
    out = next((float(n) for n in said if isinstance(n, int) and n > 0), _OUT_UNLESS_SAID)
    if call.operation is Operation.EMBEDDINGS:
        out = 0.0
    answers = call.document.get("n")
    if isinstance(answers, int) and answers > 1:
        out *= answers
    return 1.0 + _characters(call.document) / _CHARACTERS_A_TOKEN + out


def _characters(document: Any) -> int:
    found, left = 0, [document]
    while left:
        item = left.pop()
        if isinstance(item, str):
            found += len(item)
        elif isinstance(item, dict):
            left.extend(item.values())
        elif isinstance(item, list):
            left.extend(item)
    return found
