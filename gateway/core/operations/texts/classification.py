"""Moderations and classifications: texts in, how they are labelled out.

Moderations are OpenAI's, whose calls may leave the model out; classifications are vLLM's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.core.errors import WRONG_TYPE, InvalidField
from gateway.core.operations.body import check_text_or_tokens, required
from gateway.core.operations.capabilities import PLAIN, has_tokens, is_given, message_needs
from gateway.core.operations.spec import CapabilityNeed, OperationSpec


def _check_moderated(document: dict[str, Any]) -> None:
    given = required(document, "input")
    if isinstance(given, str):
        return
    if not isinstance(given, list) or not given:
        raise InvalidField("input", "must be a string or a list of texts and parts", WRONG_TYPE)
    for at, item in enumerate(given):
        if not isinstance(item, str | dict):
            raise InvalidField(f"input[{at}]", "must be a string or an object", WRONG_TYPE)


def _moderated_needs(document: Mapping[str, Any]) -> Iterator[CapabilityNeed]:
    given = document.get("input")
    for at, item in enumerate(given if isinstance(given, list) else ()):
        if isinstance(item, dict) and item.get("type") != "text":
            yield CapabilityNeed("parts", f"input[{at}]")


def _check_classified(document: dict[str, Any]) -> None:
    if document.get("messages") is None:
        check_text_or_tokens(document, "input")


def _classified_needs(document: Mapping[str, Any]) -> Iterator[CapabilityNeed]:
    if has_tokens(document.get("input")):
        yield CapabilityNeed("token_ids", "input")
    yield from message_needs(document.get("messages"), "messages")


MODERATIONS: Final = OperationSpec(
    name="moderations",
    task="moderate",
    path="/v1/moderations",
    model_optional=True,
    check=_check_moderated,
    fields={key: PLAIN for key in ("model", "input", "user")},
    needs=_moderated_needs,
    rows="input",
    canary={"input": "Hi"},
)
CLASSIFY: Final = OperationSpec(
    name="classify",
    task="classify",
    path="/classify",
    aliases=("/v1/classify",),
    model_optional=True,
    check=_check_classified,
    fields={
        **{key: PLAIN for key in ("model", "input", "messages", "user")},
        "truncate_prompt_tokens": ("truncation", is_given),
    },
    needs=_classified_needs,
    rows="input",
    token_field="input",
    canary={"input": "Hi"},
)
