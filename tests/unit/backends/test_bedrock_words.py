"""What of a chat Bedrock's Converse has words for, and which."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.types import (
    CLOUD,
    DocumentCall,
    Endpoint,
    InferenceRequest,
    ServedModel,
    WireProtocol,
)
from gateway.endpoints.connectors.openai.dialects.bedrock.request import request
from gateway.scheduling.routing.needs import lacking
from tests.bedrock_api import problem

Document = dict[str, Any]
CLAUDE, NOVA = "eu.anthropic.claude-sonnet-4-6", "amazon.nova-pro-v1:0"
HELLO: list[Document] = [{"role": "user", "content": "hello"}]
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
CALLED: list[Document] = [*HELLO, {"role": "assistant", "content": None, "tool_calls": [CALL]}]
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "fine"}
TOOL = {"type": "function", "function": {"name": "f"}}
PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
TEXT = {"type": "text", "text": "Look."}
MARK = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
POINT = {"cachePoint": {"type": "default", "ttl": "1h"}}


def file(url: str = "data:application/pdf;base64,AAAA", **more: Any) -> Document:
    return {"type": "file", "file": {"file_data": url, **more}}


def user(*parts: Document) -> Document:
    return {"messages": [{"role": "user", "content": list(parts)}]}


def missing(changes: Document) -> str:
    """The field that keeps a chat from an endpoint; empty: it may go there."""
    served = ServedModel(CLAUDE)
    endpoint = Endpoint("there", CLOUD, "bedrock", {"m": served})
    call = DocumentCall(CHAT, {"model": "m", "messages": HELLO, **changes})
    asked = InferenceRequest("1", WireProtocol.OPENAI, "t", "m", call, Deadline.after(60.0))
    need = lacking(asked, endpoint, served)
    return "" if need is None else need.field


def made(changes: Document, model: str = CLAUDE) -> Document:
    document = {"messages": HELLO, **changes}
    assert missing(document) == ""
    body: Document = json.loads(json.dumps(request(document, model, json.loads)))
    assert problem(body) == ""
    return body


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"seed": 1}, "seed"),
        ({"temperature": 1.5}, "temperature"),
        ({"n": 2}, "n"),
        ({"presence_penalty": 0.1}, "presence_penalty"),
        ({"logit_bias": {"1": 2}}, "logit_bias"),
        ({"logprobs": True}, "logprobs"),
        ({"stop": " "}, "stop"),
        ({"reasoning_effort": "none"}, "reasoning_effort"),
        ({"reasoning_effort": "max"}, "reasoning_effort"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"service_tier": "scale"}, "service_tier"),
        ({"user": "über"}, "user"),
        ({"metadata": {"a": "ü"}}, "metadata"),
        ({"metadata": {f"k{n}": "" for n in range(16)}, "user": "u"}, "metadata"),
        ({"guardrailConfig": {}}, "guardrailConfig"),
        ({"parallel_tool_calls": False, "tools": [TOOL]}, "parallel_tool_calls"),
        ({"tool_choice": "none", "tools": [TOOL]}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [{"type": "function", "function": {"name": "f" * 65}}]}, "tools"),
        ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools"),
        ({"messages": [*CALLED, RESULT]}, "messages[1]"),  # without tools
        ({"messages": [{"role": "assistant", "content": "a"}, *HELLO]}, "messages[0]"),
        ({"messages": [*HELLO, {"role": "assistant", "content": "a"}]}, "messages[1]"),
        ({"messages": [*HELLO, {"role": "system", "content": "a"}, *HELLO]}, "messages[1]"),
        ({"messages": [{"role": "user", "name": "a", "content": "b"}]}, "messages[0].name"),
        ({"messages": [{"role": "user", "content": " "}]}, "messages[0].content"),
        (user({**PNG, "image_url": {"url": "https://a.example/b.png"}}), "messages[0].content[0]"),
        (user({**PNG, "image_url": {"url": "data:image/png;base64,"}}), "messages[0].content[0]"),
        (user(TEXT, file("data:application/zip;base64,AA")), "messages[0].content[1]"),
        (user(TEXT, {"type": "file", "file": {"file_id": "1"}}), "messages[0].content[1]"),
        (user(file()), "messages[0].content"),  # without a text
        (user(TEXT, *[file()] * 6), "messages[0].content"),
        (user(*[PNG] * 21), "messages[0].content"),
        (
            {"tools": [TOOL],
             "messages": [*CALLED, {**RESULT, "content": [{**TEXT, **MARK}, TEXT]}]},
            "messages[2].content",
        ),
        (
            {"messages": [*HELLO, {"role": "assistant", "content": "a", "reasoning_content": "b"},
                          *HELLO]},
            "messages[1].reasoning_content",
        ),
    ],
)  # fmt: skip
def test_what_has_no_words_there_is_a_need_that_the_kind_does_not_offer(
    changes: Document, field: str
) -> None:
    assert missing(changes) == field


def test_sampling_is_said_as_each_family_of_models_takes_it() -> None:
    said = {"temperature": 0.5, "top_p": 1, "top_k": 40, "stop": "x", "max_completion_tokens": 9}
    assert made(said)["inferenceConfig"] == {
        "maxTokens": 9, "temperature": 0.5, "stopSequences": ["x"],
    }  # fmt: skip
    other = made(said, NOVA)
    assert other["inferenceConfig"]["topP"] == 1
    assert other["additionalModelRequestFields"] == {"top_k": 40}
    assert "inferenceConfig" not in made({"top_k": -1, "temperature": None})


@pytest.mark.parametrize(
    "more",
    [
        {"temperature": 0.2},
        {"top_p": 0.2},
        {"tool_choice": "required", "tools": [TOOL]},
    ],
    ids=str,
)
def test_claude_thinks_where_it_may_and_the_effort_is_said_to_all(more: Document) -> None:
    thinking = {"thinking": {"type": "adaptive"}}
    effort = {"reasoning_effort": "high"}
    assert made(effort)["additionalModelRequestFields"] == thinking
    assert made({**effort, **more})["outputConfig"] == {"effort": "high"}
    assert "additionalModelRequestFields" not in made({**effort, **more})
    assert "additionalModelRequestFields" not in made(effort, NOVA)


def test_marks_of_the_cache_stand_behind_what_they_mark() -> None:
    system = {"role": "system", "content": [{**TEXT, **MARK}]}
    result = {**RESULT, "content": [TEXT, {**PNG, **MARK}]}
    body = made(
        {"messages": [system, *CALLED, result, {"role": "user", "content": "So?", **MARK}],
         "tools": [{**TOOL, **MARK}]}
    )  # fmt: skip
    assert body["system"] == [{"text": "Look."}, POINT]
    assert body["toolConfig"]["tools"][1] == POINT
    content = body["messages"][2]["content"]
    assert [next(iter(block)) for block in content] == [
        "toolResult", "cachePoint", "text", "cachePoint",
    ]  # fmt: skip
    assert len(content[0]["toolResult"]["content"]) == 2


def test_documents_have_distinct_names_in_the_letters_that_they_may_have() -> None:
    files = [file(filename="Brief_04 / Müller.pdf"), file(), file(), file(filename="a.pdf")]
    body = made(user(TEXT, *files))
    names = [block["document"]["name"] for block in body["messages"][0]["content"][1:]]
    assert names == ["Brief 04 M ller", "document", "document (2)", "a"]


def test_ids_of_calls_that_may_not_stand_there_go_on_as_digests() -> None:
    odd = {**CALL, "id": "übung " * 40}
    messages = [*HELLO, {"role": "assistant", "content": None, "tool_calls": [odd]},
                {**RESULT, "tool_call_id": odd["id"]}]  # fmt: skip
    use, result = made({"messages": messages, "tools": [TOOL]})["messages"][1:]
    own = use["content"][0]["toolUse"]["toolUseId"]
    assert result["content"][0]["toolResult"]["toolUseId"] == own
    assert own.isascii()


def test_labels_and_tiers_are_said() -> None:
    body = made({"metadata": {"ward": "4"}, "user": "u", "service_tier": "flex", "top_p": 0.5})
    assert body["requestMetadata"] == {"ward": "4", "user": "u"}
    assert body["serviceTier"] == {"type": "flex"}
    assert made({"service_tier": "auto"}) == made({})
