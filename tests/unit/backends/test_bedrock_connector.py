"""The connector of kind bedrock, and of SageMaker's endpoints, against services on a real socket
that check signatures and shapes by botocore."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest

from gateway.config import EndpointSettings
from gateway.core import timeouts
from gateway.core.errors import (
    UpstreamBusy,
    UpstreamError,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamUnreachable,
)
from gateway.core.reply import JsonBody, ReplyStream, ServerEvent
from gateway.core.types import AT_ONCE_BYTES, CLOUD, ServedModel, Usage
from gateway.endpoints.connectors import Connector
from gateway.endpoints.connectors.kinds import build_connector
from gateway.endpoints.connectors.openai.amazon.events import AmazonEventParser
from gateway.endpoints.connectors.openai.dialects.bedrock.answer import completion
from gateway.endpoints.connectors.openai.event_stream import NO_SECRETS
from tests import bedrock_api
from tests.bedrock_api import (
    ACCESS_KEY,
    BEARER,
    REGION,
    SECRET_KEY,
    AwsApi,
    Reply,
    aws_api,
    text,
    thought,
    tool_use,
)
from tests.unit.backends.test_anthropic_connector import all_of, asked, chunks_of, joined
from tests.unit.backends.test_credentials import until_ready

pytestmark = pytest.mark.anyio

Document = dict[str, Any]
CLAUDE = "anthropic.claude-3-haiku-20240307-v1:0"
PROFILE = "arn:aws:bedrock:eu-central-1:123456789012:application-inference-profile/a1b2c3"
WAITS_S = 30.0
USAGE = {"inputTokens": 7, "cacheReadInputTokens": 100, "cacheWriteInputTokens": 20,
         "outputTokens": 9, "totalTokens": 136}  # fmt: skip
COUNTED = {
    "prompt_tokens": 127, "completion_tokens": 9, "total_tokens": 136,
    "prompt_tokens_details": {"cached_tokens": 100, "cache_creation_tokens": 20},
}  # fmt: skip
REDACTED = {"reasoningContent": {"redactedContent": "AAAA"}}
ALL = [thought("Let me see."), REDACTED, text("Two calls: "), text("ok."),
       tool_use("f", a=[1, "é"]), tool_use("g", "tooluse_2")]  # fmt: skip
KEYS = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY, "region": REGION}


@dataclass
class Rig:
    api: AwsApi
    connector: Connector

    def answers(self, *content: Document, **more: Any) -> None:
        self.api.reply = lambda document: Reply(list(content), **more)

    async def open(
        self, streamed: bool = False, model: str = CLAUDE, **changes: Any
    ) -> ReplyStream:
        with timeouts.within(WAITS_S):
            return await self.connector.open(asked(streamed, **changes), ServedModel(model))

    async def completion(self, **changes: Any) -> Document:
        (frame,) = await all_of(await self.open(**changes))
        assert isinstance(frame, JsonBody)
        made: Document = json.loads(frame.body)
        return made

    async def chunks(self, **changes: Any) -> list[Document]:
        return chunks_of(await all_of(await self.open(True, **changes)))


@pytest.fixture
def api() -> Iterator[AwsApi]:
    with aws_api() as api:
        yield api


def connector_of(url: str, **settings: Any) -> Connector:
    document = {"zone": CLOUD, "url": url, "credential": {"aws": KEYS}, **settings}
    return build_connector(EndpointSettings.model_validate(document), None)


@pytest.fixture
async def rig(api: AwsApi) -> AsyncIterator[Rig]:
    connector = connector_of(api.url, kind="bedrock")
    await until_ready(connector)
    yield Rig(api, connector)
    await connector.aclose()


@pytest.fixture
async def endpoint(api: AwsApi) -> AsyncIterator[Rig]:
    connector = connector_of(f"{api.url}/endpoints/llama", provider="sagemaker")
    await until_ready(connector)
    yield Rig(api, connector)
    await connector.aclose()


async def test_a_whole_answer_is_a_chat_completion(rig: Rig) -> None:
    rig.answers(*ALL, stop_reason="tool_use", usage=USAGE)
    made = await rig.completion()
    assert made.pop("created") > 1_700_000_000
    assert made.pop("id").startswith("chatcmpl-")
    blocks = [
        {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "AAAA"},
    ]
    calls = [
        {
            "id": "tooluse_1", "type": "function",
            "function": {"name": "f", "arguments": '{"a":[1,"é"]}'},
        },
        {"id": "tooluse_2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]  # fmt: skip
    message = {
        "role": "assistant", "content": "Two calls: ok.", "refusal": None,
        "reasoning_content": "Let me see.", "thinking_blocks": blocks, "tool_calls": calls,
    }  # fmt: skip
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}
    assert made == {
        "object": "chat.completion", "model": CLAUDE, "choices": [choice], "usage": COUNTED,
    }  # fmt: skip


async def test_a_stream_says_the_same_event_by_event(rig: Rig) -> None:
    rig.answers(*ALL, stop_reason="tool_use", usage=USAGE)
    stream = await rig.open(True, stream_options={"include_usage": True})
    chunks = chunks_of(await all_of(stream))
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == COUNTED
    assert (stream.usage, stream.total_tokens) == (Usage(127, 9, 100, cache_write_tokens=20), 136)  # type: ignore[attr-defined]
    whole = (await rig.completion())["choices"][0]
    message = joined(chunks)
    assert message.pop("finish_reason") == whole["finish_reason"]
    for call in message["tool_calls"]:
        del call["index"]
    for call in [*message["tool_calls"], *whole["message"]["tool_calls"]]:
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    assert message.items() <= whole["message"].items()
    assert {(chunk["model"], chunk["id"][:9]) for chunk in chunks} == {(CLAUDE, "chatcmpl-")}


async def test_botocore_reads_the_same_answer(rig: Rig) -> None:
    """The service of these tests is one that AWS's own SDK understands."""
    rig.answers(thought("Hm."), text("Line four."), usage=USAGE)
    client = boto3.client(
        "bedrock-runtime", endpoint_url=rig.api.url, region_name=REGION,
        aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY,
    )  # fmt: skip
    turns = [{"role": "user", "content": [{"text": "hello"}]}]
    answer = client.converse(modelId=PROFILE, messages=turns)
    assert answer["output"]["message"]["content"][1] == {"text": "Line four."}
    assert answer["usage"] == USAGE
    events = list(client.converse_stream(modelId=PROFILE, messages=turns)["stream"])
    assert [next(iter(event)) for event in events][-2:] == ["messageStop", "metadata"]
    client.close()
    await rig.completion(model=PROFILE)
    assert {call.path for call in rig.api.calls} == {
        f"/model/{PROFILE}/converse", f"/model/{PROFILE}/converse-stream"
    }  # fmt: skip


async def test_the_first_chunk_comes_before_the_answer_is_whole(rig: Rig) -> None:
    held = threading.Event()
    rig.answers(text("Hello."), events=2, held=held)
    stream = await rig.open(True)
    frames = []
    async for frame in stream:
        frames.append(frame)
        if joined(chunks_of(frames))["content"]:
            break
    assert joined(chunks_of(frames))["content"] == "Hel"
    held.set()
    with pytest.raises(UpstreamUnreachable):  # for there comes no end
        await all_of(stream)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"), ("tool_use", "tool_calls"),
        ("guardrail_intervened", "content_filter"), ("content_filtered", "content_filter"),
        ("of_a_later_day", "stop"),
    ],
)  # fmt: skip
async def test_why_an_answer_ends(rig: Rig, reason: str, finish: str, streamed: bool) -> None:
    rig.answers(text("x"), stop_reason=reason)
    if streamed:
        assert joined(await rig.chunks())["finish_reason"] == finish
    else:
        assert (await rig.completion())["choices"][0]["finish_reason"] == finish


@pytest.mark.parametrize("reason", ["malformed_model_output", "malformed_tool_use"])
async def test_what_the_model_could_not_write_fails_the_call(rig: Rig, reason: str) -> None:
    rig.answers(text("x"), stop_reason=reason)
    with pytest.raises(UpstreamFailed, match="broke off"):
        await rig.completion()
    with pytest.raises(UpstreamFailed, match="broke off"):
        await rig.chunks()


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("status", "error", "kind", "reason"),
    [
        (429, "ThrottlingException", UpstreamBusy, "upstream_busy"),
        (400, "ThrottlingException", UpstreamBusy, "upstream_busy"),
        (429, "ModelNotReadyException", UpstreamBusy, "upstream_busy"),
        (400, "ServiceQuotaExceededException", UpstreamBusy, "upstream_busy"),
        (503, "ServiceUnavailableException", UpstreamFailed, "upstream_failed"),
        (500, "InternalServerException", UpstreamFailed, "upstream_failed"),
        (424, "ModelErrorException", UpstreamFailed, "upstream_failed"),
        (408, "ModelTimeoutException", UpstreamFailed, "upstream_failed"),
        (400, "ValidationException", UpstreamRefused, "upstream_refused"),
        (404, "ResourceNotFoundException", UpstreamRefused, "upstream_refused"),
        (403, "AccessDeniedException", UpstreamFailed, "upstream_credentials"),
        (403, "ExpiredTokenException", UpstreamFailed, "upstream_credentials"),
    ],
)
async def test_a_failure_has_its_class(
    rig: Rig, status: int, error: str, kind: type[UpstreamError], reason: str, streamed: bool
) -> None:
    rig.answers(status=status, error=error, headers={"retry-after": "3"})
    with pytest.raises(UpstreamError) as caught:
        await rig.open(streamed)
    assert (type(caught.value), caught.value.reason) == (kind, reason)
    assert "Not now." not in caught.value.message
    assert caught.value.unserved is (error != "ModelTimeoutException")  # it may have served it
    assert caught.value.any_call is (error == "ExpiredTokenException")
    if isinstance(caught.value, UpstreamRefused):
        assert caught.value.http_status == status
        assert json.loads(caught.value.body or b"")["error"]["message"] == "Not now."


async def test_what_the_model_itself_refuses_is_refused(rig: Rig) -> None:
    rig.answers(status=424, error="ModelErrorException", body={"originalStatusCode": 400})
    with pytest.raises(UpstreamRefused):
        await rig.open()


@pytest.mark.parametrize("events", [0, 1, 3])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("", UpstreamUnreachable),
        ("throttlingException", UpstreamBusy),
        ("modelStreamErrorException", UpstreamFailed),
        ("internalServerException", UpstreamFailed),
        ("serviceUnavailableException", UpstreamFailed),
        ("validationException", UpstreamRefused),
        ("accessDeniedException", UpstreamFailed),
    ],
)
async def test_a_stream_without_its_last_event_is_broken(
    rig: Rig, events: int, error: str, kind: type[UpstreamError]
) -> None:
    rig.answers(text("Hello."), events=events, error=error)
    with pytest.raises(UpstreamError) as caught:
        await rig.chunks()
    assert type(caught.value) is kind


async def test_not_even_the_reason_of_the_end_ends_a_stream(rig: Rig) -> None:
    rig.answers(text("x"), events=-1)
    with pytest.raises(UpstreamUnreachable):
        await rig.chunks()


@pytest.mark.parametrize("at", [3, 9, 14, -20, -2])
async def test_a_message_with_another_byte_breaks_the_stream(rig: Rig, at: int) -> None:
    """In a length, in its checksum, in a header, in the payload, in the checksum of all."""
    rig.answers(text("Hello."), events=3, damaged=at)
    with pytest.raises(UpstreamFailed, match="cannot be read"):
        await rig.chunks()


def test_a_message_with_another_length_is_not_waited_for() -> None:
    message = bytearray(bedrock_api.event("contentBlockStop", {}))
    message[2] ^= 1
    parser = AmazonEventParser(1 << 20, NO_SECRETS)
    parser.feed(bytes(message))
    with pytest.raises(UpstreamFailed, match="cannot be read"):
        parser.next()


@pytest.mark.parametrize(
    "headers",
    [b"\x05:nam", b"\x01a\x07\x00\x05x", b"\x01a\x0c", b"\x01a\x07\x00\x01\xff", b"\x01a"],
)
def test_headers_that_cannot_be_read_break_the_stream(headers: bytes) -> None:
    parser = AmazonEventParser(1 << 20, NO_SECRETS)
    parser.feed(bedrock_api.framed(headers, b"{}"))
    with pytest.raises(UpstreamFailed, match="cannot be read"):
        parser.next()


def test_headers_of_every_type_are_read() -> None:
    sizes = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
    raw = b"".join(b"\x01x%c%b" % (kind, bytes(size)) for kind, size in sizes.items())
    raw += b"\x01y\x06\x00\x03abc" + bedrock_api.named({":message-type": "event"})
    parser = AmazonEventParser(1 << 20, NO_SECRETS)
    parser.feed(bedrock_api.framed(raw + bedrock_api.named({":event-type": "a"}), b"{}"))
    assert parser.next() == ServerEvent(b"{}", "a")


def test_a_message_larger_than_may_be_held_is_not_waited_for() -> None:
    parser = AmazonEventParser(64, NO_SECRETS)
    parser.feed(bedrock_api.event("contentBlockDelta", {"delta": {"text": "x" * 64}})[:20])
    with pytest.raises(UpstreamFailed, match="more than 64 bytes"):
        parser.next()


def test_what_came_before_a_failure_comes_first() -> None:
    parser = AmazonEventParser(1 << 20, NO_SECRETS)
    parser.feed(bedrock_api.event("a", {}) + bedrock_api.failing("throttlingException"))
    assert parser.next() == ServerEvent(b"{}", "a")
    with pytest.raises(UpstreamBusy):
        parser.next()
    parser.feed(bedrock_api.message("error", b"", error_code="Internal"))
    with pytest.raises(UpstreamFailed):
        parser.next()


async def test_a_block_that_a_chat_has_no_words_for_fails_the_call(rig: Rig) -> None:
    video = {"video": {"format": "mp4", "source": {"bytes": "AAAA"}}}
    rig.answers(video)
    with pytest.raises(UpstreamFailed, match="no words"):
        await rig.completion()


def test_what_models_cite_by_themselves_is_text() -> None:
    cited = {"citationsContent": {"content": [{"text": "By line four."}], "citations": []}}
    body = json.dumps(bedrock_api.answer_of(Reply([cited]))).encode()
    assert completion(body, "m")["choices"][0]["message"]["content"] == "By line four."


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"output": {"message": {}}}'])
def test_what_is_no_answer_fails_the_call(body: bytes) -> None:
    with pytest.raises(UpstreamFailed):
        completion(body, "m")


@pytest.mark.parametrize(
    ("status", "error", "ready"),
    [
        (403, "AccessDeniedException", True),  # for a role that may infer and nothing else
        (403, "ExpiredTokenException", False),
        (503, "ServiceUnavailableException", False),
    ],
)
async def test_a_probe_shows_whether_keys_are_accepted(
    rig: Rig, status: int, error: str, ready: bool
) -> None:
    rig.api.probe = (status, error)
    assert await rig.connector.ready() is ready


async def test_a_large_call_is_signed_whole(rig: Rig) -> None:
    turns = [{"role": "user", "content": "a word " * (AT_ONCE_BYTES // 4)}]
    await rig.completion(messages=turns, size=AT_ONCE_BYTES + 1)
    assert rig.api.requests[0]["messages"][0]["content"][0]["text"] == turns[0]["content"]


async def test_a_clock_that_is_wrong_is_the_gateway_s_fault(rig: Rig) -> None:
    rig.api.ahead_s = 3600.0
    with pytest.raises(UpstreamFailed) as caught:
        await rig.open()
    assert caught.value.reason == "upstream_credentials"
    assert "(InvalidSignature; the clocks are 3" in caught.value.message
    assert rig.api.refused == ["InvalidSignatureException"]
    assert not await rig.connector.ready()


async def test_a_key_of_bedrock_s_own_is_a_bearer_token(api: AwsApi) -> None:
    connector = connector_of(api.url, kind="bedrock", credential=None, api_key=BEARER)
    assert await connector.ready()
    rig = Rig(api, connector)
    assert (await rig.completion())["choices"][0]["message"]["content"] == "Hello."
    await connector.aclose()


CHUNK = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "llama",
         "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}]}  # fmt: skip


async def test_a_container_behind_sagemaker_answers_chats(endpoint: Rig) -> None:
    whole = {"object": "chat.completion", "choices": [], "usage": {"total_tokens": 3}}
    endpoint.api.container = lambda document: whole
    assert await endpoint.completion(model="llama") == whole
    (call,) = endpoint.api.calls
    assert call.path == "/endpoints/llama/invocations"
    assert call.document["model"] == "llama"


@pytest.mark.parametrize("cut", [1, 40, 10_000])
async def test_its_stream_comes_in_messages_of_aws(endpoint: Rig, cut: int) -> None:
    last = {**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    events = [f"data: {json.dumps(each)}\n\n" for each in (CHUNK, CHUNK, last)]
    sent = "".join([*events, "data: [DONE]\n\n"]).encode()
    parts = [sent[at : at + cut] for at in range(0, len(sent), cut)]
    endpoint.api.container = lambda document: [bedrock_api.part(each) for each in parts]
    assert await endpoint.chunks(model="llama") == [CHUNK, CHUNK, last]
    assert endpoint.api.calls[0].path == "/endpoints/llama/invocations-response-stream"


async def test_a_failure_within_its_stream_has_its_class(endpoint: Rig) -> None:
    sent = [bedrock_api.part(f"data: {json.dumps(CHUNK)}\n\n".encode())]
    endpoint.api.container = lambda document: [*sent, bedrock_api.failing("ModelStreamError")]
    with pytest.raises(UpstreamFailed):
        await endpoint.chunks(model="llama")
    endpoint.api.container = lambda document: sent
    with pytest.raises(UpstreamUnreachable):
        await endpoint.chunks(model="llama")
