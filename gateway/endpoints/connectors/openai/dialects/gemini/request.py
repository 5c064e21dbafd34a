"""A chat as a request of Google's `generateContent`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gateway.core.operations import tokens
from gateway.core.operations.dialects.chats import DATA_URL, SYSTEM
from gateway.core.operations.dialects.gemini import SIGNATURE, SOUNDS, media_type
from gateway.core.operations.json_schema import plain, titled, with_enums
from gateway.core.types import JsonDocument, ServedModel

Part = dict[str, Any]
_UNSIGNED = "skip_thought_signature_validator"
"""The signature that Google documents for calls that another model has made."""
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_NUMBERS = {
    "temperature": "temperature",
    "top_p": "topP",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "seed": "seed",
    "n": "candidateCount",
}


def request(
    document: JsonDocument, served: ServedModel, as_json: Callable[[str], Any]
) -> JsonDocument:
    """Of a chat of which everything has words here. `as_json`: what a call's arguments become,
    which are JSON already."""
    messages = document["messages"]
    instructions = [each for each in messages if each["role"] in SYSTEM]
    made: JsonDocument = {"contents": _contents(messages[len(instructions) :], as_json)}
    if instructions:
        parts = [part for each in instructions for part in _parts(each["content"])]
        made["systemInstruction"] = {"parts": parts}
    if tools := document.get("tools"):
        made["tools"] = [
            {"functionDeclarations": [_declaration(each["function"]) for each in tools]}
        ]
        if choice := _calling(document.get("tool_choice"), tools):
            made["toolConfig"] = {"functionCallingConfig": choice}
    if config := _config(document):
        made["generationConfig"] = config
    return made


def _config(document: JsonDocument) -> JsonDocument:
    get = document.get
    config = {
        name: value for key, name in _NUMBERS.items() if (value := get(key)) is not None
    }  # fmt: skip
    if (top_k := get("top_k")) not in (None, 0, -1):  # words for all tokens
        config["topK"] = top_k
    if limit := tokens.stated(document):
        config["maxOutputTokens"] = limit
    if stops := get("stop"):
        config["stopSequences"] = stops if isinstance(stops, list) else [stops]
    if get("logprobs") or get("top_logprobs"):
        config["responseLogprobs"] = True
        if shown := get("top_logprobs"):
            config["logprobs"] = shown
    if (thinking := _thinking(get("reasoning_effort"), get("thinking"))) is not None:
        config["thinkingConfig"] = thinking
    shape = get("response_format")
    if shape and shape["type"] != "text":
        config["responseMimeType"] = "application/json"
        if shape["type"] == "json_schema":
            config["responseJsonSchema"] = with_enums(titled(shape["json_schema"]))
    return config


def _thinking(effort: Any, stated: Any) -> JsonDocument | None:
    """By the effort, or by what the Messages API calls thinking."""
    kind = stated["type"] if stated else None
    if effort == "none" or kind == "disabled":
        return {"thinkingBudget": 0}
    if effort is None and kind is None:
        return None
    made: JsonDocument = {"includeThoughts": True}
    if effort is not None:
        made["thinkingLevel"] = effort.upper()
    elif kind == "enabled":
        made["thinkingBudget"] = stated["budget_tokens"]
    return made


def _contents(
    messages: Iterable[JsonDocument], as_json: Callable[[str], Any]
) -> list[JsonDocument]:
    """One for each message; the responses to the calls of one turn are one together."""
    contents: list[JsonDocument] = []
    names: dict[str, str] = {}  # of what was called, by the calls' ids
    last = ""
    for message in messages:
        role = message["role"]
        if role == "assistant":
            for call in message.get("tool_calls") or ():
                names[call["id"]] = call["function"]["name"]
            contents.append({"role": "model", "parts": _answer(message, as_json)})
        elif role == "tool":
            response = _response(message, names[message["tool_call_id"]])
            if last == "tool":
                contents[-1]["parts"].append(response)
            else:
                contents.append({"role": "user", "parts": [response]})
        else:
            contents.append({"role": "user", "parts": _parts(message["content"])})
        last = role
    return contents


def _answer(message: JsonDocument, as_json: Callable[[str], Any]) -> list[Part]:
    parts: list[Part] = []
    if thought := message.get("reasoning_content"):
        parts.append({"text": thought, "thought": True})
    texts = _parts(message.get("content"))
    if refusal := message.get("refusal"):
        texts.append({"text": refusal})
    if signature := _signature(message):
        texts = texts or [{"text": ""}]
        texts[-1]["thoughtSignature"] = signature
    return [*parts, *texts, *_calls(message.get("tool_calls") or (), as_json)]


def _calls(calls: Iterable[JsonDocument], as_json: Callable[[str], Any]) -> list[Part]:
    """Of calls that were made at once the first is signed."""
    parts: list[Part] = []
    for call in calls:
        function = call["function"]
        given = as_json(arguments) if (arguments := function.get("arguments")) else {}
        made = {"id": call["id"], "name": function["name"], "args": given}
        part: Part = {"functionCall": made}
        if signature := _signature(call):
            part["thoughtSignature"] = signature
        parts.append(part)
    if parts:
        parts[0].setdefault("thoughtSignature", _UNSIGNED)  # guard: S16.foreign-call
    return parts


def _signature(holder: JsonDocument) -> Any:
    extra = holder.get("extra_content")
    return extra["google"][SIGNATURE] if extra else None


def _response(message: JsonDocument, name: str) -> Part:
    """A response is an object: its texts are its output, and what is no text its parts."""
    content = message.get("content") or ""
    output: Any = content
    parts: list[Part] = []
    if not isinstance(content, str):
        made = _parts(content)
        texts = [part["text"] for part in made if "text" in part]
        output = texts[0] if len(texts) == 1 else texts
        parts = [part for part in made if "text" not in part]
    response = {"id": message["tool_call_id"], "name": name, "response": {"output": output}}
    return {"functionResponse": {**response, "parts": parts} if parts else response}


def _parts(content: Any) -> list[Part]:
    if isinstance(content, str):
        return [{"text": content}] if content else []
    return [made for part in content or () for made in _made(part)]


def _made(part: JsonDocument) -> list[Part]:
    """A file's name has no field: it stands in front of the file, as a text."""
    kind = part["type"]
    value = part[kind]
    if kind in ("text", "refusal"):
        return [{"text": value}]
    if kind == "input_audio":
        return [_inline(SOUNDS[value["format"]], value["data"])]
    url = value["url"] if kind == "image_url" else value["file_data"]
    named = [{"text": name}] if (name := value.get("filename")) else []
    if data := DATA_URL.match(url):
        return [*named, _inline(data[1], url[data.end() :])]
    return [{"fileData": {"mimeType": media_type(url), "fileUri": url}}]


def _inline(media: str, data: str) -> Part:
    return {"inlineData": {"mimeType": media, "data": data}}


def _declaration(function: JsonDocument) -> JsonDocument:
    made: JsonDocument = {"name": function["name"]}
    if description := function.get("description"):
        made["description"] = description
    if schema := function.get("parameters"):
        schema = plain(schema) if function.get("strict") else schema
        made["parametersJsonSchema"] = with_enums({"type": "object", **schema})
    return made


def _calling(choice: Any, tools: Iterable[JsonDocument]) -> JsonDocument | None:
    """None: the model decides, as it does unless the call says otherwise. Where it decides, calls
    are held to the schemas of functions in a mode of its own."""
    if isinstance(choice, Mapping):
        return {"mode": "ANY", "allowedFunctionNames": [choice["function"]["name"]]}
    if choice in (None, "auto") and any(tool["function"].get("strict") for tool in tools):
        return {"mode": "VALIDATED"}
    return None if choice is None else {"mode": _MODES[choice]}
