"""The strings of a JSON document: listed in order, and replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gateway.types import JsonDocument

Change = Callable[[str], str]
MAX_DEPTH = 128


class TooDeep(ValueError):
    """Nested deeper than any call or answer has reason to be."""


def strings(value: Any, depth: int = 0) -> Iterator[tuple[bool, str]]:
    """Every key and every string in order, and whether it is a value. Numbers come as they are
    written, as if they were keys: neither is ever replaced."""
    _limit(depth)
    match value:
        case str():
            yield True, value
        case dict():
            for key, item in value.items():
                yield False, key
                yield from strings(item, depth + 1)
        case list():
            for item in value:
                yield from strings(item, depth + 1)
        case bool() | None:
            pass
        case int() | float():
            yield False, str(value)


def changed(value: Any, change: Change, keep: frozenset[str] = frozenset(), depth: int = 0) -> Any:
    """The same with every string changed that is a value, in the order of `strings`. What stands
    under the keys of `keep` stays as it is."""
    _limit(depth)
    match value:
        case str():
            return change(value)
        case dict():
            return {
                key: item if key in keep else changed(item, change, keep, depth + 1)
                for key, item in value.items()
            }
        case list():
            return [changed(item, change, keep, depth + 1) for item in value]
    return value


def with_values(document: JsonDocument, values: list[str]) -> JsonDocument:
    """The document with these in the place of its strings, in order."""
    rest = iter(values)
    made: JsonDocument = changed(document, lambda _: next(rest))
    return made


def _limit(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise TooDeep("nested too deep")
