"""`POST /v1/chat/completions`: platform.openai.com/docs/api-reference/chat."""

import dataclasses
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.demo.cloud import sse, tools
from gateway.demo.cloud.completion import (
    Choice,
    CompletionWriter,
    SamplingParameters,
    token_logprobs,
    wanted,
)
from gateway.demo.cloud.conditions import Conditions
from gateway.demo.cloud.documents import JsonDocument, document
from gateway.demo.cloud.errors import InvalidRequest

_MOST_TOP_LOGPROBS = 20


@dataclasses.dataclass(frozen=True, slots=True)
class ChatRequest:
    prompt: str
    wanted: SamplingParameters
    tool: tools.ToolCall | None
    top_logprobs: int | None  # none: no logprobs at all
    include_usage: bool


class Chat:
    def __init__(self, writer: CompletionWriter, conditions: Conditions) -> None:
        self._writer = writer
        self._conditions = conditions

    async def __call__(self, request: Request) -> Response:
        body = await document(request)
        chat = _parse_request(body)
        await self._writer.model(chat.wanted.model)
        if chat.tool is not None:
            pieces = tuple(_in_pieces(chat.tool.arguments))
            choices = [Choice(pieces, chat.tool.finish_reason)] * chat.wanted.choices
        else:
            choices = await self._writer.choices(chat.prompt, chat.wanted)
        head = _head(chat.wanted.model)
        if body.get("stream", bool, False):
            await self._conditions.serve()
            return sse.response(self._events(head, chat, choices))
        usage = self._writer.usage(chat.prompt, choices)
        await self._conditions.serve(usage.output_tokens)
        return JSONResponse(
            head
            | {
                "object": "chat.completion",
                "choices": [_choice(chat, at, choice) for at, choice in enumerate(choices)],
                "usage": usage.as_completion(),
            }
        )

    async def _events(
        self, head: dict[str, Any], request: ChatRequest, choices: list[Choice]
    ) -> AsyncIterator[bytes]:
        head = head | {"object": "chat.completion.chunk"}
        unknown = {"usage": None} if request.include_usage else {}

        def chunk(at: int, delta: Any, finish: str | None = None, logprobs: Any = None) -> bytes:
            choice = {"index": at, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
            return sse.data(head | {"choices": [choice]} | unknown)

        for at, choice in enumerate(choices):
            yield chunk(at, _opening(request.tool))
            for piece in choice.pieces:
                await self._conditions.next_token()
                yield chunk(at, _delta(request.tool, piece), None, _logprobs(request, [piece]))
            yield chunk(at, {}, choice.finish_reason)
        usage = self._writer.usage(request.prompt, choices)
        if request.include_usage:
            yield sse.data(head | {"choices": [], "usage": usage.as_completion()})
        yield sse.DONE


def _parse_request(body: JsonDocument) -> ChatRequest:
    messages = body.items("messages")
    if not messages:
        raise InvalidRequest("'messages' must not be empty.", param="messages")
    top = body.get("top_logprobs", int, 0)
    if not 0 <= top <= _MOST_TOP_LOGPROBS:
        raise InvalidRequest("'top_logprobs' must be in 0..20.", param="top_logprobs")
    options = JsonDocument(body.get("stream_options", dict, {}), "stream_options.")
    return ChatRequest(
        prompt="\n".join(_message_text(message) for message in messages),
        wanted=wanted(body, "max_completion_tokens", "max_tokens"),
        tool=tools.forced(body),
        top_logprobs=top if body.get("logprobs", bool, False) else None,
        include_usage=options.get("include_usage", bool, False),
    )


def _message_text(message: JsonDocument) -> str:
    message.need("role", str)
    content = message.fields.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    parts = message.items("content")
    return " ".join(part.need("text", str) for part in parts if part.fields.get("type") == "text")


def _head(model: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": "fp_simulated_cloud",
    }


def _choice(request: ChatRequest, at: int, choice: Choice) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": choice.text, "refusal": None}
    if request.tool is not None:
        message |= {
            "content": None,
            "tool_calls": [_tool_call(request.tool, request.tool.arguments)],
        }
    return {
        "index": at,
        "message": message,
        "logprobs": _logprobs(request, choice.pieces),
        "finish_reason": choice.finish_reason,
    }


def _logprobs(request: ChatRequest, pieces: Any) -> dict[str, Any] | None:
    if request.top_logprobs is None or request.tool is not None:
        return None
    content = [token_logprobs(piece, request.top_logprobs) for piece in pieces]
    return {"content": content, "refusal": None}


def _tool_call(tool: tools.ToolCall, arguments: str) -> dict[str, Any]:
    function = {"name": tool.name, "arguments": arguments}
    return {"id": tool.id, "type": "function", "function": function}


def _opening(tool: tools.ToolCall | None) -> dict[str, Any]:
    if tool is None:
        return {"role": "assistant", "content": "", "refusal": None}
    call = {"index": 0} | _tool_call(tool, "")
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _delta(tool: tools.ToolCall | None, piece: str) -> dict[str, Any]:
    if tool is None:
        return {"content": piece}
    return {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}


def _in_pieces(arguments: str) -> list[str]:
    return [arguments[at : at + 8] for at in range(0, len(arguments), 8)]
