"""Chat completions: messages in, a message out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Any, Final

from gateway.core.errors import MISSING, WRONG_TYPE, InvalidField
from gateway.core.operations.capabilities import (
    COUNT,
    PLAIN,
    SHARED,
    TOOLS,
    is_formatted,
    is_given,
    is_set,
    message_needs,
    other_than,
)
from gateway.core.operations.spec import CapabilityNeed, OperationSpec, StreamForm

_role: Callable[[Any], str] = itemgetter("role")


def _check(document: dict[str, Any]) -> None:
    messages = document.get("messages")
    if not isinstance(messages, list) or not messages:
        raise _no_messages(messages)
    try:
        "".join(map(_role, messages))  # takes objects that have one, and strings alone
    except (KeyError, TypeError):
        raise _no_message(messages) from None


def _no_messages(messages: object) -> InvalidField:
    if messages is None:
        return InvalidField("messages", "is required", MISSING)
    if not isinstance(messages, list):
        return InvalidField("messages", "must be a list of messages", WRONG_TYPE)
    return InvalidField("messages", "must hold at least one message")


def _no_message(messages: list[Any]) -> InvalidField:
    """The first one that is none."""
    for at, message in enumerate(messages):
        if not isinstance(message, dict):
            return InvalidField(f"messages[{at}]", "must be an object", WRONG_TYPE)
        if not isinstance(message.get("role"), str):
            return InvalidField(f"messages[{at}].role", "must be a string", WRONG_TYPE)
    raise AssertionError


def _needs(document: Mapping[str, Any]) -> Iterator[CapabilityNeed]:
    return message_needs(document.get("messages"), "messages")


CHAT: Final = OperationSpec(
    name="chat.completions",
    task="generate",
    path="/v1/chat/completions",
    check=_check,
    fields={
        **SHARED,
        **TOOLS,
        "messages": PLAIN,  # each by itself
        "max_tokens": COUNT,
        "max_completion_tokens": COUNT,
        "response_format": ("structured_output", is_formatted),
        "logprobs": ("logprobs", is_set),
        "modalities": ("audio", other_than([], ["text"])),
        "audio": ("audio", is_set),
        "prediction": ("prediction", is_set),
        "reasoning_effort": ("reasoning", is_set),
        "verbosity": ("reasoning", is_set),
        "thinking": ("reasoning", is_given),  # as the Anthropic Messages API has it
        "cache_control": PLAIN,
        "web_search_options": ("search", is_given),
    },
    needs=_needs,
    stream=StreamForm.CHOICES,
    usage_option=True,
    writes=True,
    pseudonymised=True,
    metric="chat",
    canary={"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1},
)
