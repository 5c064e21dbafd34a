"""Originals back into whole answers and into the events of a stream.

Every string of an answer is restored. In a stream, what belongs together comes in pieces: each
choice's content, its reasoning, the arguments of each tool call, each part of a Responses item has
a channel of its own, which holds back what may be the beginning of a surrogate. It is let go of
before the event that ends its text, in an event like the last one of that text, so that events that
end something go on as they came.

Logprobs keep the tokens of the model, surrogates in pieces: they are not text but its account.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from gateway.classify.pseudonyms.answers.json_text import UNCHANGED_KEYS, Stopped, restored_text
from gateway.classify.pseudonyms.answers.restorer import Channel, Restorer
from gateway.classify.pseudonyms.documents import TooDeep, changed
from gateway.core.deferred_error import DeferredError
from gateway.core.errors import GatewayError, UpstreamFailed
from gateway.core.operations.spec import OperationSpec, StreamForm
from gateway.core.reply import (
    Frame,
    FrameSource,
    JsonBody,
    Receiver,
    ServerEvent,
    ServerEvents,
)
from gateway.core.types import JsonDocument
from gateway.protocols import strictjson

Path = tuple[str | int, ...]

_WORDS = frozenset({"role", "type", "id", "name", "object"})  # of a delta: they come whole
AT_ONCE_BYTES = 8 * 1024  # of an answer or an event: more is restored in a thread of its own
PARSED_BYTES = 128 * 1024  # of an event: more is not parsed
_HEAD_BYTES = 1024
_NUMBER = re.compile(rb'"sequence_number"\s*:\s*([0-9]{1,15})(?=[\s,}])')
_PLACE = ("item_id", "output_index", "content_index", "summary_index")


class RestoredFrames:
    """Restores the frames of another `FrameSource`. Its end, or closing it, forgets the mapping."""

    def __init__(
        self,
        frames: FrameSource,
        operation: OperationSpec,
        restorer: Restorer,
        unrestored: Callable[[int], None] = lambda count: None,
    ) -> None:
        """`unrestored` is called at the end with the number of places where something of a
        surrogate is left, if there are any."""
        self._unrestored = unrestored
        self._frames = frames
        self._restorer = restorer
        events = ResponsesEvents if operation.stream is StreamForm.RESPONSES else ChoiceEvents
        self._events: ChoiceEvents | ResponsesEvents = events(restorer)
        self._receiver: Receiver[Frame] | None = None
        self._ready: deque[Frame] = deque()
        self._large: Frame | None = None  # to be restored in a thread of its own

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        self._receiver = receiver
        broken: DeferredError | None = None
        try:
            await self._frames.deliver(self)
        except GatewayError as error:  # what was held back precedes the break
            broken = DeferredError(error)
        self._ready.extend(self._events.rest())
        while not self._put_ready():
            await receiver.room()
        self._receiver = None  # which has this
        self._forget()
        if broken is not None:
            raise broken.again()

    async def aclose(self) -> None:
        self._ready.clear()
        self._receiver = None
        try:
            await self._frames.aclose()
        finally:
            self._forget()

    def _forget(self) -> None:
        count, self._restorer.unrestored = self._restorer.unrestored, 0
        if count:
            self._unrestored(count)
        self._restorer.forget()

    # A receiver of frames

    def put(self, frame: Frame) -> bool:
        if _size(frame) > AT_ONCE_BYTES:
            self._large = frame
            return False
        self._ready.extend(self._restored(frame))
        return self._put_ready()

    async def room(self) -> None:
        receiver, large, self._large = self._receiver, self._large, None
        if large is not None:
            self._ready.extend(await asyncio.to_thread(self._restored, large))
        elif receiver is not None:
            await receiver.room()
        while receiver is not None and not self._put_ready():
            await receiver.room()

    def _put_ready(self) -> bool:
        """Whether the receiver took all, and takes more."""
        ready, receiver = self._ready, self._receiver
        while ready and receiver is not None:
            if not receiver.put(ready.popleft()):
                return False
        return True

    def _restored(self, frame: Frame) -> list[Frame]:
        restorer = self._restorer
        try:
            if isinstance(frame, JsonBody):
                return [JsonBody(restored_text(frame.body, restorer, lambda: restorer.forgotten))]
            if isinstance(frame, ServerEvents):
                return [made for event in frame.apart() for made in self._restored(event)]
            if isinstance(frame, ServerEvent):
                large = len(frame.data) > PARSED_BYTES
                return [*(self._events.large(frame) if large else self._events.restored(frame))]
            return [frame]
        except TooDeep:
            raise UpstreamFailed("the endpoint's answer nests too deep") from None
        except Stopped:
            return []


class ChoiceEvents:
    """The chunks of chat and text completions."""

    def __init__(self, restorer: Restorer) -> None:
        self._restorer = restorer
        self._channels: dict[Path, tuple[Channel, JsonDocument]] = {}

    def restored(self, event: ServerEvent) -> Iterator[ServerEvent]:
        chunk = json.loads(event.data)
        choices = chunk.get("choices")
        before: list[ServerEvent] = []
        made = {k: self._strings(v) for k, v in chunk.items() if k != "choices"}
        if "choices" in chunk:
            made["choices"] = (
                [self._choice(choice, chunk, before) for choice in choices]
                if isinstance(choices, list)
                else choices
            )
        yield from before
        yield _event(event, {key: made[key] for key in chunk}, chunk)

    def large(self, event: ServerEvent) -> Iterator[ServerEvent]:
        """One that is not parsed: its strings are restored each by itself."""
        yield from self.rest()
        yield _large(event, self._restorer)

    def rest(self) -> list[ServerEvent]:
        """What is held at the end of a stream that did not end its choices."""
        return [event for path in list(self._channels) for event in self._let_go(path)]

    def _choice(self, choice: Any, chunk: JsonDocument, before: list[ServerEvent]) -> Any:
        if not isinstance(choice, dict):
            return choice
        index = choice.get("index", 0)
        visited: set[Path] = set()
        made: JsonDocument = {}
        for key, value in choice.items():
            if key in ("delta", "text"):
                made[key] = self._pieces(value, (index, key), chunk, visited)
            else:
                made[key] = value if key in UNCHANGED_KEYS else self._strings(value)
        if choice.get("finish_reason") is not None:
            self._finish(made, index, visited, before)
        elif isinstance(delta := choice.get("delta"), dict) and delta.get("tool_calls"):
            self._end_texts(index, visited, before)
        return made

    def _end_texts(self, index: Any, visited: set[Path], before: list[ServerEvent]) -> None:
        """What is said before calls of tools is over when the first of them begins."""
        for path in [p for p in self._channels if p[0] == index and p not in visited]:
            if "tool_calls" not in path:
                before += self._let_go(path)

    def _finish(
        self, made: JsonDocument, index: Any, visited: set[Path], before: list[ServerEvent]
    ) -> None:
        """No more text will come for this choice: what its last event has takes along what is
        held of the same text, the rest goes before it."""
        for path in [p for p in self._channels if p[0] == index]:
            if path in visited:
                channel, _ = self._channels.pop(path)
                if text := channel.flush():
                    _append(made, path[1:], text)
            else:
                before += self._let_go(path)

    def _pieces(self, value: Any, path: Path, chunk: JsonDocument, visited: set[Path]) -> Any:
        """A delta with every text in it restored, each in the channel of its path."""
        if len(path) > 16:
            raise TooDeep
        match value:
            case str() if path[-1] in _WORDS:
                return self._restorer.whole(value)
            case str():
                channel, _ = self._channels.get(path, (Channel(self._restorer), chunk))
                self._channels[path] = (channel, chunk)
                visited.add(path)
                return channel.feed(value)
            case dict():
                return {
                    k: v if k in UNCHANGED_KEYS else self._pieces(v, (*path, k), chunk, visited)
                    for k, v in value.items()
                }
            case list():
                return [
                    self._pieces(v, (*path, _index(v, at)), chunk, visited)
                    for at, v in enumerate(value)
                ]
        return value

    def _let_go(self, path: Path) -> Iterator[ServerEvent]:
        channel, chunk = self._channels.pop(path)
        if text := channel.flush():
            choice = {"index": path[0], **_nested(path[1:], text)}
            choice |= {"logprobs": None, "finish_reason": None}
            head = {k: v for k, v in chunk.items() if k not in ("choices", "usage")}
            usage = {"usage": None} if "usage" in chunk else {}
            yield ServerEvent(_dumps({**head, "choices": [choice], **usage}))

    def _strings(self, value: Any) -> Any:
        return changed(value, self._restorer.whole, UNCHANGED_KEYS)


class ResponsesEvents:
    """The events of the Responses API."""

    def __init__(self, restorer: Restorer) -> None:
        self._restorer = restorer
        self._channels: dict[Path, tuple[Channel, ServerEvent, JsonDocument]] = {}
        self._added = 0  # events of ours, by which the numbers of all later ones move on

    def restored(self, event: ServerEvent) -> Iterator[ServerEvent]:
        document = json.loads(event.data)
        kind = document.get("type")
        text, _, step = kind.rpartition(".") if isinstance(kind, str) else ("", "", "")
        path: Path = (text, *(_key(document.get(name)) for name in _PLACE))
        if step == "delta" and isinstance(document.get("delta"), str):
            channel = self._channels[path][0] if path in self._channels else Channel(self._restorer)
            self._channels[path] = (channel, event, document)
            made = {**document, "delta": channel.feed(document["delta"])}
        else:
            yield from self._let_go([path] if step == "done" else [])
            if text == "response" and step in ("completed", "incomplete", "failed"):
                yield from self._let_go(list(self._channels))
            made = changed(document, self._restorer.whole, UNCHANGED_KEYS)
        yield _event(event, self._numbered(made), document)

    def large(self, event: ServerEvent) -> Iterator[ServerEvent]:
        """One that is not parsed: nearly always the last, which repeats all of them."""
        yield from self.rest()
        made = _large(event, self._restorer)
        if self._added and (number := _NUMBER.search(made.data, 0, _HEAD_BYTES)) is not None:
            start, end = number.span(1)
            position = b"%d" % (int(number[1]) + self._added)
            made = made._replace(data=b"".join((made.data[:start], position, made.data[end:])))
        yield made

    def rest(self) -> list[ServerEvent]:
        return list(self._let_go(list(self._channels)))

    def _let_go(self, paths: list[Path]) -> Iterator[ServerEvent]:
        for path in paths:
            if path not in self._channels:
                continue
            channel, event, document = self._channels.pop(path)
            if text := channel.flush():
                self._added += 1
                made = {**document, "delta": text}
                if "logprobs" in made:
                    made["logprobs"] = []
                yield ServerEvent(_dumps(self._numbered(made)), event.event)

    def _numbered(self, made: JsonDocument) -> JsonDocument:
        number = made.get("sequence_number")
        if self._added and type(number) is int:
            return {**made, "sequence_number": number + self._added}
        return made


async def restored_body(body: bytes, restorer: Restorer) -> bytes:
    """A whole answer; of a large one beside the loop, until the restorer forgets. Raises
    Stopped."""
    if len(body) <= AT_ONCE_BYTES:
        return restored_text(body, restorer)
    return await asyncio.to_thread(restored_text, body, restorer, lambda: restorer.forgotten)


def _large(event: ServerEvent, restorer: Restorer) -> ServerEvent:
    made = restored_text(event.data, restorer, lambda: restorer.forgotten)
    return event if made is event.data else event._replace(data=made)


def _size(frame: Frame) -> int:
    if isinstance(frame, ServerEvents):
        return len(frame.text)
    if isinstance(frame, ServerEvent):
        return len(frame.data)
    return len(frame.body) if isinstance(frame, JsonBody) else 0


def _event(event: ServerEvent, made: JsonDocument, document: JsonDocument) -> ServerEvent:
    """As it came, byte for byte, when there was nothing to do."""
    return event if made == document else event._replace(data=_dumps(made))


def _dumps(document: JsonDocument) -> bytes:
    try:
        return strictjson.dumps(document)
    except ValueError:  # half of an emoji, which JSON can escape and UTF-8 cannot hold
        return json.dumps(document, separators=(",", ":")).encode()


def _index(item: Any, at: int) -> int:
    index = item.get("index") if isinstance(item, dict) else None
    return index if type(index) is int else at


def _key(value: Any) -> str | int:
    return value if isinstance(value, str | int) else ""


def _nested(path: Path, text: str) -> JsonDocument:
    """`("delta", "tool_calls", 0, "function", "arguments")` as the document that has it."""
    made: Any = text
    for step in reversed(path):
        if isinstance(step, int):
            made = [{"index": step, **made} if isinstance(made, dict) else made]
        else:
            made = {step: made}
    target: JsonDocument = made
    return target


def _append(document: Any, path: Path, text: str) -> None:
    *parents, last = path
    for step in parents:
        if isinstance(step, int):
            document = next(v for at, v in enumerate(document) if _index(v, at) == step)
        else:
            document = document[step]
    document[last] += text
