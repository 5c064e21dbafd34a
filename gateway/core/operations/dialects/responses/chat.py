"""The chat that a Responses call asks for (OpenAI's API as published in November 2026).

Instructions are a system message. What the assistant thinks, says and calls, one item after the
other, is one message, as far as a chat can hold it; each output of a function is a message of its
tool. Messages of developers are the system's, which every provider of chats takes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from gateway.core.types import JsonDocument

SAME_FIELDS: Final = frozenset(
    ("model", "stream", "temperature", "top_p", "top_k", "min_p", "presence_penalty",
     "frequency_penalty", "repetition_penalty", "seed", "stop", "logit_bias", "user",
     "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention")
)  # fmt: skip
"""Fields of both, with one meaning."""
ROLES: Final = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}
"""The role of a chat for each of Responses."""
TEXTS: Final = frozenset({"input_text", "output_text", "text"})
_SIGNED: Final = re.compile(r"(thinking|redacted_thinking):([A-Za-z0-9+/=_-]*)")
_SAYING: Final = frozenset({"tool_calls", "refusal"})  # with which a message needs no content
_OWN_ID: Final = re.compile(r"rs_[a-p]{32}_[0-9]+")
_FIELDS: Final = {
    "max_completion_tokens": "max_output_tokens",
    "response_format": "text.format",
    "verbosity": "text.verbosity",
    "reasoning_effort": "reasoning.effort",
}
_MESSAGE: Final = re.compile(r"messages\[(-?\d+)\]")
_INSTRUCTIONS: Final = -1  # in the place of the position of an item

Part = dict[str, Any]


def signed_thought(encrypted: Any) -> tuple[str, str] | None:
    """The kind and the signature of a thought that a chat's endpoint has signed, as
    `encrypted_content` carries them; None: another provider's."""
    match = _SIGNED.fullmatch(encrypted) if isinstance(encrypted, str) else None
    return None if match is None else (match[1], match[2])


def is_own_item(item_id: Any) -> bool:
    """Whether a thought is of an answer that was translated: it is told in full, and nobody keeps
    more of it."""
    return isinstance(item_id, str) and _OWN_ID.fullmatch(item_id) is not None


def chat_document(document: Mapping[str, Any]) -> JsonDocument:
    """A call of which everything has words in a chat."""
    made: JsonDocument = {"messages": _conversation(document).messages}
    for name, value in document.items():
        if name in SAME_FIELDS and value is not None:
            made[name] = value
    get = document.get
    if (limit := get("max_output_tokens")) is not None:
        made["max_completion_tokens"] = limit
    if tools := get("tools"):
        made["tools"] = [_tool(tool) for tool in tools]
    choice = get("tool_choice")
    if isinstance(choice, Mapping):
        made["tool_choice"] = {"type": "function", "function": {"name": choice["name"]}}
    elif choice is not None and (tools or choice not in ("none", "auto")):
        made["tool_choice"] = choice
    if tools and (parallel := get("parallel_tool_calls")) is not None:
        made["parallel_tool_calls"] = parallel
    wording, reasoning = get("text") or {}, get("reasoning") or {}
    if (shape := wording.get("format")) and shape["type"] != "text":
        made["response_format"] = _response_format(shape)
    if (verbosity := wording.get("verbosity")) is not None:
        made["verbosity"] = verbosity
    if (effort := reasoning.get("effort")) is not None:
        made["reasoning_effort"] = effort
    return made


def responses_field(document: Mapping[str, Any], field: str) -> str:
    """The field of the call that a field of its chat was made of."""
    match = _MESSAGE.match(field)
    if match is None:
        return _FIELDS.get(field, field)
    item = _conversation(document).items[int(match[1])]
    if item == _INSTRUCTIONS:
        return "instructions"
    return "input" if isinstance(document.get("input"), str) else f"input[{item}]"


def _conversation(document: Mapping[str, Any]) -> _Conversation:
    conversation = _Conversation()
    if instructions := document.get("instructions"):
        conversation.add(_INSTRUCTIONS, {"role": "system", "content": instructions})
    given = document["input"]
    if isinstance(given, str):
        conversation.add(0, {"role": "user", "content": given})
        return conversation
    for at, item in enumerate(given):
        kind = item.get("type") or "message"
        if kind == "message" and item["role"] == "assistant":
            conversation.speak(at, item["content"])
        elif kind == "message":
            content = _content([_part(part) for part in _parts(item["content"])])
            conversation.add(at, {"role": ROLES[item["role"]], "content": content})
        elif kind == "reasoning":
            conversation.think(at, item)
        elif kind == "function_call":
            conversation.call(at, item)
        else:
            content = _content([_part(part) for part in _parts(item["output"])])
            message = {"role": "tool", "tool_call_id": item["call_id"], "content": content}
            conversation.add(at, message)
    conversation.end_turn()
    return conversation


class _Conversation:
    """The messages, and for each the item that it begins with."""

    def __init__(self) -> None:
        self.messages: list[JsonDocument] = []
        self.items: list[int] = []
        self._turn: JsonDocument | None = None  # the assistant's message, which is not at its end

    def add(self, item: int, message: JsonDocument) -> None:
        self.end_turn()
        self.messages.append(message)
        self.items.append(item)

    def speak(self, item: int, content: Any) -> None:
        turn = self._current(item, after_content=False)
        parts = _parts(content)
        if refusals := [part["refusal"] for part in parts if part["type"] == "refusal"]:
            turn["refusal"] = "".join([turn.get("refusal") or "", *refusals])
        texts = [_part(part) for part in parts if part["type"] != "refusal"]
        if texts or not refusals:
            turn["content"] = _content([*_content_parts(turn["content"]), *texts])

    def think(self, item: int, thought: Mapping[str, Any]) -> None:
        signed = signed_thought(thought.get("encrypted_content"))
        parts = [*(thought.get("summary") or ()), *(thought.get("content") or ())]
        text = "".join([part["text"] for part in parts])
        if signed is None and not text:
            return  # a caller has left its words out
        turn = self._current(item, after_content=False)
        if signed is not None:
            kind, signature = signed
            block = {"type": kind}
            if kind == "thinking":
                block |= {"thinking": text, "signature": signature}
            else:
                block["data"] = signature
            turn.setdefault("thinking_blocks", []).append(block)
        if text:
            turn["reasoning_content"] = turn.get("reasoning_content", "") + text

    def call(self, item: int, call: Mapping[str, Any]) -> None:
        function = {"name": call["name"], "arguments": call["arguments"]}
        made = {"id": call["call_id"], "type": "function", "function": function}
        turn = self._current(item, after_content=True)
        turn.setdefault("tool_calls", []).append(made)

    def end_turn(self) -> None:
        """A message without calls has content, if only an empty text."""
        turn, self._turn = self._turn, None
        if turn is not None and turn["content"] is None and not _SAYING & turn.keys():
            turn["content"] = ""

    def _current(self, item: int, after_content: bool) -> JsonDocument:
        """The assistant's message. Behind content a new one begins, unless calls are open: their
        outputs must follow their message."""
        turn = self._turn
        if turn is not None and (
            after_content
            or "tool_calls" in turn
            or (turn["content"] is None and "refusal" not in turn)
        ):
            return turn
        self.add(item, turn := {"role": "assistant", "content": None})
        self._turn = turn
        return turn


def _parts(content: Any) -> list[Part]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _content_parts(content: Any) -> list[Part]:
    return [] if content is None else _parts(content)


def _content(parts: list[Part]) -> str | list[Part]:
    """A text alone as a string, which every provider takes."""
    if not parts:
        return ""
    text = parts[0].get("text") if len(parts) == 1 else None
    return text if isinstance(text, str) else parts


def _part(part: Part) -> Part:
    kind = part["type"]
    if kind in TEXTS:
        return {"type": "text", "text": part["text"]}
    if kind == "input_image":
        image = {"url": part["image_url"]}
        if (detail := part.get("detail")) not in (None, "auto"):
            image["detail"] = detail
        return {"type": "image_url", "image_url": image}
    if kind == "input_audio":
        return {"type": kind, kind: part[kind]}
    names = ("file_data", "filename")
    return {"type": "file", "file": {name: part[name] for name in names if part.get(name)}}


def _tool(tool: Mapping[str, Any]) -> JsonDocument:
    names = ("name", "description", "parameters", "strict")
    function = {name: tool[name] for name in names if tool.get(name) is not None}
    return {"type": "function", "function": function}


def _response_format(shape: Mapping[str, Any]) -> JsonDocument:
    if shape["type"] != "json_schema":
        return dict(shape)
    stated = {name: value for name, value in shape.items() if name != "type" and value is not None}
    return {"type": "json_schema", "json_schema": stated}
