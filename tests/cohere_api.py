"""Cohere's Chat API (v2) on a loopback port, written from the published schema (November 2026).

It takes what the schema and the documented rules take and refuses all else with status 400, and
answers as its `reply` says; cohere's own types read all that it sends. Nothing of it is the
gateway's.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from cohere import types
from cohere.v2.types import V2ChatResponse
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from tests.emulated_api import ApiHandler, Document, EmulatedApi, serving, split

KEY = "co-0123456789abcdef"
Some = Annotated[StrictStr, Field(min_length=1)]
Number = StrictFloat | StrictInt


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Text(_Strict):
    type: Literal["text"]
    text: Some


class ImageUrl(_Strict):
    url: Annotated[StrictStr, Field(pattern=r"^(https://|data:image/(png|jpeg|gif|webp);base64,)")]
    detail: Literal["auto", "low", "high"] | None = None


class Image(_Strict):
    type: Literal["image_url"]
    image_url: ImageUrl


class Thinking(_Strict):
    type: Literal["thinking"]
    thinking: Some


class Function(_Strict):
    name: Some
    arguments: StrictStr


class ToolCall(_Strict):
    id: Some
    type: Literal["function"]
    function: Function


class User(_Strict):
    role: Literal["user"]
    content: (
        Some
        | Annotated[list[Annotated[Text | Image, Field(discriminator="type")]], Field(min_length=1)]
    )


class System(_Strict):
    role: Literal["system"]
    content: Some | Annotated[list[Text], Field(min_length=1)]


class Assistant(_Strict):
    role: Literal["assistant"]
    content: Some | list[Annotated[Text | Thinking, Field(discriminator="type")]] | None = None
    tool_calls: list[ToolCall] | None = None
    tool_plan: Some | None = None

    @model_validator(mode="after")
    def _rules(self) -> Assistant:
        if not self.content and not self.tool_calls:
            raise ValueError("an assistant message must have content or tool calls")
        if self.tool_plan and not self.tool_calls:
            raise ValueError("tool_plan: goes with tool calls")
        return self


class Tool(_Strict):
    role: Literal["tool"]
    tool_call_id: Some
    content: StrictStr | Annotated[list[Text], Field(min_length=1)]


class Declared(_Strict):
    name: Some
    description: StrictStr = ""
    parameters: Document


class Declaration(_Strict):
    type: Literal["function"]
    function: Declared


class Citations(_Strict):
    mode: Literal["ENABLED", "DISABLED", "FAST", "ACCURATE", "OFF"]


class Format(_Strict):
    type: Literal["text", "json_object"]
    json_schema: Document | None = None


class Thought(_Strict):
    type: Literal["enabled", "disabled"]
    token_budget: StrictInt | None = None


class Request(_Strict):
    model: Some
    messages: Annotated[
        list[Annotated[User | System | Assistant | Tool, Field(discriminator="role")]],
        Field(min_length=1),
    ]
    stream: StrictBool
    tools: list[Declaration] | None = None
    strict_tools: StrictBool = False
    citation_options: Citations | None = None
    response_format: Format | None = None
    max_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    stop_sequences: Annotated[list[Some], Field(max_length=5)] = []
    temperature: Annotated[Number, Field(ge=0)] | None = None
    seed: Annotated[StrictInt, Field(ge=0, lt=1 << 64)] | None = None
    frequency_penalty: Annotated[Number, Field(ge=0, le=1)] | None = None
    presence_penalty: Annotated[Number, Field(ge=0, le=1)] | None = None
    k: Annotated[StrictInt, Field(ge=0, le=500)] | None = None
    p: Annotated[Number, Field(ge=0.01, le=0.99)] | None = None
    logprobs: StrictBool = False
    tool_choice: Literal["REQUIRED", "NONE"] | None = None
    thinking: Thought | None = None

    @model_validator(mode="after")
    def _rules(self) -> Request:
        """What the documentation says beside the schema."""
        if self.tool_choice is not None and not self.tools:
            raise ValueError("tool_choice: tools must be passed")
        shape = self.response_format
        if shape is not None and shape.type == "json_object" and self.tools:
            raise ValueError("response_format: not with tools")
        schemas = [shape.json_schema] if shape is not None and shape.json_schema else []
        if self.strict_tools:
            schemas += [tool.function.parameters for tool in self.tools or ()]
        for schema in schemas:
            if schema.get("type") != "object" or not schema.get("required"):
                raise ValueError("a schema is of an object with a required field")
            _check_schema(schema)
        called = {
            call.id for m in self.messages if m.role == "assistant" for call in m.tool_calls or ()
        }
        if not {m.tool_call_id for m in self.messages if m.role == "tool"} <= called:
            raise ValueError("tool_call_id: not of a tool call")
        if self.messages[-1].role not in ("user", "tool"):
            raise ValueError("messages: the last one must be of the user, or a result")
        return self


def _check_schema(schema: Document) -> None:
    for key in ("minimum", "maximum", "minItems", "maxItems", "minLength", "oneOf", "allOf", "not"):
        if key in schema:
            raise ValueError(f"json_schema: {key} is not supported")
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    for each in [*inner, *([schema["items"]] if "items" in schema else [])]:
        _check_schema(each)


def problem(document: Any) -> str:
    """Why the API refuses a request; empty: it takes it."""
    try:
        Request.model_validate(document)
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return ""


def _usage() -> Document:
    return {
        "billed_units": {"input_tokens": 7.0, "output_tokens": 5.0},
        "tokens": {"input_tokens": 71.0, "output_tokens": 5.0},
        "cached_tokens": 3.0,
    }


@dataclass
class Reply:
    """What the API answers."""

    content: list[Document] = field(default_factory=list)
    calls: list[Document] = field(default_factory=list)
    plan: str = ""
    finish: str = "COMPLETE"
    usage: Document = field(default_factory=_usage)
    status: int = 200
    error: str = "Not now."
    headers: Document = field(default_factory=dict)
    piece: int = 3  # characters of a delta
    events: int | None = None  # of a stream, that come before it is cut off
    held: threading.Event | None = None


def text(said: str) -> Document:
    return {"type": "text", "text": said}


def thinking(thought: str) -> Document:
    return {"type": "thinking", "thinking": thought}


def call(name: str, own: str = "trams_1", **given: Any) -> Document:
    arguments = json.dumps(given)
    return {"id": own, "type": "function", "function": {"name": name, "arguments": arguments}}


@dataclass
class CohereApi(EmulatedApi):
    reply: Callable[[Document], Reply] = lambda document: Reply([text("Hello.")])


class _Handler(ApiHandler):
    api: CohereApi

    def do_GET(self) -> None:
        if self._may_call():
            self.send_document(200, {"models": []})

    def do_POST(self) -> None:
        document = self.read_document()
        if not self._may_call():
            return
        if self.path != "/v2/chat":
            self.send_document(404, {"message": "Not Found"})
        elif wrong := problem(document):
            self.api.refused.append(wrong)
            self.send_document(400, {"id": "e1", "message": wrong})
        else:
            self.api.requests.append(document)
            self.api.paths.append(self.path)
            self._answer(self.api.reply(document), document["stream"])

    def _answer(self, reply: Reply, streamed: bool) -> None:
        if reply.status != 200:
            self.send_document(reply.status, {"id": "e1", "message": reply.error}, reply.headers)
        elif streamed:
            events = list(map(written, stream_events(reply)[: reply.events]))
            self.send_events(events, self.api, reply.held)
        else:
            self.send_document(200, whole(reply))

    def _may_call(self) -> bool:
        if self.headers.get("authorization") == f"Bearer {KEY}":
            return True
        self.send_document(401, {"message": "invalid api token"})
        return False


def whole(reply: Reply) -> Document:
    message: Document = {"role": "assistant"}
    if reply.content:
        message["content"] = reply.content
    if reply.calls:
        message |= {"tool_plan": reply.plan, "tool_calls": reply.calls}
    made = {"id": "c1", "finish_reason": reply.finish, "message": message, "usage": reply.usage}
    V2ChatResponse.model_validate(made)
    return made


_EVENTS: dict[str, Any] = {
    "message-start": types.ChatMessageStartEvent,
    "content-start": types.ChatContentStartEvent,
    "content-delta": types.ChatContentDeltaEvent,
    "content-end": types.ChatContentEndEvent,
    "tool-plan-delta": types.ChatToolPlanDeltaEvent,
    "tool-call-start": types.ChatToolCallStartEvent,
    "tool-call-delta": types.ChatToolCallDeltaEvent,
    "tool-call-end": types.ChatToolCallEndEvent,
    "message-end": types.ChatMessageEndEvent,
}


def _event(kind: str, delta: Any = None, **more: Any) -> Document:
    made = {"type": kind, **more, **({} if delta is None else {"delta": delta})}
    _EVENTS[kind].model_validate(made)
    return made


def _message(**fields: Any) -> Document:
    return {"message": fields}


def stream_events(reply: Reply) -> list[Document]:
    """All events of a stream of the answer."""
    start = _message(role="assistant", content=[], tool_plan="", tool_calls=[], citations=[])
    events = [_event("message-start", start, id="c1")]
    for piece in split(reply.plan, reply.piece) if reply.calls else ():
        events.append(_event("tool-plan-delta", _message(tool_plan=piece)))
    for at, made in enumerate(reply.calls):
        events += _call_events(at, made, reply.piece)
    for at, block in enumerate(reply.content):
        kind = block["type"]
        begun = _message(content={"type": kind, kind: ""})
        events.append(_event("content-start", begun, index=at))
        for piece in split(block[kind], reply.piece):
            events.append(_event("content-delta", _message(content={kind: piece}), index=at))
        events.append(_event("content-end", index=at))
    return [*events, _event("message-end", {"finish_reason": reply.finish, "usage": reply.usage})]


def _call_events(at: int, made: Document, size: int) -> list[Document]:
    arguments = made["function"]["arguments"]
    begun = {**made, "function": {**made["function"], "arguments": ""}}
    pieces = split(arguments, size) if arguments != "{}" else []
    deltas = [_message(tool_calls={"function": {"arguments": piece}}) for piece in pieces]
    return [
        _event("tool-call-start", _message(tool_calls=begun), index=at),
        *[_event("tool-call-delta", delta, index=at) for delta in deltas],
        _event("tool-call-end", index=at),
    ]


def written(event: Document) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


@contextlib.contextmanager
def cohere_api() -> Iterator[CohereApi]:
    class Serving(_Handler):
        """One API's own."""

    Serving.api = CohereApi()
    with serving(Serving.api, Serving) as api:
        yield api
