"""Rerank and score: texts and what they are compared with in, how well they fit out.

Rerank has the shape that Jina, Cohere, vLLM and others share: `query`, `documents`, `top_n`,
`return_documents`; the answer has `results` of `index` and `relevance_score`. Score is vLLM's: two
texts, one text and several, or as many of each; the answer has `data` of `index` and `score`.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.core.errors import MISSING, WRONG_TYPE, InvalidField
from gateway.core.operations.body import required
from gateway.core.operations.capabilities import COUNT, PLAIN, is_given
from gateway.core.operations.spec import OperationSpec

_SCORED: Final = (("text_1", "text_2"), ("queries", "documents"), ("queries", "items"),
                  ("data_1", "data_2"))  # fmt: skip
"""What is compared with what; vLLM has had more than one name for it."""


def _check(document: dict[str, Any]) -> None:
    """Only text is ranked: of a picture nobody could say whether it may leave."""
    if not isinstance(required(document, "query"), str):
        raise InvalidField("query", "must be a string", WRONG_TYPE)
    documents = required(document, "documents")
    if not isinstance(documents, list):
        raise InvalidField("documents", "must be a list of texts", WRONG_TYPE)
    _check_texts("documents", documents)


def _check_texts(key: str, texts: list[Any]) -> None:
    if not texts:
        raise InvalidField(key, "must hold at least one text")
    for at, item in enumerate(texts):
        text = item.get("text") if isinstance(item, dict) and len(item) == 1 else item
        if not isinstance(text, str):
            raise InvalidField(
                f"{key}[{at}]", 'must be a string, or an object with "text" alone', WRONG_TYPE
            )


def _check_scored(document: dict[str, Any]) -> None:
    for pair in _SCORED:
        if all(document.get(key) is not None for key in pair):
            break
    else:
        raise InvalidField("text_1", "is required, and text_2 with it", MISSING)
    for key in pair:
        given = document[key]
        _check_texts(key, given if isinstance(given, list) else [given])


RERANK: Final = OperationSpec(
    name="rerank",
    task="rerank",
    path="/v1/rerank",
    aliases=("/v2/rerank", "/rerank"),
    model_optional=True,
    check=_check,
    fields={
        **{key: PLAIN for key in ("model", "query", "documents", "return_documents", "user")},
        "top_n": COUNT,
        "max_tokens_per_doc": ("truncation", is_given),
        "truncate_prompt_tokens": ("truncation", is_given),
    },
    rows="documents",
    canary={"query": "Hi", "documents": ["Hi"]},
)
SCORE: Final = OperationSpec(
    name="score",
    task="rerank",
    path="/v1/score",
    aliases=("/score",),
    model_optional=True,
    check=_check_scored,
    fields={
        **{key: PLAIN for key in ("model", "user", *{key for pair in _SCORED for key in pair})},
        "truncate_prompt_tokens": ("truncation", is_given),
    },
    rows="text_2",
)
