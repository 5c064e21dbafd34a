"""Callers of OpenAI's API, served by endpoints of kinds gemini and cohere: the openai SDK,
unmodified, through a real gateway, to APIs that take nothing that their schemas have not."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest

from tests import cohere_api, gemini_api
from tests.live import LiveGateway, serving, wait_until

Document = dict[str, Any]
HELLO: Any = [{"role": "user", "content": "Which tram goes to the station?"}]
EMAIL = "maria.keller@posteo.de"
SCHEMA: Any = {
    "type": "object", "properties": {"stop": {"type": "string"}}, "required": ["stop"],
    "additionalProperties": False,
}  # fmt: skip
TOOL: Any = {"type": "function", "function": {"name": "trams", "parameters": SCHEMA}}
PICTURE: Any = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
KINDS = pytest.mark.parametrize("kind", ["gemini", "cohere"])
Api = gemini_api.GeminiApi | cohere_api.CohereApi


@dataclass
class House:
    gateway: LiveGateway
    gemini: gemini_api.GeminiApi
    cohere: cohere_api.CohereApi
    client: openai.OpenAI

    def api(self, kind: str) -> Api:
        return self.gemini if kind == "gemini" else self.cohere

    def answers(self, *said: str, call: bool = False, **more: Any) -> None:
        """Both the same, with a call of `trams`."""
        parts = [gemini_api.text(each) for each in said]
        if call:
            parts.append(gemini_api.calls("trams", "c2ln", "t1", stop="Main"))
        self.gemini.reply = lambda document: gemini_api.Reply([parts], **more)
        texts = [cohere_api.text(each) for each in said]
        calls = [cohere_api.call("trams", "t1", stop="Main")] if call else []
        finish = "TOOL_CALL" if call else "COMPLETE"
        self.cohere.reply = lambda document: cohere_api.Reply(texts, calls, finish=finish, **more)

    def chat(self, kind: str, messages: Any = HELLO, **more: Any) -> Any:
        return self.client.chat.completions.create(model=kind, messages=messages, **more)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    scratch = tmp_path_factory.mktemp("dialects")
    with (
        gemini_api.gemini_api() as gemini,
        cohere_api.cohere_api() as cohere,
        serving(_settings(gemini, cohere, scratch), scratch) as gateway,
    ):
        url = f"{gateway.http_url.rstrip('/')}/v1"
        with openai.OpenAI(base_url=url, api_key="allowed", max_retries=0) as client:
            yield House(gateway, gemini, cohere, client)


@pytest.fixture
def house(started: House) -> House:
    started.answers("Line four.")
    started.gemini.forget()
    started.cohere.forget()
    return started


def _settings(
    gemini: gemini_api.GeminiApi, cohere: cohere_api.CohereApi, scratch: Path
) -> Document:
    keys = {"gemini": gemini_api.KEY, "cohere": cohere_api.KEY, "allowed": "allowed"}
    for name, value in keys.items():
        (scratch / name).write_text(value)
    endpoints: Document = {
        kind: {
            "kind": kind, "zone": "cloud", "url": url, "expected_ms": 5,
            "api_key": f"${{file:{scratch / kind}}}",
        }
        for kind, url in (("gemini", gemini.url), ("cohere", cohere.url))
    }  # fmt: skip
    vertex = {
        "provider": "vertex-gemini", "zone": "cloud", "expected_ms": 5,
        "url": f"{gemini.url}/v1/projects/p/locations/l",
        "credential": {"file": str(scratch / "gemini")},
    }  # fmt: skip
    failing = {f"{kind}-failing": endpoint for kind, endpoint in endpoints.items()}
    model = {"task": "generate", "pseudonymise": True}
    place = {"model": gemini_api.MODEL, "substitute": True, "price_usd": 0.001}
    return {
        "listen": {"http_port": 0, "grpc_port": 0},
        "audit": {"directory": str(scratch / "audit")},
        "endpoints": {**endpoints, **failing, "vertex": vertex},
        "models": {
            **{
                name: {**model, "served_by": [{**place, "endpoint": name}]}
                for name in (*endpoints, *failing, "vertex")
            },
            **{
                f"{kind}-poems": {
                    "task": "generate", "served_by": [{**place, "endpoint": kind}],
                    "public": True, "public_reason": "a corpus of poems",
                }
                for kind in endpoints
            },
            "either": {
                **model, "served_by": [{**place, "endpoint": kind} for kind in endpoints],
            },
        },
        "routing": {"policy": "static_split"},
        "keys": {
            "allowed": {
                "key": f"${{file:{scratch / 'allowed'}}}", "tenant": "t", "pseudonymise": True,
            }
        },
    }  # fmt: skip


@KINDS
def test_a_chat_is_answered_and_recorded_with_its_usage(house: House, kind: str) -> None:
    raw = house.client.chat.completions.with_raw_response.create(
        model=kind, messages=HELLO, max_tokens=9
    )
    answer = raw.parse()
    assert answer.choices[0].message.content == "Line four."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == gemini_api.MODEL
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (7, 12)
    assert raw.headers["x-spillway-endpoint"] == kind
    assert len(house.api(kind).requests) == 1
    assert house.gateway.record(raw.headers["x-request-id"])["total_tokens"] == 12


def test_vertex_has_tokens_and_paths_of_its_own(house: House) -> None:
    wait_until(lambda: _answers(lambda: house.chat("vertex")), 10)
    for chunk in house.chat("vertex", stream=True):
        assert chunk.model == gemini_api.MODEL
    assert house.gemini.paths[-1].endswith(":streamGenerateContent?alt=sse")
    assert all("/projects/p/locations/l/" in path for path in house.gemini.paths)


def _answers(call: Callable[[], Any]) -> bool:
    try:
        call()
    except openai.InternalServerError:  # no probe has fetched the token yet
        return False
    return True


@KINDS
@pytest.mark.parametrize("streamed", [False, True])
def test_tools_are_called_and_their_results_go_back(
    house: House, kind: str, streamed: bool
) -> None:
    house.answers("A moment.", call=True)
    if streamed:
        options: Any = {"include_usage": True}
        with house.client.chat.completions.stream(
            model=kind, messages=HELLO, tools=[TOOL], stream_options=options
        ) as stream:
            pieces = [event.delta for event in stream if event.type == "content.delta"]
            answer: Any = stream.get_final_completion()
        assert "".join(pieces) == "A moment."
        assert len(pieces) > 2
        assert answer.usage.total_tokens == 12
    else:
        answer = house.chat(kind, tools=[TOOL], tool_choice="required")
    (choice,) = answer.choices
    (call,) = choice.message.tool_calls
    assert choice.finish_reason == "tool_calls"
    assert json.loads(call.function.arguments) == {"stop": "Main"}
    result = {"role": "tool", "tool_call_id": call.id, "content": "4, 7"}
    house.answers("Four or seven.")
    message = choice.message.model_dump(exclude_none=True)
    message.pop("parsed", None)
    answer = house.chat(kind, [*HELLO, message, result], tools=[TOOL])
    assert answer.choices[0].message.content == "Four or seven."
    sent = house.api(kind).requests[-1]
    if kind == "gemini":
        assert sent["contents"][1]["parts"][1]["thoughtSignature"] == "c2ln"
        assert sent["contents"][2]["parts"][0]["functionResponse"]["response"] == {"output": "4, 7"}
    else:
        assert sent["messages"][1]["tool_plan"] == "A moment."
        assert sent["messages"][2] == result
    assert house.api(kind).refused == []


@KINDS
def test_structured_output_and_thinking(house: House, kind: str) -> None:
    thought = gemini_api.text("Hm.", thought=True), gemini_api.text('{"stop": "Main"}')
    house.gemini.reply = lambda document: gemini_api.Reply([list(thought)])
    blocks = [cohere_api.thinking("Hm."), cohere_api.text('{"stop": "Main"}')]
    house.cohere.reply = lambda document: cohere_api.Reply(blocks)
    shape: Any = {
        "type": "json_schema",
        "json_schema": {"name": "tram", "strict": True, "schema": SCHEMA},
    }
    answer = house.chat(kind, response_format=shape, reasoning_effort="high")
    assert json.loads(answer.choices[0].message.content) == {"stop": "Main"}
    assert answer.choices[0].message.reasoning_content == "Hm."
    (sent,) = house.api(kind).requests
    titled = {"title": "tram", **SCHEMA}
    if kind == "gemini":
        assert sent["generationConfig"]["responseJsonSchema"] == titled
    else:
        assert sent["response_format"] == {"type": "json_object", "json_schema": titled}


@KINDS
def test_a_picture_goes_where_calls_are_not_read(house: House, kind: str) -> None:
    parts: Any = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, PICTURE]}]
    assert house.chat(f"{kind}-poems", parts).choices[0].message.content == "Line four."
    assert "AAAA" in json.dumps(house.api(kind).requests)


def test_what_one_has_no_words_for_goes_to_the_other(house: House) -> None:
    house.chat("either", reasoning_effort="low")
    house.chat("either", seed=1 << 40)
    assert (len(house.gemini.requests), len(house.cohere.requests)) == (1, 1)
    with pytest.raises(openai.BadRequestError) as caught:
        house.chat("either", parallel_tool_calls=False)
    assert (caught.value.code, caught.value.param) == ("not_offered", "parallel_tool_calls")
    odd: Any = [{"role": "user", "content": [{"type": ["text"], "text": "x"}]}]
    with pytest.raises(openai.BadRequestError) as caught:
        house.chat("gemini-poems", odd)
    assert caught.value.param == "messages[0].content[0]"
    assert house.gemini.refused == house.cohere.refused == []


@KINDS
def test_refusals_are_told_in_openai_s_shape(house: House, kind: str) -> None:
    house.answers(status=400, error="INVALID_ARGUMENT" if kind == "gemini" else "Not now.")
    with pytest.raises(openai.BadRequestError) as caught:
        house.chat(f"{kind}-failing")
    assert "Not now." in caught.value.message
    assert caught.value.type == "invalid_request_error"


@KINDS
def test_a_cut_reaches_the_caller(house: House, kind: str) -> None:
    house.answers("Line four.", events=3)
    with pytest.raises(openai.APIError):
        list(house.chat(f"{kind}-failing", stream=True))


@KINDS
def test_who_leaves_a_stream_ends_it_at_the_endpoint(house: House, kind: str) -> None:
    house.answers("Line four.", events=3, held=threading.Event())
    stream = house.chat(kind, stream=True)
    next(iter(stream))
    stream.close()
    wait_until(house.api(kind).left.is_set, 10)


@KINDS
@pytest.mark.parametrize("size", [1, 7])
def test_surrogates_are_put_back_wherever_they_are_split(
    house: House, kind: str, size: int
) -> None:
    """In texts, in what was thought, and in the arguments of tools."""

    def of_gemini(document: Document) -> gemini_api.Reply:
        words = document["contents"][-1]["parts"][0]["text"]
        thought = gemini_api.text(words, thought=True)
        parts = [thought, gemini_api.text(words), gemini_api.calls("trams", "c2ln", stop=words)]
        return gemini_api.Reply([parts], piece=size)

    def of_cohere(document: Document) -> cohere_api.Reply:
        words = document["messages"][-1]["content"]
        content = [cohere_api.thinking(words), cohere_api.text(words)]
        calls = [cohere_api.call("trams", stop=words)]
        return cohere_api.Reply(content, calls, finish="TOOL_CALL", piece=size)

    house.gemini.reply, house.cohere.reply = of_gemini, of_cohere
    words = f"Write to {EMAIL}, and call +49 176 12345678."
    content, thoughts, arguments = "", "", ""
    messages: Any = [{"role": "user", "content": words}]
    for chunk in house.chat(kind, messages, tools=[TOOL], stream=True):
        delta = chunk.choices[0].delta
        content += delta.content or ""
        thoughts += getattr(delta, "reasoning_content", None) or ""
        for call in delta.tool_calls or ():
            arguments += call.function.arguments or ""
    assert content == thoughts == words
    assert json.loads(arguments) == {"stop": words}
    message = house.chat(kind, messages, tools=[TOOL]).choices[0].message
    assert message.content == message.reasoning_content == words
    assert json.loads(message.tool_calls[0].function.arguments) == {"stop": words}
    sent = json.dumps(house.api(kind).requests)
    assert EMAIL not in sent
    assert "12345678" not in sent
