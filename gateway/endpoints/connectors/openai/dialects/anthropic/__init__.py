"""The Anthropic Messages API (version 2023-06-01), by its schema as published in August 2026."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from gateway.core.errors import UpstreamError
from gateway.core.types import JsonDocument, ServedModel
from gateway.endpoints.connectors.openai import failures
from gateway.endpoints.connectors.openai.dialects.anthropic.answer import completion
from gateway.endpoints.connectors.openai.dialects.anthropic.events import MessageEvents
from gateway.endpoints.connectors.openai.dialects.anthropic.request import request
from gateway.endpoints.connectors.openai.words import ProviderWords

_STATUSES = {
    "authentication_error": 401,
    "permission_error": 403,
    "billing_error": 429,
    "rate_limit_error": 429,
    "overloaded_error": 429,
}
"""By the kind of an error, the status that OpenAI's API has for it."""
_OVERLOADED = 529


class Anthropic:
    """As a `Dialect`."""

    def request(
        self,
        document: JsonDocument,
        served: ServedModel,
        streamed: bool,
        as_json: Callable[[str], Any],
    ) -> JsonDocument:
        return request(document, served, streamed, as_json)

    def answer(self, body: bytes, words: ProviderWords, model: str) -> JsonDocument:
        return completion(body, words)

    def events(self, usage_wanted: bool, model: str) -> MessageEvents:
        return MessageEvents(usage_wanted)

    def failure(
        self, status: int, headers: Mapping[bytes, bytes], body: bytes, words: ProviderWords
    ) -> UpstreamError:
        """A key that may not use a model is the gateway's fault, as one that is wrong."""
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError:
            document = None
        error = document.get("error") if isinstance(document, dict) else None
        kind = error.get("type") if isinstance(error, dict) else None
        usual = 429 if status == _OVERLOADED else status
        status = _STATUSES.get(kind, usual) if isinstance(kind, str) else usual
        if status == 403:
            return failures.error_from_status(status, headers, b"")
        message = words.message(body, status) if error is None else words.within(error, status)
        return failures.error_from_status(status, headers, message)
