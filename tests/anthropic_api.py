"""An Anthropic Messages API on a loopback port, written from the published schema (August 2026).

It takes what the schema and the documented rules take and refuses all else with status 400, and
answers as its `reply` says. Nothing of it is the gateway's.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any, Literal

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

KEY = "sk-ant-0123456789abcdef"
VERSION = "2023-06-01"
Document = dict[str, Any]
NotBlank = Annotated[StrictStr, Field(pattern=r"\S")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class CacheControl(_Strict):
    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] = "5m"


class _Marked(_Strict):
    cache_control: CacheControl | None = None


class Text(_Marked):
    type: Literal["text"]
    text: NotBlank


class Base64Image(_Strict):
    type: Literal["base64"]
    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    data: NotBlank


class Address(_Strict):
    type: Literal["url"]
    url: Annotated[StrictStr, Field(pattern=r"^https://")]


class Image(_Marked):
    type: Literal["image"]
    source: Annotated[Base64Image | Address, Field(discriminator="type")]


class Base64Pdf(_Strict):
    type: Literal["base64"]
    media_type: Literal["application/pdf"]
    data: NotBlank


class PlainText(_Strict):
    type: Literal["text"]
    media_type: Literal["text/plain"]
    data: NotBlank


class Pdf(_Marked):
    type: Literal["document"]
    source: Annotated[Base64Pdf | PlainText | Address, Field(discriminator="type")]
    title: StrictStr | None = None
    context: StrictStr | None = None


class ToolUse(_Marked):
    type: Literal["tool_use"]
    id: Annotated[StrictStr, Field(pattern=r"^[a-zA-Z0-9_-]+$")]
    name: Annotated[StrictStr, Field(pattern=r"^[a-zA-Z0-9_-]{1,128}$")]
    input: dict[str, Any]


class ToolResult(_Marked):
    type: Literal["tool_result"]
    tool_use_id: Annotated[StrictStr, Field(pattern=r"^[a-zA-Z0-9_-]+$")]
    content: StrictStr | list[Annotated[Text | Image | Pdf, Field(discriminator="type")]] = ""
    is_error: StrictBool = False


class Thought(_Strict):
    type: Literal["thinking"]
    thinking: StrictStr
    signature: NotBlank


class HiddenThought(_Strict):
    type: Literal["redacted_thinking"]
    data: NotBlank


Block = Annotated[
    Text | Image | Pdf | ToolUse | ToolResult | Thought | HiddenThought,
    Field(discriminator="type"),
]


class Turn(_Strict):
    role: Literal["user", "assistant"]
    content: NotBlank | Annotated[list[Block], Field(min_length=1)]

    @property
    def blocks(self) -> list[Any]:
        return self.content if isinstance(self.content, list) else []


class InputSchema(BaseModel):
    model_config = ConfigDict(extra="allow")
    type: Literal["object"]


class Tool(_Marked):
    name: Annotated[StrictStr, Field(pattern=r"^[a-zA-Z0-9_-]{1,128}$")]
    description: StrictStr = ""
    input_schema: InputSchema
    strict: StrictBool = False
    type: Literal["custom"] = "custom"


class AutoChoice(_Strict):
    type: Literal["auto", "any"]
    disable_parallel_tool_use: StrictBool = False


class NoChoice(_Strict):
    type: Literal["none"]


class ToolChoice(_Strict):
    type: Literal["tool"]
    name: StrictStr
    disable_parallel_tool_use: StrictBool = False


class Metadata(_Strict):
    user_id: Annotated[StrictStr, Field(max_length=256)] | None = None


class Thinking(_Strict):
    type: Literal["adaptive", "disabled", "between_tools"]
    display: Literal["summarized", "omitted"] | None = None


class ThinkingBudget(_Strict):
    type: Literal["enabled"]
    budget_tokens: Annotated[StrictInt, Field(ge=1024)]
    display: Literal["summarized", "omitted"] | None = None


class OutputFormat(_Strict):
    type: Literal["json_schema"]
    schema_: Document = Field(alias="schema")


class OutputConfig(_Strict):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None


class Request(_Strict):
    model: NotBlank
    max_tokens: Annotated[StrictInt, Field(ge=1)]
    messages: Annotated[list[Turn], Field(min_length=1)]
    system: NotBlank | list[Text] | None = None
    stream: StrictBool = False
    temperature: Annotated[StrictFloat | StrictInt, Field(ge=0, le=1)] | None = None
    top_p: Annotated[StrictFloat | StrictInt, Field(ge=0, le=1)] | None = None
    top_k: Annotated[StrictInt, Field(ge=0)] | None = None
    stop_sequences: list[NotBlank] = []
    tools: list[Tool] = []
    tool_choice: (
        Annotated[AutoChoice | NoChoice | ToolChoice, Field(discriminator="type")] | None
    ) = None
    metadata: Metadata | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    thinking: Annotated[Thinking | ThinkingBudget, Field(discriminator="type")] | None = None
    cache_control: CacheControl | None = None
    output_config: OutputConfig | None = None

    @model_validator(mode="after")
    def _rules(self) -> Request:
        """What the documentation says beside the schema."""
        if self.temperature is not None and self.top_p is not None:
            raise ValueError("`temperature` and `top_p` cannot both be specified")
        if self.tool_choice is not None and not self.tools:
            raise ValueError("tool_choice: may only be specified with tools")
        if len({tool.name for tool in self.tools}) < len(self.tools):
            raise ValueError("tools: names must be unique")
        if self.thinking is not None and self.thinking.type in ("adaptive", "enabled"):
            forced = self.tool_choice is not None and self.tool_choice.type in ("any", "tool")
            if forced or self.temperature is not None or self.top_k is not None:
                raise ValueError("thinking: not with a forced tool or sampling")
        if self.output_config is not None and self.output_config.format is not None:
            _check_schema(self.output_config.format.schema_)
        self._check_turns()
        return self

    def _check_turns(self) -> None:
        open_calls: set[str] = set()
        role = ""
        for turn in self.messages:
            if turn.role == role:
                raise ValueError("messages: turns of one role were not made one")
            role = turn.role
            results = {b.tool_use_id for b in turn.blocks if b.type == "tool_result"}
            if results != open_calls:
                raise ValueError("messages: each tool_use needs its tool_result, next")
            kinds = [b.type for b in turn.blocks]
            if kinds != sorted(kinds, key=lambda kind: kind != "tool_result"):
                raise ValueError("messages: tool_result blocks must come first")
            calls = [b.id for b in turn.blocks if b.type == "tool_use"]
            open_calls = set(calls)
            if len(open_calls) < len(calls) or (calls and role == "user"):
                raise ValueError("messages: `tool_use` ids must be unique, of the assistant")
        if role == "assistant":
            raise ValueError("messages: this model does not support assistant message prefill")


def _check_schema(schema: Any) -> None:
    if not isinstance(schema, dict):
        raise ValueError("output_config.format.schema: not an object")
    if "properties" in schema and schema.get("additionalProperties") is not False:
        raise ValueError("output_config.format.schema: additionalProperties must be false")
    for key in ("minimum", "maximum", "multipleOf", "minLength", "maxLength", "maxItems", "oneOf"):
        if key in schema:
            raise ValueError(f"output_config.format.schema: property '{key}' is not supported")
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


@dataclass
class Reply:
    """What the API answers."""

    content: list[Document] = field(default_factory=list)
    stop_reason: str = "end_turn"
    usage: Document = field(default_factory=lambda: {"input_tokens": 7, "output_tokens": 5})
    stop_sequence: str | None = None
    status: int = 200
    error: str = ""  # its kind
    headers: Document = field(default_factory=dict)
    piece: int = 3  # characters of a delta
    events: int | None = None  # of a stream, that come before it is cut off, or before `error`
    held: threading.Event | None = None  # the stream waits for it behind those


def text(said: str) -> Document:
    return {"type": "text", "text": said}


def tool_use(name: str, own: str = "toolu_1", **given: Any) -> Document:
    return {"type": "tool_use", "id": own, "name": name, "input": given}


@dataclass
class AnthropicApi:
    url: str = ""
    reply: Callable[[Document], Reply] = lambda document: Reply([text("Hello.")])
    requests: list[Document] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)  # by who got a stream


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: AnthropicApi

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_GET(self) -> None:
        if self._may_call():
            self._send(200, {"data": [], "has_more": False})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not self._may_call():
            return
        if self.path != "/v1/messages":
            self._fail(404, "not_found_error", "Not Found")
            return
        document = json.loads(raw)
        if wrong := problem(document):
            self.api.refused.append(wrong)
            self._fail(400, "invalid_request_error", wrong)
            return
        self.api.requests.append(document)
        reply = self.api.reply(document)
        if reply.status != 200:
            self._fail(reply.status, reply.error, "Not now.", reply.headers)
        elif document.get("stream"):
            self._stream(reply)
        else:
            self._send(200, message_of(reply, reply.content, reply.stop_reason))

    def _may_call(self) -> bool:
        if self.headers.get("x-api-key") != KEY:
            self._fail(401, "authentication_error", "invalid x-api-key")
        elif self.headers.get("anthropic-version") != VERSION:
            self._fail(400, "invalid_request_error", "anthropic-version: header is required")
        else:
            return True
        return False

    def _fail(self, status: int, kind: str, words: str, headers: Document | None = None) -> None:
        error = {"type": kind, "message": words}
        self._send(status, {"type": "error", "error": error, "request_id": "req_1"}, headers)

    def _send(self, status: int, document: Document, headers: Document | None = None) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, reply: Reply) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("connection", "close")
        self.end_headers()
        events = stream_events(reply)
        try:
            for event in events[: reply.events]:
                self.wfile.write(written(event))
            if reply.held is not None:
                self._hold(reply.held)
            if reply.error:
                error = {"type": reply.error, "message": "Overloaded"}
                self.wfile.write(written({"type": "error", "error": error}))
        except OSError:
            self.api.left.set()

    def _hold(self, held: threading.Event) -> None:
        while not held.wait(0.02):
            self.wfile.write(written({"type": "ping"}))


def message_of(reply: Reply, content: list[Document], reason: str | None) -> Document:
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test",
        "content": content, "stop_reason": reason, "stop_sequence": reply.stop_sequence,
        "usage": reply.usage,
    }  # fmt: skip


def stream_events(reply: Reply) -> list[Document]:
    """All events of a stream of the answer."""
    start = message_of(reply, [], None)
    start["usage"] = {**reply.usage, "output_tokens": 1}
    events: list[Document] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for at, block in enumerate(reply.content):
        empty, pieces = _pieces(block, reply.piece)
        events.append({"type": "content_block_start", "index": at, "content_block": empty})
        events += [{"type": "content_block_delta", "index": at, "delta": each} for each in pieces]
        events.append({"type": "content_block_stop", "index": at})
    end = {"stop_reason": reply.stop_reason, "stop_sequence": reply.stop_sequence}
    counts = {"output_tokens": reply.usage["output_tokens"]}
    return [
        *events,
        {"type": "message_delta", "delta": end, "usage": counts},
        {"type": "message_stop"},
    ]


def _pieces(block: Document, size: int) -> tuple[Document, list[Document]]:
    kind = block["type"]
    if kind == "text":
        parts = _split(block["text"], size)
        return {"type": "text", "text": ""}, [{"type": "text_delta", "text": p} for p in parts]
    if kind == "thinking":
        parts = _split(block["thinking"], size)
        signature = {"type": "signature_delta", "signature": block["signature"]}
        deltas = [{"type": "thinking_delta", "thinking": part} for part in parts]
        return {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signature]
    if kind == "tool_use":
        given = block["input"]
        parts = ["", *(_split(json.dumps(given), size) if given else [])]
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
        return {**block, "input": {}}, deltas
    return block, []


def _split(whole: str, size: int) -> list[str]:
    return [whole[at : at + size] for at in range(0, len(whole), size)]


def written(event: Document) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


@contextlib.contextmanager
def anthropic_api() -> Iterator[AnthropicApi]:
    class Serving(_Handler):
        """One API's own."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Serving)
    server.daemon_threads = True
    Serving.api = AnthropicApi(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield Serving.api
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
