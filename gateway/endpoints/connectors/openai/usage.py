"""Usage of streams: asked of the provider for the record, and shown to callers who asked for it."""

from __future__ import annotations

from typing import Any

from gateway.core.types import DocumentCall, JsonDocument

_OPTIONS, _INCLUDE = "stream_options", "include_usage"
_NOT_KNOWN = frozenset({400, 422})


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
