"""The strings of a JSON document: listed in order, and replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gateway.core.types import JsonDocument

PROTOCOL_KEYS = frozenset(
    (  # noqa: SIM905 - as a list, a line for each kind
        "audio background best_of content detail echo encoding_format frequency_penalty function "
        "function_call functions include input instructions json_schema logit_bias logprobs "
        "max_completion_tokens max_output_tokens max_tokens max_tool_calls messages metadata min_p "
        "modalities model n name output parallel_tool_calls parameters presence_penalty prompt "
        "properties reasoning reasoning_effort repetition_penalty required response_format role "
        "schema seed service_tier stop store stream stream_options strict suffix temperature text "
        "tool_call_id tool_calls tool_choice tools top_k top_logprobs top_p truncation type user "
        "verbosity include_usage description enum items arguments id call_id status"
    ).split()
)
PROTOCOL_WORDS = frozenset(
    (  # noqa: SIM905 - as a list, a line for each kind
        "assistant developer function system tool user auto none required any disabled enabled low "
        "medium high minimal default flex priority message reasoning text input_text output_text "
        "json_object json_schema object array string integer number boolean null function_call "
        "function_call_output float base64"
    ).split()
)
"""Keys and whole values that are the protocol's own: they stay, whoever bears such a name."""

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
            yield value not in PROTOCOL_WORDS, value
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


def answer_texts(document: JsonDocument, model: str) -> Iterator[str]:
    """Every string, key and number that somebody has written: not the words of the protocol, and
    not the name of the model, which is that of the catalog."""
    for key, item in document.items():
        if key == "model" and item == model:
            continue
        yield from _value_texts({key: item})


def _value_texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in PROTOCOL_KEYS:
                yield key
            yield from _value_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _value_texts(item)
    else:
        yield from (text for _, text in strings(value) if text not in PROTOCOL_WORDS)


def changed(value: Any, change: Change, keep: frozenset[str] = frozenset(), depth: int = 0) -> Any:
    """The same with every string changed that is a value, in the order of `strings`. What stands
    under the keys of `keep` stays as it is."""
    _limit(depth)
    match value:
        case str():
            return value if value in PROTOCOL_WORDS else change(value)
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
