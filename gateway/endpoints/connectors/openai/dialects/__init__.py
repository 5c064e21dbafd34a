"""Endpoints with an API of their own, to which OpenAI's chats are translated.

`connector` sends and receives as `provider` does; what is peculiar to one API is its `Dialect`, a
package of pure functions. What an API has no words for is in `core.operations.dialects`: such calls
are never sent there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from gateway.core.errors import UpstreamError
from gateway.core.types import JsonDocument, ServedModel
from gateway.endpoints.connectors.openai.event_stream import EventReader
from gateway.endpoints.connectors.openai.words import ProviderWords


class Dialect(Protocol):
    """What chats are in one API. Its paths and headers are its provider's description."""

    def request(
        self,
        document: JsonDocument,
        served: ServedModel,
        streamed: bool,
        as_json: Callable[[str], Any],
    ) -> JsonDocument:
        """A chat as the API takes it, for the model at the endpoint. `as_json`: what a text that is
        JSON already becomes where it stands for its value."""
        ...

    def answer(self, body: bytes, words: ProviderWords, model: str) -> JsonDocument:
        """A whole answer as a chat completion. `model`: that was called, for an API whose answers
        do not name it. Raises UpstreamError for one that reports a failure, or that cannot be
        read."""
        ...

    def events(self, usage_wanted: bool, model: str) -> EventReader:
        """What reads one stream. `usage_wanted`: its last chunk says what the call took."""
        ...

    def failure(
        self, status: int, headers: Mapping[bytes, bytes], body: bytes, words: ProviderWords
    ) -> UpstreamError:
        """What an answer with another status than 200 means for the call."""
        ...
