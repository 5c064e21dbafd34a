"""`POST /v1/responses`: platform.openai.com/docs/api-reference/responses."""

import dataclasses
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.demo.cloud import sse
from gateway.demo.cloud.completion import Choice, CompletionWriter, TokenUsage, wanted
from gateway.demo.cloud.conditions import Conditions
from gateway.demo.cloud.documents import JsonDocument, document


@dataclasses.dataclass(frozen=True, slots=True)
class Draft:
    """The response object and its only message, in the states in which they are told."""

    id: str
    message_id: str
    created_at: int
    body: JsonDocument

    def response(self, status: str, output: list[Any], usage: TokenUsage | None = None) -> Any:
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created_at,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"}
            if status == "incomplete"
            else None,
            "instructions": self.body.fields.get("instructions"),
            "max_output_tokens": self.body.fields.get("max_output_tokens"),
            "metadata": self.body.get("metadata", dict, {}),
            "model": self.body.fields["model"],
            "output": output,
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "temperature": self.body.get("temperature", float, 1.0),
            "text": {"format": {"type": "text"}},
            "tool_choice": self.body.fields.get("tool_choice", "auto"),
            "tools": self.body.get("tools", list, []),
            "top_p": self.body.get("top_p", float, 1.0),
            "truncation": "disabled",
            "usage": usage.as_response() if usage else None,
        }

    def message(self, status: str, content: list[Any]) -> dict[str, Any]:
        return {
            "id": self.message_id,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": content,
        }


class Responses:
    def __init__(self, writer: CompletionWriter, conditions: Conditions) -> None:
        self._writer = writer
        self._conditions = conditions

    async def __call__(self, request: Request) -> Response:
        body = await document(request)
        sampling = wanted(body, "max_output_tokens")
        prompt = _prompt(body)
        (choice,) = await self._writer.choices(prompt, dataclasses.replace(sampling, choices=1))
        draft = Draft(f"resp_{uuid.uuid4().hex}", f"msg_{uuid.uuid4().hex}", int(time.time()), body)
        if body.get("stream", bool, False):
            await self._conditions.serve()
            return sse.response(self._events(draft, prompt, choice))
        usage = self._writer.usage(prompt, [choice])
        await self._conditions.serve(usage.output_tokens)
        return JSONResponse(_final(draft, choice, usage))

    async def _events(self, draft: Draft, prompt: str, choice: Choice) -> AsyncIterator[bytes]:
        number = -1

        def event(kind: str, **fields: Any) -> bytes:
            nonlocal number
            number += 1
            return sse.event(kind, {"type": kind, "sequence_number": number} | fields)

        started = draft.response("in_progress", [])
        item = {"output_index": 0}
        part = item | {"item_id": draft.message_id, "content_index": 0}
        yield event("response.created", response=started)
        yield event("response.in_progress", response=started)
        yield event("response.output_item.added", item=draft.message("in_progress", []), **item)
        yield event("response.content_part.added", part=_text(""), **part)
        for piece in choice.pieces:
            await self._conditions.next_token()
            yield event("response.output_text.delta", delta=piece, logprobs=[], **part)
        yield event("response.output_text.done", text=choice.text, logprobs=[], **part)
        yield event("response.content_part.done", part=_text(choice.text), **part)
        usage = self._writer.usage(prompt, [choice])
        final = _final(draft, choice, usage)
        yield event("response.output_item.done", item=final["output"][0], **item)
        yield event(f"response.{final['status']}", response=final)


def _final(draft: Draft, choice: Choice, usage: TokenUsage) -> Any:
    status = "incomplete" if choice.finish_reason == "length" else "completed"
    return draft.response(status, [draft.message(status, [_text(choice.text)])], usage)


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _prompt(body: JsonDocument) -> str:
    texts = [body.get("instructions", str, "")]
    given = body.fields.get("input")
    if isinstance(given, str):
        return "\n".join(filter(None, [*texts, given]))
    for item in body.items("input"):
        content = item.fields.get("content")
        if isinstance(content, str):
            texts.append(content)
        elif content is not None:
            texts += [part.get("text", str, "") for part in item.items("content")]
    return "\n".join(filter(None, texts))
