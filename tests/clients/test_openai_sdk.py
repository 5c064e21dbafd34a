"""The openai SDK, unmodified: what its users do, and what they see when it fails."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator
from functools import partial

import openai
import pytest
from openai.types.chat import ChatCompletionUserMessageParam

HELLO: list[ChatCompletionUserMessageParam] = [{"role": "user", "content": "Say hello."}]


@pytest.fixture
def client(openai_url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=openai_url, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
async def aclient(openai_url: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=openai_url, api_key="none", max_retries=0) as client:
        yield client


def test_the_models_are_listed_and_found(client: openai.OpenAI) -> None:
    listed = {model.id for model in client.models.list()}
    assert {"minilm", "scribe"} <= listed
    assert "simple" not in listed  # it takes tensors, which this API has none of
    scribe = client.models.retrieve("scribe")
    assert (scribe.id, scribe.object) == ("scribe", "model")
    assert "/v1/chat/completions" in (scribe.model_extra or {})["operations"]
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-9")


def test_a_chat_is_answered_with_its_placement(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model="scribe", messages=HELLO, max_tokens=8
    )
    answer = raw.parse()
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage is not None
    assert answer.usage.total_tokens > 0
    assert raw.headers["x-spillway-zone"] in ("onprem", "cloud")
    assert raw.headers["x-request-id"] == answer._request_id


def test_a_chat_is_streamed_to_its_end(client: openai.OpenAI) -> None:
    with client.chat.completions.create(
        model="scribe",
        messages=HELLO,
        max_tokens=8,
        stream=True,
        stream_options={"include_usage": True},
    ) as stream:
        chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] in ("stop", "length")
    assert chunks[-1].usage is not None
    assert len({chunk.id for chunk in chunks}) == 1


def test_a_completion_is_answered_and_streamed(client: openai.OpenAI) -> None:
    whole = client.completions.create(model="scribe", prompt="Once upon", max_tokens=8)
    assert whole.choices[0].text
    parts = list(
        client.completions.create(model="scribe", prompt="Once upon", max_tokens=8, stream=True)
    )
    assert "".join(part.choices[0].text for part in parts if part.choices)


def test_embeddings_are_the_same_in_base64_and_in_numbers(client: openai.OpenAI) -> None:
    texts = ["a cat sat", "on a mat"]
    packed = client.embeddings.create(model="minilm", input=texts)  # the SDK asks for base64
    plain = client.embeddings.create(model="minilm", input=texts, encoding_format="float")
    assert [entry.index for entry in packed.data] == [0, 1]
    for a, b in zip(packed.data, plain.data, strict=True):
        assert len(a.embedding) == len(b.embedding) == 384
        assert a.embedding == pytest.approx(b.embedding, abs=1e-4)
        assert math.hypot(*a.embedding) == pytest.approx(1, abs=1e-3)


def test_embeddings_are_counted_shortened_and_cut_as_they_are_asked_for(
    client: openai.OpenAI,
) -> None:
    create, long = partial(client.embeddings.create, model="minilm"), "word " * 300
    assert create(input=["a cat sat", "on"]).usage.total_tokens == 8  # as the tokenizer has them
    assert len(create(input="a cat", dimensions=64).data[0].embedding) == 64
    with pytest.raises(openai.BadRequestError, match="302 tokens, and this model takes 256") as no:
        create(input=["a cat"] * 40 + [long])
    assert no.value.param == "input[40]"
    assert create(input=long, extra_body={"truncate": True}).usage.total_tokens == 256


def test_a_response_is_answered(client: openai.OpenAI) -> None:
    answer = client.responses.create(model="scribe", input="Say hello.", max_output_tokens=16)
    assert answer.output_text
    assert answer.status in ("completed", "incomplete")


def test_a_response_is_streamed_with_named_events(client: openai.OpenAI) -> None:
    kinds = [
        event.type
        for event in client.responses.create(
            model="scribe", input="Say hello.", max_output_tokens=16, stream=True
        )
    ]
    assert kinds[0] == "response.created"
    assert "response.output_text.delta" in kinds
    assert kinds[-1] in ("response.completed", "response.incomplete")


@pytest.mark.anyio
async def test_the_async_client_does_the_same(aclient: openai.AsyncOpenAI) -> None:
    answer = await aclient.chat.completions.create(model="scribe", messages=HELLO, max_tokens=8)
    assert answer.choices[0].message.content
    stream = await aclient.chat.completions.create(
        model="scribe", messages=HELLO, max_tokens=8, stream=True
    )
    assert [chunk async for chunk in stream]
    vectors = await aclient.embeddings.create(model="minilm", input="a cat")
    assert len(vectors.data) == 1


@pytest.mark.anyio
async def test_a_caller_may_leave_a_stream_and_come_back(aclient: openai.AsyncOpenAI) -> None:
    for _ in range(5):
        stream = await aclient.chat.completions.create(
            model="scribe", messages=HELLO, max_tokens=64, stream=True
        )
        await anext(aiter(stream))
        await stream.close()
    answer = await aclient.chat.completions.create(model="scribe", messages=HELLO, max_tokens=4)
    assert answer.choices


def test_an_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="cloud/scribe", messages=HELLO)
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    assert caught.value.type == "invalid_request_error"
    assert caught.value.request_id


def test_a_model_of_another_task_is_a_bad_request(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="minilm", messages=HELLO)
    assert caught.value.param == "model"


def test_a_wrong_field_is_named(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="scribe", messages=[])
    assert caught.value.param == "messages"
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="scribe", input="x", background=True)
    assert caught.value.param == "background"


def test_an_unknown_route_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.files.list()
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["message"]


def test_a_bad_budget_is_refused_and_a_hopeless_hint_ends_the_call(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(
            model="scribe", messages=HELLO, extra_headers={"x-latency-budget-ms": "-1"}
        )
    # What the SDK sends by itself for `timeout`; here it is shorter than any answer takes.
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(
            model="scribe",
            messages=HELLO,
            max_tokens=64,
            extra_headers={"x-stainless-read-timeout": "0.0001"},
        )
    assert caught.value.status_code in (503, 504)
    assert caught.value.code in ("deadline_exceeded", "deadline_unmeetable")


def test_azure_s_client_is_served_as_it_is(gateway_url: str) -> None:
    with openai.AzureOpenAI(
        azure_endpoint=gateway_url, api_key="none", api_version="2024-10-21", max_retries=0
    ) as client:
        chat = client.chat.completions.create(model="scribe", messages=HELLO, max_tokens=8)
        assert chat.choices[0].message.content
        chunks = client.chat.completions.create(
            model="scribe", messages=HELLO, max_tokens=8, stream=True
        )
        assert [chunk.choices[0].finish_reason for chunk in chunks][-1] in ("stop", "length")
        vectors = client.embeddings.create(model="minilm", input=["one", "two"])
        assert len(vectors.data) == 2
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(model="gpt-9", messages=HELLO)
