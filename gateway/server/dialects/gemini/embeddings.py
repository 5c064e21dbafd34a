"""`embedContent` and `batchEmbedContents` as embeddings, and back."""

from __future__ import annotations

from typing import Final

from gateway.core.errors import MISSING, WRONG_TYPE, InvalidField
from gateway.core.types import JsonDocument
from gateway.protocols import strictjson
from gateway.server.dialects import answers
from gateway.server.dialects.fields import check_keys, checked_list, text_field, whole_number
from gateway.server.dialects.gemini.names import camel

_FIELDS: Final = frozenset({"model", "content", "outputDimensionality"})


def embeddings(body: JsonDocument, model: str, batch: bool) -> JsonDocument:
    """Raises InvalidField."""
    if not batch:
        texts, size = [_text(body, "")], camel(body, "body").get("outputDimensionality")
    else:
        check_keys(body, frozenset({"requests"}), "")
        calls = checked_list(body.get("requests"), "requests", dict, "requests")
        texts = [_text(call, f"requests[{at}]") for at, call in enumerate(calls)]
        sizes = [camel(call, "requests").get("outputDimensionality") for call in calls]
        size = sizes[0] if sizes else None
        if any(each != size for each in sizes):
            raise InvalidField("requests", "must have one outputDimensionality")
    made: JsonDocument = {"model": model, "input": texts}
    if size is not None:
        made["dimensions"] = whole_number(size, "outputDimensionality", 1)
    return made


def _text(call: JsonDocument, where: str) -> str:
    """All that one content says, which becomes one vector."""
    before = f"{where}." if where else ""
    call = camel(call, where or "body")
    check_keys(call, _FIELDS, where)
    content = call.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    if not isinstance(parts, list) or not parts:
        raise InvalidField(f"{before}content.parts", "must be a list of texts", MISSING)
    if len(parts) > 1:
        raise InvalidField(f"{before}content.parts", "must be one text")
    part, place = parts[0], f"{before}content.parts[0]"
    if not isinstance(part, dict):
        raise InvalidField(place, "must be an object", WRONG_TYPE)
    check_keys(part, frozenset({"text"}), place)
    return text_field(part, "text", place)


def answer(body: bytes, batch: bool) -> bytes:
    """Raises UpstreamFailed."""
    made = [{"values": vector} for vector in answers.vectors(body)[1]]
    return strictjson.dumps({"embeddings": made} if batch else {"embedding": made[0]})
