"""What calls can need of an endpoint beyond a text and parameters of sampling.

Rows say it of single fields. Fields that every kind honours, or that change nothing of an answer,
are `PLAIN`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.core.operations.spec import Asks, CapabilityNeed, Row

CAPABILITIES: Final = {
    "tools": "tools and functions are offered or called",
    "structured_output": "an answer in JSON, or by a schema",
    "logprobs": "probabilities of tokens",
    "logit_bias": "some tokens are made more or less likely",
    "token_ids": "token ids in the place of text",
    "choices": "more answers to one call than sixteen, or more texts than 2048",
    "ranking": "the best of several answers (`best_of`)",
    "parts": "images, audio and files in a message",
    "audio": "an answer that is heard",
    "prediction": "a text that the answer will be like",
    "suffix": "a text that follows the answer",
    "reasoning": "how much a model thinks, and how much it says",
    "search": "a search of the web",
    "state": "what the endpoint kept of earlier calls",
    "dimensions": "vectors of another size",
    "truncation": "texts that are too long for the model are cut",
    "sampling": "values of `seed`, `stop` and others that not every model takes",
    "other": "a field that is not in this table",
}
"""By name, as settings have them."""

REMEDIES: Final = {
    "token_ids": "send text (with langchain: check_embedding_ctx_length=False), or have the "
    "gateway's token_encoding declared for this model",
}
"""What helps where no endpoint offers a capability; else to leave the field out."""

MOST_CHOICES: Final = 16
_MOST_STOPS: Final = 16
_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_TEXT_PARTS: Final = ("text", "input_text", "output_text")


def _never(value: Any) -> bool:
    return False


def is_set(value: Any) -> bool:
    return bool(value)


def is_given(value: Any) -> bool:
    return value is not None


def other_than(*values: Any) -> Asks:
    return lambda value: value is not None and value not in values


def is_formatted(value: Any) -> bool:
    return value is not None and not (isinstance(value, Mapping) and value.get("type") == "text")


def _no_number(value: Any) -> bool:
    return value is not None and type(value) not in (int, float)


def _no_count(value: Any) -> bool:
    return value is not None and (type(value) is not int or not 1 <= value < 1 << 31)


def _no_seed(value: Any) -> bool:
    return value is not None and (type(value) is not int or not 0 <= value < 1 << 63)


def _many(value: Any) -> bool:
    return value is not None and (type(value) is not int or not 1 <= value <= MOST_CHOICES)


def _odd_stops(value: Any) -> bool:
    if value is None or isinstance(value, str):
        return False
    if not isinstance(value, list) or len(value) > _MOST_STOPS:
        return True
    return not all(isinstance(item, str) for item in value)


PLAIN: Final[Row] = ("", _never)
INCIDENTAL: Final = (
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
    "prompt_cache_retention",
)  # fmt: skip
"""Fields that change nothing of what an answer says."""
COUNT: Final[Row] = ("sampling", _no_count)
_NUMBER: Final[Row] = ("sampling", _no_number)
SHARED: Final[Mapping[str, Row]] = {
    **dict.fromkeys(
        ("model", "stream", "stream_options", *INCIDENTAL),
        PLAIN,
    ),
    **dict.fromkeys(
        ("temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty",
         "repetition_penalty"),
        _NUMBER,
    ),
    "seed": ("sampling", _no_seed),
    "stop": ("sampling", _odd_stops),
    "n": ("choices", _many),
    "logit_bias": ("logit_bias", is_set),
    "top_logprobs": ("logprobs", is_set),
}  # fmt: skip
"""Of operations that write text."""
TOOLS: Final[Mapping[str, Row]] = {
    "tools": ("tools", is_set),
    "functions": ("tools", is_set),
    "tool_choice": ("tools", other_than("none", "auto")),
    "function_call": ("tools", other_than("none", "auto")),
    "parallel_tool_calls": PLAIN,
    "max_tool_calls": PLAIN,
}


def message_needs(messages: Any, key: str) -> Iterator[CapabilityNeed]:
    """Of each message in the field `key`."""
    if not isinstance(messages, list):
        return
    for at, message in enumerate(messages):
        usual = type(message) is dict and len(message) == 2 and message.get("role") in _ROLES
        if not usual or type(message.get("content")) is not str:
            yield from one_message_needs(message, f"{key}[{at}]")


def one_message_needs(message: Any, where: str) -> Iterator[CapabilityNeed]:
    if not isinstance(message, Mapping) or message.get("role") not in _ROLES:
        yield CapabilityNeed("other", where)
        return
    for key in ("tool_calls", "function_call", "tool_call_id"):
        if message.get(key):
            yield CapabilityNeed("tools", f"{where}.{key}")
    for key in ("reasoning_content", "thinking_blocks"):
        if message.get(key):
            yield CapabilityNeed("reasoning", f"{where}.{key}")  # guard: S13.thoughts
    if message.get("audio"):
        yield CapabilityNeed("audio", f"{where}.audio")
    content = message.get("content")
    if content is None or isinstance(content, str):
        return
    for at, part in enumerate(content if isinstance(content, list) else (content,)):
        text = part.get("text") if isinstance(part, Mapping) else None
        if not isinstance(text, str) or part.get("type") not in _TEXT_PARTS:
            yield CapabilityNeed("parts", f"{where}.content[{at}]")


def has_tokens(given: Any) -> bool:
    """Whether a field of texts has something else, which only token ids can be."""
    return isinstance(given, list) and not all(isinstance(item, str) for item in given)
