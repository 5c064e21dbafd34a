"""litellm as a client, unmodified. Unless told not to, it fetches a price list at import."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.unit.imports.test_litellm import AS_LITELLM

pytestmark = pytest.mark.filterwarnings("ignore:Item 'summary' on TypedDict:UserWarning")
HELLO = [{"role": "user", "content": "Say hello."}]


@pytest.fixture(scope="module")
def litellm() -> Any:
    """Imported by the process that runs these tests alone: it takes two seconds."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    return pytest.importorskip("litellm")


@pytest.fixture
def to_gateway(openai_url: str) -> dict[str, Any]:
    return {"api_base": openai_url, "api_key": "none", "num_retries": 0, "max_retries": 0}


def test_a_chat_is_answered(litellm: Any, to_gateway: dict[str, Any]) -> None:
    answer = litellm.completion("openai/scribe", HELLO, max_tokens=8, **to_gateway)
    assert answer.choices[0].message.content
    assert answer.usage.total_tokens > 0


def test_a_chat_is_streamed(litellm: Any, to_gateway: dict[str, Any]) -> None:
    stream = litellm.completion("openai/scribe", HELLO, max_tokens=8, stream=True, **to_gateway)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream)


@pytest.mark.anyio
async def test_the_async_calls_do_the_same(litellm: Any, to_gateway: dict[str, Any]) -> None:
    answer = await litellm.acompletion("openai/scribe", HELLO, max_tokens=8, **to_gateway)
    assert answer.choices[0].message.content


def test_texts_are_embedded(litellm: Any, to_gateway: dict[str, Any]) -> None:
    answer = litellm.embedding("openai/minilm", ["a cat", "a mat"], **to_gateway)
    assert [len(entry["embedding"]) for entry in answer.data] == [384, 384]


def test_an_unknown_model_is_not_found(litellm: Any, to_gateway: dict[str, Any]) -> None:
    with pytest.raises(litellm.NotFoundError):
        litellm.completion("openai/gpt-9", HELLO, **to_gateway)


@pytest.mark.parametrize(("model", "stated"), AS_LITELLM)
def test_the_import_reads_names_of_models_as_litellm_does(
    litellm: Any, model: str, stated: str | None
) -> None:
    found = litellm.get_llm_provider(model, stated, api_base="http://127.0.0.1:1/v1")
    assert (found[1], found[0]) == AS_LITELLM[model, stated]
