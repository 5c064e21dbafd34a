"""How many tokens an OpenAI call says that its answer may have at most."""

from __future__ import annotations

from typing import Final

from gateway.types import JsonDocument

_LIMITS: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens")


def stated(document: JsonDocument) -> int:
    """By the first limit that is one; 0 where the call states none."""
    if document.keys().isdisjoint(_LIMITS):  # as most: told without a look at each
        return 0
    for key in _LIMITS:
        said = document.get(key)
        if isinstance(said, int) and said > 0:
            return said
    return 0
