"""What the answer of a chat says, whatever API its caller speaks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.core.errors import BodyTooLarge, MalformedBody, UpstreamFailed
from gateway.core.types import JsonDocument
from gateway.protocols import strictjson

END, LENGTH, TOOLS, STOPPED, REFUSED = "end", "length", "tools", "stopped", "refused"
"""Why an answer ended: by itself, at the limit, for tools, at a sequence, or it was broken off."""
_REASONS: Final = {
    "stop": END,
    "length": LENGTH,
    "tool_calls": TOOLS,
    "function_call": TOOLS,
    "content_filter": REFUSED,
}
NATIVE: Final = frozenset({"pause_turn", "model_context_window_exceeded"})
"""Reasons that Claude has and a chat has not."""


@dataclass(frozen=True, slots=True)
class CalledTool:
    id: str
    name: str
    arguments: JsonDocument


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """The tokens of a call."""

    given: int = 0  # without those of the cache
    cached: int = 0
    stored: int = 0
    written: int = 0
    thought: int = 0  # of those written


def parsed(body: bytes) -> tuple[JsonDocument, list[JsonDocument]]:
    """A whole answer and its choices, each with a message. Raises UpstreamFailed."""
    document = _object(body) or {}
    choices = document.get("choices")
    if not isinstance(choices, list) or not choices or not all(map(_has_message, choices)):
        raise UpstreamFailed("the endpoint answered a chat with something that is no message")
    return document, choices


def _has_message(choice: Any) -> bool:
    return isinstance(choice, dict) and isinstance(choice.get("message"), dict)


def reasoning(answer: Mapping[str, Any]) -> str:
    """What a model thought, as vLLM, DeepSeek and others have it beside the answer."""
    thought = answer.get("reasoning_content") or answer.get("reasoning")
    return thought if isinstance(thought, str) else ""


def thoughts(answer: Mapping[str, Any]) -> list[JsonDocument]:
    """The same in blocks, whose signatures are empty where the endpoint signs nothing."""
    if isinstance(blocks := answer.get("thinking_blocks"), list):
        return [block for block in blocks if isinstance(block, dict) and "type" in block]
    thought = reasoning(answer)
    return [{"type": "thinking", "thinking": thought, "signature": ""}] if thought else []


def text(answer: Mapping[str, Any]) -> str:
    content = answer.get("content")
    if isinstance(content, list):
        content = "".join([part.get("text") or "" for part in content if isinstance(part, dict)])
    return content if isinstance(content, str) else ""


def calls(answer: Mapping[str, Any]) -> list[CalledTool]:
    """Raises UpstreamFailed."""
    return [_call(call, at) for at, call in enumerate(answer.get("tool_calls") or ())]


def _call(call: Any, at: int) -> CalledTool:
    function = call.get("function") if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if not isinstance(name, str) or not isinstance(arguments, str | None):
        raise UpstreamFailed("the endpoint's answer has a call of a tool without its name")
    return CalledTool(call.get("id") or f"call_{at}", name, given(arguments))


def given(arguments: str | None) -> JsonDocument:
    """Raises UpstreamFailed."""
    made = _object(arguments.encode()) if arguments else {}
    if made is None:
        raise UpstreamFailed("the endpoint's answer calls a tool with arguments that are no JSON")
    return made


def ending(choice: Mapping[str, Any], stops: Collection[str], called: bool) -> tuple[str, str]:
    """Why an answer ended, and the sequence that stopped it; `called`: it has calls of tools."""
    reason = choice.get("finish_reason")
    word = _REASONS.get(reason, END) if isinstance(reason, str) else END
    native, stopped = choice.get("native_finish_reason"), choice.get("stop_reason")
    if isinstance(native, str) and native in NATIVE:
        return native, ""
    if word == END and isinstance(stopped, str) and stopped in stops:
        return STOPPED, stopped
    return (TOOLS if word == END and called else word), ""


def counts(usage: Any) -> TokenCounts:
    stated = usage if isinstance(usage, dict) else {}
    details = stated.get("prompt_tokens_details")
    cached, stored = _count(details, "cached_tokens"), _count(details, "cache_creation_tokens")
    return TokenCounts(
        max(0, _count(stated, "prompt_tokens") - cached - stored),
        cached,
        stored,
        _count(stated, "completion_tokens"),
        _count(stated.get("completion_tokens_details"), "reasoning_tokens"),
    )


def vectors(body: bytes) -> tuple[JsonDocument, list[Any]]:
    """An answer of embeddings, and its vectors in the order of the texts. Raises UpstreamFailed."""
    document = _object(body) or {}
    data = document.get("data")
    if not isinstance(data, list) or not data or not all(map(_has_vector, data)):
        raise UpstreamFailed("the endpoint answered with something that is no list of vectors")
    ordered = sorted(data, key=lambda each: _count(each, "index"))
    return document, [each["embedding"] for each in ordered]


def _has_vector(each: Any) -> bool:
    return isinstance(each, dict) and isinstance(each.get("embedding"), list)


def _count(counted: Any, name: str) -> int:
    count = counted.get(name) if isinstance(counted, dict) else 0
    return count if type(count) is int and count > 0 else 0


def _object(data: bytes) -> JsonDocument | None:
    try:
        return strictjson.load_object(data)
    except (MalformedBody, BodyTooLarge):  # which are a caller's faults, and this is an endpoint's
        return None
