"""What a chat is in the Anthropic Messages API, field by field, and what it cannot be there."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
from gateway.core.types import (
    CLOUD,
    DocumentCall,
    Endpoint,
    InferenceRequest,
    JsonDocument,
    ServedModel,
    WireProtocol,
)
from gateway.endpoints.connectors.openai.dialects.anthropic.request import request
from gateway.endpoints.connectors.openai.dialects.connector import written
from gateway.scheduling.routing.needs import lacking
from tests.anthropic_api import problem

Document = dict[str, Any]
MODEL = "writer"
HELLO: list[Document] = [{"role": "user", "content": "hello"}]
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
CALLED: list[Document] = [*HELLO, {"role": "assistant", "content": None, "tool_calls": [CALL]}]
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "fine"}
PNG: Document = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
HIDDEN = {"type": "redacted_thinking", "data": "xx"}
MARK = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}


def tool(**function: Any) -> Document:
    return {"type": "function", "function": {"name": "f", **function}}


def shaped(schema: Any, **more: Any) -> Document:
    stated = {"name": "n", "schema": schema, **more}
    return {"response_format": {"type": "json_schema", "json_schema": stated}}


def with_messages(*messages: Document) -> Document:
    return {"messages": list(messages)}


def user(*parts: Document) -> Document:
    return with_messages({"role": "user", "content": list(parts)})


def missing(changes: Document, lacks: frozenset[str] = frozenset()) -> str:
    """The field that keeps a chat from an endpoint; empty: it may go there."""
    return missing_of(CHAT, {"model": MODEL, "messages": HELLO, **changes}, lacks)


def missing_of(operation: OperationSpec, document: JsonDocument, lacks: frozenset[str]) -> str:
    served = ServedModel("claude", lacks=lacks)
    endpoint = Endpoint("claude", CLOUD, "anthropic", {MODEL: served})
    call = DocumentCall(operation, document)
    request = InferenceRequest("1", WireProtocol.OPENAI, "t", MODEL, call, Deadline.after(60.0))
    need = lacking(request, endpoint, served)
    return "" if need is None else need.field


def body_of(document: Document) -> bytes:
    return written(partial(request, document, ServedModel("claude"), False))


def sent(changes: Document) -> Document:
    """What goes out, which the API takes."""
    document = {"model": MODEL, "messages": HELLO, **changes}
    assert missing(changes) == ""
    made: Document = json.loads(body_of(document))
    assert problem(made) == ""
    return made


UNSAID: list[tuple[Document, str]] = [
    ({"temperature": 1.2}, "temperature"),
    ({"temperature": -0.1}, "temperature"),
    ({"top_p": 1.1}, "top_p"),
    ({"temperature": 0.5, "top_p": 0.5}, "top_p"),
    ({"top_k": -5}, "top_k"),
    ({"min_p": 0.1}, "min_p"),
    ({"presence_penalty": 0.1}, "presence_penalty"),
    ({"frequency_penalty": 1}, "frequency_penalty"),
    ({"repetition_penalty": 1.1}, "repetition_penalty"),
    ({"seed": 1}, "seed"),
    ({"stop": "\n\n"}, "stop"),
    ({"stop": ["END", ""]}, "stop"),
    ({"n": 2}, "n"),
    ({"logprobs": True}, "logprobs"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"logit_bias": {"1": 1}}, "logit_bias"),
    ({"user": "u" * 257}, "user"),
    ({"store": True}, "store"),
    ({"service_tier": "priority"}, "service_tier"),
    ({"stream_options": {"include_obfuscation": True}}, "stream_options"),
    ({"modalities": ["audio"]}, "modalities"),
    ({"prediction": {"type": "content", "content": "x"}}, "prediction"),
    ({"web_search_options": {}}, "web_search_options"),
    ({"functions": [{"name": "f"}]}, "functions"),
    ({"function_call": "auto"}, "function_call"),
    ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools"),
    ({"tools": [tool(parameters={"type": "string"})]}, "tools"),
    ({"tools": [tool(name="a.b")]}, "tools"),
    ({"tools": [tool(parameters={"type": "object"}, strict=True)]}, "tools"),
    ({"tools": [tool(examples=[])]}, "tools"),
    ({"tools": [tool()], "tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
    ({"tools": [tool()], "tool_choice": "some"}, "tool_choice"),
    ({"max_tool_calls": 3}, "max_tool_calls"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    (shaped({"type": "object", "properties": {}}), "response_format"),
    (shaped({"type": "integer", "minimum": 1}), "response_format"),
    (shaped({"type": "string", "format": "iban"}), "response_format"),
    (shaped({"anyOf": [{"type": "string", "maxLength": 3}]}), "response_format"),
    (shaped({"type": "array", "items": {"type": "number", "multipleOf": 2}}), "response_format"),
    ({"reasoning_effort": "minimal"}, "reasoning_effort"),
    ({"reasoning_effort": "high", "temperature": 0.2}, "reasoning_effort"),
    ({"reasoning_effort": "low", "top_p": 0.2}, "reasoning_effort"),
    (
        {"reasoning_effort": "low", "tools": [tool()], "tool_choice": "required"},
        "reasoning_effort",
    ),
    ({"verbosity": "low"}, "verbosity"),
    ({"guided_json": {}}, "guided_json"),
    (with_messages({"role": "system", "content": "x"}), "messages[0]"),
    (with_messages(*HELLO, {"role": "assistant", "content": "x"}), "messages[1]"),
    (with_messages(*HELLO, {"role": "system", "content": "x"}, *HELLO), "messages[1]"),
    (with_messages({"role": "function", "name": "f", "content": "x"}), "messages[0]"),
    (with_messages({"role": "function", "content": "x"}), "messages[0]"),
    (with_messages({"role": "user", "content": "x", "name": "Ann"}), "messages[0].name"),
    (with_messages({"role": "user", "content": " \n"}), "messages[0].content"),
    (with_messages({"role": "user", "content": ""}), "messages[0].content"),
    (with_messages({"role": "assistant", "content": ""}, *HELLO), "messages[0].content"),
    (
        with_messages({"role": "assistant", "content": "x", "reasoning_content": "y"}, *HELLO),
        "messages[0].reasoning_content",
    ),
    (
        with_messages({"role": "assistant", "content": "x", "thinking_blocks": [{}]}, *HELLO),
        "messages[0].reasoning_content",
    ),
    (
        with_messages(
            {
                "role": "assistant",
                "content": "x",
                "reasoning_content": "y",
                "thinking_blocks": [THOUGHT],
            },
            *HELLO,
        ),
        "messages[0].reasoning_content",
    ),
    (
        with_messages({"role": "assistant", "content": "x", "annotations": [{}]}, *HELLO),
        "messages[0].annotations",
    ),
    (with_messages(*CALLED, {"role": "tool", "content": "x"}), "messages[2].tool_call_id"),
    (user({"type": "text", "text": ""}), "messages[0].content[0]"),
    (user({"type": ["text"], "text": "x"}), "messages[0].content[0]"),
    (shaped({**SCHEMA, "format": ["date"]}), "response_format"),
    (user({"type": "text", "text": "x", "extra": 1}), "messages[0].content[0]"),
    (user({"type": "input_audio", "input_audio": {}}), "messages[0].content[0]"),
    (user({"type": "image_url", "image_url": {"url": "http://a/b.png"}}), "messages[0].content[0]"),
    (
        user({"type": "image_url", "image_url": {"url": "data:image/tiff;base64,AA"}}),
        "messages[0].content[0]",
    ),
    (
        user({"type": "image_url", "image_url": {**PNG["image_url"], "detail": "low"}}),
        "messages[0].content[0]",
    ),
    (user({"type": "file", "file": {"file_id": "file-1"}}), "messages[0].content[0]"),
    (user({"type": "refusal", "refusal": "x"}), "messages[0].content[0]"),
    (user({"type": "text", "text": "x", "cache_control": {"type": "x"}}), "messages[0].content[0]"),
    (
        with_messages({"role": "system", "content": [PNG]}, *HELLO),
        "messages[0].content[0]",
    ),
]


@pytest.mark.parametrize(("changes", "field"), UNSAID, ids=str)
def test_what_has_no_words_there_is_a_need_that_the_kind_does_not_offer(
    changes: Document, field: str
) -> None:
    assert missing(changes) == field


@pytest.mark.parametrize("arguments", ["[1]", "{", '"x"', '{"a": NaN}', "1", "null", None], ids=str)
def test_arguments_that_are_no_object_have_no_words_there(arguments: str | None) -> None:
    call = {**CALL, "function": {"name": "f", "arguments": arguments}}
    field = "" if arguments is None else "messages[1].tool_calls"
    assistant = {"role": "assistant", "content": None, "tool_calls": [call]}
    assert missing(with_messages(*HELLO, assistant, RESULT)) == field


def test_a_call_of_a_tool_with_more_in_it_has_no_words_there() -> None:
    call = {**CALL, "extra_content": {"signature": "x"}}
    assistant = {"role": "assistant", "content": None, "tool_calls": [call]}
    assert missing(with_messages(*HELLO, assistant, RESULT)) == "messages[1].tool_calls"


@pytest.mark.parametrize("capability", ["tools", "reasoning", "structured_output", "parts"])
def test_what_the_settings_say_that_a_model_lacks_is_not_asked_of_it(capability: str) -> None:
    calls: dict[str, Document] = {
        "tools": {"tools": [tool()]},
        "reasoning": {"reasoning_effort": "high"},
        "structured_output": shaped(SCHEMA),
        "parts": user(PNG),
    }
    for name, changes in calls.items():
        assert bool(missing(changes, frozenset({capability}))) is (name == capability)


def test_another_operation_is_no_matter_of_words() -> None:
    document = {"model": MODEL, "input": "hello"}
    assert missing_of(RESPONSES, document, frozenset()) == ""


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({}, {"max_tokens": 32_000}),
        ({"max_tokens": 5}, {"max_tokens": 5}),
        ({"max_tokens": 5, "max_completion_tokens": 6}, {"max_tokens": 6}),
        ({"temperature": 0}, {"temperature": 0}),
        ({"temperature": 0.5, "top_p": 1}, {"temperature": 0.5}),
        ({"temperature": 1.0, "top_p": 0.25}, {"top_p": 0.25}),
        ({"top_k": 40}, {"top_k": 40}),
        ({"stop": "END"}, {"stop_sequences": ["END"]}),
        ({"stop": ["a", "b"]}, {"stop_sequences": ["a", "b"]}),
        ({"user": "u1"}, {"metadata": {"user_id": "u1"}}),
        ({"user": "u1", "safety_identifier": "s1"}, {"metadata": {"user_id": "s1"}}),
        ({"service_tier": "auto"}, {"service_tier": "auto"}),
        ({"service_tier": "default"}, {"service_tier": "standard_only"}),
        (
            {"reasoning_effort": "xhigh"},
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "xhigh"}},
        ),
        ({"reasoning_effort": "none", "temperature": 0.5},
         {"thinking": {"type": "disabled"}, "temperature": 0.5}),
        (
            shaped(SCHEMA, strict=True),
            {"output_config": {"format": {"type": "json_schema",
                                          "schema": {"title": "n", **SCHEMA}}}},
        ),
        (
            shaped({**SCHEMA, "description": "own", "title": "t"}, description="about"),
            {"output_config": {"format": {"type": "json_schema", "schema": {
                **SCHEMA, "title": "t", "description": "about\n\nown"}}}},
        ),
    ],
    ids=str,
)  # fmt: skip
def test_parameters_have_their_own_names_there(changes: Document, fields: Document) -> None:
    usual = {"model": "claude", "messages": HELLO, "max_tokens": 32_000}
    assert sent(changes) == usual | fields


def test_what_changes_nothing_is_left_out() -> None:
    plain = {
        "temperature": None, "top_p": 1, "top_k": -1, "min_p": 0, "presence_penalty": 0,
        "frequency_penalty": 0.0, "repetition_penalty": 1.0, "n": 1, "stop": [], "tools": [],
        "tool_choice": "auto", "response_format": {"type": "text"}, "verbosity": "medium",
        "stream_options": {"include_usage": True}, "prompt_cache_key": "k", "store": False,
        "metadata": {"a": "b"}, "logprobs": False, "modalities": ["text"], "seed": None,
    }  # fmt: skip
    assert sent(plain) == sent({})


@pytest.mark.parametrize(
    ("changes", "choice"),
    [
        ({}, None),
        ({"tool_choice": "auto"}, {"type": "auto"}),
        ({"tool_choice": "none", "parallel_tool_calls": False}, {"type": "none"}),
        ({"tool_choice": "required"}, {"type": "any"}),
        (
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
            {"type": "tool", "name": "f"},
        ),
        (
            {"parallel_tool_calls": False},
            {"type": "auto", "disable_parallel_tool_use": True},
        ),
        (
            {"tool_choice": "required", "parallel_tool_calls": False},
            {"type": "any", "disable_parallel_tool_use": True},
        ),
        ({"parallel_tool_calls": True}, None),
    ],
    ids=str,
)
def test_tools_are_chosen_as_the_caller_says(changes: Document, choice: Document | None) -> None:
    made = sent({"tools": [tool(description="d", parameters=SCHEMA, strict=True)], **changes})
    assert made["tools"] == [
        {"name": "f", "description": "d", "input_schema": SCHEMA, "strict": True}
    ]
    assert made.get("tool_choice") == choice


def test_a_schema_goes_on_without_what_holds_an_answer_to_nothing() -> None:
    drafted = {"$schema": "http://json-schema.org/draft-07/schema#", **SCHEMA}
    assert missing(shaped(drafted)) == ""
    assert sent(shaped(drafted)) == sent(shaped(SCHEMA))
    strict = [tool(parameters=drafted, strict=True)]
    assert missing({"tools": strict}) == ""
    assert sent({"tools": strict})["tools"][0]["input_schema"] == SCHEMA


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    (made,) = sent({"tools": [{**tool(), **MARK}]})["tools"]
    assert made == {"name": "f", "input_schema": {"type": "object"}, **MARK}


@pytest.mark.parametrize(
    ("messages", "system", "turns"),
    [
        (
            [{"role": "system", "content": "be brief"}, *HELLO],
            "be brief",
            HELLO,
        ),
        (
            [
                {"role": "system", "content": "be brief"},
                {"role": "developer", "content": [{"type": "text", "text": "be kind", **MARK}]},
                *HELLO,
            ],
            [{"type": "text", "text": "be brief"}, {"type": "text", "text": "be kind", **MARK}],
            HELLO,
        ),
        (
            [{"role": "system", "content": "long", **MARK}, *HELLO],
            [{"type": "text", "text": "long", **MARK}],
            HELLO,
        ),
        (
            [*HELLO, {"role": "user", "content": [{"type": "text", "text": "there"}, PNG]}],
            None,
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "hello"},
                        {"type": "text", "text": "there"},
                        {
                            "type": "image",
                            "source": {
                                "type": "base64", "media_type": "image/png", "data": "AAAA",
                            },
                        },
                    ],
                }
            ],
        ),
        (
            [
                *CALLED,
                {**RESULT, "content": [{"type": "text", "text": "fine"}], **MARK},
                {"role": "user", "content": "and now?"},
            ],
            None,
            [
                *HELLO,
                {
                    "role": "assistant",
                    "content": [
                        {"type": "tool_use", "id": "call_1", "name": "f", "input": {"a": 1}}
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "call_1",
                            "content": [{"type": "text", "text": "fine"}],
                            **MARK,
                        },
                        {"type": "text", "text": "and now?"},
                    ],
                },
            ],
        ),
        (
            [
                *HELLO,
                {
                    "role": "assistant", "content": "Calling.", "refusal": None, "audio": None,
                    "tool_calls": [{**CALL, "id": "functions.f:0"}],
                },
                {"role": "tool", "tool_call_id": "functions.f:0", "content": ""},
            ],
            None,
            [
                *HELLO,
                {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "Calling."},
                        {
                            "type": "tool_use", "id": "id_66756e6374696f6e732e663a30", "name": "f",
                            "input": {"a": 1},
                        },
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "id_66756e6374696f6e732e663a30"}
                    ],
                },
            ],
        ),
        (
            [
                *HELLO,
                {
                    "role": "assistant", "content": "Yes.", "reasoning_content": "Hm.",
                    "thinking_blocks": [{"index": 0, **THOUGHT}, HIDDEN],
                },
                *HELLO,
            ],
            None,
            [
                *HELLO,
                {
                    "role": "assistant",
                    "content": [THOUGHT, HIDDEN, {"type": "text", "text": "Yes."}],
                },
                *HELLO,
            ],
        ),
        (
            [*HELLO, {"role": "assistant", "content": None, "refusal": "No."}, *HELLO],
            None,
            [
                *HELLO,
                {"role": "assistant", "content": [{"type": "text", "text": "No."}]},
                *HELLO,
            ],
        ),
        (
            [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "file",
                            "file": {
                                "file_data": "data:application/pdf;base64,AAAA",
                                "filename": "a.pdf",
                            },
                        },
                        {
                            "type": "image_url",
                            "image_url": {"url": "https://a.example/b.png", "detail": "auto"},
                        },
                    ],
                }
            ],
            None,
            [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "document",
                            "source": {
                                "type": "base64", "media_type": "application/pdf", "data": "AAAA",
                            },
                            "title": "a.pdf",
                        },
                        {
                            "type": "image",
                            "source": {"type": "url", "url": "https://a.example/b.png"},
                        },
                    ],
                }
            ],
        ),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_conversation_has_its_turns_and_instructions_there(
    messages: list[Document], system: Any, turns: list[Document]
) -> None:
    made = sent({"messages": messages})
    assert made["messages"] == turns
    assert made.get("system") == system


def test_numbers_in_arguments_stay_as_they_are_written() -> None:
    arguments = '{"a": 123456789012345678901234567890, "b": 0.10000000000000000001}'
    call = {**CALL, "function": {"name": "f", "arguments": arguments}}
    messages = [*HELLO, {"role": "assistant", "tool_calls": [call]}, RESULT]
    document = {"model": MODEL, "messages": messages}
    assert arguments.encode() in body_of(document)
    enum = {"enum": [1 << 70], "type": "object"}
    document["tools"] = [tool(parameters=enum)]
    made = json.loads(body_of(document))
    assert made["tools"][0]["input_schema"] == enum
    assert made["messages"][1]["content"][0]["input"]["a"] == 123456789012345678901234567890
