"""The simulated cloud as the unmodified openai SDK meets it."""

import json
import math
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import numpy as np
import openai
import pytest

from gateway.demo.cloud.process import SimulatedCloud

pytestmark = pytest.mark.anyio
MODELS = Path(__file__).parents[3] / "models"
HELLO: openai.types.chat.ChatCompletionUserMessageParam = {"role": "user", "content": "hello"}
WEATHER: openai.types.chat.ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
        },
    },
}

# Its vector is the text's length and its first byte: enough to see order and batching.
VECTOR_CONFIG = """
name: "vector" backend: "python" max_batch_size: 8
input { name: "text" data_type: TYPE_STRING dims: 1 }
output { name: "embedding" data_type: TYPE_FP32 dims: 2 }
"""
VECTOR_RUNTIME = """
import numpy as np

class Runtime:
    def __init__(self, directory):
        pass

    def execute(self, inputs):
        texts = inputs["text"].ravel()
        return {"embedding": np.array([[len(t), t[0]] for t in texts], np.float32)}
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    models = tmp_path_factory.mktemp("models")
    (models / "scribe").symlink_to(MODELS / "scribe")
    for name, config, runtime in (
        ("vector", VECTOR_CONFIG, VECTOR_RUNTIME),
        ("broken", VECTOR_CONFIG, "raise RuntimeError('weights are missing')"),
    ):
        (models / name / "1").mkdir(parents=True)
        (models / name / "config.pbtxt").write_text(config)
        (models / name / "1" / "runtime.py").write_text(runtime)
    return models


@pytest.fixture(scope="module")
async def process(models: Path, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud.start(
        models, round_trip_median_ms=1.0, service_ms=0, between_tokens_ms=0.1, api_key="secret"
    ) as cloud:
        yield cloud


@pytest.fixture
async def cloud(process: SimulatedCloud) -> SimulatedCloud:
    await process.reset()
    return process


@pytest.fixture
async def client(cloud: SimulatedCloud) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{cloud.http_url}/v1", api_key="secret", max_retries=0, timeout=10
    ) as client:
        yield client


async def test_models_are_listed_as_the_simulated_clouds(client: openai.AsyncOpenAI) -> None:
    listed = {model.id: model.owned_by async for model in client.models.list()}
    assert listed == {"scribe": "simulated-cloud", "vector": "simulated-cloud"}
    assert (await client.models.retrieve("scribe")).id == "scribe"


async def test_a_chat_answer_counts_its_tokens(client: openai.AsyncOpenAI) -> None:
    raw = await client.chat.completions.with_raw_response.create(
        model="scribe", messages=[HELLO], max_completion_tokens=5
    )
    answer = raw.parse()
    assert raw.headers["x-simulated-cloud"] == "1"
    assert raw.headers["x-request-id"].startswith("req_")
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (1, 5)


async def test_the_same_seed_writes_the_same_text_and_n_asks_for_several(
    client: openai.AsyncOpenAI,
) -> None:
    first, again = [
        await client.chat.completions.create(model="scribe", messages=[HELLO], n=3, seed=7)
        for _ in range(2)
    ]
    texts = [choice.message.content for choice in first.choices]
    assert texts == [choice.message.content for choice in again.choices]
    assert [choice.index for choice in first.choices] == [0, 1, 2]
    assert len(set(texts)) > 1


async def test_a_streamed_chat_is_the_plain_one_in_pieces(client: openai.AsyncOpenAI) -> None:
    plain = await client.chat.completions.create(model="scribe", messages=[HELLO], seed=3)
    stream = await client.chat.completions.create(
        model="scribe",
        messages=[HELLO],
        seed=3,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == plain.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices == []
    assert chunks[-1].usage == plain.usage
    assert chunks[-2].choices[0].finish_reason == plain.choices[0].finish_reason


async def test_sse_is_framed_as_the_protocol_says(cloud: SimulatedCloud) -> None:
    body = {"model": "scribe", "messages": [HELLO], "stream": True, "max_tokens": 2}
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(
            f"{cloud.http_url}/v1/chat/completions",
            json=body,
            headers={"authorization": "Bearer secret"},
        )
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = answer.text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    assert all(json.loads(event.removeprefix("data: ")) for event in events[:-2])


async def test_stop_sequences_end_the_text(client: openai.AsyncOpenAI) -> None:
    plain = await client.chat.completions.create(model="scribe", messages=[HELLO])
    text = plain.choices[0].message.content or ""
    stop = text.split()[4]
    cut = await client.chat.completions.create(model="scribe", messages=[HELLO], stop=[stop])
    assert cut.choices[0].message.content == text[: text.index(stop)]
    assert cut.choices[0].finish_reason == "stop"


async def test_logprobs_come_when_asked_for(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model="scribe", messages=[HELLO], max_tokens=3, logprobs=True, top_logprobs=2
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert [len(token.top_logprobs) for token in logprobs.content] == [2, 2, 2]
    assert "".join(token.token for token in logprobs.content) == answer.choices[0].message.content


@pytest.mark.parametrize(
    ("choice", "finish"),
    [("required", "tool_calls"), ({"type": "function", "function": {"name": "weather"}}, "stop")],
)
async def test_a_forced_tool_is_called(
    client: openai.AsyncOpenAI,
    choice: openai.types.chat.ChatCompletionToolChoiceOptionParam,
    finish: str,
) -> None:
    answer = await client.chat.completions.create(
        model="scribe", messages=[HELLO], tools=[WEATHER], tool_choice=choice
    )
    (call,) = answer.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments) == {"city": "sample", "days": 1}
    assert answer.choices[0].finish_reason == finish


async def test_a_streamed_tool_call_arrives_in_pieces(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model="scribe", messages=[HELLO], tools=[WEATHER], tool_choice="required", stream=True
    )
    calls = [
        chunk.choices[0].delta.tool_calls[0].function
        async for chunk in stream
        if chunk.choices[0].delta.tool_calls
    ]
    assert calls[0] is not None
    assert calls[0].name == "weather"
    arguments = "".join(call.arguments or "" for call in calls if call)
    assert json.loads(arguments) == {"city": "sample", "days": 1}


async def test_text_completions_answer_whole_and_streamed(client: openai.AsyncOpenAI) -> None:
    plain = await client.completions.create(
        model="scribe", prompt=["one", "two"], max_tokens=4, logprobs=1
    )
    assert [choice.index for choice in plain.choices] == [0, 1]
    assert plain.choices[0].logprobs is not None
    stream = await client.completions.create(
        model="scribe", prompt=["one", "two"], max_tokens=4, stream=True
    )
    texts = ["", ""]
    async for chunk in stream:
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == [choice.text for choice in plain.choices]


async def test_embeddings_keep_the_order_in_both_encodings(client: openai.AsyncOpenAI) -> None:
    # The SDK asks for base64 unless told otherwise, and decodes it.
    default = await client.embeddings.create(model="vector", input=["abc", "de"])
    floats = await client.embeddings.create(
        model="vector", input=["abc", "de"], encoding_format="float"
    )
    for answer in (default, floats):
        assert [entry.embedding for entry in answer.data] == [[3, 97], [2, 100]]
        assert answer.usage.prompt_tokens == 2


@pytest.mark.skipif(
    not (MODELS / "minilm" / "1" / "model.onnx").exists(), reason="models/minilm is not built"
)
async def test_minilm_embeds_as_on_the_premises(anyio_backend: str) -> None:
    async with (
        SimulatedCloud.start(MODELS, round_trip_median_ms=1.0) as cloud,
        openai.AsyncOpenAI(base_url=f"{cloud.http_url}/v1", api_key="any") as client,
    ):
        answer = await client.embeddings.create(
            model="minilm", input=["a cat sat", "the cat is sitting", "interest rates rise"]
        )
    cat, kitten, rates = (entry.embedding for entry in answer.data)
    assert len(cat) == 384
    assert math.isclose(math.hypot(*cat), 1, rel_tol=1e-4)
    assert np.dot(cat, kitten) > np.dot(cat, rates) + 0.3


async def test_dimensions_are_refused(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await client.embeddings.create(model="vector", input="a", dimensions=1)
    assert refused.value.param == "dimensions"


async def test_responses_answer_whole_and_as_typed_events(client: openai.AsyncOpenAI) -> None:
    plain = await client.responses.create(model="scribe", input="hello", max_output_tokens=40)
    assert plain.output_text
    assert plain.usage is not None
    stream = await client.responses.create(
        model="scribe",
        input=[{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}],
        max_output_tokens=40,
        stream=True,
    )
    events = [event async for event in stream]
    kinds = [event.type for event in events]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    deltas = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert deltas == plain.output_text
    final = events[-1]
    assert final.type in ("response.completed", "response.incomplete")
    assert final.response.output_text == plain.output_text
    assert final.response.usage == plain.usage


async def test_a_wrong_key_is_refused(cloud: SimulatedCloud) -> None:
    async with openai.AsyncOpenAI(base_url=f"{cloud.http_url}/v1", api_key="guess") as client:
        with pytest.raises(openai.AuthenticationError) as refused:
            await client.chat.completions.create(model="scribe", messages=[HELLO])
    assert refused.value.code == "invalid_api_key"


@pytest.mark.parametrize("model", ["nobody", "broken", "vector", "../scribe", ""])
async def test_a_model_that_cannot_chat_is_unknown(client: openai.AsyncOpenAI, model: str) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        await client.chat.completions.create(model=model, messages=[HELLO])
    assert refused.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{", None),
        (b"[]", None),
        (b'{"model": "scribe"}', "messages"),
        (b'{"messages": [{"role": "user", "content": "x"}]}', "model"),
        (b'{"model": "scribe", "messages": [1]}', "messages"),
        (b'{"model": "scribe", "messages": []}', "messages"),
        (b'{"model": "scribe", "messages": [{"role": "user"}], "n": "3"}', "n"),
        (b'{"model": "scribe", "messages": [{"role": "user"}], "max_tokens": 0}', None),
        (b'{"model": "scribe", "messages": [{"content": "x"}]}', "messages[0].role"),
    ],
)
async def test_bad_requests_are_told_what_is_wrong(
    cloud: SimulatedCloud, body: bytes, param: str | None
) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(
            f"{cloud.http_url}/v1/chat/completions",
            content=body,
            headers={"authorization": "Bearer secret"},
        )
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert set(error) == {"message", "type", "param", "code"}
    if param is not None:
        assert error["param"] == param


async def test_unknown_routes_are_404_in_the_protocols_shape(cloud: SimulatedCloud) -> None:
    async with httpx.AsyncClient(
        trust_env=False, headers={"authorization": "Bearer secret"}
    ) as client:
        unknown = await client.post(f"{cloud.http_url}/v1/files", json={})
        method = await client.get(f"{cloud.http_url}/v1/embeddings")
    assert (unknown.status_code, method.status_code) == (404, 405)
    assert "Invalid URL (POST /v1/files)" in unknown.json()["error"]["message"]
    assert method.json()["error"]["type"] == "invalid_request_error"


async def test_calls_are_counted_and_billed(
    cloud: SimulatedCloud, client: openai.AsyncOpenAI
) -> None:
    await cloud.set(price_per_call_usd=1.0, price_per_1k_tokens_usd=1000.0)
    await client.chat.completions.create(model="scribe", messages=[HELLO], max_tokens=3)
    seen, state = await cloud.traffic(), await cloud.state()
    assert seen.routes == {"POST /v1/chat/completions": 1}
    assert seen.models == {"scribe": 1}
    assert seen.answers == {"200": 1}
    assert state["simulated"] is True
    assert state["bill"] == {"calls": 1, "input_tokens": 1, "output_tokens": 3, "usd": 5.0}
    assert state["settings"]["api_key"] == "set"
