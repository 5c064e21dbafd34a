"""What answers of the Responses API have in common, whoever writes them."""

from __future__ import annotations

from typing import Any

from gateway.core import ambient
from gateway.core.types import JsonDocument, Usage

_REPEATED: tuple[tuple[str, Any], ...] = (
    ("instructions", None),
    ("max_output_tokens", None),
    ("metadata", {}),
    ("parallel_tool_calls", True),
    ("reasoning", None),
    ("temperature", None),
    ("text", {"format": {"type": "text"}}),
    ("tool_choice", "auto"),
    ("tools", []),
    ("top_p", None),
    ("truncation", "disabled"),
    ("user", None),
)
"""What an answer repeats of the call, with what it says when the call said nothing."""


class ResponseHead:
    """What every state of one response begins with."""

    def __init__(self, response_id: str, created_s: int, model: str, call: JsonDocument) -> None:
        get = call.get
        repeated = {name: usual if get(name) is None else get(name) for name, usual in _REPEATED}
        self._head: JsonDocument = {
            "id": response_id,
            "object": "response",
            "created_at": created_s,
            "model": model,
            "store": False,
            "previous_response_id": None,
            **repeated,
        }

    def document(
        self, status: str, output: list[JsonDocument], reason: str = "", usage: Any = None
    ) -> JsonDocument:
        """The response. `reason`: why it is incomplete."""
        return {
            **self._head,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": reason} if reason else None,
            "completed_at": int(ambient.wall_s()) if status == "completed" else None,
            "output": output,
            "usage": usage,
        }


def text_part(text: str, annotations: list[JsonDocument] | None = None) -> JsonDocument:
    return {"type": "output_text", "text": text, "annotations": annotations or [], "logprobs": []}


def message_item(item_id: str, status: str, content: list[JsonDocument]) -> JsonDocument:
    return {
        "id": item_id,
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    }


def usage_document(usage: Usage, total_tokens: int | None = None) -> JsonDocument:
    given, written = usage.input_tokens, usage.output_tokens
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": given + written if total_tokens is None else total_tokens,
    }
