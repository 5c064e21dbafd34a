"""The texts of an answer, frame by frame, and the same frames with other texts.

A text that comes in pieces has a channel: each choice's content, its reasoning, the arguments of
each tool call, each part of a Responses item. All other strings are whole. What the protocols
themselves say (ids, roles, token counts) is no text, nor is what a Responses answer repeats of its
call. Of tensors, the elements of BYTES outputs are texts.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gateway.classify.text.collect import OVER_CAP
from gateway.classify.verdicts.answers import BROKEN
from gateway.core.errors import AnswersFull, UpstreamFailed
from gateway.core.held_bytes import UNCOUNTED_BYTES, AnswerShare
from gateway.core.operations.dialects.responses.chat import signed_thought
from gateway.core.operations.spec import StreamForm
from gateway.core.reply import (
    Frame,
    GrpcMessage,
    JsonBody,
    MediaChunk,
    RestBody,
    ServerEvent,
    ServerEvents,
)
from gateway.protocols import strictjson
from gateway.protocols.oip import grpc, rest_reply

Channel = tuple[str | int, ...]

_NO_TEXT = frozenset(
    (  # noqa: SIM905 - as a list, a line for each
        "id object model created created_at completed_at system_fingerprint service_tier type role "
        "finish_reason stop_reason status call_id item_id tool_call_id response_id logprobs usage "
        "obfuscation embedding encoding_format"
    ).split()
)
"""Keys whose values are the protocol's own, or numbers."""
AUDIO = "answer_audio"
_ENCRYPTED = "encrypted_content"
_OPAQUE = {
    "audio": AUDIO,
    "b64_json": "answer_image",
    _ENCRYPTED: "answer_encrypted",
}
"""Keys whose values no reader can read, and the reason that they give."""
_IMAGE_CALL = "image_generation_call"
_PIECES = frozenset({"delta", "text"})  # of a choice
_CALLS = frozenset({"tool_calls", "function_call"})
_PLACE = ("item_id", "output_index", "content_index", "summary_index")
_DEEPEST = 64
_LENGTH_BYTES = 4


class AnswerText(NamedTuple):
    """One string of a frame. `channel`: of which text it is a piece; None: it is whole."""

    text: str
    channel: Channel | None
    in_tool_call: bool


class Broken(ValueError):
    """A frame that is not what its protocol says."""


class OpenedFrame:
    """A frame, and the texts in it. `unread`: the reason code of what cannot be read in it; `ends`:
    the text in pieces that it says is over."""

    __slots__ = ("_document", "_form", "ends", "frame", "texts", "unread")

    def __init__(self, frame: Frame, form: StreamForm) -> None:
        """`form`: of the stream that it is of."""
        self.frame = frame
        self._form = StreamForm.NONE if isinstance(frame, JsonBody) else form
        self.texts: list[AnswerText] = []
        self.unread = ""
        self.ends: Channel | None = None
        self._document: Any = None
        try:
            if isinstance(frame, ServerEvent | JsonBody):
                body = frame.body if isinstance(frame, JsonBody) else frame.data
                self._document = json.loads(body, object_pairs_hook=_unique)
                if self._form is StreamForm.MEDIA:  # vLLM's are of choices, others' typed
                    choices = isinstance(self._document, dict) and "choices" in self._document
                    self._form = StreamForm.CHOICES if choices else StreamForm.RESPONSES
                self._walk(self._collect)
                if self._form is StreamForm.RESPONSES:
                    channel, step = _place(self._document)
                    self.ends = channel if step == "done" else None
            elif isinstance(frame, MediaChunk):
                self.unread = AUDIO  # guard: S17.media-unread
            elif isinstance(frame, RestBody | GrpcMessage):
                self.texts = [AnswerText(text, None, False) for text in _tensor_texts(frame)]
        except (ValueError, RecursionError, UpstreamFailed):
            self.unread = BROKEN

    @property
    def may_change(self) -> bool:
        """Whether other texts can stand in the frame."""
        return self._document is not None

    def with_texts(self, texts: list[str]) -> Frame:
        """The frame with these in the place of its own, in their order."""
        if texts == [each.text for each in self.texts]:
            return self.frame
        rest = iter(texts)
        body = _dumps(self._walk(lambda text, channel, call: next(rest)))
        if isinstance(self.frame, ServerEvent):
            return self.frame._replace(data=body)
        return JsonBody(body)

    def _collect(self, text: str, channel: Channel | None, call: bool) -> str:
        self.texts.append(AnswerText(text, channel, call))
        return text

    def _walk(self, visit: _Visit) -> Any:
        return _AnswerWalk(visit, self._form, self._unreadable).document(self._document)

    def _unreadable(self, reason: str) -> None:
        self.unread = self.unread or reason


_Visit = Callable[[str, Channel | None, bool], str]


class _AnswerWalk:
    """Through a document, with what `visit` makes of each text in its place."""

    def __init__(self, visit: _Visit, form: StreamForm, unreadable: Callable[[str], None]) -> None:
        self._visit, self._form, self._unreadable = visit, form, unreadable

    def document(self, document: Any) -> Any:
        if not isinstance(document, dict):
            raise Broken
        if self._form is StreamForm.RESPONSES:
            return self._responses_event(document)
        return self._object(document, (), _is_call(document), False)

    def _responses_event(self, document: dict[str, Any]) -> Any:
        channel, step = _place(document)
        call = _is_call(document)
        if step == "delta" and isinstance(document.get("delta"), str):
            if "audio" in str(channel[0]):
                self._unreadable(AUDIO)
            return {**document, "delta": self._visit(document["delta"], channel, call)}
        return self._object(document, (), call, False)

    def _object(self, value: dict[str, Any], path: Channel, call: bool, in_pieces: bool) -> Any:
        if len(path) > _DEEPEST:
            raise Broken
        if value.get("object") == "response" and "output" in value:  # the rest repeats the call
            output = self._value(value["output"], (*path, "output"), call, in_pieces)
            return {**value, "output": output}
        if value.get("type") == _IMAGE_CALL:
            self._unreadable(_OPAQUE["b64_json"])
        made = {}
        for key, item in value.items():
            if item is None or key in _NO_TEXT:
                made[key] = item
                continue
            if key in _OPAQUE and (key != _ENCRYPTED or signed_thought(item) is None):
                self._unreadable(_OPAQUE[key])
            pieces = in_pieces or (self._form is StreamForm.CHOICES and key in _PIECES)
            made[key] = self._value(item, (*path, key), call or key in _CALLS, pieces)
        return made

    def _value(self, value: Any, path: Channel, call: bool, in_pieces: bool) -> Any:
        if isinstance(value, str):
            whole = not in_pieces or path[-1] == "name"
            return self._visit(value, None if whole else path, call) if value else value
        if isinstance(value, dict):
            return self._object(value, path, call or _is_call(value), in_pieces)
        if isinstance(value, list):
            return [
                self._value(item, (*path, _index(item, at)), call, in_pieces)
                for at, item in enumerate(value)
            ]
        return value


def opened(frame: Frame, form: StreamForm) -> list[OpenedFrame]:
    """A frame, or the events that it holds, one by one."""
    if isinstance(frame, ServerEvents):
        return [OpenedFrame(event, form) for event in frame.apart()]
    return [OpenedFrame(frame, form)]


def _tensor_texts(frame: RestBody | GrpcMessage) -> Iterator[str]:
    """Raises ValueError, UpstreamFailed."""
    if b"BYTES" not in (frame.body if isinstance(frame, RestBody) else frame.message):
        return
    reply = (
        rest_reply.decode_response(frame)
        if isinstance(frame, RestBody)
        else grpc.decode_response(frame)
    )
    for tensor in reply.outputs:
        at, data = 0, tensor.data if tensor.datatype == "BYTES" else b""
        while at < len(data):
            (length,) = struct.unpack_from("<I", data, at)
            at += _LENGTH_BYTES + length
            if at > len(data):
                raise Broken
            yield data[at - length : at].decode()


def _is_call(value: dict[str, Any]) -> bool:
    """Of a Responses item or event: its type says so."""
    kind = value.get("type")
    return isinstance(kind, str) and "_call" in kind


def _place(event: dict[str, Any]) -> tuple[Channel, str]:
    """Of which text a Responses event is, and whether it is a `delta` of it, or `done`."""
    kind = event.get("type")
    text, _, step = kind.rpartition(".") if isinstance(kind, str) else ("", "", "")
    return (text, *(_key(event.get(name)) for name in _PLACE)), step


def _index(item: Any, at: int) -> int:
    index = item.get("index") if isinstance(item, dict) else None
    return index if type(index) is int else at


def _key(value: Any) -> str | int:
    return value if isinstance(value, str | int) else ""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a key that stands twice, readers read the one or the other."""
    document = dict(pairs)
    if len(document) != len(pairs):
        raise Broken
    return document


def _dumps(document: Any) -> bytes:
    try:
        return strictjson.dumps(document)
    except ValueError:  # half of an emoji, which JSON can escape and UTF-8 cannot hold
        return json.dumps(document, separators=(",", ":")).encode()


class AnswerTexts:
    """The texts of an answer as they come, each once."""

    def __init__(self, max_bytes: int, held: AnswerShare | None = None) -> None:
        """`max_bytes`: of text; an answer with more is not read, nor one for which `held`, what its
        call holds, has no room."""
        self._max, self._size, self._held = max_bytes, 0, held
        self._pieces: dict[Channel, list[str]] = {}
        self._calls: set[Channel] = set()
        self._whole: dict[tuple[str, bool], None] = {}
        self.unread = ""  # why not all of it can be read

    def add(self, frame: OpenedFrame) -> None:
        self.unread = self.unread or frame.unread
        for each in frame.texts:
            self._add(*each)

    def _add(self, text: str, channel: Channel | None, in_tool_call: bool) -> None:
        if channel is None and (text, in_tool_call) in self._whole:
            return
        self._size += len(text)
        if self._size > self._max:
            self.unread = self.unread or OVER_CAP
        elif not self._has_room():  # guard: C20.held-bytes
            self.unread = self.unread or AnswersFull.reason
        elif channel is None:
            self._whole[text, in_tool_call] = None
        else:
            self._pieces.setdefault(channel, []).append(text)
            if in_tool_call:
                self._calls.add(channel)

    def _has_room(self) -> bool:
        held, size = self._held, self._size
        return held is None or size <= UNCOUNTED_BYTES or held.hold(self, size)

    def texts(self, in_tool_call: bool) -> list[str]:
        """Those within tool calls, or all others; what a stream says again whole stands once."""
        joined = [
            "".join(pieces)
            for channel, pieces in self._pieces.items()
            if (channel in self._calls) == in_tool_call
        ]
        whole = [text for text, in_call in self._whole if in_call == in_tool_call]
        return list(dict.fromkeys((*joined, *whole)))
