"""What the body of an OpenAI call must hold for us to place it.

Only that is checked which the gateway itself must know. Every other key goes on as it is, read for
personal data like the rest, and the endpoint judges it.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.types import DocumentCall, JsonDocument, Operation
from gateway.server import labels
from gateway.server.openai.errors import MISSING, NOT_OFFERED, WRONG_TYPE, InvalidField

_INTEGERS = frozenset({int})
TASKS = {
    Operation.CHAT: "generate",
    Operation.COMPLETIONS: "generate",
    Operation.RESPONSES: "generate",
    Operation.EMBEDDINGS: "embeddings",
}
"""The task that a model must have to serve an operation."""


def read(
    operation: Operation, document: JsonDocument, catalog: Catalog, size: int = 0
) -> tuple[CatalogModel, DocumentCall]:
    """The model, and the call; `size`: bytes of a large one. Raises InvalidField, UnknownModel."""
    name = document.get("model")
    if not isinstance(name, str):
        raise _no_name(name)
    model = catalog.find(name)
    if model.task != TASKS[operation]:
        raise InvalidField(
            "model", f"is a model of task {model.task}, which /v1/{_route(operation)} cannot serve"
        )
    streamed = document.get("stream", False)
    if streamed is not False and streamed is not None:
        _check_stream(streamed, operation)
    _REQUIRED[operation](document)
    labels.check_document(document)
    return model, DocumentCall(operation, document, streamed is True, size)


def _no_name(name: object) -> InvalidField:
    if name is None:
        return InvalidField("model", "is required; GET /v1/models lists the names", MISSING)
    return InvalidField("model", "must be a string", WRONG_TYPE)


def _route(operation: Operation) -> str:
    return operation.value.replace(".", "/")


def _check_stream(streamed: Any, operation: Operation) -> None:
    if not isinstance(streamed, bool):
        raise InvalidField("stream", "must be true or false", WRONG_TYPE)
    if streamed and operation is Operation.EMBEDDINGS:
        raise InvalidField("stream", "embeddings are not streamed; leave it out")


def _chat(document: JsonDocument) -> None:
    messages = document.get("messages")
    if not isinstance(messages, list) or not messages:
        raise _no_messages(messages)
    try:
        "".join(map(_role, messages))  # takes objects that have one, and strings alone
    except (KeyError, TypeError):
        raise _no_message(messages) from None


_role: Callable[[Any], str] = itemgetter("role")


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


def _completions(document: JsonDocument) -> None:
    _text_or_tokens(document, "prompt")


def _embeddings(document: JsonDocument) -> None:
    _text_or_tokens(document, "input")


def _responses(document: JsonDocument) -> None:
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


def _text_or_tokens(document: JsonDocument, key: str) -> None:
    """A string, token ids, or a list of either."""
    given = _present(document, key)
    if isinstance(given, str):
        return
    if isinstance(given, list) and not given:
        raise InvalidField(key, "must not be empty")
    if not isinstance(given, list) or not (
        all(isinstance(item, str) for item in given)
        or _token_ids(given)
        or all(isinstance(item, list) and item and _token_ids(item) for item in given)
    ):
        raise InvalidField(
            key,
            "must be a string, a list of strings, or token ids (one list or several)",
            WRONG_TYPE,
        )


def _token_ids(items: list[Any]) -> bool:
    return _INTEGERS.issuperset(map(type, items))


def _present(document: JsonDocument, key: str) -> Any:
    if (value := document.get(key)) is None:
        raise InvalidField(key, "is required", MISSING)
    return value


_REQUIRED: dict[Operation, Callable[[JsonDocument], None]] = {
    Operation.CHAT: _chat,
    Operation.COMPLETIONS: _completions,
    Operation.EMBEDDINGS: _embeddings,
    Operation.RESPONSES: _responses,
}
