"""Google's `generateContent` on a loopback port, written from the published schema (November 2026):
that of google-genai's own types, which take no field that they do not have.

It refuses what the schema or the documented rules do not take with status 400, and answers as its
`reply` says. Nothing of it is the gateway's.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import unquote

from google.genai import types
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from tests.emulated_api import ApiHandler, Document, EmulatedApi, serving, split

KEY = "AIza0123456789abcdef"
MODEL = "gemini-test"
_DATA = ("text", "inline_data", "file_data", "function_call", "function_response")
_SCHEMA_KEYS = {
    "$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "items",
    "prefixItems", "minItems", "maxItems", "minimum", "maximum", "anyOf", "properties",
    "additionalProperties", "required", "propertyOrdering", "default",
}  # fmt: skip
_MEDIA = {
    "image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "application/pdf",
    "audio/wav", "audio/mp3",
}  # fmt: skip


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)
    contents: Annotated[list[types.Content], Field(min_length=1)]
    system_instruction: types.Content | None = None
    tools: list[types.Tool] = []
    tool_config: types.ToolConfig | None = None
    generation_config: types.GenerationConfig | None = None

    @model_validator(mode="after")
    def _rules(self) -> Request:
        """What the documentation says beside the schema."""
        for content in [*self.contents, self.system_instruction]:
            if content is not None:
                _check_parts(content.parts or [])
        names = [f.name for tool in self.tools for f in tool.function_declarations or ()]
        if len(set(names)) < len(names):
            raise ValueError("tools: duplicate function declaration")
        self._check_calling(names)
        self._check_turns()
        if self.generation_config is not None:
            _check_config(self.generation_config)
        return self

    def _check_calling(self, names: list[Any]) -> None:
        calling = None if self.tool_config is None else self.tool_config.function_calling_config
        if calling is None:
            return
        if not names:
            raise ValueError("Function calling config is set without function_declarations")
        allowed = calling.allowed_function_names or []
        fitting = calling.mode is not None and calling.mode.value in ("ANY", "VALIDATED")
        if not set(allowed) <= set(names) or (allowed and not fitting):
            raise ValueError("allowed_function_names: not of the declarations, or of another mode")

    def _check_turns(self) -> None:
        called: list[tuple[Any, Any]] = []
        role = ""
        for content in self.contents:
            parts = content.parts or []
            answered = [
                (each.function_response.id, each.function_response.name)
                for each in parts
                if each.function_response is not None
            ]
            if sorted(answered) != sorted(called) or (answered and len(answered) < len(parts)):
                raise ValueError("function response parts must equal the function call parts")
            calls = [part for part in parts if part.function_call is not None]
            if calls and (content.role != "model" or role == ""):
                raise ValueError("a function call turn comes after a user turn")
            if calls and not calls[0].thought_signature:
                raise ValueError("Function call is missing a thought_signature")
            called = [(c.function_call.id, c.function_call.name) for c in calls if c.function_call]
            if content.role not in ("user", "model"):
                raise ValueError("Please use a valid role: user, model.")
            role = content.role
        if role != "user" or called:
            raise ValueError("multiturn requests end with a user turn")


def _check_parts(parts: list[types.Part]) -> None:
    if not parts:
        raise ValueError("must include at least one parts field")
    for part in parts:
        if sum(getattr(part, name) is not None for name in _DATA) != 1:
            raise ValueError("required oneof field 'data' must have one initialized field")
        if part.text == "" and not part.thought_signature:
            raise ValueError("must have a text parameter")
        media = part.inline_data or part.file_data
        if media is not None and media.mime_type not in _MEDIA:
            raise ValueError("Unsupported MIME type")
        if part.inline_data is not None and part.inline_data.display_name is not None:
            raise ValueError('Unknown name "displayName"')


def _check_config(config: types.GenerationConfig) -> None:
    limits = (
        ("temperature", 0, 2), ("top_p", 0, 1), ("top_k", 1, 1 << 31), ("candidate_count", 1, 8),
        ("presence_penalty", -2, 1.9999), ("frequency_penalty", -2, 1.9999), ("logprobs", 0, 20),
        ("max_output_tokens", 1, 1 << 31), ("seed", -(1 << 31), (1 << 31) - 1),
    )  # fmt: skip
    for name, low, high in limits:
        value = getattr(config, name)
        if value is not None and not low <= value <= high:
            raise ValueError(f"generation_config.{name}: out of range")
    if len(config.stop_sequences or []) > 5 or "" in (config.stop_sequences or []):
        raise ValueError("generation_config.stop_sequences: up to 5, none empty")
    if config.logprobs is not None and not config.response_logprobs:
        raise ValueError("generation_config.logprobs: response_logprobs is not set")
    if config.response_json_schema is not None:
        if config.response_mime_type != "application/json":
            raise ValueError("generation_config.response_json_schema: needs application/json")
        _check_schema(config.response_json_schema)


def _check_schema(schema: Any) -> None:
    """The API overlooks what it does not know; here that is a fault."""
    if isinstance(schema, bool):
        return
    if unknown := schema.keys() - _SCHEMA_KEYS:
        raise ValueError(f"response_json_schema: {sorted(unknown)} would be ignored")
    if "$ref" in schema and any(not key.startswith("$") for key in schema):
        raise ValueError("response_json_schema: $ref has no other fields")
    for key in ("properties", "$defs"):
        for each in schema.get(key, {}).values():
            _check_schema(each)
    for each in [*schema.get("anyOf", []), *schema.get("prefixItems", [])]:
        _check_schema(each)
    for key in ("items", "additionalProperties"):
        if key in schema:
            _check_schema(schema[key])


def problem(document: Any) -> str:
    """Why the API refuses a request; empty: it takes it."""
    try:
        Request.model_validate_json(json.dumps(document))
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return ""


USAGE = {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12}


@dataclass
class Reply:
    """What the API answers: parts of each candidate, or why there is none."""

    candidates: list[list[Document]] = field(default_factory=list)
    finish: str = "STOP"
    usage: Document = field(default_factory=lambda: dict(USAGE))
    blocked: str = ""
    logprobs: Document | None = None
    status: int = 200
    error: str = ""  # its code
    details: list[Document] = field(default_factory=list)
    piece: int = 3  # characters of a text in an event
    events: int | None = None  # of a stream, that come before it is cut off, or before `error`
    held: threading.Event | None = None


def text(said: str, **more: Any) -> Document:
    return {"text": said, **more}


def calls(name: str, signature: str = "", own: str = "", **given: Any) -> Document:
    call = {"name": name, "args": given, **({"id": own} if own else {})}
    return {"functionCall": call, **({"thoughtSignature": signature} if signature else {})}


@dataclass
class GeminiApi(EmulatedApi):
    reply: Callable[[Document], Reply] = lambda document: Reply([[text("Hello.")]])


class _Handler(ApiHandler):
    api: GeminiApi

    def do_GET(self) -> None:
        if self._may_call():
            self.send_document(200, {"models": []})

    def do_POST(self) -> None:
        document = self.read_document()
        if not self._may_call():
            return
        path, _, query = self.path.partition("?")
        place, _, method = unquote(path).rpartition(":")
        streamed = method == "streamGenerateContent"
        if place not in (
            f"/v1beta/models/{MODEL}",
            f"/v1/projects/p/locations/l/publishers/google/models/{MODEL}",
        ) or (method != "generateContent" and not (streamed and query == "alt=sse")):
            self._fail(404, "NOT_FOUND", "Not Found")
        elif wrong := problem(document):
            self.api.refused.append(wrong)
            self._fail(400, "INVALID_ARGUMENT", wrong)
        else:
            self.api.requests.append(document)
            self.api.paths.append(self.path)
            self._answer(self.api.reply(document), streamed)

    def _answer(self, reply: Reply, streamed: bool) -> None:
        if reply.status != 200:
            self._fail(reply.status, reply.error, "Not now.", reply.details)
        elif not streamed:
            self.send_document(200, whole(reply))
        else:
            events = list(map(written, stream_events(reply)[: reply.events]))
            if reply.error:
                error = {"code": 503, "message": "Overloaded", "status": reply.error}
                events.append(written({"error": error}))
            self.send_events(events, self.api, reply.held)

    def _may_call(self) -> bool:
        if self.headers.get("x-goog-api-key") == KEY or self.headers.get("authorization"):
            return True
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
        self._fail(400, "INVALID_ARGUMENT", "API key not valid.", [info])
        return False

    def _fail(
        self, status: int, code: str, words: str, details: list[Document] | None = None
    ) -> None:
        error = {"code": status, "message": words, "status": code, "details": details or []}
        self.send_document(status, {"error": error})


def whole(reply: Reply) -> Document:
    return _response(
        [_candidate(at, parts, reply) for at, parts in enumerate(reply.candidates)], reply
    )


def _candidate(at: int, parts: list[Document], reply: Reply, ends: bool = True) -> Document:
    made: Document = {"content": {"role": "model", "parts": parts}, "index": at}
    if ends:
        made["finishReason"] = reply.finish
        if reply.finish == "SAFETY":
            made["finishMessage"] = "That would harm."
        if reply.logprobs:
            made["logprobsResult"] = reply.logprobs
    return made


def _response(candidates: list[Document], reply: Reply) -> Document:
    made: Document = {
        "usageMetadata": reply.usage, "modelVersion": MODEL, "responseId": "r1",
    }  # fmt: skip
    if reply.blocked:
        feedback = {"blockReason": reply.blocked, "blockReasonMessage": "That is forbidden."}
        made["promptFeedback"] = feedback
    else:
        made["candidates"] = candidates
    types.GenerateContentResponse.model_validate_json(json.dumps(made))
    return made


def stream_events(reply: Reply) -> list[Document]:
    """All events of a stream of the answer: a piece of each candidate, in turns."""
    if reply.blocked:
        return [_response([], reply)]
    events = []
    for at, parts in enumerate(reply.candidates):
        pieces = [each for part in parts for each in _pieces(part, reply.piece)]
        events += [_response([_candidate(at, [each], reply, False)], reply) for each in pieces]
    last = [_candidate(at, [], reply) for at in range(len(reply.candidates))]
    return [*events, _response(last, reply)]


def _pieces(part: Document, size: int) -> list[Document]:
    """What stands beside a text comes with its last piece, but that it is a thought with each."""
    if "text" not in part:
        return [part]
    more = {key: value for key, value in part.items() if key != "text"}
    each = {key: value for key, value in more.items() if key == "thought"}
    pieces = [{"text": piece, **each} for piece in split(part["text"], size)] or [{"text": ""}]
    pieces[-1] |= more
    return pieces


def written(event: Document) -> bytes:
    return f"data: {json.dumps(event)}\r\n\r\n".encode()


@contextlib.contextmanager
def gemini_api() -> Iterator[GeminiApi]:
    class Serving(_Handler):
        """One API's own."""

    Serving.api = GeminiApi()
    with serving(Serving.api, Serving) as api:
        yield api
