"""Callers of Bedrock's Converse: boto3, unmodified, through a real gateway, to endpoints of
OpenAI's API and of Anthropic's that take nothing that their schemas have not. boto3 sends a bearer
token over TLS alone."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, EventStreamError

from tests import anthropic_api as claude
from tests import chat_api as gpt
from tests.live import serving, wait_until
from tests.translated import EMAIL, PROVIDERS, Line, settings
from tests.unit.pki import Authority

Document = dict[str, Any]
HELLO: Any = [{"role": "user", "content": [{"text": "Which tram goes to the station?"}]}]
TOOLS: Any = [
    {
        "toolSpec": {
            "name": "trams",
            "description": "Trams at a stop",
            "inputSchema": {"json": {"type": "object", "properties": {"stop": {"type": "string"}}}},
        }
    }
]
SIGNATURE = "c2ln" * 20


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    scratch = tmp_path_factory.mktemp("bedrock")
    authority = Authority(scratch)
    own = authority.issue("127.0.0.1")
    with gpt.chat_api() as openai, claude.anthropic_api() as api:
        document = settings(openai, api, scratch)
        document["listen"]["tls"] = {"cert_file": str(own.cert), "key_file": str(own.key)}
        with serving(document, scratch) as gateway:
            line = Line(gateway, openai, api)
            line.authority = authority.file
            yield line


@pytest.fixture
def line(started: Line) -> Line:
    return started.fresh()


@pytest.fixture(scope="module")
def client(started: Line) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_BEARER_TOKEN_BEDROCK", "allowed")
        yield _client(started)


def _client(line: Line, **more: Any) -> Any:
    once = Config(retries={"max_attempts": 1, "mode": "standard"})
    return boto3.session.Session().client(
        "bedrock-runtime",
        region_name="eu-central-1",
        endpoint_url=_url(line),
        config=once,
        verify=str(line.authority),
        **more,
    )


def _url(line: Line) -> str:
    return line.gateway.http_url.replace("http://", "https://")


def _content(answer: Document) -> list[Document]:
    content: list[Document] = answer["output"]["message"]["content"]
    return content


def _streamed(answer: Document) -> Document:
    """The events of a stream as a whole answer."""
    blocks: dict[int, Document] = {}
    made: Document = {}
    for event in answer["stream"]:
        ((kind, value),) = event.items()
        if kind == "contentBlockStart":
            blocks[value["contentBlockIndex"]] = {**value["start"]["toolUse"], "input": ""}
        elif kind == "contentBlockDelta":
            block = blocks.setdefault(value["contentBlockIndex"], {})
            delta = value["delta"]
            delta = delta.get("toolUse") or delta.get("reasoningContent") or delta
            for key, piece in delta.items():
                block[key] = block[key] + piece if key in block else piece
        elif kind in ("messageStop", "metadata"):
            made |= value
    return {**made, "blocks": [blocks[at] for at in sorted(blocks)]}


@pytest.mark.parametrize("model", PROVIDERS)
def test_a_call_is_answered_and_recorded_with_its_usage(
    line: Line, client: Any, model: str
) -> None:
    answer = client.converse(
        modelId=model, messages=HELLO, system=[{"text": "Be brief."}],
        inferenceConfig={"maxTokens": 9, "temperature": 0.5, "stopSequences": ["###"]},
        requestMetadata={"project": "trams"}, performanceConfig={"latency": "standard"},
    )  # fmt: skip
    assert _content(answer) == [{"text": "Line four."}]
    assert answer["stopReason"] == "end_turn"
    assert (answer["usage"]["inputTokens"], answer["usage"]["outputTokens"]) == (7, 5)
    headers = answer["ResponseMetadata"]["HTTPHeaders"]
    assert headers["x-spillway-endpoint"] == model
    assert answer["ResponseMetadata"]["RequestId"] == headers["x-request-id"]
    record = line.gateway.record(headers["x-request-id"])
    assert (record["protocol"], record["total_tokens"]) == ("bedrock", 12)
    (sent,) = line.sent(model)
    assert json.dumps(sent).count("Be brief.") == 1
    assert sent.get("max_tokens", sent.get("max_completion_tokens")) == 9
    assert (sent.get("stop") or sent.get("stop_sequences")) == ["###"]


@pytest.mark.parametrize("model", PROVIDERS)
def test_tools_are_called_and_their_results_go_back(line: Line, client: Any, model: str) -> None:
    line.calls(model)
    answer = client.converse(
        modelId=model, messages=HELLO, toolConfig={"tools": TOOLS, "toolChoice": {"any": {}}}
    )
    said, call = _content(answer)
    assert (answer["stopReason"], said["text"]) == ("tool_use", "A moment.")
    assert (call["toolUse"]["name"], call["toolUse"]["input"]) == ("trams", {"stop": "M"})
    line.says(model, "Four or seven.")
    result = {
        "toolUseId": call["toolUse"]["toolUseId"], "status": "error",
        "content": [{"json": {"lines": [4, 7]}}],
    }  # fmt: skip
    turns = [
        *HELLO,
        answer["output"]["message"],
        {"role": "user", "content": [{"toolResult": result}, {"text": "Well?"}]},
    ]
    again = client.converse(modelId=model, messages=turns, toolConfig={"tools": TOOLS})
    assert _content(again) == [{"text": "Four or seven."}]
    sent = line.sent(model)[-1]["messages"]
    assert call["toolUse"]["toolUseId"] in json.dumps(sent[1])
    assert "[4,7]" in json.dumps(sent[2])
    assert "rror" in json.dumps(sent[2])
    assert "Well?" in json.dumps(sent[-1])


@pytest.mark.parametrize("model", PROVIDERS)
def test_a_stream_comes_event_by_event_with_tool_calls_and_usage(
    line: Line, client: Any, model: str
) -> None:
    line.calls(model)
    answer = client.converse_stream(modelId=model, messages=HELLO, toolConfig={"tools": TOOLS})
    events = list(answer["stream"])
    texts = [
        each["contentBlockDelta"]["delta"]["text"]
        for each in events
        if "text" in each.get("contentBlockDelta", {}).get("delta", {})
    ]
    assert texts == ["A m", "ome", "nt."]
    assert [next(iter(each)) for each in (events[0], *events[-2:])] == [
        "messageStart", "messageStop", "metadata",
    ]  # fmt: skip
    whole = _streamed({"stream": events})
    assert whole["stopReason"] == "tool_use"
    assert json.loads(whole["blocks"][1]["input"]) == {"stop": "M"}
    assert whole["usage"]["totalTokens"] == 12


@pytest.mark.parametrize("model", PROVIDERS)
def test_structured_output(line: Line, client: Any, model: str) -> None:
    line.says(model, '{"line": 4}')
    schema = {
        "type": "object", "properties": {"line": {"type": "integer"}}, "required": ["line"],
        "additionalProperties": False,
    }  # fmt: skip
    shape = {"jsonSchema": {"schema": json.dumps(schema), "name": "tram"}}
    client.converse(
        modelId=model, messages=HELLO,
        outputConfig={"textFormat": {"type": "json_schema", "structure": shape}},
    )  # fmt: skip
    (sent,) = line.sent(model)
    stated = sent.get("response_format") or sent["output_config"]["format"]
    made = stated["json_schema"]["schema"] if model == "gpt" else stated["schema"]
    assert made.items() >= schema.items()


def test_what_was_thought_goes_back_with_its_signature(line: Line, client: Any) -> None:
    thought = {"type": "thinking", "thinking": "Hm, a tram.", "signature": SIGNATURE}
    hidden = {"type": "redacted_thinking", "data": "aGlkZGVu"}
    blocks = [thought, hidden, claude.tool_use("trams", stop="M")]
    line.claude.reply = lambda document: claude.Reply(blocks, "tool_use")
    own = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    asked = {
        "modelId": "claude", "toolConfig": {"tools": TOOLS},
        "inferenceConfig": {"maxTokens": 4000}, "additionalModelRequestFields": own,
    }  # fmt: skip
    answer = client.converse(messages=HELLO, **asked)
    streamed = _streamed(client.converse_stream(messages=HELLO, **asked))["blocks"]
    said = answer["output"]["message"]
    assert [next(iter(block)) for block in said["content"]] == [
        "reasoningContent", "reasoningContent", "toolUse",
    ]  # fmt: skip
    assert streamed[0] == {"text": "Hm, a tram.", "signature": SIGNATURE}
    own_bytes = said["content"][1]["reasoningContent"]["redactedContent"]
    assert streamed[1] == {"redactedContent": own_bytes}
    call = said["content"][2]["toolUse"]["toolUseId"]
    result = {"toolResult": {"toolUseId": call, "content": [{"text": "4"}]}}
    client.converse(messages=[*HELLO, said, {"role": "user", "content": [result]}], **asked)
    sent = line.claude.requests[-1]
    assert sent["messages"][1]["content"][:2] == [thought, hidden]
    assert sent["thinking"] == own["thinking"]


def test_pictures_and_documents_go_where_calls_are_not_read(line: Line, client: Any) -> None:
    content = [
        {"text": "What is it?"},
        {"image": {"format": "png", "source": {"bytes": b"\xfb\xff\xfe"}}},
        {"document": {"format": "pdf", "name": "plan", "source": {"bytes": b"\xfb\xff\xfe"}}},
    ]
    client.converse(modelId="poems", messages=[{"role": "user", "content": content}])
    picture, document = line.gpt.requests[0]["messages"][0]["content"][1:]
    assert picture["image_url"]["url"] == "data:image/png;base64,+//+"
    assert document["file"] == {
        "filename": "plan", "file_data": "data:application/pdf;base64,+//+",
    }  # fmt: skip


def test_cache_points_mark_what_stands_in_front_of_them(line: Line, client: Any) -> None:
    point = {"cachePoint": {"type": "default"}}
    client.converse(
        modelId="claude", system=[{"text": "Be brief."}, point],
        messages=[{"role": "user", "content": [*HELLO[0]["content"], point]}],
        toolConfig={"tools": [*TOOLS, point]},
    )  # fmt: skip
    (sent,) = line.claude.requests
    marked = [sent["system"][-1], sent["messages"][0]["content"][-1], sent["tools"][-1]]
    assert [each["cache_control"] for each in marked] == [{"type": "ephemeral"}] * 3


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"guardrailConfig": {"guardrailIdentifier": "a", "guardrailVersion": "1"}},
         "guardrailConfig"),
        ({"promptVariables": {"a": {"text": "b"}}}, "promptVariables"),
        ({"additionalModelRequestFields": {"logit_bias": {}}},
         "additionalModelRequestFields.logit_bias"),
        ({"additionalModelResponseFieldPaths": ["/stop_sequence"]},
         "additionalModelResponseFieldPaths"),
        ({"performanceConfig": {"latency": "optimized"}}, "performanceConfig.latency"),
        ({"messages": [{"role": "user", "content": [
            {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://a/b"}}}}]}]},
         "messages[0].content[0].video"),
        ({"toolConfig": {"tools": [{"systemTool": {"name": "web"}}]}},
         "toolConfig.tools[0].systemTool"),
    ],
)  # fmt: skip
def test_what_no_chat_can_say_is_refused_by_its_name(
    line: Line, client: Any, more: Any, name: str
) -> None:
    for model in PROVIDERS:
        with pytest.raises(ClientError) as caught:
            client.converse(**{"modelId": model, "messages": HELLO, **more})
        stated = caught.value.response["Error"]
        assert stated["Code"] == "ValidationException"
        assert stated["Message"].startswith(f"{name}: ")
        assert not line.sent(model)


def test_what_a_provider_has_no_words_for_is_named_as_its_caller_has_it(
    line: Line, client: Any
) -> None:
    own = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    with pytest.raises(ClientError, match=r"additionalModelRequestFields\.thinking: no endpoint"):
        client.converse(modelId="gpt", messages=HELLO, additionalModelRequestFields=own)
    blank = {"stopSequences": [" "]}
    with pytest.raises(ClientError, match=r"inferenceConfig\.stopSequences: no endpoint"):
        client.converse(modelId="claude", messages=HELLO, inferenceConfig=blank)
    turns = [*HELLO, {"role": "assistant", "content": [{"text": "Line"}]}]
    for model in PROVIDERS:
        with pytest.raises(ClientError, match=r"messages\[1\]: no endpoint"):
            client.converse(modelId=model, messages=turns)
        assert not line.sent(model)


def test_failures_are_told_in_aws_s_shape(line: Line, client: Any) -> None:
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.converse(modelId="nobody", messages=HELLO)
    line.gpt.reply = lambda document: gpt.ChatReply(status=400, error="invalid_request_error")
    with pytest.raises(client.exceptions.ValidationException, match="Not now"):
        client.converse(modelId="gpt", messages=HELLO)
    line.gpt.reply = lambda document: gpt.ChatReply(status=429, error="rate_limit_error")
    with pytest.raises(client.exceptions.ThrottlingException):
        client.converse_stream(modelId="busy", messages=HELLO)


def test_a_signed_request_is_refused_with_the_remedy(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    signing = _client(line, aws_access_key_id="AKIA", aws_secret_access_key="allowed")
    with pytest.raises(ClientError, match="AWS_BEARER_TOKEN_BEDROCK") as caught:
        signing.converse(modelId="gpt", messages=HELLO)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 401
    assert not line.gpt.requests


def test_an_error_within_a_stream_reaches_the_caller(line: Line, client: Any) -> None:
    line.gpt.reply = lambda document: gpt.ChatReply(
        {"content": "Line four."}, chunks=3, error="server_error"
    )
    events: list[Document] = []
    stream = client.converse_stream(modelId="breaking", messages=HELLO)["stream"]
    with pytest.raises(EventStreamError, match="modelStreamErrorException"):
        events.extend(stream)
    assert "messageStart" in events[0]


def test_who_leaves_a_stream_ends_it_at_the_endpoint(line: Line, client: Any) -> None:
    line.gpt.reply = lambda document: gpt.ChatReply(
        {"content": "Line four."}, chunks=3, held=threading.Event()
    )
    stream = client.converse_stream(modelId="slow", messages=HELLO)["stream"]
    next(iter(stream))
    stream.close()
    wait_until(line.gpt.left.is_set, 10)


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("model", PROVIDERS)
def test_surrogates_are_put_back_wherever_they_are_split(
    line: Line, client: Any, model: str, size: int
) -> None:
    line.repeats(model, size)
    words = f"Write to {EMAIL}, and call +49 176 12345678"
    asked = {
        "modelId": model, "messages": [{"role": "user", "content": [{"text": words}]}],
        "toolConfig": {"tools": TOOLS},
    }  # fmt: skip
    said, call = _content(client.converse(**asked))
    assert (said["text"], call["toolUse"]["input"]) == (words, {"stop": words})
    said, call = _streamed(client.converse_stream(**asked))["blocks"]
    assert (said["text"], json.loads(call["input"])) == (words, {"stop": words})
    assert EMAIL not in json.dumps(line.sent(model))


def test_explain_reads_a_call_as_its_front_does(line: Line) -> None:
    described = {
        "path": "/model/gpt/converse",
        "headers": {"authorization": "Bearer allowed"},
        "body": {"messages": HELLO},
    }
    url, headers = f"{_url(line)}/spillway/explain", {"x-api-key": "allowed"}
    trusted = ssl.create_default_context(cafile=str(line.authority))
    answer = httpx.post(url, json=described, headers=headers, verify=trusted).json()
    assert answer["decision"]["attempts"] == ["gpt"]
