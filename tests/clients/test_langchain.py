"""langchain-openai, unmodified."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr

from tests.live import CL100K

KEY = SecretStr("none")


@pytest.fixture(scope="module")
def langchain() -> Any:
    """Imported by the process that runs these tests alone: it takes a second."""
    return pytest.importorskip("langchain_openai")


@pytest.fixture
def chat(langchain: Any, openai_url: str) -> Any:
    return langchain.ChatOpenAI(
        model="scribe", base_url=openai_url, api_key=KEY, max_retries=0, max_completion_tokens=16
    )


def test_a_chat_is_answered(chat: Any) -> None:
    answer = chat.invoke("Say hello.")
    assert answer.content
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["total_tokens"] > 0


def test_a_chat_is_streamed(chat: Any) -> None:
    chunks = list(chat.stream([("system", "Be brief."), ("human", "Say hello.")]))
    assert "".join(str(chunk.content) for chunk in chunks)


@pytest.mark.anyio
async def test_the_async_calls_do_the_same(chat: Any) -> None:
    assert (await chat.ainvoke("Say hello.")).content
    assert [chunk async for chunk in chat.astream("Say hello.")]


def test_the_responses_api_is_answered(langchain: Any, openai_url: str) -> None:
    chat = langchain.ChatOpenAI(
        model="scribe", base_url=openai_url, api_key=KEY, max_retries=0, use_responses_api=True
    )
    assert chat.invoke("Say hello.").text


@pytest.mark.parametrize("as_tokens", [False, True], ids=["as text", "as token ids"])
def test_documents_are_embedded(
    langchain: Any, openai_url: str, monkeypatch: pytest.MonkeyPatch, as_tokens: bool
) -> None:
    if as_tokens:  # langchain's default
        if not CL100K.exists():
            pytest.skip("litellm, which carries the vocabulary, is not installed")
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(CL100K.parent))
    embeddings = langchain.OpenAIEmbeddings(
        model="minilm",
        openai_api_base=openai_url,
        openai_api_key=KEY,
        max_retries=0,
        check_embedding_ctx_length=as_tokens,
    )
    vectors = embeddings.embed_documents(["a cat sat", "Äpfel on a mat"])
    assert [len(vector) for vector in vectors] == [384, 384]
    assert embeddings.embed_query("a cat sat") == pytest.approx(vectors[0], abs=1e-4)
    assert vectors[0] != pytest.approx(vectors[1], abs=1e-1)
