"""The answers of a text model in the shapes of the OpenAI API."""

from __future__ import annotations

import json
import struct

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.completion import Completion
from openai.types.create_embedding_response import CreateEmbeddingResponse
from openai.types.responses import Response
from tritonclient.grpc import service_pb2

from gateway.core.errors import UpstreamFailed, UpstreamRefused, UpstreamUnreachable
from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.operations.responses import RESPONSES
from tests.unit.text_rig import (
    EMBEDDER,
    USER,
    VLLM,
    FakeServer,
    begin,
    events,
    named,
    text_response,
    whole,
)

pytestmark = pytest.mark.anyio


# Answers


async def test_a_whole_chat_answer_is_openais() -> None:
    server = FakeServer(VLLM, [text_response("Hello", "stop", 2), b""])
    document = await whole(server, CHAT, {"messages": USER})
    found = ChatCompletion.model_validate(document, strict=True)
    assert found.choices[0].message.content == "Hello"
    assert found.choices[0].finish_reason == "stop"
    assert found.model == "called"
    assert found.usage is not None
    assert (found.usage.prompt_tokens, found.usage.total_tokens) == (3, 5)


async def test_streamed_chat_begins_with_the_role_and_ends_with_the_usage() -> None:
    server = FakeServer(
        VLLM, [text_response("He", tokens=1), text_response("llo", "length", 1), b""]
    )
    document = {"messages": USER, "stream_options": {"include_usage": True}}
    found = [ChatCompletionChunk.model_validate(e) for e in await events(server, CHAT, document)]
    deltas = [c.choices[0].delta for c in found[:-1]]
    assert deltas[0].role == "assistant"
    assert "".join(d.content or "" for d in deltas) == "Hello"
    assert [c.choices[0].finish_reason for c in found[:-1]] == [None, None, None, "length"]
    assert found[-1].choices == []
    assert found[-1].usage is not None
    assert found[-1].usage.completion_tokens == 2
    assert len({c.id for c in found}) == 1


async def test_choices_are_calls_of_their_own_with_seeds_of_their_own() -> None:
    server = FakeServer(VLLM, *([text_response(t, "stop", 1)] for t in "ab"))
    found = await whole(server, CHAT, {"messages": USER, "n": 2, "seed": 5})
    assert [c["message"]["content"] for c in found["choices"]] == ["a", "b"]
    assert found["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    seeds = [json.loads(named(c)["sampling_parameters"].data[4:])["seed"] for c in server.calls]
    assert seeds == [5, 6]


async def test_streamed_choices_keep_their_index() -> None:
    scripts = [[text_response(f"{t}{n}") for n in range(20)] for t in "abc"]
    server = FakeServer(VLLM, *scripts)
    found = await events(server, CHAT, {"messages": USER, "n": 3})
    for at, name in enumerate("abc"):
        own = [c for e in found for c in e["choices"] if c["index"] == at]
        text = "".join(c["delta"].get("content", "") for c in own)
        assert text == "".join(f"{name}{n}" for n in range(20))
        assert [c["finish_reason"] for c in own if c["finish_reason"]] == ["stop"]


async def test_completions_echo_their_prompts() -> None:
    server = FakeServer(VLLM, *([text_response(t, "stop", 1)] for t in "ab"))
    document = await whole(server, COMPLETIONS, {"prompt": ["x", "y"], "echo": True})
    found = Completion.model_validate(document)
    assert [c.text for c in found.choices] == ["xa", "yb"]


async def test_a_stop_sequence_ends_the_call_upstream() -> None:
    server = FakeServer(VLLM, [text_response(t) for t in ("one ", "EN", "D", " two")])
    found = await events(server, CHAT, {"messages": USER, "stop": "END"})
    text = "".join(c["delta"].get("content", "") for e in found for c in e["choices"])
    assert text == "one "
    assert found[-1]["choices"][0]["finish_reason"] == "stop"


async def test_responses_come_as_the_events_that_the_sdk_knows() -> None:
    server = FakeServer(VLLM, [text_response("He", tokens=1), text_response("llo", "stop", 1)])
    found = await events(server, RESPONSES, {"input": "hi"})
    assert [e["type"] for e in found] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [e["sequence_number"] for e in found] == list(range(len(found)))
    last = Response.model_validate(found[-1]["response"])
    assert last.output_text == "Hello"
    assert last.usage is not None
    assert last.usage.total_tokens == 5


async def test_a_response_that_was_cut_short_says_so() -> None:
    server = FakeServer(VLLM, [text_response("He", "length", 1)])
    found = Response.model_validate(await whole(server, RESPONSES, {"input": "hi"}))
    assert found.status == "incomplete"
    assert found.incomplete_details is not None
    assert found.incomplete_details.reason == "max_output_tokens"


async def test_embeddings_are_cut_into_batches() -> None:
    def vectors(first: int, count: int) -> bytes:
        message = service_pb2.ModelInferResponse(model_name="m")
        message.outputs.add(name="embedding", datatype="FP32", shape=[count, 2])
        values = [float(v) for at in range(first, first + count) for v in (at, -at)]
        message.raw_output_contents.append(struct.pack(f"<{2 * count}f", *values))
        return bytes(message.SerializeToString())

    server = FakeServer(EMBEDDER, [vectors(0, 3)], [vectors(3, 3)], [vectors(6, 1)])
    document = await whole(server, EMBEDDINGS, {"input": list("abcdefg")})
    found = CreateEmbeddingResponse.model_validate(document)
    assert [e.embedding for e in found.data] == [[at, -at] for at in range(7)]
    assert [named(c)["text"].shape for c in server.calls] == [(3, 1), (3, 1), (1, 1)]
    assert server.asked == 1


async def test_a_model_that_fails_before_its_first_word_fails_before_the_first_event() -> None:
    server = FakeServer(VLLM, [UpstreamUnreachable("broke")])
    stream = await begin(server, CHAT, {"messages": USER}, streamed=True)
    with pytest.raises(UpstreamUnreachable):
        await anext(stream)
    assert server.replies[0].closed.is_set()


async def test_one_choice_that_fails_ends_the_others() -> None:
    endless = [text_response("x")] * 1000
    server = FakeServer(VLLM, endless, [text_response("a"), UpstreamFailed("broke")])
    stream = await begin(server, CHAT, {"messages": USER, "n": 2}, streamed=True)
    with pytest.raises(UpstreamFailed):
        async for _ in stream:
            pass
    assert all(r.closed.is_set() for r in server.replies)


async def test_closing_an_answer_midway_closes_every_call() -> None:
    server = FakeServer(VLLM, *([text_response("x")] * 1000 for _ in range(2)))
    stream = await begin(server, CHAT, {"messages": USER, "n": 2}, streamed=True)
    await anext(stream)
    await stream.aclose()
    await stream.aclose()
    assert all(r.closed.is_set() for r in server.replies)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_a_model_of_another_kind_is_refused() -> None:
    for kind, operation, document in (
        (EMBEDDER, CHAT, {"messages": USER}),
        (VLLM, EMBEDDINGS, {"input": "x"}),
    ):
        with pytest.raises(UpstreamRefused, match="model: "):
            await begin(FakeServer(kind), operation, document)
