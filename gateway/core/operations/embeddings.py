"""Embeddings: texts in, vectors out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.core.operations.body import check_text_or_tokens
from gateway.core.operations.capabilities import PLAIN, has_tokens, is_given
from gateway.core.operations.spec import CapabilityNeed, OperationSpec

_MOST_TEXTS: Final = 2048


def _check(document: dict[str, Any]) -> None:
    check_text_or_tokens(document, "input")


def _needs(document: Mapping[str, Any]) -> Iterator[CapabilityNeed]:
    given = document.get("input")
    if has_tokens(given):
        yield CapabilityNeed("token_ids", "input")
    if isinstance(given, list) and len(given) > _MOST_TEXTS:
        yield CapabilityNeed("choices", "input")
    if document.get("encoding_format") not in (None, "float", "base64"):
        yield CapabilityNeed("other", "encoding_format")


EMBEDDINGS: Final = OperationSpec(
    name="embeddings",
    task="embeddings",
    path="/v1/embeddings",
    check=_check,
    fields={
        **{key: PLAIN for key in ("model", "input", "user", "encoding_format")},
        "dimensions": ("dimensions", is_given),
        "truncate": ("truncation", is_given),
        "truncate_prompt_tokens": ("truncation", is_given),
    },
    needs=_needs,
    rows="input",
    token_field="input",
    metric="embeddings",
    canary={"input": "Hi"},
)
