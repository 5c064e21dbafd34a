"""The fields of a Messages call as those of a chat (version 2023-06-01, August 2026).

A field that is not in `_FIELDS` is refused, since it could change the answer; without a value it
says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.core.errors import MISSING, WRONG_TYPE, InvalidField
from gateway.core.operations.dialects.fields import MESSAGES
from gateway.core.operations.spec import CapabilityNeed, Translation
from gateway.core.types import JsonDocument
from gateway.server.dialects.anthropic.turns import ChatTurns, check_mark
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

_TIERS: Final = {"auto": "auto", "standard_only": "default"}
_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none", "tool": ""}
_OPENAI_EFFORTS: Final = ("low", "medium", "high", "xhigh")
_EFFORTS: Final = {effort: effort for effort in (*_OPENAI_EFFORTS, "max")}
_THINKING: Final = frozenset({"adaptive", "enabled", "between_tools", "disabled"})
_THINKING_KEYS: Final = frozenset({"type", "budget_tokens", "display"})
_TOOL_KEYS: Final = frozenset(
    {"type", "name", "description", "input_schema", "strict", "cache_control"}
    | {"eager_input_streaming"}  # when its input comes, not what
)
_NOTHING: Final[Mapping[str, Any]] = {"defer_loading": False, "allowed_callers": ["direct"]}
_KEEPS_ALL: Final = {"type": "clear_thinking_20251015", "keep": "all"}


def chat(body: JsonDocument) -> tuple[JsonDocument, Translation]:
    """The same call as a chat, and what was made of it. Raises InvalidField with the caller's
    own field."""
    made: JsonDocument = {"model": body.get("model")}
    turns = ChatTurns()
    turns.system(body.get("system"))
    messages = body.get("messages")
    if not isinstance(messages, list):
        code = MISSING if messages is None else WRONG_TYPE
        raise InvalidField("messages", "must be a list of messages", code)
    for at, message in enumerate(messages):
        turns.turn(at, message)
    turns.end()
    made["messages"] = turns.messages
    if body.get("max_tokens") is None:
        raise InvalidField("max_tokens", "is required", MISSING)
    for name, value in body.items():
        if value is None or name in _READ:
            continue
        field = _FIELDS.get(name)
        if field is None:
            # guard: S13.unknown-field -> continue
            raise not_offered(name)
        field(value, made, turns.unsaid)
    _say_effort(made, turns.unsaid)
    if "tools" not in made:
        choose_nothing(made)
    return made, Translation(MESSAGES, tuple(turns.unsaid), tuple(turns.turns))


_READ: Final = frozenset({"model", "messages", "system"})
_Unsaid = list[CapabilityNeed]


def _max_tokens(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    made["max_completion_tokens"] = whole_number(value, "max_tokens", 1)


def _stream(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    made["stream"] = value  # judged as that of any chat


def _number(name: str) -> Callable[[Any, JsonDocument, _Unsaid], None]:
    def field(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
        made[name] = number(value, name)

    return field


def _stops(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    if stops := checked_list(value, "stop_sequences", str, "strings"):
        made["stop"] = stops


def _metadata(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    check_object(value, "metadata", frozenset({"user_id"}))
    if value.get("user_id") is not None:
        made["user"] = text_field(value, "user_id", "metadata")


def _service_tier(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    made["service_tier"] = word(value, _TIERS, "service_tier")


def _cache_control(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    check_mark(value, "cache_control")
    made["cache_control"] = value


def _tools(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    if not isinstance(value, list):
        raise InvalidField("tools", "must be a list", WRONG_TYPE)
    if value:
        made["tools"] = [_tool(tool, f"tools[{at}]") for at, tool in enumerate(value)]


def _tool(tool: Any, where: str) -> JsonDocument:
    if not isinstance(tool, dict):
        raise InvalidField(where, "must be an object", WRONG_TYPE)
    if (kind := tool.get("type")) not in (None, "custom"):
        raise not_offered(f"{where}.type", kind if isinstance(kind, str) else "")
    for name, nothing in _NOTHING.items():
        if tool.get(name) == nothing:
            tool = {key: value for key, value in tool.items() if key != name}
    check_keys(tool, _TOOL_KEYS, where)
    function: JsonDocument = {"name": text_field(tool, "name", where)}
    if tool.get("description"):
        function["description"] = text_field(tool, "description", where)
    if not isinstance(schema := tool.get("input_schema"), dict):
        raise InvalidField(f"{where}.input_schema", "must be an object", WRONG_TYPE)
    function["parameters"] = schema
    if (strict := tool.get("strict")) is not None:
        function["strict"] = strict
    made: JsonDocument = {"type": "function", "function": function}
    if mark := tool.get("cache_control"):
        check_mark(mark, f"{where}.cache_control")
        made["cache_control"] = mark
    return made


def _tool_choice(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    where = "tool_choice"
    check_object(value, where, frozenset({"type", "name", "disable_parallel_tool_use"}))
    choice: Any = word(value.get("type"), _CHOICES, f"{where}.type")
    if not choice:
        choice = {"type": "function", "function": {"name": text_field(value, "name", where)}}
    made["tool_choice"] = choice
    alone = value.get("disable_parallel_tool_use")
    if alone not in (None, True, False):
        raise InvalidField(f"{where}.disable_parallel_tool_use", "must be true or false")
    if alone is not None:
        made["parallel_tool_calls"] = not alone


def _thinking(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    check_object(value, "thinking", _THINKING_KEYS)
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _THINKING:
        raise InvalidField("thinking.type", f"must be one of {', '.join(sorted(_THINKING))}")
    made["thinking"] = value
    if kind not in ("adaptive", "disabled"):
        unsaid.append(CapabilityNeed("reasoning", "thinking"))


def _output_config(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    where = "output_config"
    check_object(value, where, frozenset({"effort", "format"}))
    if (effort := value.get("effort")) is not None:
        made["reasoning_effort"] = word(effort, _EFFORTS, f"{where}.effort")
    if (shape := value.get("format")) is None:
        return
    where = f"{where}.format"
    check_object(shape, where, frozenset({"type", "schema"}))
    word(shape.get("type"), {"json_schema": ""}, f"{where}.type")
    if not isinstance(schema := shape.get("schema"), dict):
        raise InvalidField(f"{where}.schema", "must be an object", WRONG_TYPE)
    made["response_format"] = {
        "type": "json_schema",
        "json_schema": {"schema": schema, "strict": True},
    }


def _context_management(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    """What takes nothing away asks for nothing."""
    check_object(value, "context_management", frozenset({"edits"}))
    edits = value.get("edits")
    if edits and edits != [_KEEPS_ALL]:
        raise not_offered("context_management.edits")


def _speed(value: Any, made: JsonDocument, unsaid: _Unsaid) -> None:
    word(value, {"standard": ""}, "speed")


def _say_effort(made: JsonDocument, unsaid: _Unsaid) -> None:
    """Thinking and effort are two fields there and one in a chat. `thinking` stands in the chat
    wherever both are not the same."""
    effort, stated = made.get("reasoning_effort"), made.get("thinking")
    disabled = stated is not None and stated["type"] == "disabled"
    if effort is None:
        if disabled:
            made["reasoning_effort"] = "none"
        return
    made.setdefault("thinking", None)
    if disabled or effort not in _OPENAI_EFFORTS:
        unsaid.append(CapabilityNeed("reasoning", "output_config.effort"))


_FIELDS: Final[Mapping[str, Callable[[Any, JsonDocument, _Unsaid], None]]] = {
    "max_tokens": _max_tokens,
    "stream": _stream,
    "temperature": _number("temperature"),
    "top_p": _number("top_p"),
    "top_k": _number("top_k"),
    "stop_sequences": _stops,
    "metadata": _metadata,
    "service_tier": _service_tier,
    "cache_control": _cache_control,
    "tools": _tools,
    "tool_choice": _tool_choice,
    "thinking": _thinking,
    "output_config": _output_config,
    "context_management": _context_management,
    "speed": _speed,
}
