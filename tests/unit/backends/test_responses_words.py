"""What a Responses call is at endpoints of chats alone, feature by feature: it passes, as their
APIs take it, or the field that keeps it away is told before anything is sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.core.deadline import Deadline
from gateway.core.operations.dialects.responses import AS_CHAT
from gateway.core.operations.responses import RESPONSES
from gateway.core.types import (
    CLOUD,
    DocumentCall,
    Endpoint,
    InferenceRequest,
    ServedModel,
    WireProtocol,
)
from gateway.endpoints.connectors.openai.dialects.anthropic.request import request as as_message
from gateway.scheduling.routing.fit import speaks
from gateway.scheduling.routing.needs import lacking
from tests import anthropic_api, chat_only_api

Document = dict[str, Any]
CHATS_ALONE = frozenset({"chat.completions"})
USER = {"role": "user", "content": "hello"}
CALL = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": '{"a": 1}'}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "fine"}
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
SHAPE = {"type": "json_schema", "name": "n", "schema": SCHEMA}
PNG = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AAAA"}
PDF = {"type": "input_file", "file_data": "data:application/pdf;base64,AA", "filename": "a.pdf"}
SOUND = {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}
SIGNED = "thinking:c2ln"


def user(*parts: Document) -> Document:
    return {"input": [{"role": "user", "content": list(parts)}]}


def items(*items: Document) -> Document:
    return {"input": [USER, *items, USER]}


def spoken(*parts: Document, **more: Any) -> Document:
    return {"type": "message", "role": "assistant", "content": list(parts), **more}


def thought(text: str = "", encrypted: str | None = None, **more: Any) -> Document:
    content = [{"type": "reasoning_text", "text": text}] if text else []
    item = {"type": "reasoning", "id": "rs_68af", "summary": [], "content": content}
    return item | {"encrypted_content": encrypted} | more


def offered(*tools: Document, **more: Any) -> Document:
    return {"tools": list(tools), **more}


FEATURES: dict[str, tuple[Document, str, str]] = {
    "a text": ({"input": "hello"}, "", ""),
    "instructions": ({"instructions": "Be short."}, "", ""),
    "messages of all roles": (
        {
            "input": [
                {"role": "developer", "content": "a"},
                USER,
                spoken(
                    {"type": "output_text", "text": "b", "annotations": [], "logprobs": []},
                    id="msg_1",
                    status="completed",
                ),
                USER,
            ]
        },
        "",
        "",
    ),
    "texts in parts": (user(*[{"type": "input_text", "text": t} for t in "ab"]), "", ""),
    "a refusal that comes back": (items(spoken({"type": "refusal", "refusal": "No."})), "", ""),
    "a picture": (user(PNG), "", ""),
    "a picture in detail": (user({**PNG, "detail": "low"}), "", "input[0]"),
    "a picture as it is": (
        user({**PNG, "detail": "original"}),
        "input[0].content[0]",
        "input[0].content[0]",
    ),
    "a picture that is stored": (
        user({"type": "input_image", "file_id": "file-1"}),
        "input[0].content[0]",
        "input[0].content[0]",
    ),
    "a file": (user(PDF), "", ""),
    "a file elsewhere": (
        user({"type": "input_file", "file_url": "https://a.example/a.pdf"}),
        "input[0].content[0]",
        "input[0].content[0]",
    ),
    "sound": (user(SOUND), "", "input[0]"),
    "a call and its output": (items(CALL, OUTPUT), "", ""),
    "calls at once": (
        items(CALL, {**CALL, "call_id": "call_2"}, OUTPUT, {**OUTPUT, "call_id": "call_2"}),
        "",
        "",
    ),
    "an output behind what the user says": (items(CALL, USER, OUTPUT), "input[2]", "input[2]"),
    "an output of no call": (items(OUTPUT), "input[1]", "input[1]"),
    "a text between a call and its output": (
        items(CALL, spoken({"type": "output_text", "text": "a"}), OUTPUT),
        "",
        "",
    ),
    "a call in a namespace": (items({**CALL, "namespace": "crm"}, OUTPUT), "input[1]", "input[1]"),
    "a call by a program": (
        items({**CALL, "caller": {"type": "program", "caller_id": "c"}}, OUTPUT),
        "input[1]",
        "input[1]",
    ),
    "a picture from a tool": (items(CALL, {**OUTPUT, "output": [PNG]}), "input[2]", ""),
    "texts from a tool": (
        items(CALL, {**OUTPUT, "output": [{"type": "input_text", "text": "a"}]}),
        "",
        "",
    ),
    "a thought": (
        items(thought("Hm."), spoken({"type": "output_text", "text": "b"})),
        "",
        "input[1]",
    ),
    "a thought that its endpoint has signed": (
        items(thought("Hm.", SIGNED), spoken({"type": "output_text", "text": "b"})),
        "input[1]",
        "",
    ),
    "a thought that another has encrypted": (items(thought("", "gAAA")), "input[1]", "input[1]"),
    "a thought that is kept elsewhere": (items(thought()), "input[1]", "input[1]"),
    "a summary": (
        items(thought(summary=[{"type": "summary_text", "text": "a"}])),
        "input[1]",
        "input[1]",
    ),
    "a summary that a chat's thought was told as": (
        items(
            thought(
                "", SIGNED, summary=[{"type": "summary_text", "text": "a"}], id=f"rs_{'a' * 32}_0"
            ),
            spoken({"type": "output_text", "text": "b"}),
        ),
        "input[1]",
        "",
    ),
    "a reference": (items({"type": "item_reference", "id": "msg_1"}), "input[1]", "input[1]"),
    "a reference without a type": (items({"id": "msg_1"}), "input[1]", "input[1]"),
    "a call of a hosted tool": (
        items({"type": "web_search_call", "id": "ws_1", "status": "completed"}),
        "input[1]",
        "input[1]",
    ),
    "the phase of a message": (items(spoken(phase="commentary")), "input[1]", "input[1]"),
    "a function": (offered({**TOOL, "description": "d"}), "", ""),
    "a strict function": (offered({**TOOL, "strict": True, "parameters": SCHEMA}), "", ""),
    "a function that is found later": (offered({**TOOL, "defer_loading": True}), "tools", "tools"),
    "a custom tool": (offered({"type": "custom", "name": "f"}), "tools", "tools"),
    "a hosted tool": (offered({"type": "web_search"}), "tools", "tools"),
    "a forced function": (
        offered(TOOL, tool_choice={"type": "function", "name": "f"}),
        "",
        "",
    ),
    "any function": (offered(TOOL, tool_choice="required"), "", ""),
    "no function": (offered(TOOL, tool_choice="none"), "", ""),
    "some of the functions": (
        offered(TOOL, tool_choice={"type": "allowed_tools", "mode": "auto", "tools": []}),
        "tool_choice",
        "tool_choice",
    ),
    "one call at a time": (offered(TOOL, parallel_tool_calls=False), "", ""),
    "at most so many calls of hosted tools": ({"max_tool_calls": 3}, "", ""),
    "an answer by a schema": ({"text": {"format": SHAPE}}, "", ""),
    "an answer in any JSON": ({"text": {"format": {"type": "json_object"}}}, "", "text.format"),
    "an answer by a grammar": (
        {"text": {"format": {"type": "grammar"}}},
        "text.format",
        "text.format",
    ),
    "few words": ({"text": {"verbosity": "low"}}, "", "text.verbosity"),
    "an effort": ({"reasoning": {"effort": "low"}}, "", ""),
    "the least effort": ({"reasoning": {"effort": "minimal"}}, "", "reasoning.effort"),
    "a summary of what is thought": ({"reasoning": {"effort": "low", "summary": "auto"}}, "", ""),
    "a short summary": (
        {"reasoning": {"summary": "concise"}},
        "reasoning.summary",
        "reasoning.summary",
    ),
    "a limit": ({"max_output_tokens": 9}, "", ""),
    "a temperature": ({"temperature": 0.5}, "", ""),
    "a nucleus": ({"top_p": 0.5}, "", ""),
    "both": ({"temperature": 0.5, "top_p": 0.5}, "", "top_p"),
    "much heat": ({"temperature": 1.5}, "", "temperature"),
    "probabilities": ({"top_logprobs": 2}, "top_logprobs", "top_logprobs"),
    "their texts": ({"include": ["message.output_text.logprobs"]}, "include", "include"),
    "what is encrypted": ({"include": ["reasoning.encrypted_content"]}, "", ""),
    "metadata": ({"metadata": {"a": "b"}}, "", ""),
    "a user": ({"user": "u", "safety_identifier": "s"}, "", ""),
    "no store": ({"store": False}, "", ""),
    "a store": ({"store": True}, "store", "store"),
    "an earlier response": (
        {"previous_response_id": "resp_1"},
        "previous_response_id",
        "previous_response_id",
    ),
    "a conversation": ({"conversation": "conv_1"}, "conversation", "conversation"),
    "a stored prompt": ({"prompt": {"id": "pmpt_1"}}, "prompt", "prompt"),
    "nothing but a stored prompt": (
        {"prompt": {"id": "pmpt_1"}, "input": None},
        "prompt",
        "prompt",
    ),
    "truncation": ({"truncation": "auto"}, "truncation", "truncation"),
    "no truncation": ({"truncation": "disabled"}, "", ""),
    "no obfuscation": ({"stream": True, "stream_options": {"include_obfuscation": False}}, "", ""),
    "obfuscation": (
        {"stream_options": {"include_obfuscation": True}},
        "stream_options",
        "stream_options",
    ),
    "compaction": (
        {"context_management": [{"type": "compaction"}]},
        "context_management",
        "context_management",
    ),
    "a tier": ({"service_tier": "default"}, "", ""),
    "nothing": ({"input": []}, "input", "input"),
    "what a caller has left out": (
        {"temperature": None, "tools": None, "text": None, "reasoning": None},
        "",
        "",
    ),
    "a field that nobody knows": ({"guided_regex": "a"}, "guided_regex", "guided_regex"),
}
"""The call, and what keeps it from an endpoint of chats and from Claude; empty: nothing."""


def missing(body: Document, kind: str) -> str:
    """The field that keeps a call from an endpoint; empty: it may go there."""
    served = ServedModel("m")
    endpoint = Endpoint("there", CLOUD, kind, {"m": served}, CHATS_ALONE)
    call = DocumentCall(RESPONSES, body)
    request = InferenceRequest("1", WireProtocol.OPENAI, "t", "m", call, Deadline.after(60.0))
    assert speaks(request, endpoint)
    need = lacking(request, endpoint, served)
    return "" if need is None else need.field


@pytest.mark.parametrize("feature", FEATURES)
def test_each_feature_passes_or_is_told(feature: str) -> None:
    more, for_chats, for_claude = FEATURES[feature]
    body = {"model": "m", "input": [USER], **more}
    RESPONSES.check(body)
    assert missing(body, "openai") == for_chats
    assert missing(body, "anthropic") == for_claude
    if not for_chats:
        assert chat_only_api.problem(AS_CHAT.document(body)) == ""
    if not for_claude:
        made = as_message(AS_CHAT.document(body), ServedModel("m"), False, json.loads)
        assert anthropic_api.problem(made) == ""


def test_an_endpoint_that_has_responses_takes_them_as_they_are() -> None:
    served = ServedModel("m")
    for operations in (None, CHATS_ALONE | {"responses"}):
        endpoint = Endpoint("there", CLOUD, "openai", {"m": served}, operations)
        call = DocumentCall(RESPONSES, {"model": "m", "input": "hello", "store": True})
        request = InferenceRequest("1", WireProtocol.OPENAI, "t", "m", call, Deadline.after(60.0))
        assert lacking(request, endpoint, served) is None


def test_what_a_provider_of_chats_lacks_or_refuses_is_told_by_the_field_of_the_call() -> None:
    body = {"model": "m", "input": "hello", "reasoning": {"effort": "low"}}
    lacks = ServedModel("m", lacks=frozenset({"reasoning"}))
    refuses = ServedModel("m", refuses={"reasoning_effort": ("none",)})
    for served in (lacks, refuses):
        endpoint = Endpoint("there", CLOUD, "openai", {"m": served}, CHATS_ALONE)
        call = DocumentCall(RESPONSES, body)
        request = InferenceRequest("1", WireProtocol.OPENAI, "t", "m", call, Deadline.after(60.0))
        need = lacking(request, endpoint, served)
        assert need is not None
        assert need.field == "reasoning.effort"
