"""The answer of a chat as that of Cohere's Chat."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from gateway.core.types import JsonDocument
from gateway.protocols import strictjson
from gateway.server.dialects import answers
from gateway.server.dialects.answers import END, LENGTH, REFUSED, STOPPED, TOOLS

_FINISHES: Final = {
    END: "COMPLETE", LENGTH: "MAX_TOKENS", TOOLS: "TOOL_CALL", STOPPED: "STOP_SEQUENCE",
    REFUSED: "ERROR", "pause_turn": "COMPLETE", "model_context_window_exceeded": "MAX_TOKENS",
}  # fmt: skip


def response(body: bytes, stops: Collection[str]) -> bytes:
    """A whole answer; `stops`: the sequences that may stop it. Raises UpstreamFailed for one that
    Cohere's API has no words for."""
    document, (choice, *_) = answers.parsed(body)
    answer = choice["message"]
    refusal = answer.get("refusal")
    content = [
        {"type": "thinking", "thinking": block["thinking"]}
        for block in answers.thoughts(answer)
        if block.get("thinking")
    ]
    for text in (answers.text(answer), refusal if isinstance(refusal, str) else ""):
        if text:
            content.append({"type": "text", "text": text})
    calls = answers.calls(answer)
    message: JsonDocument = {"role": "assistant"}
    if content:
        message["content"] = content
    if calls:
        message["tool_calls"] = [_call(call) for call in calls]
    made = {
        "id": document.get("id") or "chat",
        "message": message,
        "finish_reason": finish(answers.ending(choice, stops, bool(calls))[0], bool(refusal)),
        "usage": usage(document.get("usage")),
    }
    return strictjson.dumps(made)


def _call(call: answers.CalledTool) -> JsonDocument:
    arguments = strictjson.dumps(call.arguments).decode()
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def finish(reason: str, refused: bool) -> str:
    """`refused`: the model or its provider has said why it broke the answer off."""
    return _FINISHES[REFUSED if refused else reason]


def usage(stated: Any) -> JsonDocument:
    counts = answers.counts(stated)
    given = counts.given + counts.cached + counts.stored
    tokens = {"input_tokens": given, "output_tokens": counts.written}
    return {"billed_units": tokens, "tokens": tokens, "cached_tokens": counts.cached}
