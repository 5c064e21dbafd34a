"""Text in tensors: what models take, prompts, and stop sequences."""

from __future__ import annotations

import json
import struct

import pytest

from gateway.core.errors import UpstreamRefused
from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
from gateway.core.reply import GrpcMessage
from gateway.core.types import JsonDocument
from gateway.endpoints.connectors.triton.embedding import EmbeddingRequest
from gateway.endpoints.connectors.triton.openai_prompts import DEFAULT_MAX_TOKENS, ask
from gateway.endpoints.connectors.triton.text_generation import PromptCutter, StopCutter
from gateway.endpoints.connectors.triton.text_tensors import GeneratedPiece, Sampling
from gateway.protocols.oip.datatypes import join
from tests.unit.text_rig import (
    TRT_LLM,
    USER,
    VLLM,
    FakeServer,
    begin,
    model,
    named,
    text_response,
)

pytestmark = pytest.mark.anyio


# What a model takes


def test_vllms_backend_gets_its_sampling_as_json() -> None:
    sampling = Sampling(9, ("a", "b"), 5, {"temperature": 0.5})
    call = model(VLLM).generation_call("hello", sampling, streamed=True)
    found = named(call)
    assert found["text_input"].data == join([b"hello"])
    assert found["stream"].data == b"\1"
    assert found["exclude_input_in_output"].data == b"\1"
    assert json.loads(found["sampling_parameters"].data[4:]) == {
        "temperature": 0.5,
        "max_tokens": 9,
        "stop": ["a", "b"],
        "seed": 5,
    }
    assert {o.name for o in call.outputs} == {
        "text_output",
        "finish_reason",
        "num_input_tokens",
        "num_output_tokens",
    }
    assert call.streamed


def test_tensorrt_llm_gets_a_tensor_for_each() -> None:
    sampling = Sampling(9, ("a", "b"), 5, {"temperature": 0.5, "top_p": 0.1})
    call = model(TRT_LLM).generation_call("hello", sampling, streamed=True)
    found = named(call)
    assert found["max_tokens"].data == struct.pack("<i", 9)
    assert found["stop_words"].shape == (1, 2)
    assert found["temperature"].data == struct.pack("<f", 0.5)
    assert found["random_seed"].data == struct.pack("<Q", 5)
    assert found["stream"].data == b"\0"  # it is not decoupled
    assert "top_p" not in found
    assert not call.streamed


def test_a_response_without_outputs_only_ends_a_stream() -> None:
    assert GeneratedPiece.from_message(GrpcMessage(b"")) is None
    piece = GeneratedPiece.from_message(GrpcMessage(text_response("é", "stop", 2)))
    assert piece == GeneratedPiece("é", "stop", 3, 2)


# Prompts


def test_messages_become_plain_lines() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    document = {
        "messages": [
            {"role": "system", "content": "Be terse."},
            {"role": "user", "content": parts},
            {"role": "assistant", "content": None},
        ]
    }
    asked = ask(CHAT, document)
    assert asked.prompts == ("system: Be terse.\nuser: one\ntwo\nassistant: \nassistant:",)
    assert asked.sampling.max_tokens == DEFAULT_MAX_TOKENS


def test_responses_put_their_instructions_first() -> None:
    items = [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]
    for given in ("hi", items):
        asked = ask(RESPONSES, {"input": given, "instructions": "Be terse."})
        assert asked.prompts == ("system: Be terse.\nuser: hi\nassistant:",)


CANNOT: list[tuple[OperationSpec, JsonDocument, str]] = [
    (CHAT, {"messages": USER, "tool_choice": "required"}, "tool_choice"),
    (CHAT, {"messages": USER, "tool_choice": {"type": "function"}}, "tool_choice"),
    (CHAT, {"messages": USER, "logprobs": True}, "logprobs"),
    (CHAT, {"messages": USER, "logit_bias": {"1": 2}}, "logit_bias"),
    (
        CHAT,
        {"messages": USER, "response_format": {"type": "json_object"}},
        "response_format",
    ),
    (CHAT, {"messages": USER, "modalities": ["audio"]}, "modalities"),
    (CHAT, {"messages": USER, "n": 0}, "n"),
    (CHAT, {"messages": USER, "n": True}, "n"),
    (CHAT, {"messages": USER, "n": 1000}, "n"),
    (CHAT, {"messages": USER, "max_tokens": 0}, "max_tokens"),
    (CHAT, {"messages": USER, "max_completion_tokens": "9"}, "max_completion_tokens"),
    (CHAT, {"messages": USER, "temperature": "hot"}, "temperature"),
    (CHAT, {"messages": USER, "seed": -1}, "seed"),
    (CHAT, {"messages": USER, "stop": [1]}, "stop"),
    (CHAT, {"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
    (
        CHAT,
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        "messages[0].content[0]",
    ),
    (
        CHAT,
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}]},
        "messages[0].tool_calls",
    ),
    (COMPLETIONS, {"prompt": [1, 2]}, "prompt"),
    (COMPLETIONS, {"prompt": [[1, 2]]}, "prompt"),
    (COMPLETIONS, {"prompt": ["x"] * 17}, "prompt"),
    (COMPLETIONS, {"prompt": "x", "logprobs": 0}, "logprobs"),
    (COMPLETIONS, {"prompt": "x", "suffix": "y"}, "suffix"),
    (COMPLETIONS, {"prompt": "x", "best_of": 3}, "best_of"),
    (RESPONSES, {"input": "x", "previous_response_id": "r"}, "previous_response_id"),
    (RESPONSES, {"input": [{"type": "function_call_output"}]}, "input[0]"),
    (RESPONSES, {"input": "x", "include": 5}, "include"),
    (
        RESPONSES,
        {"input": "x", "text": {"format": {"type": "json_schema"}}},
        "text.format",
    ),
]


@pytest.mark.parametrize(("operation", "document", "param"), CANNOT)
async def test_what_cannot_be_honoured_is_refused_by_its_key(
    operation: OperationSpec, document: JsonDocument, param: str
) -> None:
    server = FakeServer(VLLM)
    with pytest.raises(UpstreamRefused) as caught:
        await begin(server, operation, document)
    assert caught.value.http_status == 400
    assert json.loads(caught.value.body or b"")["error"]["param"] == param
    assert not server.calls


@pytest.mark.parametrize("choice", [None, "none", "auto"])
def test_tools_are_not_dropped_in_silence(choice: str | None) -> None:
    document = {"messages": USER, "tools": [{"type": "function"}], "tool_choice": choice}
    with pytest.raises(UpstreamRefused) as caught:
        ask(CHAT, document)
    assert "tools" in caught.value.message
    assert ask(CHAT, {**document, "tools": []}).n == 1


def test_who_speaks_is_said_by_name() -> None:
    named = [{**message, "name": "Ann"} for message in USER]
    (prompt,) = ask(CHAT, {"messages": named}).prompts
    assert prompt.startswith("user (Ann): ")


@pytest.mark.parametrize(
    "document",
    [
        {"input": [1, 2]},
        {"input": [[1]]},
        {"input": ["x"] * 2049},
        {"input": "x", "dimensions": 0},
        {"input": "x", "dimensions": True},
        {"input": "x", "encoding_format": "hex"},
        {"input": "x", "truncate": "MIDDLE"},
        {"input": "x", "truncate": 1},
        {"input": "x", "truncate_prompt_tokens": 0},
        {"input": "x", "truncate_prompt_tokens": "8"},
    ],
)
def test_what_an_embedding_model_cannot_honour_is_refused_by_its_key(
    document: JsonDocument,
) -> None:
    with pytest.raises(UpstreamRefused) as caught:
        EmbeddingRequest.from_document(document)
    key = [*document][-1]
    assert caught.value.message.startswith(f"{key}: ")


@pytest.mark.parametrize(
    ("wanted", "parameters"),
    [
        ({}, {}),
        ({"truncate": None}, {}),
        ({"truncate": False}, {}),
        ({"truncate": "none"}, {}),
        ({"truncate": True}, {"truncate": "END"}),
        ({"truncate": "Start"}, {"truncate": "START"}),
        ({"truncate_prompt_tokens": -1}, {"truncate": "END"}),
        ({"truncate_prompt_tokens": 8}, {"truncate": "END", "truncate_prompt_tokens": 8}),
        (
            {"truncate_prompt_tokens": 8, "truncate": "START"},
            {"truncate": "START", "truncate_prompt_tokens": 8},
        ),
    ],
)
def test_the_words_of_each_peer_become_the_model_s_parameters(
    wanted: JsonDocument, parameters: JsonDocument
) -> None:
    assert EmbeddingRequest.from_document({"input": "x", **wanted}).truncation == parameters


# Cutting


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize(
    ("text", "stops", "left"),
    [
        ("one two END three", ("END",), "one two "),
        ("aab aaab", ("aaab",), "aab "),
        ("ends with EN", ("END",), "ends with EN"),
        ("x\n\ny", ("\n\n", "x\n\n"), ""),
        ("plain", (), "plain"),
        ("abc", ("abcd", "bc"), "a"),
    ],
)
def test_a_stop_sequence_is_found_however_it_is_cut(
    size: int, text: str, stops: tuple[str, ...], left: str
) -> None:
    cutter = StopCutter(stops)
    found = ""
    for at in range(0, len(text), size):
        found += cutter.feed(text[at : at + size])
        if cutter.stopped:
            break
    assert found + cutter.rest() == left


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_repeated_prompt_is_dropped(size: int) -> None:
    for prompt, text, left in (("user: hi", "user: hi there", " there"), ("abc", "abx", "abx")):
        cutter = PromptCutter(prompt)
        assert (
            "".join(cutter.feed(text[at : at + size]) for at in range(0, len(text), size)) == left
        )
