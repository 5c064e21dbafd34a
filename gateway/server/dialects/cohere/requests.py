"""The fields of Cohere's Chat as those of a chat (API v2, November 2026).

A field that is not in `_FIELDS` is refused, since it could change the answer; without a value it
says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.core.errors import MISSING, WRONG_TYPE, InvalidField
from gateway.core.operations.dialects.fields import COHERE
from gateway.core.operations.spec import CapabilityNeed, Translation
from gateway.core.types import JsonDocument
from gateway.server.dialects.cohere.turns import CohereTurns
from gateway.server.dialects.fields import (
    check_object,
    checked_list,
    choose_nothing,
    flag,
    not_offered,
    number,
    text_field,
    whole_number,
    word,
)

_READ: Final = frozenset({"model", "messages", "strict_tools"})
_CHOICES: Final = {"REQUIRED": "required", "NONE": "none"}
_FUNCTION: Final = frozenset({"name", "description", "parameters"})
_Unsaid = list[CapabilityNeed]
_Field = Callable[[Any, JsonDocument, _Unsaid], None]


def chat(body: JsonDocument) -> tuple[JsonDocument, Translation]:
    """The same call as a chat, and what was made of it. Raises InvalidField with the caller's
    own field."""
    made: JsonDocument = {"model": body.get("model")}
    turns = CohereTurns()
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
            # guard: S19.cohere-field -> continue
            raise not_offered(name)
        field(value, made, turns.unsaid)
    if body.get("strict_tools") is not None and flag(body["strict_tools"], "strict_tools"):
        for tool in made.get("tools") or ():
            tool["function"]["strict"] = True
    if "tools" not in made:
        choose_nothing(made)
    every = tuple(range(len(turns.messages)))
    return made, Translation(COHERE, tuple(turns.unsaid), every)


def _stream(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    made["stream"] = value  # judged as that of any chat


def _number(name: str, key: str) -> _Field:
    def field(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
        made[key] = number(value, name)

    return field


def _count(name: str, key: str, least: int) -> _Field:
    def field(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
        made[key] = whole_number(value, name, least)

    return field


def _nothing(name: str, value: Any) -> _Field:
    """A field of which one value, in whatever case, changes nothing."""

    def field(given: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
        if given != value and not (isinstance(given, str) and given.upper() == value):
            raise not_offered(name)

    return field


def _stops(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    if stops := checked_list(value, "stop_sequences", str, "strings"):
        made["stop"] = stops


def _tools(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    tools: list[JsonDocument] = []
    for at, tool in enumerate(checked_list(value, "tools", dict, "tools")):
        where = f"tools[{at}]"
        check_object(tool, where, frozenset({"type", "function"}))
        word(tool.get("type") or "function", {"function": ""}, f"{where}.type")
        stated = tool.get("function")
        check_object(stated, f"{where}.function", _FUNCTION)
        text_field(stated, "name", f"{where}.function")
        if not isinstance(stated.get("parameters"), dict):
            raise InvalidField(f"{where}.function.parameters", "must be an object", WRONG_TYPE)
        function = {key: each for key, each in stated.items() if each is not None}
        tools.append({"type": "function", "function": function})
    if tools:
        made["tools"] = tools


def _choice(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    made["tool_choice"] = word(value, _CHOICES, "tool_choice")


def _thinking(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    """It is on or off; how much of it there may be stands in the words of the Messages API."""
    check_object(value, "thinking", frozenset({"type", "token_budget"}))
    kind = word(value.get("type"), {"enabled": "high", "disabled": "none"}, "thinking.type")
    budget = value.get("token_budget")
    if budget is None or kind == "none":
        made["reasoning_effort"] = kind
        return
    whole_number(budget, "thinking.token_budget", 1)
    made["thinking"] = {"type": "enabled", "budget_tokens": budget}
    unsaid.append(CapabilityNeed("reasoning", "thinking.token_budget"))


def _format(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    where = "response_format"
    check_object(value, where, frozenset({"type", "json_schema"}))
    kind = word(value.get("type"), {"text": "text", "json_object": "json_object"}, f"{where}.type")
    if (schema := value.get("json_schema")) is None:
        made["response_format"] = {"type": kind}
        return
    if not isinstance(schema, dict) or kind == "text":
        raise InvalidField(f"{where}.json_schema", "must be an object, of the type json_object")
    stated = {"schema": schema, "strict": True}
    made["response_format"] = {"type": "json_schema", "json_schema": stated}


def _citations(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    check_object(value, "citation_options", frozenset({"mode"}))
    _nothing("citation_options.mode", "OFF")(value.get("mode"), made, unsaid)


_FIELDS: Final[Mapping[str, _Field]] = {
    "stream": _stream,
    "max_tokens": _count("max_tokens", "max_completion_tokens", 1),
    "temperature": _number("temperature", "temperature"),
    "p": _number("p", "top_p"),
    "k": _count("k", "top_k", 0),
    "seed": _count("seed", "seed", 0),
    "frequency_penalty": _number("frequency_penalty", "frequency_penalty"),
    "presence_penalty": _number("presence_penalty", "presence_penalty"),
    "stop_sequences": _stops,
    "tools": _tools,
    "tool_choice": _choice,
    "thinking": _thinking,
    "response_format": _format,
    "citation_options": _citations,
    "safety_mode": _nothing("safety_mode", "CONTEXTUAL"),  # as without it
    "documents": _nothing("documents", []),
    "logprobs": _nothing("logprobs", False),
    "priority": _nothing("priority", 0),
}
