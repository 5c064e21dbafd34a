"""A chat as a request of Converse or ConverseStream."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, Final

from gateway.core.operations import tokens
from gateway.core.operations.dialects.anthropic import is_limited
from gateway.core.operations.dialects.bedrock import DOCUMENTS, IMAGES, labels
from gateway.core.operations.dialects.chats import DATA_URL, SYSTEM
from gateway.core.operations.json_schema import plain
from gateway.core.types import JsonDocument
from gateway.protocols import strictjson

Block = dict[str, Any]
AsJson = Callable[[str], Any]
_CALL_ID: Final = re.compile("[a-zA-Z0-9_.:-]{1,64}")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9()\[\]-]+")
_LONGEST_NAME: Final = 180  # of the 200 characters that a document's may have
_CLAUDE: Final = "claude"


def request(document: JsonDocument, model: str, as_json: AsJson) -> JsonDocument:
    """Of a chat of which everything has words here. `as_json`: what a tool call's arguments become,
    which are JSON already."""
    get = document.get
    messages = document["messages"]
    instructions = [each for each in messages if each["role"] in SYSTEM]
    made: JsonDocument = {"messages": _turns(messages[len(instructions) :], as_json)}
    if instructions:
        made["system"] = [block for each in instructions for block in _marked(each, _parts(each))]
    if inference := _inference(document, model):
        made["inferenceConfig"] = inference
    if more := _model_fields(document, model):
        made["additionalModelRequestFields"] = more
    if tools := get("tools"):
        made["toolConfig"] = {"tools": [block for each in tools for block in _tool(each)]}
        if (choice := get("tool_choice")) is not None:
            made["toolConfig"]["toolChoice"] = _tool_choice(choice)
    if output := _output(document):
        made["outputConfig"] = output
    if stated := labels(document):
        made["requestMetadata"] = stated
    if (tier := get("service_tier")) not in (None, "auto"):
        made["serviceTier"] = {"type": tier}
    return made


def _inference(document: JsonDocument, model: str) -> JsonDocument:
    made: JsonDocument = {}
    if limit := tokens.stated(document):
        made["maxTokens"] = limit
    usual = 1 if _CLAUDE in model else None  # takes one of both, and has both at 1 by itself
    for name, there in (("temperature", "temperature"), ("top_p", "topP")):
        if (value := document.get(name)) not in (None, usual):
            made[there] = value
    if stops := document.get("stop"):
        made["stopSequences"] = stops if isinstance(stops, list) else [stops]
    return made


def _model_fields(document: JsonDocument, model: str) -> JsonDocument:
    """Fields that are the model's own."""
    get = document.get
    made: JsonDocument = {}
    if is_limited(top_k := get("top_k")):
        made["top_k"] = top_k
    if stated := get("thinking"):
        made["thinking"] = stated
    if made:
        return made
    usual = (None, 1)
    if (
        _CLAUDE in model  # which thinks neither with sampling nor with a forced tool
        and get("reasoning_effort")
        and get("temperature") in usual
        and get("top_p") in usual
        and get("tool_choice") in (None, "auto")
    ):
        return {"thinking": {"type": "adaptive"}}
    return {}


def _output(document: JsonDocument) -> JsonDocument:
    made: JsonDocument = {}
    if effort := document.get("reasoning_effort"):
        made["effort"] = effort
    shape = document.get("response_format")
    if shape and shape["type"] == "json_schema":
        stated = shape["json_schema"]
        schema = {"schema": strictjson.dumps(plain(stated["schema"])).decode()}
        schema |= {key: stated[key] for key in ("name", "description") if stated.get(key)}
        made["textFormat"] = {"type": "json_schema", "structure": {"jsonSchema": schema}}
    return made


def _turns(messages: Iterable[JsonDocument], as_json: AsJson) -> list[JsonDocument]:
    """Messages of one role, one after the other, are one turn, and so are the results of tools and
    what the user says then."""
    turns: list[JsonDocument] = []
    names: set[str] = set()  # of documents
    for message in messages:
        role = "assistant" if message["role"] == "assistant" else "user"
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "content": []})
        turns[-1]["content"] += _blocks(message, names, as_json)
    return turns


def _blocks(message: JsonDocument, names: set[str], as_json: AsJson) -> list[Block]:
    if message["role"] == "tool":
        parts = _parts(message, names)
        result = {
            "toolUseId": _call_id(message["tool_call_id"]),
            "content": [part for part in parts if "cachePoint" not in part],
        }
        marks = [part for part in parts if "cachePoint" in part]
        return _marked(message, [{"toolResult": result}, *marks])
    blocks = [_thought(block) for block in message.get("thinking_blocks") or ()]
    blocks += _parts(message, names)
    if refusal := message.get("refusal"):
        blocks.append({"text": refusal})
    blocks += [_tool_use(call, as_json) for call in message.get("tool_calls") or ()]
    return _marked(message, blocks)


def _marked(holder: JsonDocument, blocks: list[Block]) -> list[Block]:
    """With a mark behind them, up to which the prompt is kept in the cache."""
    if mark := holder.get("cache_control"):
        ttl = {"ttl": mark["ttl"]} if "ttl" in mark else {}
        return [*blocks, {"cachePoint": {"type": "default", **ttl}}]
    return blocks


def _thought(block: JsonDocument) -> Block:
    if block["type"] == "redacted_thinking":
        return {"reasoningContent": {"redactedContent": block["data"]}}
    text = {"text": block["thinking"]}
    if signature := block.get("signature"):
        text["signature"] = signature
    return {"reasoningContent": {"reasoningText": text}}


def _parts(message: JsonDocument, names: set[str] | None = None) -> list[Block]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"text": content}] if content else []
    blocks: list[Block] = []
    for part in content or ():
        blocks += _marked(part, [_part(part, set() if names is None else names)])
    return blocks


def _part(part: JsonDocument, names: set[str]) -> Block:
    kind = part["type"]
    if kind == "image_url":
        media, data = _data(part["image_url"]["url"])
        return {"image": {"format": IMAGES[media], "source": {"bytes": data}}}
    if kind == "file":
        media, data = _data(part["file"]["file_data"])
        name = _document_name(part["file"].get("filename") or "", DOCUMENTS[media], names)
        source = {"bytes": data}
        return {"document": {"format": DOCUMENTS[media], "name": name, "source": source}}
    return {"text": part[kind]}


def _data(url: str) -> tuple[str, str]:
    """The media type and the bytes in base64."""
    data = DATA_URL.match(url)
    assert data is not None
    return data[1], url[data.end() :]


def _document_name(filename: str, ending: str, names: set[str]) -> str:
    """In the letters that it may have, without its ending, and unlike others."""
    stem = _NOT_IN_NAMES.sub(" ", filename.removesuffix(f".{ending}")).strip()[:_LONGEST_NAME]
    name, number = stem or "document", 1
    while name in names:
        number += 1
        name = f"{stem or 'document'} ({number})"
    names.add(name)
    return name


def _tool_use(call: JsonDocument, as_json: AsJson) -> Block:
    function = call["function"]
    arguments = function.get("arguments")
    use = {
        "toolUseId": _call_id(call["id"]),
        "name": function["name"],
        "input": as_json(arguments) if arguments else {},
    }
    return {"toolUse": use}


def _call_id(given: str) -> str:
    """As it is if it may stand there; else its digest. A call and its result go on with the same
    id, others with others."""
    return given if _CALL_ID.fullmatch(given) else f"id_{sha256(given.encode()).hexdigest()[:48]}"


def _tool(tool: JsonDocument) -> list[Block]:
    function = tool["function"]
    made: Block = {"name": function["name"]}
    if description := function.get("description"):
        made["description"] = description
    schema = function.get("parameters") or {}
    if function.get("strict"):
        schema, made["strict"] = plain(schema), True
    made["inputSchema"] = {"json": {"type": "object", **schema}}
    return _marked(tool, [{"toolSpec": made}])


def _tool_choice(choice: Any) -> Block:
    if isinstance(choice, Mapping):
        return {"tool": {"name": choice["function"]["name"]}}
    return {"any" if choice == "required" else "auto": {}}
