"""An answer of Cohere's Chat API as a chat completion."""

from __future__ import annotations

from typing import Any, Final

from gateway.core.errors import MalformedBody, UpstreamFailed
from gateway.core.types import JsonDocument
from gateway.endpoints.connectors.openai.dialects.completions import (
    broken_off,
    count,
    head,
    unknown_block,
)
from gateway.protocols import strictjson

FINISHES: Final = {
    "COMPLETE": "stop",
    "STOP_SEQUENCE": "stop",
    "MAX_TOKENS": "length",
    "TOOL_CALL": "tool_calls",
    "ERROR_TOXIC": "content_filter",
}
"""Why an answer ends, in either dialect."""
_BROKEN: Final = ("ERROR", "TIMEOUT", "ERROR_LIMIT")


def completion(body: bytes, model: str) -> JsonDocument:
    """Raises UpstreamFailed for what is no answer."""
    try:
        answer = strictjson.load_object(body)
    except MalformedBody:
        answer = {}
    message = answer.get("message")
    if not isinstance(message, dict) or message.get("role") != "assistant":
        raise UpstreamFailed("the endpoint answered with something that is no message")
    return {
        **head("chat.completion", answer.get("id"), model),
        "choices": [
            {
                "index": 0,
                "message": _message(message),
                "logprobs": None,
                "finish_reason": finish(answer.get("finish_reason")),
            }
        ],
        "usage": usage_document(answer.get("usage")),
    }


def finish(reason: Any) -> str:
    """A reason that nobody knows ends the answer as any other. Raises UpstreamFailed where it is
    the reason of no answer."""
    if reason in _BROKEN:  # guard: S16.broken-answer
        raise broken_off()
    return FINISHES.get(reason, "stop") if isinstance(reason, str) else "stop"


def usage_document(usage: Any) -> JsonDocument:
    """The tokens that are charged: those of the endpoint's own instructions are not."""
    stated = usage if isinstance(usage, dict) else {}
    counts = stated.get("billed_units") or stated.get("tokens")
    counts = counts if isinstance(counts, dict) else {}
    given, written = count(counts, "input_tokens"), count(counts, "output_tokens")
    return {
        "prompt_tokens": given,
        "completion_tokens": written,
        "total_tokens": given + written,
        "prompt_tokens_details": {"cached_tokens": min(count(stated, "cached_tokens"), given)},
    }


def _message(message: JsonDocument) -> JsonDocument:
    plan, content, calls = (
        message.get(key) or [] for key in ("tool_plan", "content", "tool_calls")
    )
    if not isinstance(content, list) or not isinstance(calls, list):
        raise unknown_block()
    texts, thoughts = [plan] if isinstance(plan, str) else [], []
    for block in content:
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "thinking", "thinking": str(text)}:
                thoughts.append(text)
            case _:
                raise unknown_block()
    made: JsonDocument = {
        "role": "assistant",
        "content": "".join(texts) if texts else None,
        "refusal": None,
    }
    if thoughts:
        made["reasoning_content"] = "".join(thoughts)
    if calls:
        made["tool_calls"] = [tool_call(call) for call in calls]
    return made


def tool_call(call: Any) -> JsonDocument:
    """Raises UpstreamFailed for what is none. Without arguments it has an empty object, which a
    caller can read."""
    match call:
        case {"id": str(own), "function": {"name": str(name), **rest}}:
            given = rest.get("arguments") or "{}"
            if isinstance(given, str):
                function = {"name": name, "arguments": given}
                return {"id": own, "type": "function", "function": function}
    raise unknown_block()
