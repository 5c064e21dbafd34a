"""The events of a stream that comes in messages of AWS."""

from __future__ import annotations

from gateway.core.deferred_error import DeferredError
from gateway.core.errors import UpstreamError, UpstreamFailed
from gateway.core.reply import ServerEvent
from gateway.endpoints.connectors.openai.amazon.failures import error_in_stream
from gateway.endpoints.connectors.openai.sse import EventParser
from gateway.endpoints.connectors.openai.words import ProviderWords
from gateway.protocols.aws.event_stream import MessageReader

_PAYLOAD = "PayloadPart"


class AmazonEventParser(EventParser):
    """A message is one event, or a part of a text of server-sent events. An exception ends the
    stream, behind what came before it."""

    def __init__(self, max_event_bytes: int, words: ProviderWords) -> None:
        super().__init__(max_event_bytes)
        self._messages = MessageReader(max_event_bytes)
        self._words = words
        self._failure: UpstreamError | None = None

    @property
    def held(self) -> int:
        return self._messages.held + super().held

    @property
    def at_rest(self) -> bool:
        return False  # what comes next is a message, whatever it says

    def feed(self, chunk: bytes) -> None:
        text = b""
        try:
            for headers, payload in self._messages.feed(chunk):
                if headers.get(":message-type") != "event":
                    raise self._exception(headers, payload)
                name = headers.get(":event-type", "")
                if name == _PAYLOAD:
                    text += payload
                else:
                    self._events.append(ServerEvent(payload, name))
        except UpstreamError as failure:
            self._failure = failure.with_traceback(None)
        super().feed(text)

    def next(self) -> ServerEvent | None:
        event = self._events.popleft() if self._events else super().next()
        if event is None and self._failure is not None:
            failed, self._failure = DeferredError(self._failure), None
            raise failed.again()
        return event

    def _exception(self, headers: dict[str, str], payload: bytes) -> UpstreamError:
        if headers.get(":message-type") == "exception":
            return error_in_stream(headers.get(":exception-type", ""), payload, self._words)
        return UpstreamFailed("the endpoint reported an error within its answer", transient=True)
