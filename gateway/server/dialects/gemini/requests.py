"""The fields of a `generateContent` call as those of a chat (v1beta, November 2026).

A field that is not in a table here is refused, since it could change the answer; without a value it
says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.core.errors import MISSING, WRONG_TYPE, InvalidField
from gateway.core.operations.dialects.fields import GEMINI
from gateway.core.operations.spec import CapabilityNeed, Translation
from gateway.core.types import JsonDocument
from gateway.protocols import strictjson
from gateway.server.dialects.fields import (
    check_keys,
    checked_list,
    choose_nothing,
    flag,
    not_offered,
    number,
    text_field,
    whole_number,
    word,
)
from gateway.server.dialects.gemini.names import camel
from gateway.server.dialects.gemini.schemas import closed, is_strict, json_schema
from gateway.server.dialects.gemini.turns import GeminiTurns

_CONFIG: Final = "generationConfig"
_JSON: Final = "application/json"
_LEVELS: Final = {level.upper(): level for level in ("minimal", "low", "medium", "high")}
_MODES: Final = {"AUTO": "auto", "ANY": "required", "NONE": "none", "VALIDATED": "auto"}
_TIERS: Final = {"standard": "default", "flex": "flex", "priority": "priority"}
_READ: Final = frozenset({"contents", "systemInstruction", "model"})
_FUNCTION: Final = frozenset(
    {"name", "description", "parameters", "parametersJsonSchema", "response", "responseJsonSchema"}
)
_CALLING: Final = frozenset({"mode", "allowedFunctionNames"})
_Unsaid = list[CapabilityNeed]
_Field = Callable[[Any, JsonDocument, _Unsaid], None]


def chat(body: JsonDocument, model: str, streamed: bool) -> tuple[JsonDocument, Translation]:
    """The same call as a chat, and what was made of it: a chat says what a function returns in its
    description. Raises InvalidField with the caller's own field."""
    made: JsonDocument = {"model": model}
    if streamed:
        made["stream"] = True
    body = camel(body, "body")
    turns = GeminiTurns()
    if (instructions := body.get("systemInstruction")) is not None:
        turns.system(instructions)
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        code = MISSING if contents is None else WRONG_TYPE
        raise InvalidField("contents", "must be a list of contents", code)
    for at, content in enumerate(contents):
        turns.turn(at, content)
    turns.end()
    made["messages"] = turns.messages
    _read(body, _FIELDS, "", made, turns.unsaid, _READ)
    if "tools" not in made:
        choose_nothing(made)
    return made, Translation(GEMINI, tuple(turns.unsaid), tuple(turns.turns))


def _read(
    block: JsonDocument,
    fields: Mapping[str, _Field],
    where: str,
    made: JsonDocument,
    unsaid: _Unsaid,
    others: frozenset[str] = frozenset(),
) -> None:
    for name, value in block.items():
        if value is None or name in others:
            continue
        field = fields.get(name)
        if field is None:
            # guard: S19.gemini-field -> continue
            raise not_offered(f"{where}.{name}" if where else name)
        field(value, made, unsaid)


def _object(value: Any, where: str, known: frozenset[str]) -> JsonDocument:
    if not isinstance(value, dict):
        raise InvalidField(where, "must be an object", WRONG_TYPE)
    block = camel(value, where)
    check_keys(block, known, where)
    return block


def _store(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    made["store"] = flag(value, "store")


def _service_tier(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    made["service_tier"] = word(value, _TIERS, "serviceTier")


def _tools(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    tools: list[JsonDocument] = []
    for at, tool in enumerate(checked_list(value, "tools", dict, "tools")):
        where = f"tools[{at}]"
        own = _object(tool, where, frozenset({"functionDeclarations"}))
        where += ".functionDeclarations"
        stated = checked_list(own.get("functionDeclarations") or [], where, dict, "functions")
        tools += [_tool(each, f"{where}[{number}]") for number, each in enumerate(stated)]
    if tools:
        made["tools"] = tools


def _tool(declaration: JsonDocument, where: str) -> JsonDocument:
    stated = _object(declaration, where, _FUNCTION)
    function: JsonDocument = {"name": text_field(stated, "name", where)}
    words = text_field(stated, "description", where) if stated.get("description") else ""
    if (given := _schema(stated, "parameters", where)) is not None:
        function["parameters"] = given
    if (returned := _schema(stated, "response", where)) is not None:
        words += f"\n\nReturns JSON of this schema: {strictjson.dumps(returned).decode()}"
    if words:
        function["description"] = words.strip()
    return {"type": "function", "function": function}


def _schema(stated: JsonDocument, name: str, where: str) -> JsonDocument | None:
    """In Google's own form or as JSON Schema; None: there is none."""
    own, other = stated.get(name), stated.get(f"{name}JsonSchema")
    if own is not None and other is not None:
        raise InvalidField(f"{where}.{name}JsonSchema", "is a second schema")
    if own is not None:
        return json_schema(own, f"{where}.{name}")
    if not isinstance(other, dict | None):
        raise InvalidField(f"{where}.{name}JsonSchema", "must be an object", WRONG_TYPE)
    return other


def _tool_config(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    where = "toolConfig"
    config = _object(value, where, frozenset({"functionCallingConfig"}))
    if (stated := config.get("functionCallingConfig")) is None:
        return
    where += ".functionCallingConfig"
    calling = _object(stated, where, _CALLING)
    mode = calling.get("mode") or "AUTO"
    if mode == "MODE_UNSPECIFIED":
        mode = "AUTO"
    choice: Any = word(mode, _MODES, f"{where}.mode")
    if mode == "VALIDATED":
        for tool in made.get("tools") or ():
            tool["function"]["strict"] = True
    if names := calling.get("allowedFunctionNames"):
        names = checked_list(names, f"{where}.allowedFunctionNames", str, "names")
        if mode not in ("ANY", "VALIDATED"):
            raise InvalidField(f"{where}.allowedFunctionNames", "go with the modes ANY, VALIDATED")
        choice = _allowed(names, choice, made)
    made["tool_choice"] = choice


def _allowed(names: list[str], choice: str, made: JsonDocument) -> Any:
    """Which of the functions may be called; `choice`: whether one must."""
    every = {tool["function"]["name"] for tool in made.get("tools") or ()}
    if every <= set(names):
        return choice
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    if len(tools) == 1 and choice == "required":
        return tools[0]
    return {"type": "allowed_tools", "allowed_tools": {"mode": choice, "tools": tools}}


def _config(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    if not isinstance(value, dict):
        raise InvalidField(_CONFIG, "must be an object", WRONG_TYPE)
    config = camel(value, _CONFIG)
    _read(config, _CONFIG_FIELDS, _CONFIG, made, unsaid, _SHAPES)
    _add_shape(config, made)


def _number(name: str, key: str) -> _Field:
    def field(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
        made[key] = number(value, f"{_CONFIG}.{name}")

    return field


def _count(name: str, key: str, least: int = 1) -> _Field:
    def field(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
        made[key] = whole_number(value, f"{_CONFIG}.{name}", least)

    return field


def _top_k(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    """A number of Google's is a float at times."""
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    made["top_k"] = whole_number(whole, f"{_CONFIG}.topK", 0)


def _seed(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    made["seed"] = whole_number(value, f"{_CONFIG}.seed", -(1 << 31))


def _stops(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    if stops := checked_list(value, f"{_CONFIG}.stopSequences", str, "strings"):
        made["stop"] = stops


def _logprobs(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    made["logprobs"] = flag(value, f"{_CONFIG}.responseLogprobs")


def _modalities(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    if value and value != ["TEXT"]:
        raise not_offered(f"{_CONFIG}.responseModalities")


def _thinking(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    """A level is an effort, no budget is none, and any other budget stands in the words that the
    Messages API has for it."""
    where = f"{_CONFIG}.thinkingConfig"
    config = _object(
        value, where, frozenset({"includeThoughts", "thinkingBudget", "thinkingLevel"})
    )
    shown = flag(config.get("includeThoughts") or False, f"{where}.includeThoughts")
    level, budget = config.get("thinkingLevel"), config.get("thinkingBudget")
    if level not in (None, "THINKING_LEVEL_UNSPECIFIED"):
        made["reasoning_effort"] = word(level, _LEVELS, f"{where}.thinkingLevel")
    if budget == 0 and "reasoning_effort" not in made:
        made["reasoning_effort"] = "none"
    elif budget not in (None, -1):
        whole_number(budget, f"{where}.thinkingBudget", 0)
        made["thinking"] = {"type": "enabled", "budget_tokens": budget}
        unsaid.append(CapabilityNeed("reasoning", f"{where}.thinkingBudget"))
    elif shown or "reasoning_effort" in made:
        made["thinking"] = {"type": "adaptive"}
    if shown and "thinking" in made:
        made["thinking"]["display"] = "summarized"


def _add_shape(config: JsonDocument, made: JsonDocument) -> None:
    """The form of the answer."""
    media = config.get("responseMimeType") or "text/plain"
    schemas = [name for name in _SCHEMAS if config.get(name) is not None]
    if media != _JSON:
        if media != "text/plain":
            raise InvalidField(f"{_CONFIG}.responseMimeType", f"must be text/plain or {_JSON}")
        if schemas:
            raise InvalidField(f"{_CONFIG}.{schemas[0]}", f"goes with the media type {_JSON}")
        return
    if not schemas:
        made["response_format"] = {"type": "json_object"}
        return
    if len(schemas) > 1:
        raise InvalidField(f"{_CONFIG}.{schemas[1]}", "is a second schema")
    where, schema = f"{_CONFIG}.{schemas[0]}", config[schemas[0]]
    if schemas[0] == "responseSchema":
        schema = json_schema(schema, where)
    elif not isinstance(schema, dict):
        raise InvalidField(where, "must be an object", WRONG_TYPE)
    schema = closed(schema)
    stated: JsonDocument = {"schema": schema}
    if is_strict(schema):
        stated["strict"] = True
    made["response_format"] = {"type": "json_schema", "json_schema": stated}


_SCHEMAS: Final = ("responseSchema", "responseJsonSchema")
_SHAPES: Final = frozenset({*_SCHEMAS, "responseMimeType"})
_FIELDS: Final[Mapping[str, _Field]] = {
    "tools": _tools,
    "toolConfig": _tool_config,
    _CONFIG: _config,
    "store": _store,
    "serviceTier": _service_tier,
}
_CONFIG_FIELDS: Final[Mapping[str, _Field]] = {
    "temperature": _number("temperature", "temperature"),
    "topP": _number("topP", "top_p"),
    "topK": _top_k,
    "candidateCount": _count("candidateCount", "n"),
    "maxOutputTokens": _count("maxOutputTokens", "max_completion_tokens"),
    "stopSequences": _stops,
    "presencePenalty": _number("presencePenalty", "presence_penalty"),
    "frequencyPenalty": _number("frequencyPenalty", "frequency_penalty"),
    "seed": _seed,
    "responseLogprobs": _logprobs,
    "logprobs": _count("logprobs", "top_logprobs", 0),
    "responseModalities": _modalities,
    "thinkingConfig": _thinking,
}
