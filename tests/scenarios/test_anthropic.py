"""Callers of OpenAI's API, served by an endpoint of kind anthropic: the openai SDK, unmodified,
through a real gateway, to an API that takes nothing that its schema has not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.anthropic_api import KEY, AnthropicApi, Reply, anthropic_api, text, tool_use
from tests.live import LiveGateway, serving, wait_until
from tests.scenarios.repeating_cloud import RepeatingCloud, repeating_cloud

Document = dict[str, Any]
HELLO: Any = [{"role": "user", "content": "Which tram goes to the station?"}]
EMAIL = "maria.keller@posteo.de"
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "trams",
        "parameters": {"type": "object", "properties": {"stop": {"type": "string"}}},
    },
}


@dataclass
class House:
    gateway: LiveGateway
    api: AnthropicApi
    own: RepeatingCloud
    client: openai.OpenAI

    def answers(self, *content: Document, **more: Any) -> None:
        self.api.reply = lambda document: Reply(list(content), **more)

    def chat(self, model: str = "writer", messages: Any = HELLO, **more: Any) -> Any:
        return self.client.chat.completions.create(model=model, messages=messages, **more)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    scratch = tmp_path_factory.mktemp("anthropic")
    with (
        anthropic_api() as api,
        repeating_cloud() as own,
        serving(_settings(api, own, scratch), scratch) as gateway,
    ):
        url = f"{gateway.http_url.rstrip('/')}/v1"
        with openai.OpenAI(base_url=url, api_key="allowed", max_retries=0) as client:
            yield House(gateway, api, own, client)


@pytest.fixture
def house(started: House) -> House:
    started.answers(text("Line four."))
    started.api.requests.clear()
    started.api.refused.clear()
    started.api.left.clear()
    started.own.bodies.clear()
    return started


def _settings(api: AnthropicApi, own: RepeatingCloud, scratch: Path) -> Document:
    for name, value in (("claude", KEY), ("allowed", "allowed")):
        (scratch / name).write_text(value)
    claude = {
        "kind": "anthropic", "zone": "cloud", "url": api.url,
        "api_key": f"${{file:{scratch / 'claude'}}}", "expected_ms": 5,
    }  # fmt: skip
    there = {"endpoint": "claude", "model": "claude-test", "substitute": True, "price_usd": 0.001}
    own_place = {"endpoint": "own", "substitute": True, "price_usd": 5.0}
    model = {"task": "generate", "pseudonymise": True}
    failing = ("refusing", "busy", "breaking", "slow")  # whose failures take no other's calls away
    return {
        "listen": {"http_port": 0, "grpc_port": 0},
        "audit": {"directory": str(scratch / "audit")},
        "endpoints": {
            "claude": claude,
            **dict.fromkeys(failing, claude),
            "own": {"kind": "openai", "zone": "onprem", "url": own.url, "expected_ms": 5},
        },
        "models": {
            "writer": {**model, "served_by": [there]},
            **{name: {**model, "served_by": [{**there, "endpoint": name}]} for name in failing},
            "busy": {**model, "served_by": [own_place, {**there, "endpoint": "busy"}]},
            "either": {**model, "served_by": [own_place, there]},
            "poems": {
                "task": "generate", "served_by": [there],
                "public": True, "public_reason": "a corpus of poems",
            },
        },
        "routing": {"policy": "static_split"},
        "keys": {
            "allowed": {
                "key": f"${{file:{scratch / 'allowed'}}}", "tenant": "t", "pseudonymise": True,
            }
        },
    }  # fmt: skip


def test_a_chat_is_answered_and_recorded_with_its_usage(house: House) -> None:
    raw = house.client.chat.completions.with_raw_response.create(
        model="writer", messages=HELLO, max_tokens=9
    )
    answer = raw.parse()
    assert answer.choices[0].message.content == "Line four."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (7, 12)
    assert raw.headers["x-spillway-endpoint"] == "claude"
    (sent,) = house.api.requests
    assert sent == {"model": "claude-test", "max_tokens": 9, "messages": HELLO}
    record = house.gateway.record(raw.headers["x-request-id"])
    assert record["total_tokens"] == 12


def test_tools_are_called_and_their_results_go_back(house: House) -> None:
    house.answers(text("A moment."), tool_use("trams", stop="Main"), stop_reason="tool_use")
    answer = house.chat(tools=[TOOL], tool_choice="required")
    (choice,) = answer.choices
    (call,) = choice.message.tool_calls
    assert choice.finish_reason == "tool_calls"
    assert (call.function.name, json.loads(call.function.arguments)) == ("trams", {"stop": "Main"})
    result = {"role": "tool", "tool_call_id": call.id, "content": "4, 7"}
    house.answers(text("Four or seven."))
    answer = house.chat(messages=[*HELLO, choice.message, result], tools=[TOOL])
    assert answer.choices[0].message.content == "Four or seven."
    used, given = house.api.requests[-1]["messages"][1:]
    assert [block["type"] for block in used["content"]] == ["text", "tool_use"]
    assert given["content"][0]["content"] == "4, 7"


def test_a_stream_comes_event_by_event_with_tool_calls_and_usage(house: House) -> None:
    house.answers(text("A moment."), tool_use("trams", stop="Main"), stop_reason="tool_use")
    options: Any = {"include_usage": True}
    with house.client.chat.completions.stream(
        model="writer", messages=HELLO, tools=[TOOL], stream_options=options
    ) as stream:
        pieces = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert pieces == ["", "A m", "ome", "nt."]
    assert final.choices[0].message.tool_calls is not None
    assert final.choices[0].message.tool_calls[0].function.arguments == '{"stop": "Main"}'
    assert final.choices[0].finish_reason == "tool_calls"
    assert final.usage is not None
    assert final.usage.total_tokens == 12


def test_structured_output_and_thinking(house: House) -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    house.answers(thought, text('{"line": 4}'))
    schema = {
        "type": "object", "properties": {"line": {"type": "integer"}},
        "required": ["line"], "additionalProperties": False,
    }  # fmt: skip
    shape: Any = {
        "type": "json_schema",
        "json_schema": {"name": "tram", "strict": True, "schema": schema},
    }
    answer = house.chat(response_format=shape, reasoning_effort="low")
    assert json.loads(answer.choices[0].message.content) == {"line": 4}
    assert answer.choices[0].message.reasoning_content == "Hm."
    (sent,) = house.api.requests
    assert sent["output_config"]["format"]["schema"] == {"title": "tram", **schema}


def test_what_was_thought_goes_back_with_its_signature(house: House) -> None:
    thought = {"type": "thinking", "thinking": "Hm, a tram.", "signature": "c2ln" * 50}
    house.answers(thought, tool_use("trams", stop="Main"), stop_reason="tool_use")
    with house.client.chat.completions.stream(
        model="writer", messages=HELLO, tools=[TOOL], reasoning_effort="high"
    ) as stream:
        choice = stream.get_final_completion().choices[0]
    assert choice.message.tool_calls is not None
    result = {"role": "tool", "tool_call_id": choice.message.tool_calls[0].id, "content": "4, 7"}
    message = choice.message.model_dump()
    house.chat(messages=[*HELLO, message, result], tools=[TOOL], reasoning_effort="high")
    assert house.api.requests[-1]["messages"][1]["content"][0] == thought


def test_a_picture_goes_where_calls_are_not_read(house: House) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    parts: Any = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]}]
    assert house.chat("poems", parts).choices[0].message.content == "Line four."
    assert house.api.requests[0]["messages"][0]["content"][1]["source"]["data"] == "AAAA"


def test_what_has_no_words_there_goes_elsewhere_or_nowhere(house: House) -> None:
    assert house.chat("either", seed=1).choices[0].message.content == HELLO[0]["content"]
    assert house.api.requests == []
    with pytest.raises(openai.BadRequestError) as caught:
        house.chat(seed=1)
    assert caught.value.code == "not_offered"
    assert caught.value.param == "seed"
    assert not house.api.requests
    assert not house.api.refused


def test_refusals_are_told_in_openai_s_shape(house: House) -> None:
    house.answers(status=400, error="invalid_request_error")
    with pytest.raises(openai.BadRequestError) as caught:
        house.chat("refusing")
    assert "Not now." in caught.value.message
    assert caught.value.type == "invalid_request_error"
    house.answers(status=401, error="authentication_error")
    with pytest.raises(openai.APIStatusError) as failed:
        house.chat("refusing")
    assert failed.value.status_code == 502
    assert "Not now." not in failed.value.message


def test_a_busy_endpoint_leaves_the_call_to_another(house: House) -> None:
    house.answers(status=529, error="overloaded_error")
    answer = house.chat("busy")
    assert answer.choices[0].message.content == HELLO[0]["content"]


def test_an_error_within_a_stream_and_a_cut_reach_the_caller(house: House) -> None:
    for error in ("overloaded_error", ""):
        house.answers(text("Line four."), events=5, error=error)
        texts = (chunk.choices[0].delta.content for chunk in house.chat("breaking", stream=True))
        assert [next(texts) for _ in range(3)] == ["", "Lin", "e f"]
        with pytest.raises(openai.APIError):
            next(texts)


def test_who_leaves_a_stream_ends_it_at_the_endpoint(house: House) -> None:
    house.answers(text("Line four."), events=4, held=threading.Event())
    stream = house.chat("slow", stream=True)
    next(iter(stream))
    stream.close()
    wait_until(house.api.left.is_set, 10)


@pytest.mark.parametrize("size", [1, 3, 7])
def test_surrogates_are_put_back_wherever_they_are_split(house: House, size: int) -> None:
    """In texts, in what was thought, and in the arguments of tools."""

    def repeats(document: Document) -> Reply:
        words = document["messages"][-1]["content"]
        thought = {"type": "thinking", "thinking": words, "signature": "c2ln"}
        content = [thought, text(words), tool_use("trams", stop=words)]
        return Reply(content, "tool_use", piece=size)

    house.api.reply = repeats
    words = f"Write to {EMAIL}, and call +49 176 12345678."
    messages: Any = [{"role": "user", "content": words}]
    content, thoughts, arguments = "", "", ""
    for chunk in house.chat(messages=messages, tools=[TOOL], stream=True):
        delta = chunk.choices[0].delta
        content += delta.content or ""
        thoughts += getattr(delta, "reasoning_content", None) or ""
        for call in delta.tool_calls or ():
            arguments += call.function.arguments or ""
    assert content == thoughts == words
    assert json.loads(arguments) == {"stop": words}
    message = house.chat(messages=messages, tools=[TOOL]).choices[0].message
    assert message.content == message.reasoning_content == words
    assert json.loads(message.tool_calls[0].function.arguments) == {"stop": words}
    assert len(house.api.requests) == 2
    assert EMAIL not in json.dumps(house.api.requests)
    assert "12345678" not in json.dumps(house.api.requests)
