"""What goes between two gateways for one call, as bytes.

A call: the length of a JSON head, the head, and behind it the document, or the raw bytes of the
tensors one after the other. Nothing in it says where a call may go: who gets it can only serve it
on the premises. Times are relative, since no two clocks agree.

An answer is a row of messages, each a letter for its kind, a length and a body: one that says what
became of the call in the queue, and after `GRANTED` the frames as the server wrote them, then `END`
or `FAILED`.
"""

from __future__ import annotations

import enum
import json
import math
import struct
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.core.errors import AnswersFull, MalformedBody, UpstreamFailed
from gateway.core.held_bytes import UNCOUNTED_BYTES, AnswerShare
from gateway.core.operations.media.files import UploadedFile
from gateway.core.operations.registry import OPERATIONS
from gateway.core.operations.spec import Translation
from gateway.core.reply import (
    Frame,
    GrpcMessage,
    JsonBody,
    MediaChunk,
    RestBody,
    ServerEvent,
)
from gateway.core.types import (
    DocumentCall,
    Parameter,
    Payload,
    RequestedOutput,
    Tensor,
    TensorCall,
    WireProtocol,
)
from gateway.protocols import strictjson

_LENGTH = struct.Struct(">I")
_HEADER = struct.Struct(">cI")
_REST = struct.Struct(">q")  # the length of the JSON part; -1: there is no other part
MOST_MESSAGE_BYTES = 1 << 30
_MAX_DEPTH = 256  # the caller's own limit has been kept already


@dataclass(frozen=True, slots=True)
class CloudEstimate:
    """What the cloud costs this call, for a call that may leave from where it came."""

    price_usd: float
    latencies_s: tuple[float, ...]  # quantiles of the cloud's answers to calls of its size
    room: float  # calls that the doors over there take now


@dataclass(frozen=True, slots=True)
class Forwarded:
    """One call, as its gateway hands it to the owner of its servers."""

    id: str
    protocol: WireProtocol
    tenant: str
    model: str
    payload: Payload = field(repr=False)
    left_s: float  # of the latency budget
    waited_s: float  # since it arrived
    priority: int
    restricted: bool
    cloud: CloudEstimate | None  # None: it may not leave
    avoid: frozenset[str] = frozenset()
    traceparent: str = ""


def pack_call(call: Forwarded) -> tuple[bytes, ...]:
    payload, tail = _pack_payload(call.payload)
    estimate = call.cloud
    head = {
        "id": call.id,
        "protocol": call.protocol.value,
        "tenant": call.tenant,
        "model": call.model,
        "left_s": call.left_s,
        "waited_s": call.waited_s,
        "priority": call.priority,
        "restricted": call.restricted,
        "abroad": None
        if estimate is None
        else [estimate.price_usd, estimate.latencies_s, estimate.room],
        "avoid": sorted(call.avoid),
        "traceparent": call.traceparent,
        "payload": payload,
    }
    text = json.dumps(head, separators=(",", ":")).encode()
    return (_LENGTH.pack(len(text)), text, *tail)


def unpack_call(message: bytes) -> Forwarded:
    """Raises MalformedBody."""
    try:
        (size,) = _LENGTH.unpack_from(message)
        if size > len(message) - _LENGTH.size:
            raise ValueError("too short")
        head = json.loads(message[_LENGTH.size : _LENGTH.size + size])
        call = _call(head, memoryview(message)[_LENGTH.size + size :])
    except (ValueError, KeyError, TypeError, struct.error):
        raise MalformedBody("this is not a forwarded call") from None
    if call.restricted and call.cloud is not None:
        raise MalformedBody("a restricted call may not leave")
    latencies_s = () if call.cloud is None else call.cloud.latencies_s or (0.0,)
    room = 0.0 if call.cloud is None else call.cloud.room
    numbers = (*latencies_s, call.left_s, call.waited_s, room)
    if not all(map(math.isfinite, numbers)) or min((*latencies_s, 1.0)) <= 0:
        raise MalformedBody("this is not a forwarded call")
    return call


def _call(head: dict[str, Any], tail: memoryview) -> Forwarded:
    estimate = head["abroad"]
    return Forwarded(
        id=str(head["id"]),
        protocol=WireProtocol(head["protocol"]),
        tenant=str(head["tenant"]),
        model=str(head["model"]),
        payload=_payload(head["payload"], tail),
        left_s=float(head["left_s"]),
        waited_s=float(head["waited_s"]),
        priority=int(head["priority"]),
        restricted=head["restricted"] is not False,
        cloud=None if estimate is None else CloudEstimate(
            float(estimate[0]), tuple(float(s) for s in estimate[1]), float(estimate[2])
        ),
        avoid=frozenset(str(name) for name in head["avoid"]),
        traceparent=str(head["traceparent"]),
    )  # fmt: skip


def _pack_payload(payload: Payload) -> tuple[dict[str, Any], tuple[bytes, ...]]:
    if isinstance(payload, DocumentCall):
        body = strictjson.dumps(payload.document)
        described: dict[str, Any] = {
            "operation": payload.operation.name,
            "streamed": payload.streamed,
            "files": [[f.name, f.filename, f.media_type, len(f.content)] for f in payload.files],
        }
        if payload.translation is not None:
            described["front"] = payload.translation.front
        return described, (*[file.content for file in payload.files], body)
    head = {
        "inputs": [
            [t.name, t.datatype, t.shape, len(t.data), dict(t.parameters)] for t in payload.inputs
        ],
        "outputs": [[o.name, dict(o.parameters)] for o in payload.outputs],
        "parameters": dict(payload.parameters),
        "id": payload.id,
        "version": payload.version,
        "streamed": payload.streamed,
    }
    return head, tuple(t.data for t in payload.inputs)


def _payload(head: dict[str, Any], tail: memoryview) -> Payload:
    streamed = bool(head["streamed"])
    if "operation" in head:
        files, at = [], 0
        for name, filename, media_type, size in head.get("files", ()):
            content = bytes(tail[at : at + int(size)])
            if len(content) != size:
                raise ValueError("too short")
            at += size
            files.append(UploadedFile(str(name), str(filename), str(media_type), content, ""))
        document = strictjson.load_object(bytes(tail[at:]), _MAX_DEPTH)
        translation = Translation(str(head["front"])) if "front" in head else None
        operation = OPERATIONS[head["operation"]]
        return DocumentCall(
            operation, document, streamed, translation=translation, files=tuple(files)
        )
    inputs, at = [], 0
    for name, datatype, shape, size, parameters in head["inputs"]:
        data = bytes(tail[at : at + int(size)])
        if len(data) != size:
            raise ValueError("too short")
        at += len(data)
        shape = tuple(int(n) for n in shape)
        inputs.append(Tensor(str(name), str(datatype), shape, data, _parameters(parameters)))
    if at != len(tail):
        raise ValueError("too long")
    return TensorCall(
        tuple(inputs),
        tuple(RequestedOutput(str(name), _parameters(more)) for name, more in head["outputs"]),
        _parameters(head["parameters"]),
        str(head["id"]),
        str(head["version"]),
        streamed,
    )


def _parameters(document: dict[str, Any]) -> Mapping[str, Parameter]:
    if not all(isinstance(value, bool | int | float | str) for value in document.values()):
        raise ValueError("not a parameter")
    return document


# Answers


class Kind(enum.Enum):
    GRANTED = b"G"  # a turn at a server, to which it goes now
    LEAVE = b"L"  # it is to leave: clear, and no room here
    NO_SERVER = b"N"
    NOT_OWNER = b"O"  # somebody else decides on these servers
    FAILED = b"X"
    END = b"E"
    REST, GRPC, JSON, EVENT, MEDIA = b"R", b"M", b"J", b"S", b"B"  # frames


_FRAMES = frozenset({Kind.REST, Kind.GRPC, Kind.JSON, Kind.EVENT, Kind.MEDIA})


def pack(kind: Kind, *body: bytes) -> bytes:
    return b"".join((_HEADER.pack(kind.value, sum(map(len, body))), *body))


def pack_words(kind: Kind, words: object) -> bytes:
    return pack(kind, json.dumps(words, separators=(",", ":")).encode())


def pack_frame(frame: RestBody | GrpcMessage | JsonBody | MediaChunk | ServerEvent) -> bytes:
    if isinstance(frame, RestBody):
        length = -1 if frame.header_length is None else frame.header_length
        return pack(Kind.REST, _REST.pack(length), frame.body)
    if isinstance(frame, GrpcMessage):
        return pack(Kind.GRPC, frame.message)
    if isinstance(frame, JsonBody):
        return pack(Kind.JSON, frame.body)
    if isinstance(frame, MediaChunk):
        media_type = frame.media_type.encode()
        return pack(Kind.MEDIA, _LENGTH.pack(len(media_type)), media_type, frame.body)
    name = frame.event.encode()
    return pack(Kind.EVENT, _LENGTH.pack(len(name)), name, frame.data)


def unpack_frame(kind: Kind, body: bytes) -> Frame:
    """Raises UpstreamFailed."""
    try:
        return _frame(kind, body)
    except (struct.error, UnicodeDecodeError):
        raise UpstreamFailed("the owner of the server answered nonsense") from None


def _frame(kind: Kind, body: bytes) -> Frame:
    if kind is Kind.REST:
        (length,) = _REST.unpack_from(body)
        return RestBody(body[_REST.size :], None if length < 0 else length)
    if kind is Kind.GRPC:
        return GrpcMessage(body)
    if kind is Kind.JSON:
        return JsonBody(body)
    if kind in (Kind.EVENT, Kind.MEDIA):
        (length,) = _LENGTH.unpack_from(body)
        at = _LENGTH.size + length
        if kind is Kind.MEDIA:
            return MediaChunk(body[at:], body[_LENGTH.size : at].decode())
        return ServerEvent(body[at:], body[_LENGTH.size : at].decode())
    raise UpstreamFailed("the owner of the server answered out of turn")


def unpack_words(body: bytes) -> dict[str, Any]:
    """Raises UpstreamFailed."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise UpstreamFailed("the owner of the server answered nonsense")
    return document


class Messages:
    """Chunks of an answer in, whole messages out. They are counted in `share` as they come; the
    last frame stays counted until the next has come."""

    def __init__(self, chunks: AsyncIterator[bytes], share: AnswerShare | None = None) -> None:
        self._chunks = chunks
        self._share = share
        self._held = bytearray()
        self._frame_bytes = 0  # of the last one

    def close(self) -> None:
        """Of what has come, the last frame alone may still be on its way."""
        self._held.clear()
        if self._share is not None:
            self._share.hold(self, self._frame_bytes)  # guard: A9.forwarded-release

    async def next(self) -> tuple[Kind, bytes] | None:
        """None: the answer has ended, between two messages. Raises UpstreamFailed, AnswersFull."""
        while (message := self._taken()) is None:
            chunk = await anext(self._chunks, b"")
            if not chunk:
                if self._held:
                    raise UpstreamFailed("the owner of the server broke off within a message")
                return None
            self._held += chunk
            self._count(len(self._held))
        if message[0] in _FRAMES:
            self._frame_bytes = len(message[1])
            self._count(len(self._held))
        return message

    def _count(self, size: int) -> None:
        """Raises AnswersFull."""
        held = self._frame_bytes + size
        if held <= UNCOUNTED_BYTES:
            held = 0
        # guard: A9.forwarded-answers -> if self._share is not None and False:
        if self._share is not None and not self._share.hold(self, held):
            raise AnswersFull

    def _taken(self) -> tuple[Kind, bytes] | None:
        if len(self._held) < _HEADER.size:
            return None
        letter, size = _HEADER.unpack_from(self._held)
        end = _HEADER.size + size
        if size > MOST_MESSAGE_BYTES:
            raise UpstreamFailed("the owner of the server sent a message that is too large")
        if len(self._held) < end:
            return None
        body = bytes(self._held[_HEADER.size : end])
        del self._held[:end]
        try:
            return Kind(letter), body
        except ValueError:
            raise UpstreamFailed("the owner of the server answered nonsense") from None
