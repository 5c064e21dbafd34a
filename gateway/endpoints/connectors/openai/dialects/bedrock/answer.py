"""An answer of Converse as a chat completion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.core import ambient
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
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
}
"""Why an answer ends, in either dialect."""
_BROKEN: Final = frozenset({"malformed_model_output", "malformed_tool_use"})
"""Ends of what is no answer: the model has written what cannot be read."""


def completion(body: bytes, model: str) -> JsonDocument:
    """Raises UpstreamError for what is no answer. None names its model."""
    try:
        document = strictjson.load_object(body)
    except MalformedBody:
        document = {}
    output = document.get("output")
    message = output.get("message") if isinstance(output, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        raise UpstreamFailed("the endpoint answered with something that is no message")
    made = {
        **beginning("chat.completion", model),
        "choices": [
            {
                "index": 0,
                "message": _message(content),
                "logprobs": None,
                "finish_reason": finish(document.get("stopReason")),
            }
        ],
        "usage": usage_document(document.get("usage")),
    }
    tier = document.get("serviceTier")
    if isinstance(tier, dict) and isinstance(tier.get("type"), str):
        made["service_tier"] = tier["type"]
    return made


def beginning(kind: str, model: str) -> JsonDocument:
    return head(kind, f"chatcmpl-{ambient.new_id()}", model)


def finish(reason: Any) -> str:
    """A reason that nobody knows ends the answer as any other. Raises UpstreamFailed for the end of
    what is no answer."""
    if not isinstance(reason, str):
        return "stop"
    if reason in _BROKEN:
        raise broken_off()
    return FINISHES.get(reason, "stop")


def usage_document(usage: Any) -> JsonDocument:
    """The input there is what was neither read from the cache nor written to it."""
    counts: Mapping[str, Any] = usage if isinstance(usage, dict) else {}
    details = {"cached_tokens": (cached := count(counts, "cacheReadInputTokens"))}
    if stored := count(counts, "cacheWriteInputTokens"):
        details["cache_creation_tokens"] = stored
    given = count(counts, "inputTokens") + stored + cached
    written = count(counts, "outputTokens")
    return {
        "prompt_tokens": given,
        "completion_tokens": written,
        "total_tokens": given + written,
        "prompt_tokens_details": details,
    }


def _message(content: list[Any]) -> JsonDocument:
    texts: list[str] = []
    thoughts: list[JsonDocument] = []
    calls: list[JsonDocument] = []
    for block in content:
        match block:
            case {"text": str(text)}:
                texts.append(text)
            case {"toolUse": {"toolUseId": str(), "name": str(), "input": dict()} as use}:
                calls.append(_tool_call(use))
            case {"reasoningContent": {"reasoningText": {"text": str(text)} as thought}}:
                signature = thought.get("signature")
                signed = {"signature": signature} if isinstance(signature, str) else {}
                thoughts.append({"type": "thinking", "thinking": text, **signed})
            case {"reasoningContent": {"redactedContent": str(data)}}:
                thoughts.append({"type": "redacted_thinking", "data": data})
            case {"citationsContent": {"content": list(cited)}}:
                texts += [cited_text(each) for each in cited]
            case _:
                raise unknown_block()
    message: JsonDocument = {
        "role": "assistant",
        "content": "".join(texts) if texts else None,
        "refusal": None,
    }
    if thoughts:
        message["reasoning_content"] = "".join([each.get("thinking", "") for each in thoughts])
        message["thinking_blocks"] = thoughts
    if calls:
        message["tool_calls"] = calls
    return message


def cited_text(part: Any) -> str:
    """Of an answer that names its sources: no call asks for them, and some models do it alone."""
    text = part.get("text") if isinstance(part, dict) else None
    if not isinstance(text, str):
        raise unknown_block()
    return text


def _tool_call(use: JsonDocument) -> JsonDocument:
    arguments = strictjson.dumps(use["input"]).decode()
    function = {"name": use["name"], "arguments": arguments}
    return {"id": use["toolUseId"], "type": "function", "function": function}
