"""Tokenize and detokenize, as vLLM has them: a text or messages in, token ids out, and back.

Nobody reads token ids that are to become text: such calls are restricted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.core.errors import WRONG_TYPE, InvalidField
from gateway.core.operations.body import required
from gateway.core.operations.capabilities import PLAIN, TOOLS, message_needs
from gateway.core.operations.spec import CapabilityNeed, OperationSpec


def _check_text(document: dict[str, Any]) -> None:
    if document.get("messages") is None and not isinstance(required(document, "prompt"), str):
        raise InvalidField("prompt", "must be a string", WRONG_TYPE)


def _text_needs(document: Mapping[str, Any]) -> Iterator[CapabilityNeed]:
    return message_needs(document.get("messages"), "messages")


def _check_tokens(document: dict[str, Any]) -> None:
    tokens = required(document, "tokens")
    if not isinstance(tokens, list) or not {int}.issuperset(map(type, tokens)):
        raise InvalidField("tokens", "must be a list of token ids", WRONG_TYPE)


TOKENIZE: Final = OperationSpec(
    name="tokenize",
    task="generate",
    path="/tokenize",
    aliases=("/v1/tokenize",),
    model_optional=True,
    check=_check_text,
    fields={
        **TOOLS,
        **{key: PLAIN for key in ("model", "prompt", "messages", "user")},
    },
    needs=_text_needs,
)
DETOKENIZE: Final = OperationSpec(
    name="detokenize",
    task="generate",
    path="/detokenize",
    aliases=("/v1/detokenize",),
    model_optional=True,
    check=_check_tokens,
    fields={key: PLAIN for key in ("model", "tokens", "user")},
)
