"""Callers of the Anthropic Messages API: the anthropic SDK, unmodified, through a real gateway, to
endpoints of OpenAI's API and of Anthropic's that take nothing that their schemas have not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anthropic
import pydantic
import pytest

from tests import anthropic_api as claude
from tests import chat_api as gpt
from tests.live import LiveGateway, serving, wait_until

Document = dict[str, Any]
HELLO: Any = [{"role": "user", "content": "Which tram goes to the station?"}]
TRAMS: Any = {
    "name": "trams",
    "description": "Trams at a stop",
    "input_schema": {"type": "object", "properties": {"stop": {"type": "string"}}},
}
THOUGHT = {"type": "thinking", "thinking": "Hm, a tram.", "signature": "c2ln" * 20}
PROVIDERS = ("gpt", "claude")
EMAIL = "maria.keller@posteo.de"


@dataclass
class Line:
    """A gateway with an endpoint of each API."""

    gateway: LiveGateway
    gpt: gpt.ChatApi
    claude: claude.AnthropicApi
    client: anthropic.Anthropic

    def says(self, model: str, text: str) -> None:
        if model == "gpt":
            self.gpt.reply = lambda document: gpt.ChatReply({"content": text})
        else:
            self.claude.reply = lambda document: claude.Reply([claude.text(text)])

    def calls(self, model: str) -> None:
        """The answer is a word and the call of a tool."""
        if model == "gpt":
            message = {"content": "A moment.", "tool_calls": [gpt.function_call("trams", stop="M")]}
            self.gpt.reply = lambda document: gpt.ChatReply(message, "tool_calls")
        else:
            content = [claude.text("A moment."), claude.tool_use("trams", stop="M")]
            self.claude.reply = lambda document: claude.Reply(content, "tool_use")

    def sent(self, model: str) -> list[Document]:
        return self.gpt.requests if model == "gpt" else self.claude.requests

    def create(self, model: str, messages: Any = HELLO, **more: Any) -> Any:
        return self.client.messages.create(
            model=model, messages=messages, **{"max_tokens": 64, **more}
        )

    def streamed(self, model: str, messages: Any = HELLO, **more: Any) -> Any:
        """The message that the SDK puts together from a stream."""
        arguments: Any = {"max_tokens": 64, **more}
        with self.client.messages.stream(model=model, messages=messages, **arguments) as stream:
            return stream.get_final_message()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    scratch = tmp_path_factory.mktemp("messages")
    with (
        gpt.chat_api() as openai,
        claude.anthropic_api() as api,
        serving(_settings(openai, api, scratch), scratch) as gateway,
        anthropic.Anthropic(
            base_url=gateway.http_url.rstrip("/"), api_key="allowed", max_retries=0
        ) as client,
    ):
        yield Line(gateway, openai, api, client)


@pytest.fixture
def line(started: Line) -> Line:
    for api in (started.gpt, started.claude):
        api.requests.clear()
        api.refused.clear()
        api.left.clear()
    for model in PROVIDERS:
        started.says(model, "Line four.")
    return started


def _settings(openai: gpt.ChatApi, api: claude.AnthropicApi, scratch: Path) -> Document:
    for name, value in (("claude", claude.KEY), ("allowed", "allowed")):
        (scratch / name).write_text(value)
    there = {
        "kind": "anthropic", "zone": "cloud", "url": api.url,
        "api_key": f"${{file:{scratch / 'claude'}}}", "expected_ms": 5,
    }  # fmt: skip
    cloud = {"kind": "openai", "zone": "cloud", "url": openai.url, "expected_ms": 5}
    model = {"task": "generate", "pseudonymise": True}
    failing = ("busy", "breaking", "slow")  # whose failures take no other's calls away

    def served(endpoint: str, name: str) -> Document:
        return {
            **model,
            "served_by": [
                {"endpoint": endpoint, "model": name, "substitute": True, "price_usd": 0.001}
            ],
        }

    return {
        "listen": {"http_port": 0, "grpc_port": 0},
        "audit": {"directory": str(scratch / "audit")},
        "endpoints": {"claude": there, "gpt": cloud, **dict.fromkeys(failing, cloud)},
        "models": {
            "gpt": served("gpt", "gpt-test"),
            "claude": served("claude", "claude-test"),
            **{name: served(name, "gpt-test") for name in failing},
            "poems": {
                **served("gpt", "gpt-test"),
                "pseudonymise": False,
                "public": True, "public_reason": "a corpus of poems",
            },
        },
        "routing": {"policy": "static_split", "max_attempts": 1},
        "keys": {
            "allowed": {
                "key": f"${{file:{scratch / 'allowed'}}}", "tenant": "t", "pseudonymise": True,
            }
        },
    }  # fmt: skip


@pytest.mark.parametrize("model", PROVIDERS)
def test_a_message_is_answered_and_recorded_with_its_usage(line: Line, model: str) -> None:
    raw = line.client.messages.with_raw_response.create(
        model=model, messages=HELLO, max_tokens=9, system="Be brief.", stop_sequences=["###"],
        metadata={"user_id": "u"}, extra_body={"temperature": 0.5},
    )  # fmt: skip
    answer = raw.parse()
    (block,) = answer.content
    assert block.type == "text"
    assert block.text == "Line four."
    assert (answer.role, answer.stop_reason) == ("assistant", "end_turn")
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (7, 5)
    assert raw.headers["request-id"] == raw.headers["x-request-id"]
    assert raw.headers["x-spillway-endpoint"] == model
    record = line.gateway.record(raw.headers["x-request-id"])
    assert (record["protocol"], record["total_tokens"]) == ("anthropic", 12)
    (sent,) = line.sent(model)
    assert json.dumps(sent).count("Be brief.") == 1
    assert sent["user" if model == "gpt" else "metadata"]


@pytest.mark.parametrize("model", PROVIDERS)
def test_tools_are_called_and_their_results_go_back(line: Line, model: str) -> None:
    line.calls(model)
    answer = line.create(model, tools=[TRAMS], tool_choice={"type": "any"})
    said, call = answer.content
    assert (answer.stop_reason, said.text) == ("tool_use", "A moment.")
    assert (call.name, call.input) == ("trams", {"stop": "M"})
    line.says(model, "Four or seven.")
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "4, 7", "is_error": True}
    turns = [
        *HELLO,
        {"role": "assistant", "content": answer.content},
        {"role": "user", "content": [result, {"type": "text", "text": "Well?"}]},
    ]
    assert line.create(model, turns, tools=[TRAMS]).content[0].text == "Four or seven."
    sent = line.sent(model)[-1]["messages"]
    assert call.id in json.dumps(sent[1])
    assert "4, 7" in json.dumps(sent[2])
    assert "rror" in json.dumps(sent[2])
    assert "Well?" in json.dumps(sent[-1])


@pytest.mark.parametrize("model", PROVIDERS)
def test_a_stream_comes_event_by_event_with_tool_calls_and_usage(line: Line, model: str) -> None:
    line.calls(model)
    with line.client.messages.stream(
        model=model, messages=HELLO, max_tokens=64, tools=[TRAMS]
    ) as stream:
        events = list(stream)
        final = stream.get_final_message()
    assert [event.text for event in events if event.type == "text"] == ["A m", "ome", "nt."]
    assert [event.type for event in events if "message" in event.type] == [
        "message_start", "message_delta", "message_stop",
    ]  # fmt: skip
    assert final.stop_reason == "tool_use"
    assert final.content[1].type == "tool_use"
    assert final.content[1].input == {"stop": "M"}
    assert (final.usage.input_tokens, final.usage.output_tokens) == (7, 5)


class Tram(pydantic.BaseModel):
    line: int


@pytest.mark.parametrize("model", PROVIDERS)
def test_structured_output(line: Line, model: str) -> None:
    line.says(model, '{"line": 4}')
    answer = line.client.messages.parse(
        model=model, messages=HELLO, max_tokens=64, output_format=Tram
    )
    assert answer.parsed_output == Tram(line=4)
    (sent,) = line.sent(model)
    shape = sent.get("response_format") or sent["output_config"]["format"]
    schema = shape["json_schema"]["schema"] if model == "gpt" else shape["schema"]
    assert schema["properties"].keys() == {"line"}


def test_what_was_thought_goes_back_with_its_signature(line: Line) -> None:
    content = [THOUGHT, claude.tool_use("trams", stop="M")]
    line.claude.reply = lambda document: claude.Reply(content, "tool_use")
    asked: Any = {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}
    message = line.streamed("claude", tools=[TRAMS], **asked)
    assert [block.type for block in message.content] == ["thinking", "tool_use"]
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "4"}
    turns = [
        *HELLO,
        {"role": "assistant", "content": message.content},
        {"role": "user", "content": [result]},
    ]
    line.create("claude", turns, tools=[TRAMS], **asked)
    sent = line.claude.requests[-1]
    assert sent["messages"][1]["content"][0] == THOUGHT
    assert (sent["thinking"], sent["output_config"]) == ({"type": "adaptive"}, {"effort": "low"})


def test_thoughts_of_other_models_are_blocks_without_a_signature(line: Line) -> None:
    message = {"reasoning_content": "Hm.", "content": "Four."}
    line.gpt.reply = lambda document: gpt.ChatReply(message)
    whole = line.create("gpt")
    streamed = line.streamed("gpt")
    for answer in (whole, streamed):
        thought, said = answer.content
        assert (thought.thinking, thought.signature, said.text) == ("Hm.", "", "Four.")
    turns = [*HELLO, {"role": "assistant", "content": whole.content}, *HELLO]
    line.create("gpt", turns)
    assert line.gpt.requests[-1]["messages"][1]["reasoning_content"] == "Hm."


def test_a_picture_and_a_document_go_where_calls_are_not_read(line: Line) -> None:
    content = [
        {"type": "text", "text": "What is it?"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        {
            "type": "document", "title": "a.pdf",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "BBBB"},
        },
    ]  # fmt: skip
    line.create("poems", [{"role": "user", "content": content}])
    picture, document = line.gpt.requests[0]["messages"][0]["content"][1:]
    assert picture["image_url"]["url"] == "data:image/png;base64,AAAA"
    assert document["file"] == {
        "filename": "a.pdf", "file_data": "data:application/pdf;base64,BBBB",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, "thinking"),
        ({"output_config": {"effort": "max"}}, "output_config.effort"),
        ({"messages": [*HELLO, {"role": "assistant", "content": "Line"}]}, "messages[1]"),
    ],
)
def test_what_openai_has_no_words_for_is_refused_before_anything_is_sent(
    line: Line, more: Document, name: str
) -> None:
    with pytest.raises(anthropic.BadRequestError) as caught:
        line.create("gpt", **more)
    assert caught.value.type == "invalid_request_error"
    assert f"{name}: no endpoint" in caught.value.message
    assert not line.gpt.requests
    assert not line.gpt.refused


def test_what_claude_has_no_words_for_is_named_as_its_caller_has_it(line: Line) -> None:
    turns = [*HELLO, {"role": "assistant", "content": "Four."}]
    with pytest.raises(anthropic.BadRequestError, match=r"messages\[1\]: no endpoint"):
        line.create("claude", turns, system="Be brief.")
    with pytest.raises(anthropic.BadRequestError, match="stop_sequences: no endpoint"):
        line.create("claude", stop_sequences=[" "])


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"tools": [{"type": "web_search_20260209", "name": "web_search"}]}, "tools[0].type"),
        ({"extra_body": {"mcp_servers": [{"type": "url", "url": "https://a.example"}]}}, "mcp"),
        ({"extra_body": {"container": "c"}}, "container"),
        ({"extra_headers": {"anthropic-version": "2023-01-01"}}, "anthropic-version"),
    ],
)
def test_what_no_chat_can_say_is_refused_by_its_name(line: Line, more: Any, name: str) -> None:
    for model in PROVIDERS:
        with pytest.raises(anthropic.BadRequestError) as caught:
            line.create(model, **more)
        assert name in caught.value.message
        assert not line.sent(model)


def test_a_beta_asks_for_nothing_by_itself(line: Line) -> None:
    answer = line.client.beta.messages.create(
        model="gpt", messages=HELLO, max_tokens=9, betas=["interleaved-thinking-2025-05-14"]
    )
    assert answer.content[0].type == "text"


def test_what_is_not_offered_is_not_found(line: Line) -> None:
    with pytest.raises(anthropic.NotFoundError) as caught:
        line.client.messages.count_tokens(model="gpt", messages=HELLO)
    assert caught.value.type == "not_found_error"
    with pytest.raises(anthropic.NotFoundError) as caught:
        line.client.messages.batches.list()
    assert caught.value.type == "not_found_error"


@pytest.mark.parametrize("model", PROVIDERS)
def test_why_an_answer_ends(line: Line, model: str) -> None:
    if model == "gpt":
        more = {"stop_reason": "###"}
        line.gpt.reply = lambda document: gpt.ChatReply({"content": "Four"}, choice=more)
    else:
        line.claude.reply = lambda document: claude.Reply(
            [claude.text("Four")], "stop_sequence", stop_sequence="###"
        )
    whole = line.create(model, stop_sequences=["###"])
    streamed = line.streamed(model, stop_sequences=["###"])
    for answer in (whole, streamed):
        assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "###")


def test_a_refusal_of_the_model_says_why(line: Line) -> None:
    message = {"content": None, "refusal": "I cannot."}
    line.gpt.reply = lambda document: gpt.ChatReply(message)
    whole = line.create("gpt")
    streamed = line.streamed("gpt")
    for answer in (whole, streamed):
        assert answer.stop_reason == "refusal"
        assert answer.stop_details.explanation == "I cannot."


def test_failures_are_told_in_anthropic_s_shape(line: Line) -> None:
    with pytest.raises(anthropic.NotFoundError) as unknown:
        line.create("nobody")
    assert unknown.value.type == "not_found_error"
    with pytest.raises(anthropic.AuthenticationError) as caught:
        line.client.with_options(api_key="wrong").messages.create(
            model="gpt", messages=HELLO, max_tokens=9
        )
    assert caught.value.type == "authentication_error"
    assert caught.value.request_id
    line.gpt.reply = lambda document: gpt.ChatReply(status=400, error="invalid_request_error")
    with pytest.raises(anthropic.BadRequestError, match="Not now"):
        line.create("gpt")


def test_the_sdk_tries_again_when_it_is_told_to(line: Line) -> None:
    replies = iter([gpt.ChatReply(status=429, headers={"retry-after": "0"}), gpt.ChatReply()])
    line.gpt.reply = lambda document: next(replies)
    client = line.client.with_options(max_retries=1)
    answer = client.messages.create(model="busy", messages=HELLO, max_tokens=9)
    assert answer.content[0].type == "text"
    assert len(line.gpt.requests) == 2


@pytest.mark.parametrize("error", ["server_error", ""])
def test_an_error_within_a_stream_reaches_the_caller(line: Line, error: str) -> None:
    reply = gpt.ChatReply({"content": "Line four."}, chunks=3, error=error)
    line.gpt.reply = lambda document: reply
    texts: list[str] = []
    with (
        pytest.raises(anthropic.APIStatusError) as caught,
        line.client.messages.stream(model="breaking", messages=HELLO, max_tokens=9) as stream,
    ):
        texts.extend(stream.text_stream)
    assert caught.value.type == "api_error"


def test_who_leaves_a_stream_ends_it_at_the_endpoint(line: Line) -> None:
    line.gpt.reply = lambda document: gpt.ChatReply(
        {"content": "Line four."}, chunks=3, held=threading.Event()
    )
    with line.client.messages.stream(model="slow", messages=HELLO, max_tokens=9) as stream:
        next(iter(stream.text_stream))
    wait_until(line.gpt.left.is_set, 10)


@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("model", PROVIDERS)
def test_surrogates_are_put_back_wherever_they_are_split(line: Line, model: str, size: int) -> None:
    def repeats(document: Document) -> Any:
        words = document["messages"][-1]["content"]
        if model == "gpt":
            call = gpt.function_call("trams", stop=words)
            return gpt.ChatReply({"content": words, "tool_calls": [call]}, piece=size)
        content = [claude.text(words), claude.tool_use("trams", stop=words)]
        return claude.Reply(content, "tool_use", piece=size)

    line.gpt.reply = line.claude.reply = repeats
    words = f"Write to {EMAIL}, and call +49 176 12345678"
    turns: Any = [{"role": "user", "content": words}]
    whole = line.create(model, turns, tools=[TRAMS])
    streamed = line.streamed(model, turns, tools=[TRAMS])
    for answer in (whole, streamed):
        assert [block.type for block in answer.content] == ["text", "tool_use"]
        assert answer.content[0].text == words
        assert answer.content[1].input == {"stop": words}
    assert len(line.sent(model)) == 2
    assert EMAIL not in json.dumps(line.sent(model))


def test_explain_reads_a_message_as_its_front_does(line: Line) -> None:
    described = {
        "path": "/v1/messages",
        "headers": {"x-api-key": "allowed"},
        "body": {"model": "gpt", "max_tokens": 9, "messages": HELLO},
    }
    answer = line.gateway.client.post(
        "/spillway/explain", json=described, headers={"x-api-key": "allowed"}
    ).json()
    assert answer["decision"]["attempts"] == ["gpt"]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (
            "gpt",
            "front=messages; provider=chat; renamed=max_tokens>max_completion_tokens,"
            "metadata.user_id>user,system>messages; omitted=cache_control,anthropic-beta",
        ),
        ("claude", "front=messages; provider=messages; renamed=; omitted=anthropic-beta"),
    ],
)
def test_what_was_translated_is_reported_on_request(line: Line, model: str, expected: str) -> None:
    marked: Any = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    asked: Any = {
        "model": model, "messages": HELLO, "max_tokens": 9, "system": marked,
        "metadata": {"user_id": "u"}, "extra_headers": {"anthropic-beta": "a"},
    }  # fmt: skip
    create = line.client.messages.with_raw_response.create
    assert "x-spillway-translation" not in create(**asked).headers
    asked["extra_headers"]["x-spillway-translation"] = "report"
    assert create(**asked).headers["x-spillway-translation"] == expected


def test_what_became_of_a_chat_is_reported_on_request(line: Line) -> None:
    chat = {
        "model": "claude", "messages": [{"role": "system", "content": "Be brief."}, *HELLO],
        "stop": "#", "max_completion_tokens": 9,
    }  # fmt: skip
    headers = {"x-api-key": "allowed", "x-spillway-translation": "report"}
    answer = line.gateway.client.post("/v1/chat/completions", json=chat, headers=headers)
    assert answer.headers["x-spillway-translation"] == (
        "front=chat; provider=messages; renamed=stop>stop_sequences,"
        "max_completion_tokens>max_tokens,messages>system; omitted="
    )
    headers["x-spillway-translation"] = "yes"
    refused = line.gateway.client.post("/v1/chat/completions", json=chat, headers=headers)
    assert refused.status_code == 400
