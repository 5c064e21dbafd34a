"""Server-sent events of a reply: the frames, then `[DONE]` or the error that broke them off."""

from __future__ import annotations

import logging

import orjson

from gateway.core.errors import GatewayError, InternalError
from gateway.core.operations.spec import OperationSpec, StreamForm
from gateway.core.reply import ReplyStream, ServerEvent, ServerEvents
from gateway.protocols import strictjson
from gateway.server.openai.errors import error_body, error_document

_log = logging.getLogger(__name__)

_DONE = b"data: [DONE]\n\n"
_OWN_FAILURES = ("error", "response.failed")


class EventBytes:
    """What a streamed reply looks like on the wire; closing it closes the reply (A3, A4)."""

    def __init__(self, frames: ReplyStream, operation: OperationSpec) -> None:
        self._frames = frames
        self._named = operation.stream is StreamForm.RESPONSES  # events with names
        self._last: ServerEvent | ServerEvents = ServerEvent(b"")  # that went out
        self._ended = False

    def __aiter__(self) -> EventBytes:
        return self

    async def __anext__(self) -> bytes:
        if self._ended:
            raise StopAsyncIteration
        try:
            frame = await anext(self._frames)
            if not isinstance(frame, ServerEvent | ServerEvents):
                raise InternalError("a frame of another protocol came in an event stream")
        except StopAsyncIteration:
            self._ended = True
            if self._named:  # its last event says that it is the last
                raise
            return _DONE
        except GatewayError as error:
            return self._broken_off(error)  # guard: A4.in-band-error -> raise StopAsyncIteration
        except Exception as exc:  # noqa: BLE001 - a front's: the caller must learn of the cut
            _log.error("an event stream failed: %s", type(exc).__name__)  # its text may be content
            return self._broken_off(InternalError("the gateway failed while it streamed"))
        self._last = frame
        return frame.framed()

    async def aclose(self) -> None:
        self._ended = True
        await self._frames.aclose()

    def _broken_off(self, error: GatewayError) -> bytes:
        """In-band, since the status line is long gone; and never `[DONE]` behind it."""
        self._ended = True  # guard: A4.no-done
        if not self._named:
            return ServerEvent(error_body(error)).framed()
        last = self._last.apart()[-1] if isinstance(self._last, ServerEvents) else self._last
        if last.event in _OWN_FAILURES:
            raise StopAsyncIteration  # the endpoint has told it, in this protocol's own event
        return ServerEvent(_response_error(error, last), "error").framed()


def _response_error(error: GatewayError, last: ServerEvent) -> bytes:
    """The `error` event of the Responses API; its key `error` makes the SDKs raise."""
    document = error_document(error)
    return strictjson.dumps(
        {
            "type": "error",
            "sequence_number": _sequence_number(last) + 1,
            "code": document["code"],
            "message": document["message"],
            "param": document["param"],
            "error": document,
        }
    )


def _sequence_number(event: ServerEvent) -> int:
    try:
        document = orjson.loads(event.data)
    except orjson.JSONDecodeError:
        return -1
    number = document.get("sequence_number") if isinstance(document, dict) else None
    return number if isinstance(number, int) else -1
