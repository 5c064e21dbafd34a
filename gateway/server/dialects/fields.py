"""How fields of a caller's body are read: one that is not known is refused with its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.core.errors import MISSING, NOT_OFFERED, WRONG_TYPE, InvalidField
from gateway.core.types import JsonDocument

_NUMBERS: Final = frozenset({int, float})


def block_type(block: Any, where: str) -> str:
    """Raises InvalidField."""
    if not isinstance(block, dict):
        raise InvalidField(where, "must be an object", WRONG_TYPE)
    return text_field(block, "type", where)


def text_field(block: Mapping[str, Any], name: str, where: str) -> str:
    """Raises InvalidField."""
    value = block.get(name)
    if isinstance(value, str):
        return value
    if value is None:
        raise InvalidField(f"{where}.{name}" if where else name, "is required", MISSING)
    raise InvalidField(f"{where}.{name}" if where else name, "must be a string", WRONG_TYPE)


def check_keys(block: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    """A key without a value says nothing. Raises InvalidField for another that is not known."""
    for name, value in block.items():
        if value is not None and name not in known:
            # guard: S13.unknown-key -> continue
            raise not_offered(f"{where}.{name}" if where else name)


def check_object(value: Any, where: str, known: frozenset[str]) -> None:
    """Raises InvalidField."""
    if not isinstance(value, dict):
        raise InvalidField(where, "must be an object", WRONG_TYPE)
    check_keys(value, known, where)


def not_offered(where: str, kind: str = "") -> InvalidField:
    # a name of the schema is a short word; anything else may be the caller's own
    shown = f" of type {kind}" if kind.isidentifier() and len(kind) <= 40 else ""
    return InvalidField(where, f"is a field{shown} that this gateway does not offer", NOT_OFFERED)


def word(value: Any, words: Mapping[str, str], where: str) -> str:
    """Raises InvalidField."""
    if not isinstance(value, str) or value not in words:
        raise InvalidField(where, f"must be one of {', '.join(sorted(words))}")
    return words[value]


def number(value: Any, where: str) -> int | float:
    """Raises InvalidField."""
    if type(value) not in _NUMBERS:
        raise InvalidField(where, "must be a number", WRONG_TYPE)
    given: int | float = value
    return given


def whole_number(value: Any, where: str, least: int) -> int:
    """Raises InvalidField."""
    if type(value) is not int or value < least:
        raise InvalidField(where, f"must be a whole number from {least} on")
    return value


def flag(value: Any, where: str) -> bool:
    """Raises InvalidField."""
    if not isinstance(value, bool):
        raise InvalidField(where, "must be true or false", WRONG_TYPE)
    return value


def checked_list(value: Any, where: str, kind: type, words: str) -> list[Any]:
    """Raises InvalidField; `words`: what its items are."""
    if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
        raise InvalidField(where, f"must be a list of {words}", WRONG_TYPE)
    return value


def choose_nothing(made: JsonDocument) -> None:
    """Without tools there is nothing to choose, and OpenAI's API refuses the fields."""
    made.pop("parallel_tool_calls", None)
    if made.get("tool_choice") in ("auto", "none"):
        del made["tool_choice"]
