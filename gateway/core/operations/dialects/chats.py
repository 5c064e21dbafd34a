"""What chats hold that every API is asked for: calls of tools, parts with data, instructions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.core.operations.spec import Asks

DATA_URL: Final = re.compile(r"data:([a-z]+/[a-z0-9.+-]+);base64,")
SYSTEM: Final = frozenset({"system", "developer"})
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


def no_stream_options(value: Any) -> bool:
    return isinstance(value, Mapping) and any(
        option and name != "include_usage" for name, option in value.items()
    )


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
