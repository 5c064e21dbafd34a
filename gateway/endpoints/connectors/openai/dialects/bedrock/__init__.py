"""The Converse operations of Amazon Bedrock (`bedrock-runtime`, 2023-09-30), by their schema as
published in November 2026."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gateway.core.errors import UpstreamError
from gateway.core.types import JsonDocument, ServedModel
from gateway.endpoints.connectors.openai.amazon.failures import error_from_answer
from gateway.endpoints.connectors.openai.dialects.bedrock.answer import completion
from gateway.endpoints.connectors.openai.dialects.bedrock.events import ConverseEvents
from gateway.endpoints.connectors.openai.dialects.bedrock.request import request
from gateway.endpoints.connectors.openai.words import ProviderWords


class Bedrock:
    """As a `Dialect`."""

    def request(
        self,
        document: JsonDocument,
        served: ServedModel,
        streamed: bool,
        as_json: Callable[[str], Any],
    ) -> JsonDocument:
        return request(document, served.model, as_json)

    def answer(self, body: bytes, words: ProviderWords, model: str) -> JsonDocument:
        return completion(body, model)

    def events(self, usage_wanted: bool, model: str) -> ConverseEvents:
        return ConverseEvents(usage_wanted, model)

    def failure(
        self, status: int, headers: Mapping[bytes, bytes], body: bytes, words: ProviderWords
    ) -> UpstreamError:
        return error_from_answer(status, headers, body, words)
