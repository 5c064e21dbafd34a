"""Whatever shape a provider's refusal has, its words reach the caller; a credential does not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.core.errors import UpstreamRefused
from gateway.endpoints.connectors.openai.failures import in_document
from gateway.endpoints.connectors.openai.words import ProviderWords

KEY = "sk-provider-secret-key-123"
WORDS = ProviderWords([f"Bearer {KEY}", "other/secret+key"])
SHAPES: dict[str, Any] = {
    "a string": {"error": "no such thing"},
    "FastAPI": {"detail": "no such thing"},
    "FastAPI's 422": {"detail": [{"loc": ["body"], "msg": "no such thing", "type": "missing"}]},
    "vLLM": {"object": "error", "message": "no such thing", "type": "BadRequestError", "code": 400},
    "a message": {"message": "no such thing"},
    "AWS": {"Message": "no such thing"},
    "Google": [{"error": {"code": 400, "message": "no such thing", "status": "INVALID_ARGUMENT"}}],
    "Anthropic": {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "no such thing"},
    },
    "Mistral": {"object": "error", "message": {"detail": [{"msg": "no such thing"}]}},
    "a problem document": {"type": "about:blank", "title": "Bad", "detail": "no such thing"},
    "a list of strings": {"error": ["no such thing"]},
    "errors": {"errors": [{"message": "no such thing"}]},
    "OAuth": {"error_description": "no such thing"},
    "a text of JSON": "no such thing",
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_words_of_every_shape_are_those_of_the_error(name: str) -> None:
    found = json.loads(WORDS.message(json.dumps(SHAPES[name]).encode(), 400))["error"]
    assert found["message"] == "no such thing"
    assert set(found) >= {"message", "type"}


@pytest.mark.parametrize(
    "body", [b"no such thing", b" no such\nthing \n", b"<p>no such <b>thing</b>"]
)
def test_plain_text_is_words(body: bytes) -> None:
    assert json.loads(WORDS.message(body, 400))["error"] == {
        "message": "no such thing",
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }


def test_fields_of_a_validation_are_named() -> None:
    detail = [
        {"loc": ["body", "messages", 0, "role"], "msg": "Field required", "type": "missing"},
        {"loc": ["body", "n"], "msg": "must be positive", "type": "value"},
    ]
    body = json.dumps({"detail": detail}).encode()
    message = json.loads(WORDS.message(body, 422))["error"]["message"]
    assert message == "messages.0.role: Field required; n: must be positive"


def test_the_kind_and_the_code_stay() -> None:
    found = json.loads(WORDS.message(json.dumps(SHAPES["vLLM"]).encode(), 400))["error"]
    assert (found["type"], found["code"]) == ("BadRequestError", 400)
    found = json.loads(WORDS.message(json.dumps(SHAPES["Google"]).encode(), 400))["error"]
    assert found["code"] == 400


@pytest.mark.parametrize(
    "body",
    [b'{ "error": {"message": "x", "param": "n", "extra": 1} }', b'{"error":{"message":""}}'],
)
def test_an_error_of_the_api_stays_as_it_was_written(body: bytes) -> None:
    assert WORDS.message(body, 400) == body


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"null", b"7", b'{"error":', b'{"a":{"b":1}}'])
def test_a_body_without_words_says_nothing(body: bytes) -> None:
    assert WORDS.message(body, 400) == b""


@pytest.mark.parametrize(
    "said", [KEY, f"Bearer {KEY}", "other/secret+key", "Bearer abcdefgh12345", "sk-" + "a1B2" * 8]
)
@pytest.mark.parametrize("form", ['{"error": {"message": "bad key %s"}}', '{"error": "%s"}', "%s"])
def test_credentials_are_repeated_to_nobody(said: str, form: str) -> None:
    found = WORDS.message((form % said).encode(), 400)
    assert said.rpartition(" ")[2].encode() not in found
    assert b"(credential)" in found


def test_nothing_else_is_taken_out() -> None:
    text = "the bearer of 4111 1111 1111 1111 asked: sk-1, what is said?"
    assert (
        json.loads(WORDS.message(json.dumps({"error": text}).encode(), 400))["error"]["message"]
        == text
    )


def test_words_are_bounded() -> None:
    deep: Any = "end"
    for _ in range(60):
        deep = {"error": deep}
    assert WORDS.message(json.dumps(deep).encode(), 400) == b""
    assert len(WORDS.message(b"x" * 60_000, 400)) < 5_000
    assert len(WORDS.message(json.dumps({"errors": ["word"] * 5_000}).encode(), 400)) < 500


@pytest.mark.parametrize(
    "document",
    [
        SHAPES["vLLM"],
        {"error": {"message": "no such thing", "code": 400}},
        {"error": {"message": "no such thing", "type": "invalid_request_error"}},
    ],
)
def test_an_error_within_an_answer_has_its_words(document: dict[str, Any]) -> None:
    failure = in_document(document, WORDS)
    assert isinstance(failure, UpstreamRefused)
    assert failure.body is not None
    assert json.loads(failure.body)["error"]["message"] == "no such thing"
