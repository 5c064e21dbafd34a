"""What a call took: read from answers, and asked of providers whose streams tell it on request.

Only callers who have asked for it get the event that tells it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.core.types import DocumentCall, JsonDocument, Usage

_OPTIONS, _INCLUDE = "stream_options", "include_usage"
_NOT_KNOWN = frozenset({400, 422})
_MOST_TOKENS = 1_000_000_000  # of one call: more is no count, and would not fit the ledger


class StreamUsage:
    """What is known of one provider: models whose endpoint refuses to be asked."""

    def __init__(self) -> None:
        self._refusing: set[str] = set()

    def asks(self, call: DocumentCall, model: str) -> bool:
        """Whether it is to be asked for a caller who has not."""
        if not call.streamed or not call.operation.usage_option or model in self._refusing:
            return False
        options = call.document.get(_OPTIONS)
        return options is None or (isinstance(options, dict) and options.get(_INCLUDE) is not True)

    def refused(self, status: int, body: bytes, call: DocumentCall, model: str) -> bool:
        """Whether it was refused for that alone; no call asks again then."""
        if status not in _NOT_KNOWN or _OPTIONS in call.document or _OPTIONS.encode() not in body:
            return False
        self._refusing.add(model)
        return True


def asking(document: JsonDocument) -> JsonDocument:
    return {**document, _OPTIONS: {**(document.get(_OPTIONS) or {}), _INCLUDE: True}}


def is_usage_alone(document: dict[str, Any]) -> bool:
    """Whether an event says what the call took and nothing else."""
    return not document.get("choices") and isinstance(document.get("usage"), dict)


def token_counts(usage: Mapping[str, Any], writes: bool = True) -> tuple[int | None, Usage | None]:
    """All tokens, and their parts: as chat and completions name them, or as Responses do. `writes`:
    the answer has tokens of its own; else those of the call may be told as the total alone."""
    get = usage.get
    total, given, written = get("total_tokens"), get("prompt_tokens"), get("completion_tokens")
    if type(total) is not int:
        total = None
    if given is None:
        given = get("input_tokens")
        if given is None and not writes:
            given = total
    if type(given) is not int or given < 0:
        return total, None
    if written is None:
        written = get("output_tokens")
    if type(written) is not int or written < 0:  # embeddings have none; else the total has it
        written = max(0, (total or 0) - given)
    if given > _MOST_TOKENS or written > _MOST_TOKENS:
        given, written = min(given, _MOST_TOKENS), min(written, _MOST_TOKENS)
    given_details = get("prompt_tokens_details") or get("input_tokens_details")
    written_details = get("completion_tokens_details") or get("output_tokens_details")
    cached = _part(given_details, "cached_tokens", given) if given_details else 0
    thought = _part(written_details, "reasoning_tokens", written) if written_details else 0
    if not given_details:
        return total, Usage(given, written, 0, thought)
    stored = _part(given_details, "cache_write_tokens", given - cached) or _part(
        given_details, "cache_creation_tokens", given - cached
    )
    return total, Usage(given, written, cached, thought, stored)


def _part(details: Any, name: str, tokens: int) -> int:
    """How many of the tokens are of a sort."""
    count = details.get(name) if isinstance(details, dict) else 0
    return min(count, tokens) if type(count) is int and count > 0 else 0
