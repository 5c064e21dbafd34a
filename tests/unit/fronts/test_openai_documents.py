"""What a body must hold, as a table: every refusal is a 400 or 404 that names the key."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.config.token_encoding import TokenEncoding
from gateway.core.errors import InvalidField, RequestRejected
from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
from gateway.core.operations.texts.rerank import RERANK
from gateway.server.openai import documents as openai_documents
from gateway.server.openai.errors import error_document

CATALOG = Catalog(
    {
        "scribe": CatalogModel("scribe", "generate", ("gpu",)),
        "minilm": CatalogModel("minilm", "embeddings", ("gpu",)),
        "simple": CatalogModel("simple", "infer", ("gpu",)),
        "judge": CatalogModel("judge", "rerank", ("gpu",)),
    }
)
TEXT, VECTORS = COMPLETIONS, EMBEDDINGS
SAID = [{"role": "user", "content": "hello"}]
GOOD: dict[OperationSpec, dict[str, Any]] = {
    CHAT: {"model": "scribe", "messages": SAID},
    TEXT: {"model": "scribe", "prompt": "x"},
    RESPONSES: {"model": "scribe", "input": "x"},
    VECTORS: {"model": "minilm", "input": "x"},
    RERANK: {"model": "judge", "query": "x", "documents": ["x"]},
}


def read(operation: OperationSpec, document: dict[str, Any]) -> tuple[str, bool]:
    model, call = openai_documents.read(operation, document, CATALOG)
    assert call.operation is operation
    assert call.document is document  # nothing is dropped or rewritten
    return model.name, call.streamed


@pytest.mark.parametrize(
    ("operation", "document", "streamed"),
    [
        (CHAT, {"messages": SAID}, False),
        (CHAT, {"messages": SAID, "stream": None}, False),
        (CHAT, {"messages": SAID, "stream": True, "stream_options": {"include_usage": True}}, True),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}, False),
        (CHAT, {"messages": SAID, "unheard_of": {"deep": [1]}, "fallbacks": ["x"]}, False),
        (TEXT, {"prompt": "x"}, False),
        (TEXT, {"prompt": ""}, False),
        (TEXT, {"prompt": ["x", "y"], "stream": True}, True),
        (TEXT, {"prompt": [1, 2]}, False),
        (TEXT, {"prompt": [[1, 2], [3]]}, False),
        (RESPONSES, {"input": "x"}, False),
        (RERANK, {"query": "x", "documents": ["x", {"text": "y"}], "stream": False}, False),
        (RESPONSES, {"input": SAID, "stream": True}, True),
        (RESPONSES, {"previous_response_id": "resp_1"}, False),
        (RESPONSES, {"input": "x", "background": False, "store": True}, False),
        (VECTORS, {"input": ["x"], "encoding_format": "base64"}, False),
        (VECTORS, {"input": [1, 2]}, False),
        (VECTORS, {"input": "x", "stream": False}, False),
    ],
)
def test_a_good_body_is_taken_as_it_is(
    operation: OperationSpec, document: dict[str, Any], streamed: bool
) -> None:
    model = {VECTORS: "minilm", RERANK: "judge"}.get(operation, "scribe")
    assert read(operation, {"model": model, **document}) == (model, streamed)


@pytest.mark.parametrize(
    ("operation", "document", "status", "param", "code"),
    [
        (CHAT, {"model": None}, 400, "model", "missing_required_parameter"),
        (CHAT, {"model": 7}, 400, "model", "invalid_type"),
        (CHAT, {"model": "gpt-9"}, 404, "model", "model_not_found"),
        (CHAT, {"model": "cloud/scribe"}, 404, "model", "model_not_found"),
        (CHAT, {"model": "gpt-9", "fallbacks": ["scribe"]}, 404, "model", "model_not_found"),
        (CHAT, {"model": "scribe/../scribe"}, 404, "model", "model_not_found"),
        (CHAT, {"model": ""}, 404, "model", "model_not_found"),
        (CHAT, {"model": "minilm"}, 400, "model", "invalid_value"),
        (CHAT, {"model": "simple"}, 400, "model", "invalid_value"),
        (VECTORS, {"model": "scribe"}, 400, "model", "invalid_value"),
        (RESPONSES, {"model": "minilm"}, 400, "model", "invalid_value"),
        (CHAT, {"stream": "true"}, 400, "stream", "invalid_type"),
        (CHAT, {"stream": 1}, 400, "stream", "invalid_type"),
        (VECTORS, {"stream": True}, 400, "stream", "invalid_value"),
        (CHAT, {"messages": None}, 400, "messages", "missing_required_parameter"),
        (CHAT, {"messages": "hi"}, 400, "messages", "invalid_type"),
        (CHAT, {"messages": []}, 400, "messages", "invalid_value"),
        (CHAT, {"messages": ["hi"]}, 400, "messages[0]", "invalid_type"),
        (CHAT, {"messages": [*SAID, {"content": "x"}]}, 400, "messages[1].role", "invalid_type"),
        (TEXT, {"prompt": None}, 400, "prompt", "missing_required_parameter"),
        (TEXT, {"prompt": []}, 400, "prompt", "invalid_value"),
        (TEXT, {"prompt": 5}, 400, "prompt", "invalid_type"),
        (TEXT, {"prompt": ["x", 5]}, 400, "prompt", "invalid_type"),
        (TEXT, {"prompt": [True]}, 400, "prompt", "invalid_type"),
        (TEXT, {"prompt": [[]]}, 400, "prompt", "invalid_type"),
        (VECTORS, {"input": None}, 400, "input", "missing_required_parameter"),
        (VECTORS, {"input": {"text": "x"}}, 400, "input", "invalid_type"),
        (VECTORS, {"input": [1.5]}, 400, "input", "invalid_type"),
        (RESPONSES, {"input": None}, 400, "input", "missing_required_parameter"),
        (RESPONSES, {"input": 5}, 400, "input", "invalid_type"),
        (RESPONSES, {"input": ["x"]}, 400, "input[0]", "invalid_type"),
        (RESPONSES, {"background": True}, 400, "background", "not_offered"),
        (RESPONSES, {"background": "yes"}, 400, "background", "invalid_type"),
        (RERANK, {"model": "scribe"}, 400, "model", "invalid_value"),
        (RERANK, {"stream": True}, 400, "stream", "invalid_value"),
        (RERANK, {"query": None}, 400, "query", "missing_required_parameter"),
        (RERANK, {"query": {"image": "x"}}, 400, "query", "invalid_type"),
        (RERANK, {"documents": None}, 400, "documents", "missing_required_parameter"),
        (RERANK, {"documents": []}, 400, "documents", "invalid_value"),
        (RERANK, {"documents": "x"}, 400, "documents", "invalid_type"),
        (RERANK, {"documents": ["x", 5]}, 400, "documents[1]", "invalid_type"),
        (RERANK, {"documents": [{"text": 5}]}, 400, "documents[0]", "invalid_type"),
        (RERANK, {"documents": [{"image": "x"}]}, 400, "documents[0]", "invalid_type"),
        (RERANK, {"documents": [{"text": "x", "image": "x"}]}, 400, "documents[0]", "invalid_type"),
    ],
)
def test_a_bad_body_is_refused_with_the_key(
    operation: OperationSpec, document: dict[str, Any], status: int, param: str, code: str
) -> None:
    with pytest.raises(RequestRejected) as refused:
        read(operation, GOOD[operation] | document)
    told = error_document(refused.value)
    assert (refused.value.http_status, told["param"], told["code"]) == (status, param, code)
    assert told["type"] == "invalid_request_error"
    assert "gpt-9" not in told["message"]  # the key, never what it held


def spelled(operation: OperationSpec, key: str, ids: Any) -> Any:
    """What a call of a model with a declared vocabulary becomes: `a` is 0, `b` is 1."""
    encoding = TokenEncoding(lambda given: "".join({0: "a", 1: "b"}[one] for one in given))
    catalog = Catalog({"m": CatalogModel("m", operation.task, (), token_encoding=encoding)})
    _, call = openai_documents.read(operation, {"model": "m", key: ids, "user": "u"}, catalog)
    assert call.document["user"] == "u"
    return call.document[key]


@pytest.mark.parametrize(
    ("ids", "texts"),
    [([0, 1, 1], ["abb"]), ([[0], [1, 0]], ["a", "ba"]), ("0", "0"), (["0", "1"], ["0", "1"])],
)
@pytest.mark.parametrize(("operation", "key"), [(VECTORS, "input"), (TEXT, "prompt")])
def test_token_ids_become_the_texts_of_the_declared_vocabulary(
    operation: OperationSpec, key: str, ids: Any, texts: Any
) -> None:
    assert spelled(operation, key, ids) == texts


@pytest.mark.parametrize("ids", [[0, 2], [-1], [[0], [2]], [10**30]])
def test_an_id_that_the_vocabulary_lacks_is_refused_without_its_number(ids: Any) -> None:
    with pytest.raises(InvalidField, match=r"^input: (the )?list") as caught:
        spelled(VECTORS, "input", ids)
    assert not any(digit in caught.value.message for digit in ("2", "-1", "10"))
