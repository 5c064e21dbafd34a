"""A chat as a request of Cohere's Chat API."""

from __future__ import annotations

from typing import Any

from gateway.core.operations import tokens
from gateway.core.operations.dialects.chats import SYSTEM
from gateway.core.operations.json_schema import plain, titled
from gateway.core.types import JsonDocument, ServedModel

_NAMES = {
    "temperature": "temperature",
    "top_p": "p",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
_CHOICES = {"required": "REQUIRED", "none": "NONE"}


def request(document: JsonDocument, served: ServedModel, streamed: bool) -> JsonDocument:
    """Of a chat of which everything has words here. Citations of results are not asked for: a chat
    has no words for them."""
    get, messages = document.get, document["messages"]
    made: JsonDocument = {
        "model": served.model,
        "messages": [_message(each) for each in messages],
        "stream": streamed,
    }
    if any(each["role"] == "tool" for each in messages):
        made["citation_options"] = {"mode": "OFF"}
    for key, name in _NAMES.items():
        if (value := get(key)) is not None:
            made[name] = value
    if (top_k := get("top_k")) is not None:
        made["k"] = max(top_k, 0)
    if limit := tokens.stated(document):
        made["max_tokens"] = limit
    if stops := get("stop"):
        made["stop_sequences"] = stops if isinstance(stops, list) else [stops]
    if tools := get("tools"):
        _add_tools(made, tools, get("tool_choice"))
    effort, thinking = get("reasoning_effort"), get("thinking") or {}
    if thinking.get("type") == "enabled":
        made["thinking"] = {"type": "enabled", "token_budget": thinking["budget_tokens"]}
    elif effort is not None or thinking:
        off = effort == "none" or thinking.get("type") == "disabled"
        made["thinking"] = {"type": "disabled" if off else "enabled"}
    shape = get("response_format")
    if shape and shape["type"] != "text":
        made["response_format"] = {"type": "json_object"}
        if shape["type"] == "json_schema":
            made["response_format"]["json_schema"] = titled(shape["json_schema"])
    return made


def _add_tools(made: JsonDocument, tools: list[JsonDocument], choice: Any) -> None:
    """A function that is forced is the only one that the call offers."""
    functions = [tool["function"] for tool in tools]
    if isinstance(choice, dict):
        name = choice["function"]["name"]
        # guard: S16.forced-function
        functions = [function for function in functions if function["name"] == name]
        choice = "required"
    made["tools"] = [{"type": "function", "function": _function(each)} for each in functions]
    if functions[0].get("strict"):
        made["strict_tools"] = True
    if choice in _CHOICES:
        made["tool_choice"] = _CHOICES[choice]


def _function(function: JsonDocument) -> JsonDocument:
    made: JsonDocument = {"name": function["name"]}
    if description := function.get("description"):
        made["description"] = description
    schema = function.get("parameters") or {}
    made["parameters"] = {"type": "object", **(plain(schema) if function.get("strict") else schema)}
    return made


def _message(message: JsonDocument) -> JsonDocument:
    role, content = message["role"], message.get("content")
    if role == "assistant":
        return _answer(message, content)
    if role == "tool":
        return {"role": "tool", "tool_call_id": message["tool_call_id"], "content": content or ""}
    return {"role": "system" if role in SYSTEM else role, "content": content}


def _answer(message: JsonDocument, content: Any) -> JsonDocument:
    """What stands beside calls of tools is the plan of the model."""
    texts = (
        [content] if isinstance(content, str) else [part[part["type"]] for part in content or ()]
    )
    if refusal := message.get("refusal"):
        texts.append(refusal)
    texts = [text for text in texts if text]
    made: JsonDocument = {"role": "assistant"}
    parts = []
    if thought := message.get("reasoning_content"):
        parts.append({"type": "thinking", "thinking": thought})
    if calls := message.get("tool_calls"):
        made["tool_calls"] = [_call(call) for call in calls]
        if texts:
            made["tool_plan"] = "".join(texts)
    else:
        parts.extend([{"type": "text", "text": text} for text in texts])
    if parts:
        made["content"] = parts
    return made


def _call(call: JsonDocument) -> JsonDocument:
    function = call["function"]
    given = {"name": function["name"], "arguments": function.get("arguments") or "{}"}
    return {"id": call["id"], "type": "function", "function": given}
