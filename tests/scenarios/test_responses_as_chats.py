"""Callers of Responses, served by endpoints that have chats alone: the openai SDK, unmodified,
through a real gateway, to APIs that take nothing that their schemas have not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.anthropic_api import KEY, AnthropicApi, anthropic_api
from tests.anthropic_api import Reply as ClaudeReply
from tests.anthropic_api import text as claude_text
from tests.anthropic_api import tool_use as claude_call
from tests.chat_only_api import ChatApi, Reply, call, chat_api
from tests.live import LiveGateway, serving, wait_until

Document = dict[str, Any]
HELLO = "Which tram goes to the station?"
EMAIL = "maria.keller@posteo.de"
TOOL: Any = {
    "type": "function", "name": "trams", "strict": True,
    "parameters": {
        "type": "object", "properties": {"stop": {"type": "string"}},
        "required": ["stop"], "additionalProperties": False,
    },
}  # fmt: skip
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "4, 7"}
THOUGHT = {"type": "thinking", "thinking": "Hm, a tram.", "signature": "c2ln" * 50}


class Tram(BaseModel):
    line: int


@dataclass
class Town:
    gateway: LiveGateway
    chats: ChatApi
    claude: AnthropicApi
    client: openai.OpenAI

    def answers(self, content: str | None = "Line four.", **more: Any) -> None:
        """At the endpoint of chats."""
        self.chats.reply = lambda document: Reply(content, **more)

    def claude_answers(self, *content: Document, **more: Any) -> None:
        self.claude.reply = lambda document: ClaudeReply(list(content), **more)

    def create(self, given: Any = HELLO, model: str = "writer", **more: Any) -> Any:
        return self.client.responses.create(model=model, input=given, **more)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    scratch = tmp_path_factory.mktemp("responses")
    with (
        chat_api() as chats,
        anthropic_api() as claude,
        serving(_settings(chats, claude, scratch), scratch) as gateway,
    ):
        url = f"{gateway.http_url.rstrip('/')}/v1"
        with openai.OpenAI(base_url=url, api_key="allowed", max_retries=0) as client:
            yield Town(gateway, chats, claude, client)


@pytest.fixture
def town(started: Town) -> Town:
    started.answers()
    started.claude_answers(claude_text("Line four."))
    for api in (started.chats, started.claude):
        api.requests.clear()
        api.refused.clear()
        api.left.clear()
    return started


def _settings(chats: ChatApi, claude: AnthropicApi, scratch: Path) -> Document:
    (scratch / "claude").write_text(KEY)
    (scratch / "allowed").write_text("allowed")
    provider = scratch / "chats.yaml"
    provider.write_text("title: Chats\noperations: {chat.completions: /chat/completions}\n")
    chat = {"kind": "openai", "zone": "cloud", "url": chats.url, "provider": str(provider),
            "expected_ms": 5}  # fmt: skip
    endpoints = {
        "chats": chat,
        "own": {**chat, "zone": "onprem"},
        **dict.fromkeys(("breaking", "slow"), chat),
        "claude": {
            "kind": "anthropic", "zone": "cloud", "url": claude.url, "expected_ms": 5,
            "api_key": f"${{file:{scratch / 'claude'}}}",
        },
    }  # fmt: skip
    there = {"substitute": True, "price_usd": 0.001}
    model = {"task": "generate", "pseudonymise": True}
    places = {"writer": "chats", "breaking": "breaking", "slow": "slow", "claude": "claude"}
    return {
        "listen": {"http_port": 0, "grpc_port": 0},
        "audit": {"directory": str(scratch / "audit")},
        "endpoints": endpoints,
        "models": {
            **{name: {**model, "served_by": [{**there, "endpoint": endpoint, "model": "m"}]}
               for name, endpoint in places.items()},
            "strict": {"task": "generate", "served_by": [{**there, "endpoint": "chats"}]},
            "either": {
                "task": "generate",
                "served_by": [{**there, "endpoint": "chats"}, {**there, "endpoint": "own"}],
            },
            "poems": {
                "task": "generate", "public": True, "public_reason": "a corpus of poems",
                "served_by": [{**there, "endpoint": "chats"}],
            },
        },
        "routing": {"policy": "static_split"},
        "keys": {
            "allowed": {
                "key": f"${{file:{scratch / 'allowed'}}}", "tenant": "t", "pseudonymise": True,
            }
        },
    }  # fmt: skip


def test_a_response_is_answered_and_recorded_with_its_usage(town: Town) -> None:
    raw = town.client.responses.with_raw_response.create(
        model="writer", input=HELLO, instructions="Be short.", max_output_tokens=9,
        metadata={"a": "b"},
    )  # fmt: skip
    answer = raw.parse()
    assert answer.output_text == "Line four."
    assert (answer.status, answer.object, answer.error) == ("completed", "response", None)
    assert (answer.metadata, answer.instructions) == ({"a": "b"}, "Be short.")
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.total_tokens) == (7, 12)
    assert answer.usage.input_tokens_details.cached_tokens == 3
    assert answer.usage.output_tokens_details.reasoning_tokens == 2
    (sent,) = town.chats.requests
    assert sent == {
        "model": "m", "max_completion_tokens": 9,
        "messages": [
            {"role": "system", "content": "Be short."}, {"role": "user", "content": HELLO}
        ],
    }  # fmt: skip
    record = town.gateway.record(raw.headers["x-request-id"])
    assert (record["total_tokens"], record["operation"]) == (12, "responses")


@pytest.mark.parametrize("model", ["writer", "claude"])
def test_functions_are_called_and_their_outputs_go_back(town: Town, model: str) -> None:
    town.answers("A moment.", calls=[call("trams", stop="Main")], finish="tool_calls")
    town.claude_answers(
        claude_text("A moment."),
        claude_call("trams", "call_1", stop="Main"),
        stop_reason="tool_use",
    )
    answer = town.create(model=model, tools=[TOOL], tool_choice="required")
    assert [item.type for item in answer.output] == ["message", "function_call"]
    assert json.loads(answer.output[1].arguments) == {"stop": "Main"}
    town.answers("Four or seven.")
    town.claude_answers(claude_text("Four or seven."))
    user = {"role": "user", "content": HELLO}
    items = [item.model_dump() for item in answer.output]
    answer = town.create([user, *items, RESULT], model, tools=[TOOL])
    assert answer.output_text == "Four or seven."
    if model == "writer":
        used, given = town.chats.requests[-1]["messages"][1:]
        assert used["tool_calls"][0]["function"]["name"] == "trams"
        assert given == {"role": "tool", "tool_call_id": "call_1", "content": "4, 7"}
    else:
        used, given = town.claude.requests[-1]["messages"][1:]
        assert [block["type"] for block in used["content"]] == ["text", "tool_use"]
        assert given["content"][0]["content"] == "4, 7"
    assert town.chats.refused == town.claude.refused == []


@pytest.mark.parametrize("model", ["writer", "claude"])
def test_a_stream_has_the_events_of_responses_in_their_order(town: Town, model: str) -> None:
    town.answers(
        "A moment.", thoughts="Hm.", calls=[call("trams", stop="Main")], finish="tool_calls"
    )
    town.claude_answers(
        {**THOUGHT, "thinking": "Hm."}, claude_text("A moment."),
        claude_call("trams", "call_1", stop="Main"), stop_reason="tool_use",
    )  # fmt: skip
    with town.client.responses.stream(model=model, input=HELLO, tools=[TOOL]) as stream:
        events = list(stream)
        final = stream.get_final_response()
    kinds = [event.type.removeprefix("response.") for event in events]
    assert [kind for at, kind in enumerate(kinds) if kind != kinds[at - 1]] == [
        "created", "in_progress",
        "output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.done",
        "content_part.done", "output_item.done",
        "output_item.added", "content_part.added", "output_text.delta", "output_text.done",
        "content_part.done", "output_item.done",
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.done",
        "output_item.done", "completed",
    ]  # fmt: skip
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert final.output_text == "A moment."
    reasoning, _, called = final.output
    assert reasoning.type == "reasoning"
    assert reasoning.content is not None
    assert [part.text for part in reasoning.content] == ["Hm."]
    assert called.type == "function_call"
    assert json.loads(called.arguments) == {"stop": "Main"}
    assert final.usage is not None
    assert final.usage.total_tokens == 12


@pytest.mark.parametrize("model", ["writer", "claude"])
def test_an_answer_is_parsed_by_its_schema(town: Town, model: str) -> None:
    town.answers('{"line": 4}')
    town.claude_answers(claude_text('{"line": 4}'))
    answer = town.client.responses.parse(
        model=model, input=HELLO, text_format=Tram, reasoning={"effort": "low"}
    )
    assert answer.output_parsed == Tram(line=4)
    if model == "writer":
        (sent,) = town.chats.requests
        assert sent["response_format"]["json_schema"]["name"] == "Tram"
        assert sent["reasoning_effort"] == "low"


def test_what_was_thought_goes_back_with_its_signature(town: Town) -> None:
    town.claude_answers(
        THOUGHT, {"type": "redacted_thinking", "data": "xx=="},
        claude_call("trams", "call_1", stop="Main"), stop_reason="tool_use",
    )  # fmt: skip
    with town.client.responses.stream(
        model="claude", input=HELLO, tools=[TOOL], reasoning={"effort": "high"}
    ) as stream:
        list(stream)
        items = [item.model_dump() for item in stream.get_final_response().output]
    user = {"role": "user", "content": HELLO}
    town.create([user, *items, RESULT], "claude", tools=[TOOL], reasoning={"effort": "high"})
    content = town.claude.requests[-1]["messages"][1]["content"]
    assert content[:2] == [THOUGHT, {"type": "redacted_thinking", "data": "xx=="}]


@pytest.mark.parametrize("model", ["writer", "claude"])
def test_who_asks_for_a_summary_has_what_was_thought_there(town: Town, model: str) -> None:
    town.answers("Four.", thoughts="Hm, a tram.")
    town.claude_answers(THOUGHT, claude_text("Four."))
    reasoning: Any = {"effort": "low", "summary": "auto"}
    with town.client.responses.stream(model=model, input=HELLO, reasoning=reasoning) as stream:
        pieces = [e.delta for e in stream if e.type == "response.reasoning_summary_text.delta"]
        thought: Any = stream.get_final_response().output[0]
    assert "".join(pieces) == thought.summary[0].text == "Hm, a tram."
    user = {"role": "user", "content": HELLO}
    answer = {"role": "assistant", "content": "Four."}
    town.create([user, thought.model_dump(), answer, user], model, reasoning=reasoning)
    api: Any = town.chats if model == "writer" else town.claude
    assert "Hm, a tram." in json.dumps(api.requests[-1])


def test_what_a_chat_has_no_words_for_is_told_before_anything_is_sent(town: Town) -> None:
    picture = {"type": "input_image", "detail": "auto", "file_id": "file-1"}
    for field, more in (
        ("truncation", {"truncation": "auto"}),
        ("store", {"store": True}),
        ("tools", {"tools": [{"type": "custom", "name": "f"}]}),
        ("reasoning.summary", {"reasoning": {"summary": "concise"}}),
        ("input[0].content[0]", {"given": [{"role": "user", "content": [picture]}]}),
    ):
        with pytest.raises(openai.BadRequestError) as caught:
            town.create(model="poems", **more)
        assert (caught.value.code, caught.value.param) == ("not_offered", field)
    assert not town.chats.requests
    assert not town.chats.refused


def test_pictures_and_files_go_where_calls_are_not_read(town: Town) -> None:
    parts = [
        {"type": "input_text", "text": "What is it?"},
        {"type": "input_image", "detail": "low", "image_url": "data:image/png;base64,AAAA"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"},
    ]
    town.create([{"role": "user", "content": parts}], "poems")
    _, picture, file = town.chats.requests[0]["messages"][0]["content"]
    assert picture["image_url"] == {"url": "data:image/png;base64,AAAA", "detail": "low"}
    assert file["file"]["filename"] == "a.pdf"


@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_that_was_cut_off_is_incomplete(town: Town, streamed: bool) -> None:
    for finish, reason in (("length", "max_output_tokens"), ("content_filter", "content_filter")):
        town.answers("Line", finish=finish)
        answer = town.create(stream=streamed)
        if streamed:
            last = list(answer)[-1]
            assert last.type == "response.incomplete"
            answer = last.response
        assert answer.status == answer.output[0].status == "incomplete"
        assert answer.incomplete_details.reason == reason


def test_a_cut_within_a_stream_reaches_the_caller(town: Town) -> None:
    town.answers(chunks=3)
    stream = town.create(model="breaking", stream=True)
    kinds = [next(stream).type for _ in range(6)]
    assert kinds[-2:] == ["response.output_text.delta"] * 2
    with pytest.raises(openai.APIError):
        next(stream)


def test_a_refusal_of_the_endpoint_is_told_in_openai_s_shape(town: Town) -> None:
    town.answers(status=422)
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        town.create(model="breaking")
    assert "Not now." in caught.value.message


def test_who_leaves_a_stream_ends_it_at_the_endpoint(town: Town) -> None:
    town.answers(chunks=3, held=threading.Event())
    stream = town.create(model="slow", stream=True)
    assert next(stream).type == "response.created"
    stream.close()
    wait_until(town.chats.left.is_set, 10)


IBAN = "DE89 3704 0044 0532 0130 00"
SECRETS: list[Document] = [
    {"given": IBAN},
    {"instructions": IBAN},
    {"given": [{"role": "user", "content": [{"type": "input_text", "text": IBAN}]}]},
    {"given": [{"role": "assistant", "content": [{"type": "refusal", "refusal": IBAN}]}]},
    {"given": [{"type": "function_call", "call_id": "c", "name": "f",
                "arguments": json.dumps({"a": IBAN})}]},
    {"given": [{"type": "function_call", "call_id": IBAN, "name": "f", "arguments": "{}"}]},
    {"given": [{"type": "function_call_output", "call_id": "c", "output": IBAN}]},
    {"given": [{"type": "function_call_output", "call_id": "c",
                "output": [{"type": "input_text", "text": IBAN}]}]},
    {"given": [{"type": "reasoning", "id": "rs_1", "summary": [],
                "content": [{"type": "reasoning_text", "text": IBAN}]}]},
    {"given": [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}]},
    {"tools": [{**TOOL, "description": IBAN}]},
    {"tools": [{**TOOL, "parameters": {"type": "object", "properties": {IBAN: {}}}}]},
    {"text": {"format": {"type": "json_schema", "name": "n",
                         "schema": {"type": "object", "description": IBAN}}}},
    {"metadata": {"a": IBAN}},
    {"user": IBAN},
    {"prompt_cache_key": IBAN},
]  # fmt: skip


@pytest.mark.parametrize("at", range(len(SECRETS)))
def test_restricted_data_stays_wherever_it_stands(town: Town, at: int) -> None:
    with pytest.raises(openai.APIStatusError):
        town.create(**{"model": "strict", "given": "Is it mine?", **SECRETS[at]})
    assert not town.chats.requests
    assert not town.chats.refused


def test_restricted_data_goes_to_a_server_of_chats_on_the_premises(town: Town) -> None:
    raw = town.client.responses.with_raw_response.create(model="either", input=f"Is {IBAN} mine?")
    assert raw.headers["x-spillway-endpoint"] == "own"
    assert raw.parse().output_text == "Line four."
    assert IBAN in json.dumps(town.chats.requests)


@pytest.mark.parametrize("size", [1, 7])
def test_surrogates_are_put_back_wherever_they_are_split(town: Town, size: int) -> None:
    """In texts, in what was thought, in the arguments of functions, and in what is repeated."""

    def repeats(document: Document) -> Reply:
        words = document["messages"][-1]["content"]
        return Reply(words, words, [call("trams", stop=words)], finish="tool_calls", piece=size)

    town.chats.reply = repeats
    words = f"Write to {EMAIL}, and call +49 176 12345678."
    with town.client.responses.stream(
        model="writer", input=words, instructions=f"Ask {EMAIL}.", tools=[TOOL]
    ) as stream:
        pieces = [e.delta for e in stream if e.type == "response.output_text.delta"]
        streamed: Any = stream.get_final_response()
    assert "".join(pieces) == words
    for answer in (streamed, town.create(words, instructions=f"Ask {EMAIL}.", tools=[TOOL])):
        reasoning, message, called = answer.output
        assert reasoning.content[0].text == message.content[0].text == words
        assert json.loads(called.arguments) == {"stop": words}
        assert answer.instructions == f"Ask {EMAIL}."
    assert EMAIL not in json.dumps(town.chats.requests)
    assert "12345678" not in json.dumps(town.chats.requests)
