"""A chat as a request of the Anthropic Messages API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gateway.core.operations import tokens
from gateway.core.operations.dialects.anthropic import THOUGHTS, is_limited, thinks
from gateway.core.operations.dialects.chats import DATA_URL, SYSTEM
from gateway.core.operations.json_schema import plain, titled
from gateway.core.types import JsonDocument, ServedModel

Block = dict[str, Any]
_TIERS = {"auto": "auto", "default": "standard_only"}
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_ID_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


def request(
    document: JsonDocument, served: ServedModel, streamed: bool, as_json: Callable[[str], Any]
) -> JsonDocument:
    """Of a chat of which everything has words here. `as_json`: what a tool call's arguments become,
    which are JSON already."""
    get = document.get
    made: JsonDocument = {
        "model": served.model,
        "max_tokens": tokens.stated(document) or served.max_tokens,
    }
    messages = document["messages"]
    instructions = [each for each in messages if each["role"] in SYSTEM]
    if len(instructions) == 1:
        made["system"] = _content(instructions[0], as_json)
    elif instructions:
        made["system"] = [block for each in instructions for block in _blocks(each, as_json)]
    made["messages"] = _turns(messages[len(instructions) :], as_json)
    if streamed:
        made["stream"] = True
    _add_sampling(made, document)
    if stops := get("stop"):
        made["stop_sequences"] = stops if isinstance(stops, list) else [stops]
    if tools := get("tools"):
        made["tools"] = [_tool(each) for each in tools]
        if choice := _tool_choice(get("tool_choice"), get("parallel_tool_calls")):
            made["tool_choice"] = choice
    elif get("tool_choice") not in (None, "none", "auto"):
        made["tool_choice"] = _tool_choice(get("tool_choice"), None)
    if (user := get("safety_identifier") or get("user")) is not None:
        made["metadata"] = {"user_id": user}
    if tier := get("service_tier"):
        made["service_tier"] = _TIERS[tier]
    if mark := get("cache_control"):
        made["cache_control"] = mark
    output: JsonDocument = {}
    effort = get("reasoning_effort")
    thinking = _thinking(document)
    if thinking is not None:
        made["thinking"] = thinking
    if effort not in (None, "none"):
        output["effort"] = effort
    shape = get("response_format")
    if shape and shape["type"] == "json_schema":
        output["format"] = {"type": "json_schema", "schema": titled(shape["json_schema"])}
    if output:
        made["output_config"] = output
    return made


def _thinking(document: JsonDocument) -> JsonDocument | None:
    """As the call states it, or by its effort where it does not speak of thinking."""
    if "thinking" in document:
        stated: JsonDocument | None = document["thinking"]
        return stated
    if thinks(document):
        return {"type": "adaptive"}
    return {"type": "disabled"} if document.get("reasoning_effort") == "none" else None


def _add_sampling(made: JsonDocument, document: JsonDocument) -> None:
    """A parameter that changes nothing is left out: its models take one of both, or none."""
    for name in ("temperature", "top_p"):
        value = document.get(name)
        if value is not None and value != 1:
            made[name] = value
    if is_limited(top_k := document.get("top_k")):
        made["top_k"] = top_k


def _turns(messages: Iterable[JsonDocument], as_json: Callable[[str], Any]) -> list[JsonDocument]:
    """Messages of one role, one after the other, are one turn, and so are the results of tools and
    what the user says then."""
    turns: list[JsonDocument] = []
    for message in messages:
        role = "assistant" if message["role"] == "assistant" else "user"
        last = turns[-1] if turns else None
        if last is not None and last["role"] == role:
            if isinstance(last["content"], str):
                last["content"] = _parts(last["content"])
            last["content"].extend(_blocks(message, as_json))
        else:
            turns.append({"role": role, "content": _content(message, as_json)})
    return turns


def _content(message: JsonDocument, as_json: Callable[[str], Any]) -> str | list[Block]:
    """A text alone is its own short form."""
    content = message.get("content")
    plain = len(message) == 2 and isinstance(content, str) and message["role"] != "tool"
    return content if plain else _blocks(message, as_json)  # type: ignore[return-value]


def _blocks(message: JsonDocument, as_json: Callable[[str], Any]) -> list[Block]:
    content = message.get("content")
    if message["role"] == "tool":
        result: Block = {"type": "tool_result", "tool_use_id": _call_id(message["tool_call_id"])}
        if content:
            result["content"] = content if isinstance(content, str) else _parts(content)
        if message.get("is_error"):
            result["is_error"] = True
        blocks = [result]
    else:
        blocks = [_thought(block) for block in message.get("thinking_blocks") or ()]
        blocks.extend(_parts(content))
        if refusal := message.get("refusal"):
            blocks.append({"type": "text", "text": refusal})
        blocks.extend([_tool_use(call, as_json) for call in message.get("tool_calls") or ()])
    if mark := message.get("cache_control"):
        blocks[-1]["cache_control"] = mark
    return blocks


def _thought(block: JsonDocument) -> Block:
    kind = block["type"]
    return {"type": kind} | {name: block[name] for name in THOUGHTS[kind]}


def _parts(content: Any) -> list[Block]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [_part(part) for part in content or ()]


def _part(part: JsonDocument) -> Block:
    kind = part["type"]
    if stated := part.get("document"):
        source = {"type": "text", "media_type": "text/plain", "data": part["text"]}
        block: Block = {**stated, "type": "document", "source": source}
    elif kind in ("text", "refusal"):
        block = {"type": "text", "text": part[kind]}
    elif kind == "image_url":
        block = {"type": "image", "source": _source(part["image_url"]["url"])}
    else:
        file = part["file"]
        block = {"type": "document", "source": _source(file.get("file_url") or file["file_data"])}
        if name := file.get("filename"):
            block["title"] = name
        if context := part.get("context"):
            block["context"] = context
    if mark := part.get("cache_control"):
        block["cache_control"] = mark
    return block


def _source(url: str) -> JsonDocument:
    data = DATA_URL.match(url)
    if data is None:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": data[1], "data": url[data.end() :]}


def _tool_use(call: JsonDocument, as_json: Callable[[str], Any]) -> Block:
    function = call["function"]
    made: Block = {
        "type": "tool_use",
        "id": _call_id(call["id"]),
        "name": function["name"],
        "input": as_json(arguments) if (arguments := function.get("arguments")) else {},
    }
    if mark := call.get("cache_control"):
        made["cache_control"] = mark
    return made


def _call_id(given: str) -> str:
    """As it is if it has letters, digits, `_` and `-` alone, as all must have there; else in
    hexadecimal digits. A call and its result go on with the same id, others with others."""
    return given if _ID_LETTERS.issuperset(given) else f"id_{given.encode().hex()}"


def _tool(tool: JsonDocument) -> JsonDocument:
    function = tool["function"]
    made: JsonDocument = {"name": function["name"]}
    if description := function.get("description"):
        made["description"] = description
    schema = function.get("parameters") or {}
    if function.get("strict"):
        schema, made["strict"] = plain(schema), True
    made["input_schema"] = {"type": "object", **schema}
    if mark := tool.get("cache_control"):
        made["cache_control"] = mark
    return made


def _tool_choice(choice: Any, parallel: bool | None) -> JsonDocument | None:
    """None: the model decides, and may call several, as it does unless the call says otherwise."""
    made: JsonDocument = {"type": "auto"}
    if isinstance(choice, Mapping):
        made = {"type": "tool", "name": choice["function"]["name"]}
    elif choice is not None:
        made = {"type": _CHOICES[choice]}
    if parallel is False and made["type"] != "none":
        return {**made, "disable_parallel_tool_use": True}
    return made if choice is not None else None
