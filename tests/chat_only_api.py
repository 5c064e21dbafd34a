"""An API of chat completions alone on a loopback port, written from OpenAI's published schema.

It takes what the schema of messages and parameters takes and refuses all else with status 400, and
knows no other path. Thoughts, which that schema has not, go under `reasoning_content`, as the
servers that have them take and tell them. Nothing of it is the gateway's.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, ValidationError

Document = dict[str, Any]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TextPart(_Strict):
    type: Literal["text"]
    text: StrictStr


class ImageUrl(_Strict):
    url: StrictStr
    detail: Literal["auto", "low", "high"] = "auto"


class ImagePart(_Strict):
    type: Literal["image_url"]
    image_url: ImageUrl


class File(_Strict):
    file_data: StrictStr
    filename: StrictStr | None = None


class FilePart(_Strict):
    type: Literal["file"]
    file: File


class Sound(_Strict):
    data: StrictStr
    format: Literal["wav", "mp3"]


class SoundPart(_Strict):
    type: Literal["input_audio"]
    input_audio: Sound


Parts = Annotated[list[TextPart], Field(min_length=1)]
UserParts = Annotated[
    list[Annotated[TextPart | ImagePart | FilePart | SoundPart, Field(discriminator="type")]],
    Field(min_length=1),
]


class CalledFunction(_Strict):
    name: Annotated[StrictStr, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    arguments: StrictStr


class ToolCall(_Strict):
    id: StrictStr
    type: Literal["function"]
    function: CalledFunction


class System(_Strict):
    role: Literal["system"]
    content: StrictStr | Parts


class User(_Strict):
    role: Literal["user"]
    content: StrictStr | UserParts


class Assistant(_Strict):
    role: Literal["assistant"]
    content: StrictStr | Parts | None
    refusal: StrictStr | None = None
    tool_calls: Annotated[list[ToolCall], Field(min_length=1)] | None = None
    reasoning_content: StrictStr | None = None


class Result(_Strict):
    role: Literal["tool"]
    content: StrictStr | Parts
    tool_call_id: StrictStr


class Function(_Strict):
    name: Annotated[StrictStr, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    description: StrictStr = ""
    parameters: Document = {}
    strict: StrictBool = False


class Tool(_Strict):
    type: Literal["function"]
    function: Function


class ChosenFunction(_Strict):
    name: StrictStr


class Choice(_Strict):
    type: Literal["function"]
    function: ChosenFunction


class JsonSchema(_Strict):
    name: StrictStr
    schema_: Document = Field(alias="schema")
    strict: StrictBool | None = None
    description: StrictStr | None = None


class SchemaFormat(_Strict):
    type: Literal["json_schema"]
    json_schema: JsonSchema


class OtherFormat(_Strict):
    type: Literal["json_object", "text"]


class StreamOptions(_Strict):
    include_usage: StrictBool = False


class Request(_Strict):
    model: StrictStr
    messages: Annotated[
        list[Annotated[System | User | Assistant | Result, Field(discriminator="role")]],
        Field(min_length=1),
    ]
    stream: StrictBool = False
    stream_options: StreamOptions | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | Choice | None = None
    parallel_tool_calls: StrictBool | None = None
    response_format: SchemaFormat | OtherFormat | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    user: StrictStr | None = None
    safety_identifier: StrictStr | None = None
    prompt_cache_key: StrictStr | None = None
    service_tier: Literal["auto", "default", "flex", "priority"] | None = None


def problem(document: Any) -> str:
    """Why the API refuses a request; empty: it takes it."""
    try:
        request = Request.model_validate(document)
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    if request.tools is None and (request.tool_choice or request.parallel_tool_calls is not None):
        return "tool_choice: only with tools"
    return _unanswered(request.messages)


def _unanswered(messages: list[Any]) -> str:
    """Each call has its result next, before anybody says something."""
    open_calls: set[str] = set()
    for message in messages:
        if message.role == "tool":
            if message.tool_call_id not in open_calls:
                return "messages: a tool message must follow the call that it answers"
            open_calls.discard(message.tool_call_id)
        elif open_calls:
            return "messages: each tool call must be followed by its tool message"
        elif message.role == "assistant":
            open_calls = {call.id for call in message.tool_calls or ()}
    return ""


@dataclass
class Reply:
    """What the API answers."""

    content: str | None = "Line four."
    thoughts: str = ""
    calls: list[Document] = field(default_factory=list)
    more: Document = field(default_factory=dict)  # of the message
    finish: str = "stop"
    usage: Document = field(
        default_factory=lambda: {
            "prompt_tokens": 7,
            "completion_tokens": 5,
            "total_tokens": 12,
            "prompt_tokens_details": {"cached_tokens": 3},
            "completion_tokens_details": {"reasoning_tokens": 2},
        }
    )
    status: int = 200
    piece: int = 3  # characters of a delta
    chunks: int | None = None  # of a stream, that come before it is cut off
    held: threading.Event | None = None  # the stream waits for it behind those


def call(name: str, own: str = "call_1", **given: Any) -> Document:
    function = {"name": name, "arguments": json.dumps(given)}
    return {"id": own, "type": "function", "function": function}


@dataclass
class ChatApi:
    url: str = ""
    reply: Callable[[Document], Reply] = lambda document: Reply()
    requests: list[Document] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)  # by who got a stream


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: ChatApi

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_GET(self) -> None:
        self._send(200, {"object": "list", "data": []})

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        if self.path != "/v1/chat/completions":
            self.api.refused.append(self.path)
            self._fail(404, "Not Found")
        elif wrong := problem(document):
            self.api.refused.append(wrong)
            self._fail(400, wrong)
        else:
            self.api.requests.append(document)
            reply = self.api.reply(document)
            if reply.status != 200:
                self._fail(reply.status, "Not now.")
            elif document.get("stream"):
                self._stream(reply, bool(document.get("stream_options") or {}))
            else:
                self._send(200, completion(reply))

    def _fail(self, status: int, words: str) -> None:
        error = {"message": words, "type": "invalid_request_error", "param": None, "code": None}
        self._send(status, {"error": error})

    def _send(self, status: int, document: Document) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, reply: Reply, usage: bool) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        try:
            for chunk in chunks_of(reply, usage)[: reply.chunks]:
                self.wfile.write(b"data: %b\n\n" % json.dumps(chunk).encode())
            while reply.held is not None and not reply.held.wait(0.02):
                self.wfile.write(b": waiting\n\n")
            if reply.chunks is None:
                self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            self.api.left.set()


def completion(reply: Reply) -> Document:
    """The whole answer."""
    message = {"role": "assistant", "content": reply.content, "refusal": None, **reply.more}
    if reply.thoughts:
        message["reasoning_content"] = reply.thoughts
    if reply.calls:
        message["tool_calls"] = reply.calls
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "chat-test",
            "choices": [choice], "usage": reply.usage}  # fmt: skip


def chunks_of(reply: Reply, usage: bool = True) -> list[Document]:
    """All chunks of a stream of the answer."""
    deltas: list[Document] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": each} for each in _split(reply.thoughts, reply.piece)]
    deltas += [{"content": each} for each in _split(reply.content or "", reply.piece)]
    deltas += [{name: value} for name, value in reply.more.items() if value]
    for at, each in enumerate(reply.calls):
        function = each["function"]
        begun = {**each, "index": at, "function": {**function, "arguments": ""}}
        deltas.append({"tool_calls": [begun]})
        for piece in _split(function["arguments"], reply.piece):
            deltas.append({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
    chunks = [_chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
    chunks.append(_chunk([{"index": 0, "delta": {}, "finish_reason": reply.finish}]))
    return [*chunks, _chunk([], usage=reply.usage)] if usage else chunks


def _chunk(choices: list[Document], **more: Any) -> Document:
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1,
            "model": "chat-test", "choices": choices, **more}  # fmt: skip


def _split(whole: str, size: int) -> list[str]:
    return [whole[at : at + size] for at in range(0, len(whole), size)]


@contextlib.contextmanager
def chat_api() -> Iterator[ChatApi]:
    class Own(_Handler):
        """One API's own."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Own)
    Own.api = ChatApi(f"http://127.0.0.1:{server.server_address[1]}")
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield Own.api
    finally:
        server.shutdown()
        server.server_close()
        serving.join(10)
