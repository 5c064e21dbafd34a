"""How many tokens an OpenAI call says that its answer may have at most."""

from __future__ import annotations

from typing import Final

from gateway.core.types import JsonDocument

_LIMITS: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens")


def stated(document: JsonDocument) -> int:
    """By the first limit that is one; 0 where the call states none."""
    for name in filter(document.__contains__, _LIMITS):
        limit = document[name]
        if limit and isinstance(limit, int) and limit > 0:
            return limit
    return 0
