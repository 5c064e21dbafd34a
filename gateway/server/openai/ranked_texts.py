"""Rerank as Text Embeddings Inference has it: `texts` in the place of `documents`, no model, and a
list of `index` and `score` out."""

from __future__ import annotations

from typing import Any

import orjson

from gateway.core.errors import NOT_OFFERED, InvalidField, UpstreamFailed
from gateway.core.types import JsonDocument
from gateway.protocols import strictjson

_RENAMED = {"texts": "documents"}
_ONLY = {"raw_scores": (False, None), "truncation_direction": ("right", "Right", None)}
_TRUNCATE, _RETURN = "truncate", "return_text"


def common_form(document: JsonDocument) -> tuple[JsonDocument, bool]:
    """The call as others have it, and whether the answer repeats its texts. Raises InvalidField for
    what others have no words for."""
    for name, values in _ONLY.items():
        if document.pop(name, None) not in values:  # guard: S17.texts-words
            raise InvalidField(name, "is not offered with another value", NOT_OFFERED)
    returns = document.pop(_RETURN, None) is True
    made = {_RENAMED.get(name, name): value for name, value in document.items()}
    if made.pop(_TRUNCATE, None):
        made["truncate_prompt_tokens"] = -1  # to what the model takes
    return made, returns


def texts_answer(body: bytes, texts: list[Any], returns: bool) -> bytes:
    """The answer for such a caller. Raises UpstreamFailed for what is no rerank's."""
    try:
        ranks: list[dict[str, Any]] = [
            {"index": int(each["index"]), "score": float(each["relevance_score"])}
            for each in orjson.loads(body)["results"]
        ]
        if returns:
            for rank in ranks:
                rank["text"] = texts[rank["index"]]
    except (KeyError, IndexError, TypeError, ValueError):
        raise UpstreamFailed("the endpoint's answer ranks no texts") from None
    return strictjson.dumps(ranks)
