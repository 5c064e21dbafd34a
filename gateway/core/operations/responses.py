"""Responses: a text or items in, items out, without the state that the API can keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.core.errors import MISSING, NOT_OFFERED, WRONG_TYPE, InvalidField
from gateway.core.operations.capabilities import (
    COUNT,
    PLAIN,
    SHARED,
    TOOLS,
    is_formatted,
    is_set,
    one_message_needs,
    other_than,
)
from gateway.core.operations.dialects.responses import AS_CHAT
from gateway.core.operations.spec import CapabilityNeed, OperationSpec, StreamForm


def _check(document: dict[str, Any]) -> None:
    """We keep no state. What refers to a state at the endpoint (`previous_response_id`,
    `conversation`, `prompt`) goes on, and the call counts as not scannable."""
    background = document.get("background")
    if background is not None and not isinstance(background, bool):
        raise InvalidField("background", "must be true or false", WRONG_TYPE)
    if background:
        raise InvalidField(
            "background", "is not offered: no state is kept after the call", NOT_OFFERED
        )
    given = document.get("input")
    if given is None:
        if all(document.get(k) is None for k in ("prompt", "previous_response_id", "conversation")):
            raise InvalidField("input", "is required", MISSING)
    elif isinstance(given, list):
        for at, item in enumerate(given):
            if not isinstance(item, dict):
                raise InvalidField(f"input[{at}]", "must be an object", WRONG_TYPE)
    elif not isinstance(given, str):
        raise InvalidField("input", "must be a string or a list of items", WRONG_TYPE)


def _needs(document: Mapping[str, Any]) -> Iterator[CapabilityNeed]:
    wording = document.get("text")
    if isinstance(wording, Mapping):
        if is_formatted(wording.get("format")):
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
            yield from one_message_needs(item, f"input[{at}]")


RESPONSES: Final = OperationSpec(
    name="responses",
    task="generate",
    path="/v1/responses",
    check=_check,
    fields={
        **SHARED,
        **TOOLS,
        "input": PLAIN,  # each by itself
        "instructions": ("other", lambda value: value is not None and not isinstance(value, str)),
        "max_output_tokens": COUNT,
        "background": PLAIN,
        "truncation": PLAIN,
        "text": PLAIN,  # by what is in it
        "reasoning": ("reasoning", is_set),
        "include": ("other", other_than([], ["reasoning.encrypted_content"])),
        "previous_response_id": ("state", is_set),
        "conversation": ("state", is_set),
        "prompt": ("state", is_set),
    },
    needs=_needs,
    stream=StreamForm.RESPONSES,
    writes=True,
    stateful=True,
    pseudonymised=True,
    metric="chat",  # the conventions have no name of their own for it
    translation=AS_CHAT,
)
