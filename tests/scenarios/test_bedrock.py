"""Callers of OpenAI's API, served by Bedrock and by SageMaker: the openai SDK, unmodified, through
a real gateway, to services that take nothing that their schema has not, and check signatures."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest

from tests import bedrock_api
from tests.bedrock_api import (
    ACCESS_KEY,
    REGION,
    SECRET_KEY,
    AwsApi,
    Reply,
    aws_api,
    text,
    thought,
    tool_use,
)
from tests.live import LiveGateway, serving, wait_until
from tests.scenarios.repeating_cloud import RepeatingCloud, repeating_cloud

Document = dict[str, Any]
HELLO: Any = [{"role": "user", "content": "Which tram goes to the station?"}]
EMAIL = "maria.keller@posteo.de"
CLAUDE = "eu.anthropic.claude-sonnet-4-6"
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
    api: AwsApi
    own: RepeatingCloud
    client: openai.OpenAI
    scratch: Path

    def answers(self, *content: Document, **more: Any) -> None:
        self.api.reply = lambda document: Reply(list(content), **more)

    def chat(self, model: str = "writer", messages: Any = HELLO, **more: Any) -> Any:
        return self.client.chat.completions.create(model=model, messages=messages, **more)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    scratch = tmp_path_factory.mktemp("bedrock")
    with (
        aws_api() as api,
        repeating_cloud() as own,
        serving(_settings(api, own, scratch), scratch) as gateway,
    ):
        url = f"{gateway.http_url.rstrip('/')}/v1"
        with openai.OpenAI(base_url=url, api_key="allowed", max_retries=0) as client:
            yield House(gateway, api, own, client, scratch)


@pytest.fixture
def house(started: House) -> House:
    started.answers(text("Line four."))
    started.api.calls.clear()
    started.api.refused.clear()
    started.api.left.clear()
    started.own.bodies.clear()
    return started


def _settings(api: AwsApi, own: RepeatingCloud, scratch: Path) -> Document:
    (scratch / "allowed").write_text("allowed")
    (scratch / "identity").write_text(api.identity)
    keys = f"[default]\naws_access_key_id={ACCESS_KEY}\naws_secret_access_key={SECRET_KEY}\n"
    (scratch / "keys").write_text(keys)
    shared = {"file": str(scratch / "keys"), "region": REGION}
    assumed = {
        "web_identity": str(scratch / "identity"), "region": REGION, "sts_url": api.url,
        "role": "arn:aws:iam::123456789012:role/spillway",
    }  # fmt: skip
    bedrock = {
        "kind": "bedrock", "zone": "cloud", "url": api.url, "credential": {"aws": shared},
        "expected_ms": 5,
    }  # fmt: skip
    there = {"endpoint": "bedrock", "model": CLAUDE, "substitute": True, "price_usd": 0.001}
    own_place = {"endpoint": "own", "substitute": True, "price_usd": 5.0}
    model = {"task": "generate", "pseudonymise": True}
    failing = ("refusing", "busy", "breaking", "slow")  # whose failures take no other's calls away
    endpoint = {"provider": "sagemaker", "url": f"{api.url}/endpoints/llama"}
    return {
        "listen": {"http_port": 0, "grpc_port": 0},
        "audit": {"directory": str(scratch / "audit")},
        "endpoints": {
            "bedrock": bedrock,
            **dict.fromkeys(failing, bedrock),
            "assumed": {**bedrock, "credential": {"aws": assumed}},
            "sagemaker": {**bedrock, "kind": "openai", **endpoint},
            "own": {"kind": "openai", "zone": "onprem", "url": own.url, "expected_ms": 5},
        },
        "models": {
            "writer": {**model, "served_by": [there]},
            **{name: {**model, "served_by": [{**there, "endpoint": name}]} for name in failing},
            "busy": {**model, "served_by": [own_place, {**there, "endpoint": "busy"}]},
            "either": {**model, "served_by": [own_place, there]},
            "assumed": {**model, "served_by": [{**there, "endpoint": "assumed"}]},
            "llama": {**model, "served_by": [{**there, "endpoint": "sagemaker"}]},
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
        model="writer", messages=HELLO, max_tokens=9, user="ward-4"
    )
    answer = raw.parse()
    assert answer.choices[0].message.content == "Line four."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (7, 12)
    assert raw.headers["x-spillway-endpoint"] == "bedrock"
    (call,) = house.api.calls
    assert call.path == f"/model/{CLAUDE}/converse"
    assert call.document == {
        "messages": [{"role": "user", "content": [{"text": HELLO[0]["content"]}]}],
        "inferenceConfig": {"maxTokens": 9}, "requestMetadata": {"user": "ward-4"},
    }  # fmt: skip
    assert house.gateway.record(raw.headers["x-request-id"])["total_tokens"] == 12


def test_tools_are_called_and_their_results_go_back(house: House) -> None:
    thoughts = [thought("Hm, a tram."), {"reasoningContent": {"redactedContent": "AAAA"}}]
    house.answers(*thoughts, tool_use("trams", stop="Main"), stop_reason="tool_use")
    for streamed in (False, True):
        asking: Any = {"tools": [TOOL], "tool_choice": "required"}
        if streamed:
            stream = house.client.chat.completions.stream(model="writer", messages=HELLO, **asking)
            with stream as events:
                choice = events.get_final_completion().choices[0]
        else:
            (choice,) = house.chat(**asking).choices
        assert choice.message.tool_calls is not None
        (call,) = choice.message.tool_calls
        assert choice.finish_reason == "tool_calls"
        assert json.loads(call.function.arguments) == {"stop": "Main"}
        result = {"role": "tool", "tool_call_id": call.id, "content": "4, 7"}
        house.chat(messages=[*HELLO, choice.message.model_dump(), result], tools=[TOOL])
        used, given = house.api.requests[-1]["messages"][1:]
        assert used["content"] == [*thoughts, tool_use("trams", stop="Main")]
        assert given["content"][0]["toolResult"]["content"] == [{"text": "4, 7"}]
    assert house.api.requests[0]["toolConfig"]["toolChoice"] == {"any": {}}


def test_a_stream_comes_event_by_event_with_usage(house: House) -> None:
    options: Any = {"include_usage": True}
    with house.client.chat.completions.stream(
        model="writer", messages=HELLO, stream_options=options
    ) as stream:
        pieces = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert pieces == ["", "Lin", "e f", "our", "."]
    assert final.usage is not None
    assert final.usage.total_tokens == 12
    assert house.api.calls[0].path == f"/model/{CLAUDE}/converse-stream"


def test_structured_output_and_reasoning(house: House) -> None:
    house.answers(thought("Hm."), text('{"line": 4}'))
    schema = {
        "type": "object", "properties": {"line": {"type": "integer"}},
        "required": ["line"], "additionalProperties": False,
    }  # fmt: skip
    stated = {"name": "tram", "strict": True, "schema": schema}
    shape: Any = {"type": "json_schema", "json_schema": stated}
    answer = house.chat(response_format=shape, reasoning_effort="low")
    assert json.loads(answer.choices[0].message.content) == {"line": 4}
    assert answer.choices[0].message.reasoning_content == "Hm."
    (sent,) = house.api.requests
    assert sent["outputConfig"]["effort"] == "low"
    assert sent["additionalModelRequestFields"] == {"thinking": {"type": "adaptive"}}
    written = sent["outputConfig"]["textFormat"]["structure"]["jsonSchema"]
    assert (written["name"], json.loads(written["schema"])) == ("tram", schema)


def test_pictures_and_documents_go_where_calls_are_not_read(house: House) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    file = {"file_data": "data:application/pdf;base64,AAAA", "filename": "line_4 (old).pdf"}
    parts = [{"type": "text", "text": "What is it?"}, picture, {"type": "file", "file": file}]
    house.chat("poems", [{"role": "user", "content": parts}])
    _, image, document = house.api.requests[0]["messages"][0]["content"]
    assert image == {"image": {"format": "png", "source": {"bytes": "AAAA"}}}
    assert document["document"]["name"] == "line 4 (old)"


def test_what_has_no_words_there_goes_elsewhere_or_nowhere(house: House) -> None:
    assert house.chat("either", seed=1).choices[0].message.content == HELLO[0]["content"]
    with pytest.raises(openai.BadRequestError) as caught:
        house.chat(seed=1)
    assert (caught.value.code, caught.value.param) == ("not_offered", "seed")
    assert not house.api.calls
    assert not house.api.refused


def test_refusals_are_told_in_openai_s_shape(house: House) -> None:
    house.answers(status=400, error="ValidationException")
    with pytest.raises(openai.BadRequestError) as caught:
        house.chat("refusing")
    assert "Not now." in caught.value.message
    house.answers(status=403, error="AccessDeniedException")
    with pytest.raises(openai.APIStatusError) as failed:
        house.chat("refusing")
    assert failed.value.status_code == 502
    assert "Not now." not in failed.value.message


def test_a_throttled_call_goes_to_another_endpoint(house: House) -> None:
    house.answers(status=429, error="ThrottlingException")
    answer = house.chat("busy")
    assert answer.choices[0].message.content == HELLO[0]["content"]


def test_an_error_within_a_stream_and_a_cut_reach_the_caller(house: House) -> None:
    for error in ("modelStreamErrorException", ""):
        house.answers(text("Line four."), events=3, error=error)
        texts = (chunk.choices[0].delta.content for chunk in house.chat("breaking", stream=True))
        assert [next(texts) for _ in range(3)] == ["", "Lin", "e f"]
        with pytest.raises(openai.APIError):
            next(texts)


def test_who_leaves_a_stream_ends_it_at_the_endpoint(house: House) -> None:
    house.answers(text("Line four."), events=2, held=threading.Event())
    stream = house.chat("slow", stream=True)
    next(iter(stream))
    stream.close()
    wait_until(house.api.left.is_set, 10)


def test_keys_of_a_role_sign_calls_and_no_key_is_shown_anywhere(house: House) -> None:
    assert house.chat("assumed").choices[0].message.content == "Line four."
    (call,) = house.api.calls
    token = call.headers["x-amz-security-token"]
    house.api.secrets[call.headers["authorization"].partition("=")[2].partition("/")[0]] = ("", "")
    with pytest.raises(openai.APIStatusError) as caught:
        house.chat("assumed")
    (secret,) = {each[0] for each in house.api.secrets.values()} - {""}
    audits = [p for p in (house.scratch / "audit").rglob("*") if p.is_file()]
    shown = b"".join(path.read_bytes() for path in audits) + str(caught.value).encode()
    assert not any(word.encode() in shown for word in (secret, token, house.api.identity))


def test_a_container_behind_sagemaker_answers_and_streams(house: House) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "Line 4."},
              "finish_reason": "stop"}  # fmt: skip
    house.api.container = lambda document: {"object": "chat.completion", "choices": [choice]}
    assert house.chat("llama").choices[0].message.content == "Line 4."
    deltas = [({"content": "Line "}, None), ({"content": "4."}, "stop")]
    chunks = [
        {"object": "chat.completion.chunk",
         "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        for delta, reason in deltas
    ]  # fmt: skip
    sent = [bedrock_api.part(f"data: {json.dumps(each)}\n\n".encode()) for each in chunks]
    house.api.container = lambda document: sent
    pieces = [chunk.choices[0].delta.content for chunk in house.chat("llama", stream=True)]
    assert pieces == ["Line ", "4."]
    assert [call.path.rpartition("/")[2] for call in house.api.calls] == [
        "invocations", "invocations-response-stream",
    ]  # fmt: skip


@pytest.mark.parametrize("size", [1, 7])
def test_surrogates_are_put_back_wherever_they_are_split(house: House, size: int) -> None:
    def repeats(document: Document) -> Reply:
        words = document["messages"][-1]["content"][0]["text"]
        return Reply([thought(words), text(words), tool_use("trams", stop=words)], piece=size)

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
    assert EMAIL not in json.dumps(house.api.requests)
