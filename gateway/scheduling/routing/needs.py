"""What a call needs of the endpoint that serves it: the table of fields and capabilities.

An endpoint that cannot honour a field of a call is no place for the call, whatever the load: what
would be left out changes the answer, and nothing is left out in silence. Fields that every kind
honours, or that change nothing of an answer, need nothing. A field that nobody knows is handed on
to those who take any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.core.types import DocumentCall, Endpoint, InferenceRequest, Operation, ServedModel

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
    "sampling": "values of `seed`, `stop` and others that not every model takes",
    "other": "a field that is not in this table",
}
"""By name, as settings have them."""

OFFERED: Final[Mapping[str, frozenset[str]]] = {
    "openai": frozenset(CAPABILITIES),
    "triton": frozenset(),
}
"""By the kind of an endpoint: what its connector can hand on. A text model of Triton takes a prompt
and parameters of sampling."""

MOST_CHOICES: Final = 16
_MOST_TEXTS: Final = 2048
_MOST_STOPS: Final = 16
_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_TEXT_PARTS: Final = frozenset({"text", "input_text", "output_text"})


@dataclass(frozen=True, slots=True)
class CapabilityNeed:
    """A capability, and the field of the call that needs it."""

    capability: str
    field: str


Asks = Callable[[Any], bool]


def _never(value: Any) -> bool:
    return False


def _set(value: Any) -> bool:
    return bool(value)


def _given(value: Any) -> bool:
    return value is not None


def _other_than(*values: Any) -> Asks:
    return lambda value: value is not None and value not in values


def _formatted(value: Any) -> bool:
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


Row = tuple[str, Asks]
_PLAIN: Final[Row] = ("", _never)
_NUMBER: Final[Row] = ("sampling", _no_number)
_SHARED: Final[Mapping[str, Row]] = {
    **dict.fromkeys(
        ("model", "stream", "stream_options", "user", "metadata", "store", "service_tier",
         "safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
        _PLAIN,
    ),
    **dict.fromkeys(
        ("temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty",
         "repetition_penalty"),
        _NUMBER,
    ),
    "seed": ("sampling", _no_seed),
    "stop": ("sampling", _odd_stops),
    "n": ("choices", _many),
    "logit_bias": ("logit_bias", _set),
    "top_logprobs": ("logprobs", _set),
}  # fmt: skip
_TOOLS: Final[Mapping[str, Row]] = {
    "tools": ("tools", _set),
    "functions": ("tools", _set),
    "tool_choice": ("tools", _other_than("none", "auto")),
    "function_call": ("tools", _other_than("none", "auto")),
    "parallel_tool_calls": _PLAIN,
    "max_tool_calls": _PLAIN,
}
FIELDS: Final[Mapping[Operation, Mapping[str, Row]]] = {
    Operation.CHAT: {
        **_SHARED,
        **_TOOLS,
        "messages": _PLAIN,  # each by itself, below
        "max_tokens": ("sampling", _no_count),
        "max_completion_tokens": ("sampling", _no_count),
        "response_format": ("structured_output", _formatted),
        "logprobs": ("logprobs", _set),
        "modalities": ("audio", _other_than([], ["text"])),
        "audio": ("audio", _set),
        "prediction": ("prediction", _set),
        "reasoning_effort": ("reasoning", _set),
        "verbosity": ("reasoning", _set),
        "web_search_options": ("search", _given),
    },
    Operation.COMPLETIONS: {
        **_SHARED,
        "prompt": _PLAIN,  # below
        "max_tokens": ("sampling", _no_count),
        "echo": ("sampling", _other_than(True, False)),
        "logprobs": ("logprobs", _given),
        "suffix": ("suffix", _set),
        "best_of": _PLAIN,  # below
    },
    Operation.RESPONSES: {
        **_SHARED,
        **_TOOLS,
        "input": _PLAIN,  # each by itself, below
        "instructions": ("other", lambda value: value is not None and not isinstance(value, str)),
        "max_output_tokens": ("sampling", _no_count),
        "background": _PLAIN,
        "truncation": _PLAIN,
        "text": _PLAIN,  # below
        "reasoning": ("reasoning", _set),
        "include": ("other", _other_than([], ["reasoning.encrypted_content"])),
        "previous_response_id": ("state", _set),
        "conversation": ("state", _set),
        "prompt": ("state", _set),
    },
    Operation.EMBEDDINGS: {
        **{key: _PLAIN for key in ("model", "input", "user", "encoding_format")},
        "dimensions": ("dimensions", _given),
    },
}
"""By operation: what each field needs, and for which of its values."""


def needs(call: DocumentCall) -> Iterator[CapabilityNeed]:
    """What the call needs beyond a text and parameters of sampling."""
    fields, document = FIELDS[call.operation], call.document
    for key, value in document.items():
        row = fields.get(key)
        if row is None:
            if value is not None:
                yield CapabilityNeed("other", key)  # guard: S10.unknown-field
        elif row[1](value):
            yield CapabilityNeed(row[0], key)
    yield from _WITHIN[call.operation](document)


def lacking(
    request: InferenceRequest, endpoint: Endpoint, served: ServedModel
) -> CapabilityNeed | None:
    """The first need of the call that the endpoint does not serve; None: it serves the call."""
    call = request.payload
    if not isinstance(call, DocumentCall) or not limited(endpoint, served):
        return None
    offered = OFFERED.get(endpoint.kind, frozenset())
    for need in needs(call):
        if need.capability not in offered or need.capability in served.lacks:
            return need
    return None


def limited(endpoint: Endpoint, served: ServedModel) -> bool:
    """Whether there are calls of its protocol that the endpoint cannot serve."""
    return bool(served.lacks) or endpoint.kind != "openai"


def _chat(document: Mapping[str, Any]) -> Iterator[CapabilityNeed]:
    return _messages(document.get("messages"), "messages")


def _messages(messages: Any, key: str) -> Iterator[CapabilityNeed]:
    if not isinstance(messages, list):
        return
    for at, message in enumerate(messages):
        usual = type(message) is dict and len(message) == 2 and message.get("role") in _ROLES
        if not usual or type(message.get("content")) is not str:
            yield from _message(message, f"{key}[{at}]")


def _message(message: Any, where: str) -> Iterator[CapabilityNeed]:
    if not isinstance(message, Mapping) or message.get("role") not in _ROLES:
        yield CapabilityNeed("other", where)
        return
    for key in ("tool_calls", "function_call", "tool_call_id"):
        if message.get(key):
            yield CapabilityNeed("tools", f"{where}.{key}")
    if message.get("audio"):
        yield CapabilityNeed("audio", f"{where}.audio")
    content = message.get("content")
    if content is None or isinstance(content, str):
        return
    for at, part in enumerate(content if isinstance(content, list) else (content,)):
        text = part.get("text") if isinstance(part, Mapping) else None
        if not isinstance(text, str) or part.get("type") not in _TEXT_PARTS:
            yield CapabilityNeed("parts", f"{where}.content[{at}]")


def _completions(document: Mapping[str, Any]) -> Iterator[CapabilityNeed]:
    prompts, n, best = document.get("prompt"), document.get("n"), document.get("best_of")
    if _tokens(prompts):
        yield CapabilityNeed("token_ids", "prompt")
    if best is not None and best != 1 and best != n:
        yield CapabilityNeed("ranking", "best_of")
    several = len(prompts) if isinstance(prompts, list) else 1
    if (type(n) is int and several * n > MOST_CHOICES) or (n is None and several > MOST_CHOICES):
        yield CapabilityNeed("choices", "prompt")


def _responses(document: Mapping[str, Any]) -> Iterator[CapabilityNeed]:
    wording = document.get("text")
    if isinstance(wording, Mapping):
        if _formatted(wording.get("format")):
            yield CapabilityNeed("structured_output", "text.format")
        if wording.get("verbosity"):
            yield CapabilityNeed("reasoning", "text.verbosity")
    given = document.get("input")
    if not isinstance(given, list):
        return
    for at, item in enumerate(given):
        if isinstance(item, Mapping) and item.get("type", "message") != "message":
            yield CapabilityNeed("tools", f"input[{at}]")
        else:
            yield from _message(item, f"input[{at}]")


def _embeddings(document: Mapping[str, Any]) -> Iterator[CapabilityNeed]:
    given = document.get("input")
    if _tokens(given):
        yield CapabilityNeed("token_ids", "input")
    if isinstance(given, list) and len(given) > _MOST_TEXTS:
        yield CapabilityNeed("choices", "input")
    if document.get("encoding_format") not in (None, "float", "base64"):
        yield CapabilityNeed("other", "encoding_format")


def _tokens(given: Any) -> bool:
    return isinstance(given, list) and not all(isinstance(item, str) for item in given)


_WITHIN: Final = {
    Operation.CHAT: _chat,
    Operation.COMPLETIONS: _completions,
    Operation.RESPONSES: _responses,
    Operation.EMBEDDINGS: _embeddings,
}
"""What depends on more than the value of one field."""
