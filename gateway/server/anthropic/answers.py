"""The answer of a chat as a message."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from gateway.core.errors import BodyTooLarge, MalformedBody, UpstreamFailed
from gateway.core.types import JsonDocument
from gateway.protocols import strictjson

_STOP_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
_NATIVE: Final = frozenset({"pause_turn", "model_context_window_exceeded"})


def message(body: bytes, stops: Collection[str]) -> bytes:
    """A whole answer; `stops`: the sequences that may stop it. Raises UpstreamFailed for one that a
    message has no words for."""
    document = _object(body) or {}
    choices = document.get("choices")
    choice: Any = choices[0] if isinstance(choices, list) and choices else None
    answer = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(answer, dict):
        raise UpstreamFailed("the endpoint answered a chat with something that is no message")
    content = blocks(answer)
    ended = ending(choice, stops, any(block["type"] == "tool_use" for block in content))
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


def blocks(answer: Mapping[str, Any]) -> list[JsonDocument]:
    """What was thought, what was said, and calls of tools, in this order."""
    made: list[JsonDocument] = []
    if isinstance(thoughts := answer.get("thinking_blocks"), list):
        made += [block for block in thoughts if isinstance(block, dict) and "type" in block]
    elif thought := reasoning(answer):
        made.append({"type": "thinking", "thinking": thought, "signature": ""})
    content = answer.get("content")
    if isinstance(content, list):
        content = "".join([part.get("text") or "" for part in content if isinstance(part, dict)])
    if isinstance(content, str) and content:
        made.append({"type": "text", "text": content})
    for at, call in enumerate(answer.get("tool_calls") or ()):
        made.append(_tool_use(call, at))
    return made


def reasoning(answer: Mapping[str, Any]) -> str:
    """What a model thought, as vLLM, DeepSeek and others have it beside the answer."""
    thought = answer.get("reasoning_content") or answer.get("reasoning")
    return thought if isinstance(thought, str) else ""


def ending(choice: Mapping[str, Any], stops: Collection[str], called: bool) -> JsonDocument:
    """Why an answer ended; `called`: it has calls of tools."""
    reason = choice.get("finish_reason")
    word = _STOP_REASONS.get(reason, "end_turn") if isinstance(reason, str) else "end_turn"
    native, stopped = choice.get("native_finish_reason"), choice.get("stop_reason")
    if native in _NATIVE:
        word = native
    elif word == "end_turn" and isinstance(stopped, str) and stopped in stops:
        return {"stop_reason": "stop_sequence", "stop_sequence": stopped}
    elif word == "end_turn" and called:
        word = "tool_use"
    return {"stop_reason": word, "stop_sequence": None}


def refused(explanation: str) -> JsonDocument:
    """Of an answer that the model or its provider broke off, with what is said about that."""
    details = {"type": "refusal", "category": None, "explanation": explanation}
    return {"stop_reason": "refusal", "stop_details": details}


def usage(counts: Any) -> JsonDocument:
    """The input of a message is what was neither read from a cache nor written to it."""
    given = counts if isinstance(counts, dict) else {}
    details = given.get("prompt_tokens_details")
    cached, stored = _count(details, "cached_tokens"), _count(details, "cache_creation_tokens")
    made: JsonDocument = {
        "input_tokens": max(0, _count(given, "prompt_tokens") - cached - stored),
        "cache_creation_input_tokens": stored,
        "cache_read_input_tokens": cached,
        "output_tokens": _count(given, "completion_tokens"),
    }
    if thought := _count(given.get("completion_tokens_details"), "reasoning_tokens"):
        made["output_tokens_details"] = {"thinking_tokens": thought}
    return made


def _count(counts: Any, name: str) -> int:
    count = counts.get(name) if isinstance(counts, dict) else 0
    return count if type(count) is int and count > 0 else 0


def _object(text: bytes) -> JsonDocument | None:
    try:
        return strictjson.load_object(text)
    except (MalformedBody, BodyTooLarge):  # which are a caller's faults, and this is an endpoint's
        return None


def _tool_use(call: Any, at: int) -> JsonDocument:
    function = call.get("function") if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if not isinstance(name, str) or not isinstance(arguments, str | None):
        raise UpstreamFailed("the endpoint's answer has a call of a tool without its name")
    given = _object(arguments.encode()) if arguments else {}
    if given is None:
        raise UpstreamFailed("the endpoint's answer calls a tool with arguments that are no JSON")
    return {"type": "tool_use", "id": call.get("id") or f"call_{at}", "name": name, "input": given}
