"""The answer of a chat as a message."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from gateway.core.types import JsonDocument
from gateway.protocols import strictjson
from gateway.server.dialects import answers
from gateway.server.dialects.answers import END, LENGTH, REFUSED, STOPPED, TOOLS

_STOP_REASONS: Final = {
    END: "end_turn",
    LENGTH: "max_tokens",
    TOOLS: "tool_use",
    STOPPED: "stop_sequence",
    REFUSED: "refusal",
}


def message(body: bytes, stops: Collection[str]) -> bytes:
    """A whole answer; `stops`: the sequences that may stop it. Raises UpstreamFailed for one that a
    message has no words for."""
    document, (choice, *_) = answers.parsed(body)
    answer = choice["message"]
    content = answers.thoughts(answer)
    if text := answers.text(answer):
        content.append({"type": "text", "text": text})
    calls = answers.calls(answer)
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in calls
    ]
    ended = ending(answers.ending(choice, stops, bool(calls)))
    if (refusal := answer.get("refusal")) and isinstance(refusal, str):
        ended |= refused(refusal)
    made = {**head(document, content), **ended, "usage": usage(document.get("usage"))}
    return strictjson.dumps(made)


def head(document: Mapping[str, Any], content: list[JsonDocument]) -> JsonDocument:
    return {
        "id": document.get("id") or "",
        "type": "message",
        "role": "assistant",
        "model": document.get("model") or "",
        "content": content,
    }


def ending(end: tuple[str, str]) -> JsonDocument:
    """Why an answer ended; Claude's own reasons are words there already."""
    reason, stopped = end
    return {
        "stop_reason": _STOP_REASONS.get(reason, reason),
        "stop_sequence": stopped if reason == STOPPED else None,
    }


def refused(explanation: str) -> JsonDocument:
    """Of an answer that the model or its provider broke off, with what is said about that."""
    details = {"type": "refusal", "category": None, "explanation": explanation}
    return {"stop_reason": "refusal", "stop_details": details}


def usage(stated: Any) -> JsonDocument:
    """The input of a message is what was neither read from a cache nor written to it."""
    counts = answers.counts(stated)
    made: JsonDocument = {
        "input_tokens": counts.given,
        "cache_creation_input_tokens": counts.stored,
        "cache_read_input_tokens": counts.cached,
        "output_tokens": counts.written,
    }
    if counts.thought:
        made["output_tokens_details"] = {"thinking_tokens": counts.thought}
    return made
