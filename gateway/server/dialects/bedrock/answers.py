"""The answer of a chat as that of Converse."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Mapping
from typing import Any, Final

from gateway.core.types import JsonDocument
from gateway.protocols import strictjson
from gateway.server.dialects import answers
from gateway.server.dialects.answers import END, LENGTH, REFUSED, STOPPED, TOOLS

_STOP_REASONS: Final = {
    END: "end_turn", LENGTH: "max_tokens", TOOLS: "tool_use", STOPPED: "stop_sequence",
    REFUSED: "content_filtered", "pause_turn": "end_turn",
    "model_context_window_exceeded": "model_context_window_exceeded",
}  # fmt: skip


def converse(body: bytes, stops: Collection[str], latency_ms: int) -> bytes:
    """A whole answer; `stops`: the sequences that may stop it. Raises UpstreamFailed for one that
    Converse has no words for."""
    document, (choice, *_) = answers.parsed(body)
    answer = choice["message"]
    content = [_thought(block) for block in answers.thoughts(answer)]
    refusal = answer.get("refusal")
    for text in (answers.text(answer), refusal if isinstance(refusal, str) else ""):
        if text:
            content.append({"text": text})
    calls = answers.calls(answer)
    content += [
        {"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.arguments}}
        for call in calls
    ]
    made = {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": stop_reason(answers.ending(choice, stops, bool(calls))[0], bool(refusal)),
        "usage": usage(document.get("usage")),
        "metrics": {"latencyMs": latency_ms},
    }
    return strictjson.dumps(made)


def stop_reason(reason: str, refused: bool) -> str:
    """`refused`: the model or its provider has said why it broke the answer off."""
    return _STOP_REASONS[REFUSED if refused else reason]


def _thought(block: Mapping[str, Any]) -> JsonDocument:
    if block.get("type") == "redacted_thinking":
        return {"reasoningContent": {"redactedContent": hidden(str(block.get("data") or ""))}}
    stated = {"text": block.get("thinking") or ""}
    if signature := block.get("signature"):
        stated["signature"] = signature
    return {"reasoningContent": {"reasoningText": stated}}


def hidden(data: str) -> str:
    """A thought that nobody may read, as the bytes that it is there."""
    return b64encode(data.encode()).decode()


def usage(stated: Any) -> JsonDocument:
    """The input of an answer is what was neither read from a cache nor written to it."""
    counts = answers.counts(stated)
    made = {
        "inputTokens": counts.given,
        "outputTokens": counts.written,
        "totalTokens": counts.given + counts.cached + counts.stored + counts.written,
    }
    if counts.cached:
        made["cacheReadInputTokens"] = counts.cached
    if counts.stored:
        made["cacheWriteInputTokens"] = counts.stored
    return made
