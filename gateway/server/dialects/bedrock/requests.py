"""The fields of a Converse call as those of a chat (`bedrock-runtime` 2023-09-30, November 2026).

A field that is not in a table here is refused, since it could change the answer; without a value it
says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.core.errors import MISSING, WRONG_TYPE, InvalidField, MalformedBody
from gateway.core.operations.dialects.fields import CONVERSE
from gateway.core.operations.spec import CapabilityNeed, Translation
from gateway.core.types import JsonDocument
from gateway.protocols import strictjson
from gateway.server.dialects.bedrock.turns import ConverseTurns, cache_mark
from gateway.server.dialects.fields import (
    check_keys,
    check_object,
    checked_list,
    choose_nothing,
    not_offered,
    number,
    text_field,
    whole_number,
    word,
)

_READ: Final = frozenset({"messages", "system", "modelId"})
_INFERENCE: Final = frozenset({"maxTokens", "temperature", "topP", "stopSequences"})
_TIERS: Final = {"default": "default", "flex": "flex", "priority": "priority"}
_EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
_OPENAI_EFFORTS: Final = frozenset(_EFFORTS[:4])
_SPEC: Final = frozenset({"name", "description", "inputSchema", "strict"})
_THINKING: Final = frozenset({"type", "budget_tokens", "display"})
_Unsaid = list[CapabilityNeed]
_Field = Callable[[Any, JsonDocument, _Unsaid], None]


def chat(body: JsonDocument, model: str, streamed: bool) -> tuple[JsonDocument, Translation]:
    """The same call as a chat, and what was made of it. Raises InvalidField with the caller's
    own field."""
    made: JsonDocument = {"model": model}
    if streamed:
        made["stream"] = True
    turns = ConverseTurns()
    turns.system(body.get("system"))
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        code = MISSING if messages is None else WRONG_TYPE
        raise InvalidField("messages", "must be a list of messages", code)
    for at, message in enumerate(messages):
        turns.turn(at, message)
    turns.end()
    made["messages"] = turns.messages
    for name, value in body.items():
        if value is None or name in _READ:
            continue
        field = _FIELDS.get(name)
        if field is None:
            # guard: S19.converse-field -> continue
            raise not_offered(name)
        field(value, made, turns.unsaid)
    if "tools" not in made:
        choose_nothing(made)
    return made, Translation(CONVERSE, tuple(turns.unsaid), tuple(turns.turns))


def _inference(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    where = "inferenceConfig"
    check_object(value, where, _INFERENCE)
    if (limit := value.get("maxTokens")) is not None:
        made["max_completion_tokens"] = whole_number(limit, f"{where}.maxTokens", 1)
    for name, key in (("temperature", "temperature"), ("topP", "top_p")):
        if value.get(name) is not None:
            made[key] = number(value[name], f"{where}.{name}")
    stops = value.get("stopSequences")
    if stops and checked_list(stops, f"{where}.stopSequences", str, "strings"):
        made["stop"] = stops


def _tools(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    where = "toolConfig"
    check_object(value, where, frozenset({"tools", "toolChoice"}))
    tools: list[JsonDocument] = []
    for at, tool in enumerate(
        checked_list(value.get("tools") or [], f"{where}.tools", dict, "tools")
    ):
        place = f"{where}.tools[{at}]"
        check_keys(tool, frozenset({"toolSpec", "cachePoint"}), place)
        if (point := tool.get("cachePoint")) is not None:
            if not tools:
                raise InvalidField(f"{place}.cachePoint", "must stand behind a tool")
            tools[-1]["cache_control"] = cache_mark(point, f"{place}.cachePoint")
        else:
            tools.append(_tool(tool.get("toolSpec"), f"{place}.toolSpec"))
    if tools:
        made["tools"] = tools
    if (choice := value.get("toolChoice")) is not None:
        made["tool_choice"] = _choice(choice, f"{where}.toolChoice")


def _tool(spec: Any, where: str) -> JsonDocument:
    check_object(spec, where, _SPEC)
    function: JsonDocument = {"name": text_field(spec, "name", where)}
    if spec.get("description"):
        function["description"] = text_field(spec, "description", where)
    stated = spec.get("inputSchema")
    check_object(stated, f"{where}.inputSchema", frozenset({"json"}))
    if not isinstance(schema := stated.get("json"), dict):
        raise InvalidField(f"{where}.inputSchema.json", "must be an object", WRONG_TYPE)
    function["parameters"] = schema
    if (strict := spec.get("strict")) is not None:
        function["strict"] = strict
    return {"type": "function", "function": function}


def _choice(choice: Any, where: str) -> Any:
    check_object(choice, where, frozenset({"auto", "any", "tool"}))
    if len(choice) != 1:
        raise InvalidField(where, "must be one of auto, any and tool")
    ((kind, value),) = choice.items()
    if kind != "tool":
        check_object(value, f"{where}.{kind}", frozenset())
        return "auto" if kind == "auto" else "required"
    check_object(value, f"{where}.tool", frozenset({"name"}))
    name = text_field(value, "name", f"{where}.tool")
    return {"type": "function", "function": {"name": name}}


def _more(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    """Fields of a model's own: those of Claude that a chat has words for."""
    where = "additionalModelRequestFields"
    check_object(value, where, frozenset({"top_k", "thinking"}))
    if (top_k := value.get("top_k")) is not None:
        made["top_k"] = whole_number(top_k, f"{where}.top_k", 0)
    if (stated := value.get("thinking")) is None:
        return
    check_object(stated, f"{where}.thinking", _THINKING)
    kind = text_field(stated, "type", f"{where}.thinking")
    made["thinking"] = stated
    if kind == "disabled":
        made.setdefault("reasoning_effort", "none")
    elif kind != "adaptive":
        unsaid.append(CapabilityNeed("reasoning", f"{where}.thinking"))


def _output(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    where = "outputConfig"
    check_object(value, where, frozenset({"textFormat", "effort"}))
    if (effort := value.get("effort")) is not None:
        made["reasoning_effort"] = word(
            effort, dict(zip(_EFFORTS, _EFFORTS, strict=True)), f"{where}.effort"
        )
        if effort not in _OPENAI_EFFORTS:
            unsaid.append(CapabilityNeed("reasoning", f"{where}.effort"))
    if (shape := value.get("textFormat")) is None:
        return
    where = f"{where}.textFormat"
    check_object(shape, where, frozenset({"type", "structure"}))
    word(shape.get("type"), {"json_schema": ""}, f"{where}.type")
    check_object(shape.get("structure"), f"{where}.structure", frozenset({"jsonSchema"}))
    where = f"{where}.structure.jsonSchema"
    stated = shape["structure"].get("jsonSchema")
    check_object(stated, where, frozenset({"schema", "name", "description"}))
    try:
        schema = strictjson.load_object(text_field(stated, "schema", where).encode())
    except MalformedBody:
        raise InvalidField(f"{where}.schema", "must be the JSON of an object") from None
    described = {
        name: text_field(stated, name, where)
        for name in ("name", "description")
        if stated.get(name) is not None
    }
    made["response_format"] = {
        "type": "json_schema",
        "json_schema": {**described, "schema": schema, "strict": True},
    }


def _metadata(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise InvalidField("requestMetadata", "must be an object of strings", WRONG_TYPE)
    made["metadata"] = value


def _tier(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    check_object(value, "serviceTier", frozenset({"type"}))
    made["service_tier"] = word(value.get("type"), _TIERS, "serviceTier.type")


def _performance(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    check_object(value, "performanceConfig", frozenset({"latency"}))
    word(value.get("latency") or "standard", {"standard": ""}, "performanceConfig.latency")


def _response_fields(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    if value != []:
        raise not_offered("additionalModelResponseFieldPaths")


_FIELDS: Final[Mapping[str, _Field]] = {
    "inferenceConfig": _inference,
    "toolConfig": _tools,
    "additionalModelRequestFields": _more,
    "additionalModelResponseFieldPaths": _response_fields,
    "outputConfig": _output,
    "requestMetadata": _metadata,
    "serviceTier": _tier,
    "performanceConfig": _performance,
}
