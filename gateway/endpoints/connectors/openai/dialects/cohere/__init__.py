"""Cohere's Chat API (v2), by its schema as published in November 2026."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gateway.core.errors import UpstreamError
from gateway.core.types import JsonDocument, ServedModel
from gateway.endpoints.connectors.openai import failures
from gateway.endpoints.connectors.openai.dialects.cohere.answer import completion
from gateway.endpoints.connectors.openai.dialects.cohere.events import ChatEvents
from gateway.endpoints.connectors.openai.dialects.cohere.request import request
from gateway.endpoints.connectors.openai.words import ProviderWords


class Cohere:
    """As a `Dialect`."""

    def request(
        self,
        document: JsonDocument,
        served: ServedModel,
        streamed: bool,
        as_json: Callable[[str], Any],
    ) -> JsonDocument:
        return request(document, served, streamed)

    def answer(self, body: bytes, words: ProviderWords, model: str) -> JsonDocument:
        return completion(body, model)

    def events(self, usage_wanted: bool, model: str) -> ChatEvents:
        return ChatEvents(usage_wanted, model)

    def failure(
        self, status: int, headers: Mapping[bytes, bytes], body: bytes, words: ProviderWords
    ) -> UpstreamError:
        """A key that may not use a model is the gateway's fault, as one that is wrong."""
        message = b"" if status == 403 else words.message(body, status)
        return failures.error_from_status(status, headers, message)
