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
from gateway.core.reply import JsonBody, OneFrame
from gateway.core.types import Usage
from tests.unit.text_rig import (
    COUNTING,
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


def vectors(*rows: tuple[float, ...], tokens: tuple[int, ...] = ()) -> bytes:
    message = service_pb2.ModelInferResponse(model_name="m")
    flat = [number for row in rows for number in row]
    message.outputs.add(name="embedding", datatype="FP32", shape=[len(rows), len(rows[0])])
    message.raw_output_contents.append(struct.pack(f"<{len(flat)}f", *flat))
    if tokens:
        message.outputs.add(name="num_input_tokens", datatype="INT32", shape=[len(rows), 1])
        message.raw_output_contents.append(struct.pack(f"<{len(rows)}i", *tokens))
    return bytes(message.SerializeToString())


async def test_embeddings_are_cut_into_batches() -> None:
    rows = [(float(at), float(-at)) for at in range(7)]
    server = FakeServer(EMBEDDER, [vectors(*rows[:3])], [vectors(*rows[3:6])], [vectors(rows[6])])
    document = await whole(server, EMBEDDINGS, {"input": list("abcdefg")})
    answer = CreateEmbeddingResponse.model_validate(document)
    assert [e.embedding for e in answer.data] == [[at, -at] for at in range(7)]
    assert [named(c)["text"].shape for c in server.calls] == [(3, 1), (3, 1), (1, 1)]
    assert server.asked == 1


async def test_an_embedding_s_tokens_are_those_of_its_model() -> None:
    parts = (((1.0, 0.0),) * 3, (5, 3, 2)), (((1.0, 0.0),) * 2, (4, 6))
    server = FakeServer(COUNTING, *([vectors(*rows, tokens=n)] for rows, n in parts))
    stream = await begin(server, EMBEDDINGS, {"input": list("abcde")})
    assert isinstance(stream, OneFrame)
    assert (stream.total_tokens, stream.usage) == (20, Usage(20, 0))
    frame = stream.take()
    assert isinstance(frame, JsonBody)
    answer = CreateEmbeddingResponse.model_validate_json(frame.body)
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (20, 20)
    outputs = {output.name for call in server.calls for output in call.outputs}
    assert outputs == {"embedding", "num_input_tokens"}


async def test_tokens_that_one_answer_does_not_tell_are_not_counted() -> None:
    server = FakeServer(COUNTING, [vectors(*[(1.0, 0.0)] * 3, tokens=(1, 1, 1))], [vectors((1, 0))])
    stream = await begin(server, EMBEDDINGS, {"input": list("abcd")})
    assert isinstance(stream, OneFrame)
    assert (stream.total_tokens, stream.usage) == (None, None)


async def test_fewer_dimensions_are_of_length_one_where_the_whole_vector_is() -> None:
    server = FakeServer(EMBEDDER, [vectors((0.6, 0.8), (-0.6, 0.8))], [vectors((3.0, 4.0))])
    document = {"input": ["a", "b"], "dimensions": 1}
    unit = CreateEmbeddingResponse.model_validate(await whole(server, EMBEDDINGS, document))
    assert [e.embedding for e in unit.data] == [[1.0], [-1.0]]
    longer = await whole(server, EMBEDDINGS, {"input": "a", "dimensions": 1})
    assert longer["data"][0]["embedding"] == [3.0]


async def test_more_dimensions_than_there_are_are_refused() -> None:
    server = FakeServer(EMBEDDER, [vectors((0.6, 0.8))])
    with pytest.raises(UpstreamRefused, match="dimensions: this model's vectors have 2"):
        await whole(server, EMBEDDINGS, {"input": "a", "dimensions": 3})


async def test_a_text_that_is_too_long_is_named_by_its_place_in_the_call() -> None:
    refusal = UpstreamRefused("row 1: the text has 9 tokens")
    server = FakeServer(EMBEDDER, [vectors(*[(1.0, 0.0)] * 3)], [refusal])
    with pytest.raises(UpstreamRefused, match=r"input\[4\]: the text has 9 tokens"):
        await whole(server, EMBEDDINGS, {"input": list("abcdef")})


async def test_other_refusals_of_a_model_stay_as_they_are() -> None:
    refusal = UpstreamRefused("row 1: gone", http_status=404)
    with pytest.raises(UpstreamRefused) as caught:
        await whole(FakeServer(EMBEDDER, [refusal]), EMBEDDINGS, {"input": "a"})
    assert caught.value is refusal


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
