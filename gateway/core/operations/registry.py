"""All operations, by the name that records have of them."""

from __future__ import annotations

from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.operations.media.audio import SPEECH, TRANSCRIPTIONS, TRANSLATIONS
from gateway.core.operations.media.images import EDITS, GENERATIONS, VARIATIONS
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
from gateway.core.operations.tensors import INFER
from gateway.core.operations.texts.classification import CLASSIFY, MODERATIONS
from gateway.core.operations.texts.rerank import RERANK, SCORE
from gateway.core.operations.texts.tokenization import DETOKENIZE, TOKENIZE

OPERATIONS: dict[str, OperationSpec] = {}


def register(spec: OperationSpec) -> OperationSpec:
    """Raises ValueError for a name or a path that another operation has."""
    if spec.name in OPERATIONS or not by_path().keys().isdisjoint(_paths(spec)):
        raise ValueError(f"there is an operation {spec.name} or {spec.path} already")
    OPERATIONS[spec.name] = spec
    return spec


def by_path() -> dict[str, OperationSpec]:
    """Those that documents ask for, by each of their paths."""
    return {path: spec for spec in OPERATIONS.values() for path in _paths(spec)}


def _paths(spec: OperationSpec) -> tuple[str, ...]:
    return (spec.path, *spec.aliases) if spec.path else ()


def task_operations(task: str) -> list[OperationSpec]:
    """That models of the task serve."""
    return [spec for spec in OPERATIONS.values() if spec.task == task]


def tasks() -> list[str]:
    """What models can be made for."""
    return list(dict.fromkeys(spec.task for spec in OPERATIONS.values()))


for _spec in (
    INFER, EMBEDDINGS, CHAT, COMPLETIONS, RESPONSES, RERANK, SCORE, CLASSIFY, MODERATIONS,
    TOKENIZE, DETOKENIZE, TRANSCRIPTIONS, TRANSLATIONS, SPEECH, GENERATIONS, EDITS, VARIATIONS,
):  # fmt: skip
    register(_spec)
