"""What chats hold that every API is asked for: calls of tools, parts with data, instructions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.core.operations.spec import Asks, CapabilityNeed

DATA_URL: Final = re.compile(r"data:([a-z]+/[a-z0-9.+-]+);base64,")
MOST: Final = (1 << 31) - 1
"""Of what no API has a bound of its own for."""
SYSTEM: Final = frozenset({"system", "developer"})
THINKING: Final = frozenset({"adaptive", "enabled", "disabled"})
_CALL_KEYS: Final = frozenset({"id", "type", "function", "index"})
_FUNCTION_KEYS: Final = frozenset({"name", "arguments", "parsed_arguments"})
"""With what the openai SDK adds to a call that it has read."""

IsName = Callable[[Any], bool]


def is_blank(text: Any) -> bool:
    """Of a string: it has no more than white space."""
    return not text or text.isspace()


def outside(low: float, high: float) -> Asks:
    """Whether a value is given that is no number between both."""
    return lambda value: (
        value is not None and (type(value) not in (int, float) or not low <= value <= high)
    )


def no_count(least: int, most: int) -> Asks:
    """Whether a value is given that is no integer between both."""
    return lambda value: (
        value is not None and (type(value) is not int or not least <= value <= most)
    )


def no_stream_options(value: Any) -> bool:
    return isinstance(value, Mapping) and any(
        option and name != "include_usage" for name, option in value.items()
    )


def no_thinking(value: Any) -> bool:
    """Whether thinking is asked for in other words than the Messages API's for whether there is
    some, and for how many tokens there are for it."""
    if value is None:
        return False
    if not isinstance(value, Mapping) or value.get("type") not in THINKING:
        return True
    keys = {"type", "display"} if value["type"] == "adaptive" else {"type", "budget_tokens"}
    return not value.keys() <= keys | {"display"} or (
        value["type"] == "enabled" and type(value.get("budget_tokens")) is not int
    )


def thinks_twice(document: Mapping[str, Any]) -> bool:
    """Whether a chat says in two fields how much to think, of which other APIs take one."""
    stated, effort = document.get("thinking"), document.get("reasoning_effort")
    kind = stated.get("type") if isinstance(stated, Mapping) else None
    if kind == "disabled":
        return effort not in (None, "none")
    return effort == "none" if kind == "adaptive" else kind is not None and effort is not None


def no_stops(most: int) -> Asks:
    """Whether a value is given that is no text, and no list of so many texts."""

    def is_beyond(value: Any) -> bool:
        if value is None:
            return False
        stops = value if isinstance(value, list) else [value]
        return len(stops) > most or not all(isinstance(stop, str) and stop for stop in stops)

    return is_beyond


def is_function(tool: Any, is_name: IsName) -> bool:
    """Of a tool: a function with a name that its API takes, and nothing that no API has."""
    function = tool.get("function") if isinstance(tool, Mapping) else None
    return (
        isinstance(function, Mapping)
        and tool.get("type") == "function"
        and tool.keys() <= {"type", "function", "cache_control"}
        and function.keys() <= {"name", "description", "parameters", "strict"}
        and is_name(function.get("name"))
        and isinstance(function.get("description", ""), str | None)
        and isinstance(function.get("strict"), bool | None)
        and (function.get("parameters") is None or is_object(function["parameters"]))
    )


def is_object(schema: Any) -> bool:
    """Whether it is a schema of objects, as far as it says what it is of."""
    return isinstance(schema, Mapping) and schema.get("type", "object") == "object"


def named_choice(choice: Any) -> Any:
    """The name of the function that a `tool_choice` forces; None: it forces no single one."""
    if isinstance(choice, Mapping) and choice.keys() == {"type", "function"}:
        function = choice["function"]
        if choice["type"] == "function" and isinstance(function, Mapping):
            return function["name"] if function.keys() == {"name"} else None
    return None


def is_choosable(document: Mapping[str, Any]) -> bool:
    """Whether a function that `tool_choice` forces is one of `tools`."""
    choice, tools = document.get("tool_choice"), document.get("tools")
    if choice in (None, "none", "auto"):
        return True
    offered = tools if isinstance(tools, list) else []
    functions = [tool.get("function") for tool in offered if isinstance(tool, Mapping)]
    names = [function.get("name") for function in functions if isinstance(function, Mapping)]
    return bool(names) if choice == "required" else named_choice(choice) in names


def is_tool_call(call: Any, is_name: IsName, more: frozenset[str] = frozenset()) -> bool:
    """`more`: keys that its API has beside OpenAI's."""
    function = call.get("function") if isinstance(call, Mapping) else None
    return (
        isinstance(function, Mapping)
        and call.keys() <= _CALL_KEYS | more
        and function.keys() <= _FUNCTION_KEYS
        and call.get("type", "function") == "function"
        and isinstance(call.get("id"), str)
        and call["id"] != ""
        and is_name(function.get("name"))
        and is_input(function.get("arguments"))
    )


def is_input(arguments: Any) -> bool:
    """Whether a tool call's arguments are the JSON of an object, or none at all."""
    if arguments is None or arguments == "":
        return True
    import orjson  # who only measures models has none

    try:
        return isinstance(arguments, str) and isinstance(orjson.loads(arguments), dict)
    except orjson.JSONDecodeError:
        return False


@dataclass(frozen=True, slots=True, eq=False)
class MessageWords:
    """What an API can say in one message."""

    keys: Mapping[str, frozenset[str]]  # of the messages of each role
    is_call: Callable[[Any], bool]
    is_part: Callable[[Any, str], bool]  # of content, in a message of a role

    def needs(self, message: Mapping[str, Any], where: str) -> Iterator[CapabilityNeed]:
        """What of a message has no words there."""
        role, content = message["role"], message.get("content")
        keys = self.keys.get(role)
        if keys is None:
            yield CapabilityNeed("other", where)
            return
        for key, value in message.items():
            if value and key not in keys:
                yield CapabilityNeed("other", f"{where}.{key}")
        calls, refusal = message.get("tool_calls"), message.get("refusal")
        if calls and not (isinstance(calls, list) and all(map(self.is_call, calls))):
            yield CapabilityNeed("other", f"{where}.tool_calls")
        for key in ("refusal", "reasoning_content"):
            if not isinstance(message.get(key), str | None):
                yield CapabilityNeed("other", f"{where}.{key}")
        if not content:
            spoken = calls or refusal or role == "tool"
            if not spoken or not isinstance(content, str | list | None):
                yield CapabilityNeed("other", f"{where}.content")
        elif not isinstance(content, str):
            for at, part in enumerate(content if isinstance(content, list) else (content,)):
                if not self.is_part(part, role):
                    yield CapabilityNeed("other", f"{where}.content[{at}]")
