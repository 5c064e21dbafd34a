"""What a reply that streams looks like on the wire: server-sent events, then `[DONE]` or the error
that broke them off; or the bytes of a sound or a text.
"""

from __future__ import annotations

import logging

import orjson

from gateway.core.errors import GatewayError, InternalError
from gateway.core.operations.spec import OperationSpec, StreamForm
from gateway.core.reply import (
    Frame,
    FrameSource,
    MediaChunk,
    Receiver,
    ServerEvent,
    ServerEvents,
)
from gateway.protocols import strictjson
from gateway.protocols.http import ClientLeft
from gateway.server.openai.errors import error_body, error_document

_log = logging.getLogger(__name__)

_DONE = b"data: [DONE]\n\n"
_OWN_FAILURES = ("error", "response.failed")
_EVENTS = (ServerEvent, ServerEvents)


class EventBytes:
    """What a streamed reply looks like on the wire; closing it closes the reply (A3, A4)."""

    def __init__(self, frames: FrameSource, operation: OperationSpec) -> None:
        self._frames = frames
        self._form = operation.stream
        self._last: ServerEvent | ServerEvents = ServerEvent(b"")  # that went out
        self._caller: Receiver[bytes]

    async def deliver(self, receiver: Receiver[bytes]) -> None:
        self._caller = receiver
        try:
            await self._frames.deliver(self)
        except GatewayError as error:
            # guard: A4.in-band-error -> return
            # guard: A4.no-done -> last = self._broken_off(error) + _DONE
            last = self._broken_off(error)
        except ClientLeft:
            raise
        except Exception as exc:  # noqa: BLE001 - a front's: the caller must learn of the cut
            _log.error("an event stream failed: %s", type(exc).__name__)  # its text may be content
            last = self._broken_off(InternalError("the gateway failed while it streamed"))
        else:
            choices = self._form is StreamForm.CHOICES
            last = _DONE if choices else b""  # an event with a type says that it is the last
        receiver.put(last)

    # A receiver of frames

    def put(self, frame: Frame) -> bool:
        if not isinstance(frame, _EVENTS):
            raise InternalError("an event stream has a frame of another protocol")
        self._last = frame
        return self._caller.put(frame.framed())

    async def room(self) -> None:
        await self._caller.room()

    async def aclose(self) -> None:
        await self._frames.aclose()

    def _broken_off(self, error: GatewayError) -> bytes:
        """In-band, since the status line is long gone; and never `[DONE]` behind it."""
        if self._form is not StreamForm.RESPONSES:
            return ServerEvent(error_body(error)).framed()
        last = self._last.apart()[-1] if isinstance(self._last, ServerEvents) else self._last
        if last.event in _OWN_FAILURES:
            return b""  # the endpoint has sent the error, in this protocol's own event
        return ServerEvent(_response_error(error, last), "error").framed()


class MediaBytes:
    """Chunks as they come. What breaks them off cuts the connection: nothing else in such an answer
    could say that it is not whole."""

    def __init__(self, frames: FrameSource) -> None:
        self._frames = frames
        self._caller: Receiver[bytes]

    async def deliver(self, receiver: Receiver[bytes]) -> None:
        self._caller = receiver
        await self._frames.deliver(self)

    async def aclose(self) -> None:
        await self._frames.aclose()

    # A receiver of frames

    def put(self, frame: Frame) -> bool:
        if not isinstance(frame, MediaChunk):
            raise InternalError("an answer came in other frames than it began with")
        return self._caller.put(frame.body)

    async def room(self) -> None:
        await self._caller.room()


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
