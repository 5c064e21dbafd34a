"""All operations, by the name that records have of them."""

from __future__ import annotations

from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.operations.rerank import RERANK
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
from gateway.core.operations.tensors import INFER

OPERATIONS: dict[str, OperationSpec] = {}


def register(spec: OperationSpec) -> OperationSpec:
    """Raises ValueError for a name or a path that another operation has."""
    if spec.name in OPERATIONS or (spec.path and spec.path in by_path()):
        raise ValueError(f"there is an operation {spec.name} or {spec.path} already")
    OPERATIONS[spec.name] = spec
    return spec


def by_path() -> dict[str, OperationSpec]:
    """Those that documents ask for, by their path."""
    return {spec.path: spec for spec in OPERATIONS.values() if spec.path}


def task_operations(task: str) -> list[OperationSpec]:
    """That models of the task serve."""
    return [spec for spec in OPERATIONS.values() if spec.task == task]


def tasks() -> list[str]:
    """What models can be made for."""
    return list(dict.fromkeys(spec.task for spec in OPERATIONS.values()))


for _spec in (INFER, EMBEDDINGS, CHAT, COMPLETIONS, RESPONSES, RERANK):
    register(_spec)
