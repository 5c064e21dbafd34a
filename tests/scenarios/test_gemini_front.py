"""Callers of Google's API: the google-genai SDK, unmodified, through a real gateway, to endpoints
of OpenAI's API and of Anthropic's that take nothing that their schemas have not."""

from __future__ import annotations

import base64
import enum
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pydantic
import pytest
from google import genai
from google.genai import errors, types

from tests import anthropic_api as claude
from tests import chat_api as gpt
from tests.live import serving, wait_until
from tests.translated import EMAIL, PROVIDERS, Line, settings

Document = dict[str, Any]
HELLO = "Which tram goes to the station?"
TRAMS: Any = {
    "name": "trams",
    "description": "Trams at a stop",
    "parameters": {"type": "OBJECT", "properties": {"stop": {"type": "STRING"}}},
}
SIGNATURE = "c2ln+/" * 20


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    scratch = tmp_path_factory.mktemp("gemini")
    with (
        gpt.chat_api() as openai,
        claude.anthropic_api() as api,
        serving(settings(openai, api, scratch), scratch) as gateway,
    ):
        yield Line(gateway, openai, api)


@pytest.fixture
def line(started: Line) -> Line:
    return started.fresh()


@pytest.fixture
def client(started: Line) -> Any:
    return _client(started, "allowed")


def _client(line: Line, key: str) -> Any:
    options = types.HttpOptions(base_url=line.gateway.http_url)
    return genai.Client(api_key=key, vertexai=False, http_options=options)


def _config(**more: Any) -> types.GenerateContentConfig:
    return types.GenerateContentConfig(**more)


TOOLS: Any = [types.Tool(function_declarations=[types.FunctionDeclaration(**TRAMS)])]


@pytest.mark.parametrize("model", PROVIDERS)
def test_a_call_is_answered_and_recorded_with_its_usage(
    line: Line, client: Any, model: str
) -> None:
    answer = client.models.generate_content(
        model=model, contents=HELLO,
        config=_config(
            system_instruction="Be brief.", stop_sequences=["###"], max_output_tokens=9,
            temperature=0.5, should_return_http_response=False,
        ),
    )  # fmt: skip
    assert answer.text == "Line four."
    assert answer.candidates[0].finish_reason is types.FinishReason.STOP
    usage = answer.usage_metadata
    assert (usage.prompt_token_count, usage.candidates_token_count) == (7, 5)
    headers = answer.sdk_http_response.headers
    assert headers["x-spillway-endpoint"] == model
    record = line.gateway.record(headers["x-request-id"])
    assert (record["protocol"], record["total_tokens"]) == ("gemini", 12)
    (sent,) = line.sent(model)
    assert json.dumps(sent).count("Be brief.") == 1
    assert sent.get("max_tokens", sent.get("max_completion_tokens")) == 9
    assert (sent.get("stop") or sent.get("stop_sequences")) == ["###"]


@pytest.mark.parametrize("model", PROVIDERS)
def test_functions_are_called_and_their_responses_go_back(
    line: Line, client: Any, model: str
) -> None:
    line.calls(model)
    calling = {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["trams"]}}
    answer = client.models.generate_content(
        model=model, contents=HELLO, config=_config(tools=TOOLS, tool_config=calling)
    )
    said, call = answer.candidates[0].content.parts
    assert said.text == "A moment."
    assert (call.function_call.name, call.function_call.args) == ("trams", {"stop": "M"})
    line.says(model, "Four or seven.")
    response = types.Part.from_function_response(name="trams", response={"output": "4, 7"})
    contents: Any = [
        types.UserContent(HELLO),
        answer.candidates[0].content,
        types.Content(role="user", parts=[response, types.Part(text="Well?")]),
    ]
    again = client.models.generate_content(
        model=model, contents=contents, config=_config(tools=TOOLS)
    )
    assert again.text == "Four or seven."
    sent = line.sent(model)[-1]["messages"]
    assert call.function_call.id in json.dumps(sent[1])
    assert "4, 7" in json.dumps(sent[2])
    assert "Well?" in json.dumps(sent[-1])


@pytest.mark.parametrize("model", PROVIDERS)
def test_the_sdk_calls_functions_by_itself(line: Line, client: Any, model: str) -> None:
    stops: list[str] = []

    def trams(stop: str) -> list[int]:
        """Trams at a stop."""
        stops.append(stop)
        return [4, 7]

    line.answers_calls(model, "Four or seven.")
    answer = client.models.generate_content(
        model=model, contents=HELLO, config=_config(tools=[trams])
    )
    assert (stops, answer.text) == (["M"], "Four or seven.")
    assert len(line.sent(model)) == 2
    assert "[4,7]" in json.dumps(line.sent(model)[-1]).replace(" ", "")


@pytest.mark.parametrize("model", PROVIDERS)
def test_a_stream_comes_piece_by_piece_and_its_chat_goes_on(
    line: Line, client: Any, model: str
) -> None:
    line.calls(model)
    chat = client.chats.create(model=model, config=_config(tools=TOOLS))
    chunks = list(chat.send_message_stream(HELLO))
    assert [chunk.text for chunk in chunks if chunk.text] == ["A m", "ome", "nt."]
    assert [call.args for chunk in chunks for call in chunk.function_calls or ()] == [{"stop": "M"}]
    last = chunks[-1]
    assert last.candidates[0].finish_reason is types.FinishReason.STOP
    assert last.usage_metadata.total_token_count == 12
    line.says(model, "Four.")
    response = types.Part.from_function_response(name="trams", response={"output": "4"})
    assert chat.send_message(response).text == "Four."
    turn = line.sent(model)[-1]["messages"][1]
    assert "A moment." in json.dumps(turn)


class Kind(enum.Enum):
    TRAM = "tram"
    BUS = "bus"


class Tram(pydantic.BaseModel):
    line: int
    kind: Kind
    stop: str | None


@pytest.mark.parametrize("model", PROVIDERS)
@pytest.mark.parametrize("as_json", [False, True])
def test_structured_output(line: Line, client: Any, model: str, as_json: bool) -> None:
    line.says(model, '{"line": 4, "kind": "tram", "stop": null}')
    stated: Document = {"response_schema": Tram}
    if as_json:
        stated = {"response_json_schema": Tram.model_json_schema()}
    answer = client.models.generate_content(
        model=model, contents=HELLO, config=_config(response_mime_type="application/json", **stated)
    )
    assert Tram.model_validate_json(answer.text) == Tram(line=4, kind=Kind.TRAM, stop=None)
    (sent,) = line.sent(model)
    shape = sent.get("response_format") or sent["output_config"]["format"]
    schema = shape["json_schema"]["schema"] if model == "gpt" else shape["schema"]
    assert list(schema["properties"]) == ["line", "kind", "stop"]
    assert schema["properties"]["line"]["type"] == "integer"


def test_pictures_and_documents_go_where_calls_are_not_read(line: Line, client: Any) -> None:
    data = b"\xfb\xff\xfe" * 5  # whose base64 differs between both alphabets
    contents: Any = [
        "What is it?",
        types.Part.from_bytes(data=data, mime_type="image/png"),
        types.Part.from_bytes(data=data, mime_type="application/pdf"),
        types.Part.from_uri(file_uri="https://a.example/b.png", mime_type="image/png"),
    ]
    client.models.generate_content(model="poems", contents=contents)
    picture, document, linked = line.gpt.requests[0]["messages"][0]["content"][1:]
    own = base64.b64encode(data).decode()
    assert picture["image_url"]["url"] == f"data:image/png;base64,{own}"
    assert document["file"]["file_data"] == f"data:application/pdf;base64,{own}"
    assert linked["image_url"]["url"] == "https://a.example/b.png"


def test_what_was_thought_goes_back_with_its_signature(line: Line, client: Any) -> None:
    thought = {"type": "thinking", "thinking": "Hm, a tram.", "signature": SIGNATURE}
    hidden = {"type": "redacted_thinking", "data": "aGlkZGVu"}
    blocks = [thought, hidden, claude.tool_use("trams", stop="M")]
    line.claude.reply = lambda document: claude.Reply(blocks, "tool_use")
    config = _config(
        tools=TOOLS,
        thinking_config=types.ThinkingConfig(thinking_budget=2000),
        max_output_tokens=4000,
    )
    for streamed in (False, True):
        chat = client.chats.create(model="claude", config=config)
        sent = chat.send_message_stream(HELLO) if streamed else [chat.send_message(HELLO)]
        answers = list(sent)
        parts = [part for each in answers for part in each.candidates[0].content.parts or ()]
        assert "".join(part.text or "" for part in parts if part.thought) == "Hm, a tram."
        chat.send_message(types.Part.from_function_response(name="trams", response={"output": "4"}))
        sent = line.claude.requests[-1]
        assert sent["messages"][1]["content"][:2] == [thought, hidden]
        assert sent["thinking"] == {"type": "enabled", "budget_tokens": 2000}


def test_thoughts_of_other_models_are_parts_without_a_signature(line: Line, client: Any) -> None:
    message = {"reasoning_content": "Hm.", "content": "Four."}
    line.gpt.reply = lambda document: gpt.ChatReply(message)
    chat = client.chats.create(model="gpt")
    assert chat.send_message(HELLO).text == "Four."
    assert [part.thought for part in chat.get_history()[1].parts] == [True, None]
    chat.send_message(HELLO)
    assert line.gpt.requests[-1]["messages"][1]["reasoning_content"] == "Hm."


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}]},
         "safetySettings"),
        ({"tools": [{"google_search": {}}]}, "tools[0].googleSearch"),
        ({"cached_content": "cachedContents/a"}, "cachedContent"),
        ({"media_resolution": "MEDIA_RESOLUTION_LOW"}, "generationConfig.mediaResolution"),
        ({"response_mime_type": "text/x.enum", "response_schema": Kind},
         "generationConfig.responseMimeType"),
    ],
)  # fmt: skip
def test_what_no_chat_can_say_is_refused_by_its_name(
    line: Line, client: Any, more: Any, name: str
) -> None:
    for model in PROVIDERS:
        with pytest.raises(errors.ClientError) as caught:
            client.models.generate_content(model=model, contents=HELLO, config=_config(**more))
        assert caught.value.status == "INVALID_ARGUMENT"
        assert str(caught.value.message).startswith(f"{name}: ")
        assert not line.sent(model)


def test_what_a_provider_has_no_words_for_is_named_as_its_caller_has_it(
    line: Line, client: Any
) -> None:
    budget = _config(thinking_config=types.ThinkingConfig(thinking_budget=2000))
    with pytest.raises(errors.ClientError, match="thinkingBudget: no endpoint"):
        client.models.generate_content(model="gpt", contents=HELLO, config=budget)
    with pytest.raises(errors.ClientError, match="seed: no endpoint"):
        client.models.generate_content(model="claude", contents=HELLO, config=_config(seed=4))
    turns: Any = [types.UserContent(HELLO), types.ModelContent("Four")]
    for model in PROVIDERS:
        with pytest.raises(errors.ClientError, match=r"contents\[1\]: no endpoint"):
            client.models.generate_content(model=model, contents=turns)
    assert not line.gpt.requests


def test_failures_are_told_in_google_s_shape(line: Line, client: Any) -> None:
    with pytest.raises(errors.ClientError) as unknown:
        client.models.generate_content(model="nobody", contents=HELLO)
    assert (unknown.value.code, unknown.value.status) == (404, "NOT_FOUND")
    stranger = _client(line, "wrong")
    with pytest.raises(errors.ClientError) as refused:
        stranger.models.generate_content(model="gpt", contents=HELLO)
    assert (refused.value.code, refused.value.status) == (401, "UNAUTHENTICATED")
    with pytest.raises(errors.ClientError) as uncounted:
        client.models.count_tokens(model="gpt", contents=HELLO)
    assert uncounted.value.code == 404
    line.gpt.reply = lambda document: gpt.ChatReply(status=400, error="invalid_request_error")
    with pytest.raises(errors.ClientError, match="Not now"):
        client.models.generate_content(model="gpt", contents=HELLO)


def test_an_error_within_a_stream_reaches_the_caller(line: Line, client: Any) -> None:
    line.gpt.reply = lambda document: gpt.ChatReply(
        {"content": "Line four."}, chunks=3, error="server_error"
    )
    texts: list[Any] = []
    stream = client.models.generate_content_stream(model="breaking", contents=HELLO)
    with pytest.raises(errors.APIError) as caught:
        texts.extend(chunk.text for chunk in stream)
    assert texts
    assert caught.value.code >= 500


def test_who_leaves_a_stream_ends_it_at_the_endpoint(line: Line) -> None:
    line.gpt.reply = lambda document: gpt.ChatReply(
        {"content": "Line four."}, chunks=3, held=threading.Event()
    )
    url = f"{line.gateway.http_url.rstrip('/')}/v1beta/models/slow:streamGenerateContent"
    body = {"contents": [{"parts": [{"text": HELLO}]}]}
    with httpx.stream(
        "POST", url, params={"alt": "sse"}, json=body, headers={"x-goog-api-key": "allowed"}
    ) as answer:
        next(answer.iter_lines())
    wait_until(line.gpt.left.is_set, 10)


@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("model", PROVIDERS)
def test_surrogates_are_put_back_wherever_they_are_split(
    line: Line, client: Any, model: str, size: int
) -> None:
    line.repeats(model, size)
    words = f"Write to {EMAIL}, and call +49 176 12345678"
    whole = client.models.generate_content(model=model, contents=words, config=_config(tools=TOOLS))
    chunks = list(
        client.models.generate_content_stream(
            model=model, contents=words, config=_config(tools=TOOLS)
        )
    )
    for answers in ([whole], chunks):
        parts = [part for each in answers for part in each.candidates[0].content.parts or ()]
        assert "".join(part.text or "" for part in parts) == words
        (call,) = [part.function_call for part in parts if part.function_call]
        assert call.args == {"stop": words}
    assert EMAIL not in json.dumps(line.sent(model))


def test_texts_are_embedded(line: Line, client: Any) -> None:
    answer = client.models.embed_content(
        model="vectors", contents=["a", "b"], config={"output_dimensionality": 2}
    )
    assert [each.values for each in answer.embeddings] == [[0.0, 0.5], [1.0, 0.5]]
    (sent,) = line.gpt.requests
    assert (sent["input"], sent["dimensions"]) == (["a", "b"], 2)


def test_models_are_listed_for_the_key(line: Line, client: Any) -> None:
    names = [model.name for model in client.models.list()]
    assert "models/gpt" in names
    assert client.models.get(model="gpt").supported_actions[0] == "generateContent"


def test_without_events_a_stream_is_an_array_and_v1_is_the_same(line: Line) -> None:
    url = line.gateway.http_url.rstrip("/")
    headers = {"x-goog-api-key": "allowed"}
    body = {"contents": [{"parts": [{"text": HELLO}]}], "generation_config": {"top_p": 1}}
    for version in ("v1", "v1beta"):
        answer = httpx.post(
            f"{url}/{version}/models/gpt:streamGenerateContent", json=body, headers=headers
        ).json()
        parts = [part for each in answer for part in each["candidates"][0]["content"]["parts"]]
        assert "".join(part["text"] for part in parts) == "Line four."
    refused = httpx.post(f"{url}/v1/models/gpt:generateContent", json={}, headers=headers).json()
    assert refused["error"]["status"] == "INVALID_ARGUMENT"


def test_a_key_in_the_query_is_refused_with_the_remedy(line: Line) -> None:
    url = f"{line.gateway.http_url.rstrip('/')}/v1beta/models/gpt:generateContent?key=allowed"
    answer = httpx.post(url, json={"contents": [{"parts": [{"text": HELLO}]}]})
    assert answer.status_code == 400
    assert "x-goog-api-key" in answer.json()["error"]["message"]


def test_explain_reads_a_call_as_its_front_does(line: Line) -> None:
    described = {
        "path": "/v1beta/models/gpt:generateContent",
        "headers": {"x-goog-api-key": "allowed"},
        "body": {"contents": [{"parts": [{"text": HELLO}]}]},
    }
    answer = line.gateway.client.post(
        "/spillway/explain", json=described, headers={"x-api-key": "allowed"}
    ).json()
    assert answer["decision"]["attempts"] == ["gpt"]
