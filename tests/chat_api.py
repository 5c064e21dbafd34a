"""A chat completions API on a loopback port, written from OpenAI's published schema (August 2026).

It takes what the schema takes, and `reasoning_content` and `top_k` as vLLM adds them; it refuses
all else with status 400, and answers as its `reply` says. Nothing of it is the gateway's.
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
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

Document = dict[str, Any]
NotEmpty = Annotated[StrictStr, Field(min_length=1)]
Number = Annotated[float, Field(strict=True)]


class _Exact(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TextPart(_Exact):
    type: Literal["text"]
    text: StrictStr


class ImageAddress(_Exact):
    url: NotEmpty
    detail: Literal["auto", "low", "high"] = "auto"


class ImagePart(_Exact):
    type: Literal["image_url"]
    image_url: ImageAddress


class FileContent(_Exact):
    file_data: NotEmpty
    filename: NotEmpty


class FilePart(_Exact):
    type: Literal["file"]
    file: FileContent


class Sound(_Exact):
    data: NotEmpty
    format: Literal["wav", "mp3"]


class SoundPart(_Exact):
    type: Literal["input_audio"]
    input_audio: Sound


Parts = Annotated[list[TextPart], Field(min_length=1)]
UserParts = Annotated[
    list[Annotated[TextPart | ImagePart | FilePart | SoundPart, Field(discriminator="type")]],
    Field(min_length=1),
]


class Instructions(_Exact):
    role: Literal["system", "developer"]
    content: StrictStr | Parts


class UserMessage(_Exact):
    role: Literal["user"]
    content: StrictStr | UserParts


class CalledFunction(_Exact):
    name: NotEmpty
    arguments: StrictStr


class FunctionCall(_Exact):
    id: NotEmpty
    type: Literal["function"]
    function: CalledFunction


class AssistantMessage(_Exact):
    role: Literal["assistant"]
    content: StrictStr | Parts | None = None
    refusal: StrictStr | None = None
    reasoning_content: StrictStr | None = None
    tool_calls: Annotated[list[FunctionCall], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> AssistantMessage:
        if self.content is None and self.refusal is None and not self.tool_calls:
            raise ValueError("content: is required unless tool_calls is specified")
        return self


class ToolMessage(_Exact):
    role: Literal["tool"]
    tool_call_id: NotEmpty
    content: StrictStr | Parts


Message = Annotated[
    Instructions | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")
]


class Function(_Exact):
    name: Annotated[StrictStr, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    description: StrictStr | None = None
    parameters: Document | None = None
    strict: StrictBool | None = None


class FunctionTool(_Exact):
    type: Literal["function"]
    function: Function


class FunctionName(_Exact):
    name: NotEmpty


class NamedFunction(_Exact):
    type: Literal["function"]
    function: FunctionName


class JsonSchema(_Exact):
    name: Annotated[StrictStr, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    description: StrictStr | None = None
    schema_: Document = Field(alias="schema")
    strict: StrictBool | None = None


class JsonFormat(_Exact):
    type: Literal["json_object"]


class SchemaFormat(_Exact):
    type: Literal["json_schema"]
    json_schema: JsonSchema


class StreamOptions(_Exact):
    include_usage: StrictBool


class ChatRequest(_Exact):
    model: NotEmpty
    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    max_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    stream: StrictBool = False
    stream_options: StreamOptions | None = None
    temperature: Annotated[Number, Field(ge=0, le=2)] | None = None
    top_p: Annotated[Number, Field(ge=0, le=1)] | None = None
    top_k: StrictInt | None = None
    stop: StrictStr | list[StrictStr] | None = None
    seed: StrictInt | None = None
    n: StrictInt | None = None
    presence_penalty: Annotated[Number, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[Number, Field(ge=-2, le=2)] | None = None
    logprobs: StrictBool | None = None
    top_logprobs: Annotated[StrictInt, Field(ge=0, le=20)] | None = None
    user: StrictStr | None = None
    service_tier: Literal["auto", "default", "flex", "priority"] | None = None
    tools: Annotated[list[FunctionTool], Field(min_length=1)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedFunction | None = None
    parallel_tool_calls: StrictBool | None = None
    metadata: dict[str, str] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    response_format: SchemaFormat | JsonFormat | None = None

    @model_validator(mode="after")
    def _rules(self) -> ChatRequest:
        """What the documentation says beside the schema."""
        if (self.tool_choice or self.parallel_tool_calls is not None) and not self.tools:
            raise ValueError("tool_choice: is only allowed when tools are specified")
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options: is only allowed when stream is enabled")
        open_calls: list[str] = []
        for message in self.messages:
            if isinstance(message, ToolMessage):
                if message.tool_call_id not in open_calls:
                    raise ValueError("messages: a tool message answers a preceding call")
                open_calls.remove(message.tool_call_id)
            elif open_calls:
                raise ValueError("messages: each call must be followed by its tool message")
            elif isinstance(message, AssistantMessage):
                open_calls = [call.id for call in message.tool_calls or ()]
        return self


def problem(document: Any) -> str:
    """Why the API refuses a request; empty: it takes it."""
    try:
        ChatRequest.model_validate(document)
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return ""


@dataclass
class ChatReply:
    """What the API answers."""

    message: Document = field(default_factory=lambda: {"content": "Hello."})
    finish_reason: str = "stop"
    usage: Document = field(
        default_factory=lambda: {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    )
    choice: Document = field(default_factory=dict)  # more fields of the choice
    status: int = 200
    error: str = ""  # its type
    headers: Document = field(default_factory=dict)
    piece: int = 3  # characters of a delta
    chunks: int | None = None  # of a stream, that come before it is cut off, or before `error`
    held: threading.Event | None = None  # the stream waits for it behind those


@dataclass
class ChatApi:
    url: str = ""
    reply: Callable[[Document], ChatReply] = lambda document: ChatReply()
    requests: list[Document] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)  # by who got a stream


class _ChatHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: ChatApi

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_GET(self) -> None:
        self._send(200, {"object": "list", "data": []})

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        if self.path == "/v1/embeddings":
            self.api.requests.append(document)
            vectors = [
                {"object": "embedding", "index": at, "embedding": [float(at), 0.5]}
                for at, _ in enumerate(document["input"])
            ]
            self._send(200, {"object": "list", "data": vectors, "model": "m", "usage": {}})
            return
        if self.path != "/v1/chat/completions":
            self._fail(404, "invalid_request_error", "Not Found")
            return
        if wrong := problem(document):
            self.api.refused.append(wrong)
            self._fail(400, "invalid_request_error", wrong)
            return
        self.api.requests.append(document)
        reply = self.api.reply(document)
        if reply.status != 200:
            self._fail(reply.status, reply.error, "Not now.", reply.headers)
        elif document.get("stream"):
            self._stream(reply, bool(document.get("stream_options")))
        else:
            message = {"role": "assistant", "content": None, **reply.message}
            choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
            whole = {"choices": [{**choice, **reply.choice}], "usage": reply.usage}
            self._send(200, {**_head("chat.completion"), **whole})

    def _fail(self, status: int, kind: str, words: str, headers: Document | None = None) -> None:
        error = {"message": words, "type": kind, "param": None, "code": None}
        self._send(status, {"error": error}, headers)

    def _send(self, status: int, document: Document, headers: Document | None = None) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, reply: ChatReply, usage: bool) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        written = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks(reply, usage)]
        if reply.chunks is None:
            written.append(b"data: [DONE]\n\n")
        try:
            for each in written[: reply.chunks]:
                self.wfile.write(each)
            if reply.held is not None:
                self._hold(reply.held)
            if reply.error:
                error = {"error": {"message": "Overloaded", "type": reply.error}}
                self.wfile.write(f"data: {json.dumps(error)}\n\n".encode())
        except OSError:
            self.api.left.set()

    def _hold(self, held: threading.Event) -> None:
        while not held.wait(0.02):
            self.wfile.write(b": waiting\n\n")


def _head(kind: str) -> Document:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "gpt-test"}


def chunks(reply: ChatReply, usage: bool) -> list[Document]:
    """All chunks of a stream of the answer."""
    deltas: list[Document] = [{"role": "assistant", "content": ""}]
    for key in ("reasoning_content", "content", "refusal"):
        deltas += [{key: piece} for piece in _split(reply.message.get(key) or "", reply.piece)]
    for at, call in enumerate(reply.message.get("tool_calls", ())):
        function = {"name": call["function"]["name"], "arguments": ""}
        deltas.append({"tool_calls": [{**call, "index": at, "function": function}]})
        for piece in _split(call["function"]["arguments"], reply.piece):
            deltas.append({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
    choices: list[Document] = [
        {"index": 0, "delta": delta, "finish_reason": None} for delta in deltas
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": reply.finish_reason, **reply.choice})
    head = _head("chat.completion.chunk")
    made = [{**head, "choices": [choice]} for choice in choices]
    return [*made, {**head, "choices": [], "usage": reply.usage}] if usage else made


def _split(whole: str, size: int) -> list[str]:
    return [whole[at : at + size] for at in range(0, len(whole), size)]


def function_call(name: str, own: str = "call_1", **given: Any) -> Document:
    function = {"name": name, "arguments": json.dumps(given)}
    return {"id": own, "type": "function", "function": function}


@contextlib.contextmanager
def chat_api() -> Iterator[ChatApi]:
    class Serving(_ChatHandler):
        """One API's own."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Serving)
    server.daemon_threads = True
    Serving.api = ChatApi(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield Serving.api
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
