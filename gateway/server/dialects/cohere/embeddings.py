"""Cohere's Embed as embeddings, and back."""

from __future__ import annotations

from typing import Any, Final

from gateway.core.errors import MISSING, InvalidField
from gateway.core.types import JsonDocument
from gateway.protocols import strictjson
from gateway.server.dialects import answers
from gateway.server.dialects.fields import check_keys, check_object, checked_list, text_field, word

_FIELDS: Final = frozenset(
    {"model", "texts", "inputs", "input_type", "output_dimension", "embedding_types", "truncate"}
    | {"priority"}
)
_AS_IT_IS: Final = {
    "input_type": "input_type", "truncate": "truncate", "output_dimension": "dimensions",
}  # fmt: skip


def embeddings(body: JsonDocument) -> JsonDocument:
    """What a text is for (`input_type`) goes on as a field of its own, which the endpoint judges.
    Raises InvalidField."""
    body = {key: value for key, value in body.items() if value not in (None, [])}
    if body.get("priority") == 0:
        del body["priority"]
    check_keys(body, _FIELDS - {"priority"}, "")
    if body.get("embedding_types", ["float"]) != ["float"]:
        raise InvalidField("embedding_types", "must be float")
    made: JsonDocument = {"model": body.get("model"), "input": _texts(body)}
    made |= {key: body[name] for name, key in _AS_IT_IS.items() if name in body}
    return made


def _texts(body: JsonDocument) -> list[str]:
    texts, inputs = body.get("texts"), body.get("inputs")
    if texts is not None and inputs is None:
        return checked_list(texts, "texts", str, "strings")
    if inputs is None or texts is not None:
        raise InvalidField("texts", "must be there, or else inputs", MISSING)
    return [
        _text(each, f"inputs[{at}]")
        for at, each in enumerate(checked_list(inputs, "inputs", dict, "inputs"))
    ]


def _text(given: Any, where: str) -> str:
    check_object(given, where, frozenset({"content"}))
    content = checked_list(given.get("content"), f"{where}.content", dict, "texts")
    if len(content) != 1:
        raise InvalidField(f"{where}.content", "must be one text")
    where = f"{where}.content[0]"
    check_object(content[0], where, frozenset({"type", "text"}))
    word(content[0].get("type"), {"text": ""}, f"{where}.type")
    return text_field(content[0], "text", where)


def answer(body: bytes, texts: list[str]) -> bytes:
    """Raises UpstreamFailed."""
    document, vectors = answers.vectors(body)
    given = answers.counts(document.get("usage")).given
    made = {
        "id": document.get("id") or "embed",
        "response_type": "embeddings_by_type",
        "embeddings": {"float": vectors},
        "texts": texts,
        "meta": {"api_version": {"version": "2"}, "billed_units": {"input_tokens": given}},
    }
    return strictjson.dumps(made)
