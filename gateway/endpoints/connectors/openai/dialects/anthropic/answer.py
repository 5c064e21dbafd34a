"""An answer of the Anthropic Messages API as a chat completion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.core.deferred_error import DeferredError
from gateway.core.errors import MalformedBody, UpstreamFailed
from gateway.core.types import JsonDocument
from gateway.endpoints.connectors.openai import failures
from gateway.endpoints.connectors.openai.dialects.completions import count, head, unknown_block
from gateway.endpoints.connectors.openai.words import ProviderWords
from gateway.protocols import strictjson

FINISHES: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
"""Why an answer ends, in either dialect."""
_ONLY_THERE: Final = frozenset({"stop_sequence", "pause_turn", "model_context_window_exceeded"})


def completion(body: bytes, words: ProviderWords) -> JsonDocument:
    """Raises UpstreamError for what is no answer."""
    try:
        message = strictjson.load_object(body)
    except MalformedBody:
        message = {}
    if (failure := failures.in_document(message, words)) is not None:
        failed, failure = DeferredError(failure), None
        raise failed.again()
    content, usage = message.get("content"), message.get("usage")
    if message.get("type") != "message" or not isinstance(content, list):
        raise UpstreamFailed("the endpoint answered with something that is no message")
    return {
        **head("chat.completion", message.get("id"), message.get("model")),
        "choices": [
            {
                "index": 0,
                "message": _message(content, refusal(message)),
                "logprobs": None,
                **ending(message),
            }
        ],
        "usage": usage_document(usage if isinstance(usage, dict) else {}),
    }


def ending(document: Mapping[str, Any]) -> JsonDocument:
    """Why an answer ends, as a choice says it. A reason that a chat has no word for stands beside
    it under OpenRouter's name, and the sequence that stopped it under vLLM's. A reason that nobody
    knows ends the answer as any other."""
    reason, stopped = document.get("stop_reason"), document.get("stop_sequence")
    if not isinstance(reason, str) or reason not in FINISHES:
        return {"finish_reason": "stop"}
    made: JsonDocument = {"finish_reason": FINISHES[reason]}
    if reason in _ONLY_THERE:
        made["native_finish_reason"] = reason
    if isinstance(stopped, str):
        made["stop_reason"] = stopped
    return made


def refusal(document: Mapping[str, Any]) -> str | None:
    """What an answer that was broken off says about that."""
    details = document.get("stop_details")
    text = details.get("explanation") if isinstance(details, dict) else None
    return text if isinstance(text, str) else None


def usage_document(usage: Mapping[str, Any]) -> JsonDocument:
    """The input there is what was neither read from the cache nor written to it."""
    cached = count(usage, "cache_read_input_tokens")
    stored = count(usage, "cache_creation_input_tokens")
    given = count(usage, "input_tokens") + stored + cached
    written = count(usage, "output_tokens")
    parts = {"cached_tokens": cached}
    if stored:
        parts["cache_creation_tokens"] = stored
    made: JsonDocument = {
        "prompt_tokens": given,
        "completion_tokens": written,
        "total_tokens": given + written,
        "prompt_tokens_details": parts,
    }
    details = usage.get("output_tokens_details")
    if isinstance(details, dict):
        thought = count(details, "thinking_tokens")
        made["completion_tokens_details"] = {"reasoning_tokens": thought}
    return made


def _message(content: list[Any], refused: str | None) -> JsonDocument:
    texts: list[str] = []
    thoughts: list[JsonDocument] = []
    calls: list[JsonDocument] = []
    for block in content:
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "tool_use", "id": str(), "name": str(), "input": dict()}:
                calls.append(_tool_call(block))
            case {"type": "thinking", "thinking": str(), "signature": str()}:
                thoughts.append(block)
            case {"type": "redacted_thinking", "data": str()}:
                thoughts.append(block)
            case _:
                raise unknown_block()
    message: JsonDocument = {
        "role": "assistant",
        "content": "".join(texts) if texts else None,
        "refusal": refused,
    }
    if thoughts:
        message["reasoning_content"] = "".join([each.get("thinking", "") for each in thoughts])
        message["thinking_blocks"] = thoughts
    if calls:
        message["tool_calls"] = calls
    return message


def _tool_call(block: JsonDocument) -> JsonDocument:
    arguments = strictjson.dumps(block["input"]).decode()
    function = {"name": block["name"], "arguments": arguments}
    return {"id": block["id"], "type": "function", "function": function}
