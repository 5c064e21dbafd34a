"""A tiny inference of the gateway's own, made from a model's metadata alone.

Nothing of any caller is in it: numbers are zero, texts empty, lengths one. What a model's code
makes of that cannot be known beforehand; a canary is trusted only where one has passed before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tritonclient.grpc import model_config_pb2

from gateway.core.operations.registry import task_operations
from gateway.core.types import DocumentCall, Parameter, Tensor, TensorCall
from gateway.protocols.oip.datatypes import DATATYPES, join

_ONES = frozenset({"max_tokens", "max_new_tokens", "request_output_len"})
"""Inputs that say how much to write; with zero of it nothing would be executed."""
_SEQUENCE = 0x7370696C6C776179  # no caller's, but for one in 2^64


def task_canary(task: str) -> DocumentCall | None:
    """For models that are called by documents; None where only tensors will do."""
    for spec in task_operations(task):
        if spec.canary is not None:
            return DocumentCall(spec, dict(spec.canary))
    return None


def config_canary(config: Any) -> TensorCall:
    """From Triton's `inference.ModelConfig`. Optional inputs are left out."""
    tensors = [
        _tensor(
            given.name,
            _datatype(given.data_type),
            (*((1,) if config.max_batch_size else ()), *given.dims),
        )
        for given in config.input
        if not given.optional
    ]
    return TensorCall(
        tuple(tensors),
        parameters=_sequence(config),
        streamed=config.model_transaction_policy.decoupled,
    )


def metadata_canary(metadata: Any) -> TensorCall:
    """From the protocol's `ModelMetadataResponse`, which knows no optional inputs."""
    return TensorCall(tuple(_tensor(i.name, i.datatype, i.shape) for i in metadata.inputs))


def _tensor(name: str, datatype: str, dims: Sequence[int]) -> Tensor:
    shape = tuple(max(1, int(size)) if size else 0 for size in dims)
    count = math.prod(shape)
    if datatype == "BYTES":
        return Tensor(name, datatype, shape, join([b""] * count))
    if name in _ONES and DATATYPES[datatype].high:
        return Tensor(
            name, datatype, shape, (1).to_bytes(DATATYPES[datatype].size, "little") * count
        )
    return Tensor(name, datatype, shape, bytes(DATATYPES[datatype].size * count))


def _datatype(data_type: int) -> str:
    name: str = model_config_pb2.DataType.Name(data_type).removeprefix("TYPE_")
    return "BYTES" if name == "STRING" else name


def _sequence(config: Any) -> dict[str, Parameter]:
    """A sequence of one call, where the model has sequences."""
    if not config.HasField("sequence_batching"):
        return {}
    kinds = (c for given in config.sequence_batching.control_input for c in given.control)
    textual = any(c.data_type == model_config_pb2.TYPE_STRING for c in kinds)
    name = f"canary-{_SEQUENCE}" if textual else _SEQUENCE
    return {"sequence_id": name, "sequence_start": True, "sequence_end": True}
