"""What a chat is in Google's `generateContent`, field by field, and what it cannot be there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.core.operations.dialects.gemini import needs
from gateway.core.types import ServedModel
from gateway.endpoints.connectors.openai.dialects.gemini.request import request
from tests.gemini_api import problem

Document = dict[str, Any]
HELLO: list[Document] = [{"role": "user", "content": "hello"}]
CALL: Document = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
OTHER: Document = {**CALL, "id": "c2", "function": {"name": "g", "arguments": '{"a": [1]}'}}
SIGNED: Document = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
RESULT: Document = {"role": "tool", "tool_call_id": "c1", "content": "fine"}
SCHEMA: Document = {"type": "object", "properties": {"a": {"type": ["string", "null"]}}}
UNSIGNED = "skip_thought_signature_validator"


def field_of(changes: Document) -> str:
    """That keeps a chat from the API; empty: it may go there."""
    need = next(iter(needs({"messages": HELLO, **changes})), None)
    return need.field if need else ""


def sent(changes: Document) -> Document:
    """What goes out, which the API takes."""
    assert field_of(changes) == ""
    made = request({"messages": HELLO, **changes}, ServedModel("m"), json.loads)
    assert problem(made) == ""
    return made


def tool(name: str = "f", **function: Any) -> Document:
    return {"type": "function", "function": {"name": name, **function}}


def shaped(schema: Any, **more: Any) -> Document:
    stated = {"name": "n", "schema": schema, **more}
    return {"response_format": {"type": "json_schema", "json_schema": stated}}


def called(*calls: Document, **more: Any) -> list[Document]:
    return [*HELLO, {"role": "assistant", "content": None, "tool_calls": list(calls), **more}]


def with_messages(*messages: Document) -> Document:
    return {"messages": list(messages)}


def user(*parts: Any) -> Document:
    return with_messages({"role": "user", "content": list(parts)})


def image(url: Any, **more: Any) -> Document:
    return {"type": "image_url", "image_url": {"url": url, **more}}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": "all"}, "top_k"),
        ({"min_p": 0.1}, "min_p"),
        ({"presence_penalty": 2}, "presence_penalty"),
        ({"repetition_penalty": 1.1}, "repetition_penalty"),
        ({"seed": 1 << 31}, "seed"),
        ({"stop": ["a"] * 6}, "stop"),
        ({"stop": [""]}, "stop"),
        ({"n": 9}, "n"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"store": True}, "store"),
        ({"service_tier": "flex"}, "service_tier"),
        ({"stream_options": {"include_obfuscation": True}}, "stream_options"),
        ({"tools": [{"type": "custom"}]}, "tools"),
        ({"tools": [tool("9")]}, "tools"),
        ({"tools": [tool(parameters={"type": "array"})]}, "tools"),
        ({"tools": [tool(strict=True, parameters={"type": "object", "not": {}})]}, "tools"),
        ({"tools": [{**tool(), "cache_control": {"type": "ephemeral"}}]}, "tools"),
        ({"functions": [{}]}, "functions"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [tool()], "tool_choice": tool("g")}, "tool_choice"),
        ({"tools": 1}, "tools"),
        ({"tools": [tool()], "tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
        ({"parallel_tool_calls": False}, "parallel_tool_calls"),
        ({"response_format": {"type": "grammar"}}, "response_format"),
        (shaped(None), "response_format"),
        (shaped({"type": "object", "properties": {"a": {"const": None}}}), "response_format"),
        (shaped({"format": "email"}), "response_format"),
        (shaped({"type": "object", "properties": {"a": {"oneOf": []}}}), "response_format"),
        (shaped({"type": "string", "format": ["date"]}), "response_format"),
        (shaped({"enum": [None]}), "response_format"),
        (shaped({"$ref": "#/$defs/a", "$defs": {"a": SCHEMA}}), "response_format"),
        ({"reasoning_effort": "max"}, "reasoning_effort"),
        ({"verbosity": "low"}, "verbosity"),
        (with_messages({"role": "system", "content": "x"}), "messages[0]"),
        (with_messages(*HELLO, {"role": "system", "content": "x"}, *HELLO), "messages[1]"),
        (with_messages(*HELLO, {"role": "assistant", "content": "x"}), "messages[1]"),
        (with_messages({"role": "function", "name": "f", "content": "x"}, *HELLO), "messages[0]"),
        (with_messages({**HELLO[0], "name": "Ann"}), "messages[0].name"),
        (with_messages({**HELLO[0], "cache_control": {}, "x": 1}), "messages[0].x"),
        (with_messages({"role": "user", "content": ""}), "messages[0].content"),
        (with_messages({"role": "user", "content": 0}), "messages[0].content"),
        (with_messages(RESULT), "messages[0].tool_call_id"),
        (with_messages(*called(CALL), {**RESULT, "tool_call_id": []}), "messages[2].tool_call_id"),
        (with_messages(*called(CALL, OTHER), RESULT, *HELLO), "messages[3]"),
        (with_messages(*called(CALL, OTHER), RESULT), "messages[2]"),
        (with_messages(*called(CALL, CALL), RESULT, RESULT), "messages[1].tool_calls"),
        (with_messages(*called(CALL)[1:], RESULT), "messages[0].tool_calls"),
        (
            with_messages(*called({**CALL, "extra_content": {"google": {}}}), RESULT),
            "messages[1].tool_calls",
        ),
        (
            with_messages(*called(CALL, extra_content={"x": 1}), RESULT),
            "messages[1].extra_content",
        ),
        (with_messages(*called(CALL, thinking_blocks=[{}]), RESULT), "messages[1].thinking_blocks"),
        (with_messages(*called(CALL, reasoning_content=[1]), RESULT),
         "messages[1].reasoning_content"),
        (with_messages(*called(CALL, refusal=[1]), RESULT), "messages[1].refusal"),
        (user({"type": "text", "text": ""}), "messages[0].content[0]"),
        (user({"type": ["text"], "text": "x"}), "messages[0].content[0]"),
        (user({"type": "text", "text": "x", "cache_control": {"type": "x"}}),
         "messages[0].content[0]"),
        (user({"type": "refusal", "refusal": "x"}), "messages[0].content[0]"),
        (user(image("data:image/gif;base64,AA")), "messages[0].content[0]"),
        (user(image("https://a.example/b")), "messages[0].content[0]"),
        (user(image("https://[::1")), "messages[0].content[0]"),
        (user(image("http://a.example/b.png")), "messages[0].content[0]"),
        (user(image("https://a.example/b.png", detail="low")), "messages[0].content[0]"),
        (user({"type": "image_url", "image_url": "https://a.example/b.png"}),
         "messages[0].content[0]"),
        (user({"type": "file", "file": {"file_id": "f"}}), "messages[0].content[0]"),
        (user({"type": "input_audio", "input_audio": {"data": "A", "format": ["wav"]}}),
         "messages[0].content[0]"),
        (with_messages(*called(CALL), {**RESULT, "content": [image("https://a.example/b.png")]}),
         "messages[2].content[0]"),
        (with_messages({"role": "system", "content": [image("data:image/png;base64,A")]}, *HELLO),
         "messages[0].content[0]"),
    ],
    ids=str,
)  # fmt: skip
def test_what_has_no_words_there_is_a_need(changes: Document, field: str) -> None:
    assert field_of(changes) == field


@pytest.mark.parametrize(
    ("changes", "config"),
    [
        ({"temperature": 0, "top_p": 0.5, "top_k": 40, "seed": 3, "n": 2},
         {"temperature": 0, "topP": 0.5, "topK": 40, "seed": 3, "candidateCount": 2}),
        ({"presence_penalty": 0.5, "frequency_penalty": -1},
         {"presencePenalty": 0.5, "frequencyPenalty": -1}),
        ({"max_tokens": 5, "max_completion_tokens": 6}, {"maxOutputTokens": 6}),
        ({"stop": "END"}, {"stopSequences": ["END"]}),
        ({"logprobs": True, "top_logprobs": 2}, {"responseLogprobs": True, "logprobs": 2}),
        ({"reasoning_effort": "none"}, {"thinkingConfig": {"thinkingBudget": 0}}),
        ({"reasoning_effort": "xhigh"},
         {"thinkingConfig": {"thinkingLevel": "XHIGH", "includeThoughts": True}}),
        ({"response_format": {"type": "json_object"}}, {"responseMimeType": "application/json"}),
        (shaped({"$schema": "x", **SCHEMA}, description="about"),
         {"responseMimeType": "application/json",
          "responseJsonSchema": {"title": "n", **SCHEMA, "description": "about"}}),
    ],
    ids=str,
)  # fmt: skip
def test_parameters_have_their_own_names_there(changes: Document, config: Document) -> None:
    assert sent(changes) == {
        "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
        "generationConfig": config,
    }


def test_a_constant_is_an_enum_of_one_value() -> None:
    variants = [{"type": "object", "properties": {"const": {"const": name}}} for name in ("a", "b")]
    schema = {"type": "object", "properties": {"line": {"anyOf": variants}}}
    made = sent({**shaped(schema), "tools": [tool(parameters=schema)]})
    there = made["generationConfig"]["responseJsonSchema"]["properties"]["line"]["anyOf"]
    assert [each["properties"] for each in there] == [
        {"const": {"enum": ["a"]}}, {"const": {"enum": ["b"]}},
    ]  # fmt: skip
    (declared,) = made["tools"][0]["functionDeclarations"]
    assert declared["parametersJsonSchema"]["properties"]["line"]["anyOf"] == there


def test_what_changes_nothing_is_left_out() -> None:
    plain: Document = {
        "temperature": None, "top_k": -1, "min_p": 0, "repetition_penalty": 1.0, "stop": [],
        "tools": [], "tool_choice": "auto", "response_format": {"type": "text"}, "user": "u",
        "verbosity": "medium", "stream_options": {"include_usage": True}, "store": False,
        "prompt_cache_key": "k", "logprobs": False, "top_logprobs": 0, "parallel_tool_calls": True,
        "service_tier": "auto",
    }  # fmt: skip
    assert sent(plain) == sent({})


@pytest.mark.parametrize(
    ("choice", "strict", "calling"),
    [
        (None, False, None),
        (None, True, {"mode": "VALIDATED"}),
        ("auto", True, {"mode": "VALIDATED"}),
        ("auto", False, {"mode": "AUTO"}),
        ("none", True, {"mode": "NONE"}),
        ("required", False, {"mode": "ANY"}),
        ({"type": "function", "function": {"name": "g"}}, False,
         {"mode": "ANY", "allowedFunctionNames": ["g"]}),
    ],
)  # fmt: skip
def test_tools_are_declared_and_chosen(choice: Any, strict: bool, calling: Any) -> None:
    first = tool(description="d", parameters=SCHEMA, strict=strict)
    made = sent({"tools": [first, tool("g")], "tool_choice": choice})
    declared = {"name": "f", "description": "d", "parametersJsonSchema": SCHEMA}
    assert made["tools"] == [{"functionDeclarations": [declared, {"name": "g"}]}]
    assert made.get("toolConfig") == (calling and {"functionCallingConfig": calling})


def test_calls_go_with_their_signatures_and_those_of_others_with_google_s_own() -> None:
    messages = [
        *called({**CALL, **SIGNED}, OTHER, reasoning_content="Hm.", content="One moment."),
        {**RESULT, "tool_call_id": "c2", "content": [{"type": "text", "text": "a"},
                                                      {"type": "text", "text": "b"}]},
        RESULT,
        {"role": "assistant", "content": "Yes.", **SIGNED},
        *called(CALL),
        {**RESULT, "content": None},
    ]  # fmt: skip
    first, thought, results, answer, _, again, last = sent({"messages": messages})["contents"]
    assert first["role"] == results["role"] == last["role"] == "user"
    assert thought == {
        "role": "model",
        "parts": [
            {"text": "Hm.", "thought": True},
            {"text": "One moment."},
            {"functionCall": {"id": "c1", "name": "f", "args": {}}, "thoughtSignature": "c2ln"},
            {"functionCall": {"id": "c2", "name": "g", "args": {"a": [1]}}},
        ],
    }
    assert [part["functionResponse"] for part in results["parts"]] == [
        {"id": "c2", "name": "g", "response": {"output": ["a", "b"]}},
        {"id": "c1", "name": "f", "response": {"output": "fine"}},
    ]
    assert answer["parts"] == [{"text": "Yes.", "thoughtSignature": "c2ln"}]
    assert again["parts"][0]["thoughtSignature"] == UNSIGNED
    assert last["parts"][0]["functionResponse"]["response"] == {"output": ""}


def test_a_later_signature_does_not_stand_for_the_first() -> None:
    messages = [*called(CALL, {**OTHER, **SIGNED}), RESULT, {**RESULT, "tool_call_id": "c2"}]
    parts = sent({"messages": messages})["contents"][1]["parts"]
    assert [part["thoughtSignature"] for part in parts] == [UNSIGNED, "c2ln"]


def test_a_signature_without_a_text_goes_alone() -> None:
    messages = [*HELLO, {"role": "assistant", "content": None, "tool_calls": [CALL], **SIGNED},
                RESULT]  # fmt: skip
    parts = sent({"messages": messages})["contents"][1]["parts"]
    assert parts[0] == {"text": "", "thoughtSignature": "c2ln"}


def test_pictures_sounds_and_files_are_parts() -> None:
    pdf = {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}
    parts = [
        image("data:image/png;base64,AAAA", detail="high"), image("https://a.example/b.JPG?c=d"),
        image("gs://a/b.webp"), {"type": "file", "file": pdf},
        {"type": "input_audio", "input_audio": {"data": "BBBB", "format": "mp3"}},
    ]  # fmt: skip
    assert sent(user(*parts))["contents"][0]["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://a.example/b.JPG?c=d"}},
        {"fileData": {"mimeType": "image/webp", "fileUri": "gs://a/b.webp"}},
        {"text": "a.pdf"},
        {"inlineData": {"mimeType": "application/pdf", "data": "AAAA"}},
        {"inlineData": {"mimeType": "audio/mp3", "data": "BBBB"}},
    ]
    content = [{"type": "text", "text": "see"}, image("data:image/png;base64,AAAA")]
    made = sent({"messages": [*called(CALL), {**RESULT, "content": content}]})
    assert made["contents"][2]["parts"][0]["functionResponse"] == {
        "id": "c1", "name": "f", "response": {"output": "see"},
        "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}],
    }  # fmt: skip


def test_instructions_stand_apart() -> None:
    system = [{"role": "system", "content": "be brief"},
              {"role": "developer", "content": [{"type": "text", "text": "be kind"}]}]  # fmt: skip
    refused = {"role": "assistant", "content": None, "refusal": "No."}
    made = sent({"messages": [*system, *HELLO, refused, *HELLO]})
    assert made["systemInstruction"] == {"parts": [{"text": "be brief"}, {"text": "be kind"}]}
    assert made["contents"][1] == {"role": "model", "parts": [{"text": "No."}]}
