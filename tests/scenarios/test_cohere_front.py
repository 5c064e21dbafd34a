"""Callers of Cohere's API: the cohere SDK, unmodified, through a real gateway, to endpoints of
OpenAI's API and of Anthropic's that take nothing that their schemas have not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import cohere
import pytest

from tests import anthropic_api as claude
from tests import chat_api as gpt
from tests.live import serving, wait_until
from tests.translated import EMAIL, PROVIDERS, Line, settings

Document = dict[str, Any]
HELLO: Any = [{"role": "user", "content": "Which tram goes to the station?"}]
PARAMETERS = {"type": "object", "properties": {"stop": {"type": "string"}}}
TOOLS: Any = [
    {
        "type": "function",
        "function": {"name": "trams", "description": "Trams at a stop", "parameters": PARAMETERS},
    }
]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    scratch = tmp_path_factory.mktemp("cohere")
    with (
        gpt.chat_api() as openai,
        claude.anthropic_api() as api,
        serving(settings(openai, api, scratch), scratch) as gateway,
    ):
        yield Line(gateway, openai, api)


@pytest.fixture
def line(started: Line) -> Line:
    return started.fresh()


@pytest.fixture(scope="module")
def client(started: Line) -> Any:
    return _client(started, "allowed")


def _client(line: Line, key: str) -> Any:
    return cohere.ClientV2(api_key=key, base_url=line.gateway.http_url.rstrip("/"))


def _once() -> Any:
    return {"max_retries": 0}


@pytest.mark.parametrize("model", PROVIDERS)
def test_a_call_is_answered_and_recorded_with_its_usage(
    line: Line, client: Any, model: str
) -> None:
    raw = client.with_raw_response.chat(
        model=model, messages=[{"role": "system", "content": "Be brief."}, *HELLO],
        max_tokens=9, temperature=0.5, stop_sequences=["###"], safety_mode="CONTEXTUAL",
        citation_options={"mode": "OFF"},
    )  # fmt: skip
    answer = raw.data
    assert [(part.type, part.text) for part in answer.message.content] == [("text", "Line four.")]
    assert answer.finish_reason == "COMPLETE"
    assert (answer.usage.tokens.input_tokens, answer.usage.tokens.output_tokens) == (7, 5)
    assert raw.headers["x-spillway-endpoint"] == model
    record = line.gateway.record(raw.headers["x-request-id"])
    assert (record["protocol"], record["total_tokens"]) == ("cohere", 12)
    (sent,) = line.sent(model)
    assert json.dumps(sent).count("Be brief.") == 1
    assert (sent.get("stop") or sent.get("stop_sequences")) == ["###"]


@pytest.mark.parametrize("model", PROVIDERS)
def test_tools_are_called_and_their_results_go_back(line: Line, client: Any, model: str) -> None:
    line.calls(model)
    answer = client.chat(model=model, messages=HELLO, tools=TOOLS, tool_choice="REQUIRED")
    (call,) = answer.message.tool_calls
    assert (answer.finish_reason, answer.message.content[0].text) == ("TOOL_CALL", "A moment.")
    assert json.loads(call.function.arguments) == {"stop": "M"}
    line.says(model, "Four or seven.")
    found = {"type": "document", "document": {"data": {"lines": "4, 7"}}}
    turns = [
        *HELLO, answer.message, {"role": "tool", "tool_call_id": call.id, "content": [found]},
    ]  # fmt: skip
    again = client.chat(model=model, messages=turns, tools=TOOLS)
    assert again.message.content[0].text == "Four or seven."
    sent = line.sent(model)[-1]["messages"]
    assert call.id in json.dumps(sent[1])
    assert "4, 7" in json.dumps(sent[2])


@pytest.mark.parametrize("model", PROVIDERS)
def test_a_stream_comes_event_by_event_with_tool_calls_and_usage(
    line: Line, client: Any, model: str
) -> None:
    line.calls(model)
    events = list(client.chat_stream(model=model, messages=HELLO, tools=TOOLS))
    assert [event.type for event in events if event.type.endswith(("start", "end"))] == [
        "message-start", "content-start", "content-end", "tool-call-start", "tool-call-end",
        "message-end",
    ]  # fmt: skip
    texts = [e.delta.message.content.text for e in events if e.type == "content-delta"]
    assert texts == ["A m", "ome", "nt."]
    pieces = [
        e.delta.message.tool_calls.function.arguments for e in events if e.type == "tool-call-delta"
    ]
    assert json.loads("".join(pieces)) == {"stop": "M"}
    end = events[-1].delta
    assert (end.finish_reason, end.usage.tokens.output_tokens) == ("TOOL_CALL", 5)


@pytest.mark.parametrize("model", PROVIDERS)
def test_structured_output(line: Line, client: Any, model: str) -> None:
    line.says(model, '{"line": 4}')
    schema = {
        "type": "object", "properties": {"line": {"type": "integer"}}, "required": ["line"],
        "additionalProperties": False,
    }  # fmt: skip
    shape = {"type": "json_object", "json_schema": schema}
    client.chat(model=model, messages=HELLO, response_format=shape)
    (sent,) = line.sent(model)
    stated = sent.get("response_format") or sent["output_config"]["format"]
    assert (stated["json_schema"]["schema"] if model == "gpt" else stated["schema"]) == schema


def test_thoughts_are_apart_from_the_text(line: Line, client: Any) -> None:
    line.gpt.reply = lambda document: gpt.ChatReply(
        {"reasoning_content": "Hm.", "content": "Four."}
    )
    answer = client.chat(model="gpt", messages=HELLO)
    thought, said = answer.message.content
    assert (thought.thinking, said.text) == ("Hm.", "Four.")
    events = list(client.chat_stream(model="gpt", messages=HELLO))
    deltas = [e.delta.message.content for e in events if e.type == "content-delta"]
    assert "".join(delta.thinking or "" for delta in deltas) == "Hm."
    client.chat(model="gpt", messages=[*HELLO, answer.message, *HELLO])
    assert line.gpt.requests[-1]["messages"][1]["reasoning_content"] == "Hm."


def test_a_picture_goes_where_calls_are_not_read(line: Line, client: Any) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    content = [{"type": "text", "text": "What is it?"}, picture]
    client.chat(model="poems", messages=[{"role": "user", "content": content}])
    assert line.gpt.requests[0]["messages"][0]["content"] == content


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"documents": ["Line four."]}, "documents"),
        ({"safety_mode": "STRICT"}, "safety_mode"),
        ({"logprobs": True}, "logprobs"),
        ({"priority": 3}, "priority"),
        ({"citation_options": {"mode": "ACCURATE"}}, "citation_options.mode"),
    ],
)
def test_what_no_chat_can_say_is_refused_by_its_name(
    line: Line, client: Any, more: Any, name: str
) -> None:
    for model in PROVIDERS:
        with pytest.raises(cohere.BadRequestError) as caught:
            client.chat(**{"model": model, "messages": HELLO, **more})
        assert caught.value.body["message"].startswith(f"{name}: ")
        assert not line.sent(model)


def test_what_a_provider_has_no_words_for_is_named_as_its_caller_has_it(
    line: Line, client: Any
) -> None:
    budget = {"type": "enabled", "token_budget": 2000}
    with pytest.raises(cohere.BadRequestError, match=r"thinking\.token_budget: no endpoint"):
        client.chat(model="gpt", messages=HELLO, thinking=budget)
    with pytest.raises(cohere.BadRequestError, match="stop_sequences: no endpoint"):
        client.chat(model="claude", messages=HELLO, stop_sequences=[" "])
    with pytest.raises(cohere.BadRequestError, match=r"messages\[1\]: no endpoint"):
        client.chat(model="gpt", messages=[*HELLO, {"role": "assistant", "content": "Line"}])
    assert not line.gpt.requests


def test_failures_are_told_in_cohere_s_shape(line: Line, client: Any) -> None:
    with pytest.raises(cohere.NotFoundError):
        client.chat(model="nobody", messages=HELLO)
    stranger = _client(line, "wrong")
    with pytest.raises(cohere.UnauthorizedError):
        stranger.chat(model="gpt", messages=HELLO)
    line.gpt.reply = lambda document: gpt.ChatReply(status=429, error="rate_limit_error")
    with pytest.raises(cohere.TooManyRequestsError):
        client.chat(model="busy", messages=HELLO, request_options=_once())


def test_an_error_within_a_stream_reaches_the_caller(line: Line, client: Any) -> None:
    line.gpt.reply = lambda document: gpt.ChatReply(
        {"content": "Line four."}, chunks=3, error="server_error"
    )
    events = list(client.chat_stream(model="breaking", messages=HELLO))
    assert events[0].type == "message-start"
    assert (events[-1].delta.finish_reason, bool(events[-1].delta.error)) == ("ERROR", True)


def test_who_leaves_a_stream_ends_it_at_the_endpoint(line: Line, client: Any) -> None:
    line.gpt.reply = lambda document: gpt.ChatReply(
        {"content": "Line four."}, chunks=3, held=threading.Event()
    )
    stream = client.chat_stream(model="slow", messages=HELLO)
    next(stream)
    stream.close()
    wait_until(line.gpt.left.is_set, 10)


@pytest.mark.parametrize("model", PROVIDERS)
def test_surrogates_are_put_back_wherever_they_are_split(
    line: Line, client: Any, model: str
) -> None:
    line.repeats(model, 3)
    words = f"Write to {EMAIL}, and call +49 176 12345678"
    turns = [{"role": "user", "content": words}]
    whole = client.chat(model=model, messages=turns, tools=TOOLS).message
    assert whole.content[0].text == words
    assert json.loads(whole.tool_calls[0].function.arguments) == {"stop": words}
    events = list(client.chat_stream(model=model, messages=turns, tools=TOOLS))
    texts = [e.delta.message.content.text for e in events if e.type == "content-delta"]
    assert "".join(texts) == words
    assert EMAIL not in json.dumps(line.sent(model))


def test_texts_are_embedded(line: Line, client: Any) -> None:
    answer = client.embed(
        model="vectors", texts=["a", "b"], input_type="search_query", embedding_types=["float"],
        output_dimension=2,
    )  # fmt: skip
    assert answer.embeddings.float_ == [[0.0, 0.5], [1.0, 0.5]]
    (sent,) = line.gpt.requests
    assert (sent["input"], sent["dimensions"]) == (["a", "b"], 2)
    with pytest.raises(cohere.BadRequestError, match="embedding_types"):
        client.embed(
            model="vectors", texts=["a"], input_type="search_query", embedding_types=["int8"]
        )


def test_explain_reads_a_call_as_its_front_does(line: Line) -> None:
    described = {
        "path": "/v2/chat",
        "headers": {"authorization": "Bearer allowed"},
        "body": {"model": "gpt", "messages": HELLO},
    }
    answer = line.gateway.client.post(
        "/spillway/explain", json=described, headers={"x-api-key": "allowed"}
    ).json()
    assert answer["decision"]["attempts"] == ["gpt"]
