"""How much work a call is, before anybody has done it.

A server's batch takes `a + b * work` seconds, so only ratios count: 1 is an average call of its
model. Tensors: rows. Documents: tokens in and out, of which those in cost a tenth (prefill runs in
parallel, decoding does not), against the mean of the model's last calls.
"""

from __future__ import annotations

from weakref import ref

from gateway.core.operations.tokens import stated
from gateway.core.structs import value
from gateway.core.types import DocumentCall, InferenceRequest, Payload, TensorCall
from gateway.protocols import strictjson

_BYTES_A_TOKEN = 4.0  # of its JSON
_DEFAULT_OUTPUT_TOKENS = 256.0  # tokens
_IN_WEIGHT = 0.1
_MEMORY = 0.99
_LEAST, _MOST = 0.05, 50.0


@value
class CallSize:
    """Of a call, before anybody has done it."""

    work: float  # in average calls
    rows: int  # places that it takes in a batch


class WorkMeter:
    """Of one model; remembers what an average call is."""

    def __init__(self, batched: bool) -> None:
        self._batched = batched  # the first dimension of its tensors counts rows
        self._mean = 0.0
        self._sized: ref[DocumentCall] | None = None  # a call is sized more than once
        self._size = CallSize(1.0, 1)  # of that one, by the mean as it is

    def size(self, request: InferenceRequest) -> CallSize:
        payload, sized = request.payload, self._sized
        if sized is not None and sized() is payload:
            return self._size
        rows = self.rows(payload)
        if isinstance(payload, TensorCall):
            return CallSize(float(rows), rows)
        tokens = _tokens(payload)
        mean = self._mean = self._mean or tokens
        self._sized = ref(payload)
        size = self._size = CallSize(min(_MOST, max(_LEAST, tokens / mean)), rows)
        return size

    def rows(self, payload: Payload) -> int:
        """Places that the call takes in a batch."""
        if not self._batched:
            return 1
        if isinstance(payload, DocumentCall):
            key = payload.operation.rows
            if not key:
                return 1
            texts = payload.document.get(key)
            return max(1, len(texts)) if isinstance(texts, list) else 1
        return max((t.shape[0] for t in payload.inputs if t.shape), default=1) or 1

    def observe(self, work: float) -> None:
        """One more call, which the mean counts from now on."""
        self._mean *= _MEMORY + (1 - _MEMORY) * work
        self._sized = None


def _tokens(call: DocumentCall) -> float:
    given = call.json_bytes or len(strictjson.dumps(call.document))
    given_tokens = given / _BYTES_A_TOKEN * _IN_WEIGHT + 1.0
    if not call.operation.writes:
        return given_tokens
    return given_tokens + (stated(call.document) or _DEFAULT_OUTPUT_TOKENS)
