"""Text completions: a prompt in, the text that follows it out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.core.operations.body import check_text_or_tokens
from gateway.core.operations.capabilities import (
    COUNT,
    MOST_CHOICES,
    PLAIN,
    SHARED,
    has_tokens,
    is_given,
    is_set,
    other_than,
)
from gateway.core.operations.spec import CapabilityNeed, OperationSpec, StreamForm


def _check(document: dict[str, Any]) -> None:
    check_text_or_tokens(document, "prompt")


def _needs(document: Mapping[str, Any]) -> Iterator[CapabilityNeed]:
    prompts, n, best = document.get("prompt"), document.get("n"), document.get("best_of")
    if has_tokens(prompts):
        yield CapabilityNeed("token_ids", "prompt")
    if best is not None and best != 1 and best != n:
        yield CapabilityNeed("ranking", "best_of")
    several = len(prompts) if isinstance(prompts, list) else 1
    if (type(n) is int and several * n > MOST_CHOICES) or (n is None and several > MOST_CHOICES):
        yield CapabilityNeed("choices", "prompt")


COMPLETIONS: Final = OperationSpec(
    name="completions",
    task="generate",
    path="/v1/completions",
    token_field="prompt",
    check=_check,
    fields={
        **SHARED,
        "prompt": PLAIN,  # with `n`
        "max_tokens": COUNT,
        "echo": ("sampling", other_than(True, False)),
        "logprobs": ("logprobs", is_given),
        "suffix": ("suffix", is_set),
        "best_of": PLAIN,  # with `n`
    },
    needs=_needs,
    stream=StreamForm.CHOICES,
    usage_option=True,
    writes=True,
    pseudonymised=True,
    metric="text_completion",
)
