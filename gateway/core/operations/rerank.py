"""Rerank: a query and texts in, the texts in the order in which they answer it out.

The shape that Jina, Cohere, vLLM and others share: `query`, `documents`, `top_n`,
`return_documents`; the answer has `results` of `index` and `relevance_score`.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.core.errors import WRONG_TYPE, InvalidField
from gateway.core.operations.body import required
from gateway.core.operations.capabilities import COUNT, PLAIN
from gateway.core.operations.spec import OperationSpec


def _check(document: dict[str, Any]) -> None:
    """Only text is ranked: of a picture nobody could say whether it may leave."""
    if not isinstance(required(document, "query"), str):
        raise InvalidField("query", "must be a string", WRONG_TYPE)
    documents = required(document, "documents")
    if not isinstance(documents, list):
        raise InvalidField("documents", "must be a list of texts", WRONG_TYPE)
    if not documents:
        raise InvalidField("documents", "must hold at least one text")
    for at, item in enumerate(documents):
        text = item.get("text") if isinstance(item, dict) and len(item) == 1 else item
        if not isinstance(text, str):
            raise InvalidField(
                f"documents[{at}]", 'must be a string, or an object with "text" alone', WRONG_TYPE
            )


RERANK: Final = OperationSpec(
    name="rerank",
    task="rerank",
    path="/v1/rerank",
    check=_check,
    fields={
        **{key: PLAIN for key in ("model", "query", "documents", "return_documents", "user")},
        "top_n": COUNT,
    },
    rows="documents",
    canary={"query": "Hi", "documents": ["Hi"]},
)
