"""What a chat is in Cohere's Chat API, field by field, and what it cannot be there."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.operations.dialects.cohere import needs
from gateway.core.types import ServedModel
from gateway.endpoints.connectors.openai.dialects.cohere.request import request
from tests.cohere_api import problem

Document = dict[str, Any]
HELLO: list[Document] = [{"role": "user", "content": "hello"}]
CALL: Document = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}
RESULT: Document = {"role": "tool", "tool_call_id": "c1", "content": "fine"}
SCHEMA: Document = {
    "type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}, "required": ["a"],
    "additionalProperties": False,
}  # fmt: skip
PNG: Document = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def field_of(changes: Document) -> str:
    """That keeps a chat from the API; empty: it may go there."""
    need = next(iter(needs({"messages": HELLO, **changes})), None)
    return need.field if need else ""


def sent(changes: Document) -> Document:
    """What goes out, which the API takes."""
    assert field_of(changes) == ""
    made = request({"messages": HELLO, **changes}, ServedModel("command"), False)
    assert problem(made) == ""
    return made


def tool(name: str = "f", **function: Any) -> Document:
    return {"type": "function", "function": {"name": name, **function}}


def shaped(schema: Any) -> Document:
    return {"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}


def with_messages(*messages: Document) -> Document:
    return {"messages": list(messages)}


def called(**more: Any) -> list[Document]:
    return [*HELLO, {"role": "assistant", "content": None, "tool_calls": [CALL], **more}]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"temperature": -1}, "temperature"),
        ({"top_p": 1}, "top_p"),
        ({"top_k": 501}, "top_k"),
        ({"min_p": 0.1}, "min_p"),
        ({"presence_penalty": -0.5}, "presence_penalty"),
        ({"frequency_penalty": 1.5}, "frequency_penalty"),
        ({"repetition_penalty": 1.1}, "repetition_penalty"),
        ({"stop": ["a"] * 6}, "stop"),
        ({"n": 2}, "n"),
        ({"store": True}, "store"),
        ({"service_tier": "priority"}, "service_tier"),
        ({"tools": [tool(strict=True, parameters=SCHEMA), tool("g")]}, "tools"),
        ({"tools": [tool(strict=True)]}, "tools"),
        ({"tools": [{**tool(), "cache_control": {"type": "ephemeral"}}]}, "tools"),
        ({"tools": [tool("")]}, "tools"),
        ({"tools": [tool()], "tool_choice": tool("g")}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [tool()], "tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
        ({"tools": [tool()], "response_format": {"type": "json_object"}}, "response_format"),
        ({"parallel_tool_calls": False}, "parallel_tool_calls"),
        (shaped({**SCHEMA, "required": []}), "response_format"),
        (shaped({**SCHEMA, "minProperties": 1}), "response_format"),
        (shaped({**SCHEMA, "additionalProperties": True}), "response_format"),
        (shaped({**SCHEMA, "format": ["date"]}), "response_format"),
        (shaped(None), "response_format"),
        ({"reasoning_effort": "low"}, "reasoning_effort"),
        (with_messages({"role": "system", "content": "x"}), "messages[0]"),
        (with_messages(*HELLO, {"role": "system", "content": "x"}, *HELLO), "messages[1]"),
        (with_messages(*HELLO, {"role": "assistant", "content": "x"}), "messages[1]"),
        (with_messages({"role": "function", "content": "x"}, *HELLO), "messages[0]"),
        (with_messages({**HELLO[0], "name": "Ann"}), "messages[0].name"),
        (with_messages({"role": "user", "content": ""}), "messages[0].content"),
        (with_messages(RESULT), "messages[0].tool_call_id"),
        (with_messages(*called(), {**RESULT, "tool_call_id": []}), "messages[2].tool_call_id"),
        (with_messages(*called(), {**RESULT, "content": [PNG]}), "messages[2].content[0]"),
        (with_messages(*called(extra_content={"x": 1}), RESULT), "messages[1].extra_content"),
        (with_messages(*called(tool_calls=[{**CALL, "id": ""}]), RESULT), "messages[1].tool_calls"),
        (with_messages(*called(refusal=1), RESULT), "messages[1].refusal"),
        (with_messages({"role": "user", "content": [{"type": ["text"], "text": "x"}]}),
         "messages[0].content[0]"),
        (with_messages({"role": "user", "content": [{"type": "file", "file": {}}]}),
         "messages[0].content[0]"),
        (with_messages({"role": "user", "content": [{**PNG, "image_url": {"url": "http://a"}}]}),
         "messages[0].content[0]"),
        (with_messages({"role": "user", "content": [{**PNG, "cache_control": {"a": 1}}]}),
         "messages[0].content[0]"),
    ],
    ids=str,
)  # fmt: skip
def test_what_has_no_words_there_is_a_need(changes: Document, field: str) -> None:
    assert field_of(changes) == field


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({}, {}),
        ({"temperature": 0, "top_p": 0.5, "top_k": 40, "seed": 3},
         {"temperature": 0, "p": 0.5, "k": 40, "seed": 3}),
        ({"top_k": -1}, {"k": 0}),
        ({"max_tokens": 5, "stop": "END"}, {"max_tokens": 5, "stop_sequences": ["END"]}),
        ({"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}),
        ({"reasoning_effort": "high"}, {"thinking": {"type": "enabled"}}),
        ({"response_format": {"type": "json_object"}},
         {"response_format": {"type": "json_object"}}),
        (shaped({"$schema": "x", **SCHEMA}),
         {"response_format": {"type": "json_object", "json_schema": SCHEMA}}),
        ({"user": "u", "store": False, "n": 1, "verbosity": "medium", "tools": []}, {}),
    ],
    ids=str,
)  # fmt: skip
def test_parameters_have_their_own_names_there(changes: Document, fields: Document) -> None:
    usual = {"model": "command", "messages": HELLO, "stream": False}
    assert sent(changes) == usual | fields


@pytest.mark.parametrize(
    ("choice", "names", "said"),
    [
        (None, ["f", "g"], None),
        ("auto", ["f", "g"], None),
        ("none", ["f", "g"], "NONE"),
        ("required", ["f", "g"], "REQUIRED"),
        ({"type": "function", "function": {"name": "g"}}, ["g"], "REQUIRED"),
    ],
)
def test_a_forced_function_is_the_only_one_on_offer(
    choice: Any, names: list[str], said: str | None
) -> None:
    made = sent({"tools": [tool(description="d"), tool("g")], "tool_choice": choice})
    assert [each["function"]["name"] for each in made["tools"]] == names
    assert made.get("tool_choice") == said
    assert "strict_tools" not in made


def test_functions_are_held_to_their_schemas_all_together() -> None:
    tools = [tool(strict=True, parameters=SCHEMA), tool("g", strict=True, parameters=SCHEMA)]
    made = sent({"tools": tools})
    assert made["strict_tools"] is True
    assert made["tools"][1] == {"type": "function", "function": {"name": "g", "parameters": SCHEMA}}


def test_a_conversation_has_its_turns_there() -> None:
    texts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    messages = [
        {"role": "developer", "content": "be brief"},
        *called(content=texts, reasoning_content="Hm."),
        {**RESULT, "content": None},
        {"role": "assistant", "content": "Yes.", "reasoning_content": "Ah.", "refusal": "No."},
        {"role": "user", "content": [texts[0], PNG]},
    ]
    made = sent({"messages": messages})
    assert made["citation_options"] == {"mode": "OFF"}
    system, hello, calls, result, answer, user = made["messages"]
    assert (system, hello) == ({"role": "system", "content": "be brief"}, HELLO[0])
    assert calls == {
        "role": "assistant", "tool_plan": "ab",
        "content": [{"type": "thinking", "thinking": "Hm."}],
        "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "{}"}}],
    }  # fmt: skip
    assert result == {"role": "tool", "tool_call_id": "c1", "content": ""}
    assert answer["content"] == [
        {"type": "thinking", "thinking": "Ah."}, {"type": "text", "text": "Yes."},
        {"type": "text", "text": "No."},
    ]  # fmt: skip
    assert user == messages[-1]
