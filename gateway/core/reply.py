"""What a caller gets: frames as an endpoint wrote them, and where the call went."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import field
from typing import Generic, NamedTuple, Protocol, TypeVar

from gateway.core.deferred_error import DeferredError
from gateway.core.structs import value
from gateway.core.types import Sensitivity, Usage, Zone


@value
class RestBody:
    """One Open Inference Protocol REST answer as the server wrote it. `header_length` is the
    length in bytes of the JSON part when binary tensors follow it, else None."""

    body: bytes = field(repr=False)
    header_length: int | None = None


@value
class GrpcMessage:
    """One serialised `inference.ModelInferResponse` as the server wrote it."""

    message: bytes = field(repr=False)


@value
class JsonBody:
    """One whole OpenAI answer."""

    body: bytes = field(repr=False)


@value
class MediaChunk:
    """Some bytes of an answer that is no JSON, in their order."""

    body: bytes = field(repr=False)
    media_type: str  # of the whole answer


class ServerEvent(NamedTuple):
    """One server-sent event of an OpenAI stream; `data` without the framing."""

    data: bytes
    event: str = ""  # the Responses API names its events

    def __repr__(self) -> str:
        return f"ServerEvent({self.event!r})"

    def framed(self) -> bytes:
        """As it stands in a stream."""
        data, name = self
        if b"\n" in data:
            data = data.replace(b"\n", b"\ndata: ")
        if not name:
            return b"data: %b\n\n" % data
        return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


_BETWEEN = b"\n\ndata: "


class ServerEvents(NamedTuple):
    """Some events of an OpenAI stream, one after the other, as they stand in it."""

    text: bytes
    number: int

    def __repr__(self) -> str:
        return f"ServerEvents({self.number})"

    def framed(self) -> bytes:
        return self.text

    def datas(self) -> list[bytes]:
        """Of events without names, one by one."""
        text = self.text
        if b"\ndata: " in text.replace(_BETWEEN, b""):  # one of several lines
            return [event.data for event in self.apart()]
        return text.removeprefix(b"data: ").removesuffix(b"\n\n").split(_BETWEEN)

    def apart(self) -> list[ServerEvent]:
        """One by one."""
        return [_event(text) for text in self.text.split(b"\n\n")[:-1]]


def _event(text: bytes) -> ServerEvent:
    """Out of one as `framed` writes it."""
    name, _, data = text.partition(b"data: ")
    kind = name.removeprefix(b"event: ").rstrip().decode("utf-8", "replace") if name else ""
    return ServerEvent(data.replace(b"\ndata: ", b"\n"), kind)


Frame = RestBody | GrpcMessage | JsonBody | MediaChunk | ServerEvent | ServerEvents


T = TypeVar("T")
TItem = TypeVar("TItem", contravariant=True)


class Receiver(Protocol[TItem]):
    """Takes the parts of an answer as they come."""

    def put(self, item: TItem) -> bool:
        """False: `room` is to be awaited before the next. Neither waits nor keeps the sender."""
        ...

    async def room(self) -> None:
        """Until there is room for more. Raises what ends the answer instead."""
        ...


class FrameSource(Protocol):
    """Frames of one reply. Whoever holds it must `aclose()` it, delivered or not; closing twice is
    harmless, and closing cancels the upstream call."""

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        """Put all frames that are left, each as it comes. Returns at their end, raises what broke
        them off, or what the receiver raises."""
        ...

    async def aclose(self) -> None: ...


class ReplyStream(FrameSource, Protocol):
    """Of an endpoint, whose first frame shows that it answers."""

    def __aiter__(self) -> AsyncIterator[Frame]: ...
    async def __anext__(self) -> Frame: ...


class Handled(Generic[T]):
    """A receiver of items that are handled one after the other, which may take time."""

    def __init__(self, handle: Callable[[T], Awaitable[None]]) -> None:
        self._handle = handle
        self._item: T

    def put(self, item: T) -> bool:
        self._item = item
        return False

    async def room(self) -> None:
        await self._handle(self._item)


class _Received(Generic[T]):
    def __init__(self) -> None:
        self.items: list[T] = []

    def put(self, item: T) -> bool:
        self.items.append(item)
        return True

    async def room(self) -> None: ...


async def received(frames: FrameSource) -> list[Frame]:
    """All that are left, up to the end, which settles the call. Closes it, and raises what it
    raises."""
    receiver, failed = _Received[Frame](), None
    try:
        await frames.deliver(receiver)
    except BaseException as exc:  # noqa: BLE001 - raised below, whatever it is
        failed = DeferredError(exc)
    await frames.aclose()  # guard: A3.grpc-answer-close
    if failed is not None:
        raise failed.again()
    return receiver.items


async def deliver_each(items: AsyncIterator[T], receiver: Receiver[T]) -> None:
    """As `FrameSource.deliver`, for what gives its items one by one."""
    async for item in items:
        if not receiver.put(item):
            await receiver.room()


class OneFrame:
    """A whole answer, read already: there is nothing left to close."""

    def __init__(
        self, frame: Frame, total_tokens: int | None = None, usage: Usage | None = None
    ) -> None:
        self._frame: Frame | None = frame
        self.total_tokens = total_tokens
        self.usage = usage

    def __aiter__(self) -> OneFrame:
        return self

    async def __anext__(self) -> Frame:
        if self._frame is None:
            raise StopAsyncIteration
        frame, self._frame = self._frame, None
        return frame

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        await deliver_each(self, receiver)

    async def aclose(self) -> None:
        self._frame = None

    def peek(self) -> Frame | None:
        return self._frame

    def take(self) -> Frame | None:
        """The frame, unless it was taken; all that is left to be read."""
        frame, self._frame = self._frame, None
        return frame


@value
class Placement:
    """What the caller is told of where its call went (BEHAVIOURS S7)."""

    zone: Zone
    endpoint: str
    reason: str
    attempts: int
    sensitivity: Sensitivity
    classify_s: float
    pseudonymised: int = 0  # values that surrogates stood for
    limits: Mapping[str, str] = field(default_factory=dict)  # what is left of its key's, as headers
    unrestored: int = 0  # places where something of a surrogate is left in the answer
    kind: str = ""  # of the endpoint
    data_class: str = ""  # between clear and restricted


@value
class InferenceReply:
    """An answer from its first frame on. Fronts must close `frames` on every exit."""

    placement: Placement
    frames: FrameSource


@value
class MediaReply(InferenceReply):
    """One whose frames are chunks of a sound or a text."""

    media_type: str
