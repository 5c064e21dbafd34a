"""Server-sent events of a reply: the frames, then `[DONE]` or the error that broke them off."""

from __future__ import annotations

import logging

import orjson

from gateway import strictjson
from gateway.errors import GatewayError, InternalError
from gateway.fronts.openai_errors import error_body, error_document
from gateway.types import Operation, ReplyStream, ServerEvent, ready_of

_log = logging.getLogger(__name__)

_DONE = b"data: [DONE]\n\n"
_OWN_FAILURES = ("error", "response.failed")


class EventBytes:
    """What a streamed reply looks like on the wire; closing it closes the reply (A3, A4)."""

    def __init__(self, frames: ReplyStream, operation: Operation) -> None:
        self._frames = frames
        self._ready = ready_of(frames)
        self._operation = operation
        self._last: ServerEvent | None = None
        self._ended = False

    def __aiter__(self) -> EventBytes:
        return self

    async def __anext__(self) -> bytes:
        if self._ended:
            raise StopAsyncIteration
        try:
            frame = await anext(self._frames)
            if not isinstance(frame, ServerEvent):
                raise InternalError("a frame of another protocol came in an event stream")
        except StopAsyncIteration:
            self._ended = True
            if self._operation is Operation.RESPONSES:  # its last event says that it is the last
                raise
            return _DONE
        except GatewayError as error:
            return self._broken_off(error)
        except Exception as exc:  # noqa: BLE001 - a front's: the caller must learn of the cut
            _log.error("an event stream failed: %s", type(exc).__name__)  # its text may be content
            return self._broken_off(InternalError("the gateway failed while it streamed"))
        self._last = frame
        return render(frame)

    def ready(self) -> bytes:
        """What came with the last event."""
        if self._ended or not (frames := self._ready()):
            return b""
        events = [frame for frame in frames if isinstance(frame, ServerEvent)]
        if len(events) != len(frames):
            raise InternalError("a frame of another protocol came in an event stream")
        self._last = events[-1]
        return b"".join([render(event) for event in events])

    async def aclose(self) -> None:
        self._ended = True
        await self._frames.aclose()

    def _broken_off(self, error: GatewayError) -> bytes:
        """In-band, since the status line is long gone; and never `[DONE]` behind it."""
        self._ended = True
        if self._operation is not Operation.RESPONSES:
            return render(ServerEvent(error_body(error)))
        if self._last is not None and self._last.event in _OWN_FAILURES:
            raise StopAsyncIteration  # the endpoint has told it, in this protocol's own event
        return render(ServerEvent(_response_error(error, self._last), "error"))


def render(event: ServerEvent) -> bytes:
    data, name = event
    if b"\n" in data:
        data = data.replace(b"\n", b"\ndata: ")
    if not name:
        return b"data: %b\n\n" % data
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


def _response_error(error: GatewayError, last: ServerEvent | None) -> bytes:
    """The `error` event of the Responses API; its key `error` makes the SDKs raise."""
    told = error_document(error)
    return strictjson.dumps(
        {
            "type": "error",
            "sequence_number": _sequence_number(last) + 1,
            "code": told["code"],
            "message": told["message"],
            "param": told["param"],
            "error": told,
        }
    )


def _sequence_number(event: ServerEvent | None) -> int:
    try:
        document = orjson.loads(event.data) if event is not None else None
    except orjson.JSONDecodeError:
        return -1
    number = document.get("sequence_number") if isinstance(document, dict) else None
    return number if isinstance(number, int) else -1
