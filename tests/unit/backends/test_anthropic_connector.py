"""The connector of kind anthropic against an API of its own on a real socket."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.config import EndpointSettings
from gateway.core import timeouts
from gateway.core.deadline import Deadline
from gateway.core.errors import (
    UpstreamBusy,
    UpstreamError,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamUnreachable,
)
from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.spec import OperationSpec
from gateway.core.reply import Frame, JsonBody, ReplyStream, ServerEvent, ServerEvents, received
from gateway.core.types import (
    AT_ONCE_BYTES,
    CLOUD,
    DocumentCall,
    InferenceRequest,
    ServedModel,
    Usage,
    WireProtocol,
)
from gateway.endpoints.connectors import Connector
from gateway.endpoints.connectors.kinds import build_connector
from gateway.endpoints.connectors.openai.dialects.anthropic.answer import completion
from gateway.endpoints.connectors.openai.dialects.anthropic.events import MessageEvents
from gateway.endpoints.connectors.openai.event_stream import NO_SECRETS, Progress
from tests.anthropic_api import (
    KEY,
    AnthropicApi,
    Reply,
    anthropic_api,
    stream_events,
    text,
    tool_use,
)

pytestmark = pytest.mark.anyio

Document = dict[str, Any]
SERVED = ServedModel("claude-test")
WAITS_S = 30.0
HELLO = [{"role": "user", "content": "hello"}]
USAGE = {"input_tokens": 7, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20,
         "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}}  # fmt: skip
COUNTED = {
    "prompt_tokens": 127, "completion_tokens": 9, "total_tokens": 136,
    "prompt_tokens_details": {"cached_tokens": 100, "cache_creation_tokens": 20},
    "completion_tokens_details": {"reasoning_tokens": 4},
}  # fmt: skip
THINKING = {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"}
REDACTED = {"type": "redacted_thinking", "data": "xx"}
ALL = [THINKING, REDACTED, text("Two calls: "), text("ok."), tool_use("f", a=[1, "é"]),
       tool_use("g", "toolu_2")]  # fmt: skip


@dataclass
class Rig:
    api: AnthropicApi
    connector: Connector

    def answers(self, *content: Document, **more: Any) -> None:
        self.api.reply = lambda document: Reply(list(content), **more)

    async def open(self, streamed: bool = False, **changes: Any) -> ReplyStream:
        """Whoever opens a connector bounds the wait, as attempts do."""
        with timeouts.within(WAITS_S):
            return await self.connector.open(asked(streamed, **changes), SERVED)

    async def completion(self, **changes: Any) -> Document:
        (frame,) = await all_of(await self.open(**changes))
        assert isinstance(frame, JsonBody)
        made: Document = json.loads(frame.body)
        return made

    async def chunks(self, **changes: Any) -> list[Document]:
        return chunks_of(await all_of(await self.open(True, **changes)))


async def all_of(stream: ReplyStream) -> list[Frame]:
    with timeouts.within(WAITS_S):
        return await received(stream)


def asked(
    streamed: bool = False, operation: OperationSpec = CHAT, size: int = 0, **changes: Any
) -> InferenceRequest:
    document = {"model": "m", "messages": HELLO, **({"stream": True} if streamed else {})}
    call = DocumentCall(operation, document | changes, streamed, size)
    deadline = Deadline.after(WAITS_S)
    return InferenceRequest("1", WireProtocol.OPENAI, "t", "m", call, deadline, traceparent="00-1")


def chunks_of(frames: list[Any]) -> list[Document]:
    events: list[ServerEvent] = []
    for frame in frames:
        events += frame.apart() if isinstance(frame, ServerEvents) else [frame]
    return [json.loads(event.data) for event in events]


@pytest.fixture
def api() -> Iterator[AnthropicApi]:
    with anthropic_api() as api:
        yield api


def connector_of(api: AnthropicApi, **settings: Any) -> Connector:
    document = {"kind": "anthropic", "zone": CLOUD, "url": api.url, "api_key": KEY, **settings}
    return build_connector(EndpointSettings.model_validate(document), None)


@pytest.fixture
async def rig(api: AnthropicApi) -> AsyncIterator[Rig]:
    connector = connector_of(api)
    yield Rig(api, connector)
    await connector.aclose()


def joined(chunks: list[Document]) -> Document:
    """The message that a caller makes of chunks."""
    message: Document = {"content": "", "reasoning_content": "", "tool_calls": []}
    blocks: dict[int, Document] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            delta = choice["delta"]
            for key in ("content", "reasoning_content"):
                message[key] += delta.get(key) or ""
            for piece in delta.get("thinking_blocks", ()):
                block = blocks.setdefault(piece.pop("index"), {"type": piece.pop("type")})
                for key, value in piece.items():
                    block[key] = block.get(key, "") + value
            for call in delta.get("tool_calls", ()):
                if call["index"] == len(message["tool_calls"]):
                    message["tool_calls"].append(call)
                else:
                    function = message["tool_calls"][call["index"]]["function"]
                    function["arguments"] += call["function"]["arguments"]
            if choice["finish_reason"] is not None:
                message["finish_reason"] = choice["finish_reason"]
    return message | ({"thinking_blocks": list(blocks.values())} if blocks else {})


async def test_a_whole_answer_is_a_chat_completion(rig: Rig) -> None:
    rig.answers(*ALL, stop_reason="tool_use", usage=USAGE)
    made = await rig.completion()
    assert made.pop("created") > 1_700_000_000
    calls = [
        {
            "id": "toolu_1", "type": "function",
            "function": {"name": "f", "arguments": '{"a":[1,"é"]}'},
        },
        {"id": "toolu_2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]  # fmt: skip
    message = {
        "role": "assistant", "content": "Two calls: ok.", "refusal": None,
        "reasoning_content": "Let me see.", "thinking_blocks": [THINKING, REDACTED],
        "tool_calls": calls,
    }  # fmt: skip
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}
    assert made == {
        "id": "msg_1", "object": "chat.completion", "model": "claude-test",
        "choices": [choice], "usage": COUNTED,
    }  # fmt: skip


async def test_a_stream_says_the_same_event_by_event(rig: Rig) -> None:
    rig.answers(*ALL, stop_reason="tool_use", usage=USAGE)
    stream = await rig.open(True, stream_options={"include_usage": True})
    chunks = chunks_of(await all_of(stream))
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": "", "refusal": None}
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == COUNTED
    assert (stream.usage, stream.total_tokens) == (Usage(127, 9, 100, 4, 20), 136)  # type: ignore[attr-defined]
    whole = (await rig.completion())["choices"][0]
    message = joined(chunks)
    assert message.pop("finish_reason") == whole["finish_reason"]
    for call in message["tool_calls"]:
        del call["index"]
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    for call in whole["message"]["tool_calls"]:
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    assert message.items() <= whole["message"].items()
    assert {chunk["id"] for chunk in chunks} == {"msg_1"}


async def test_what_a_stream_took_is_noted_and_told_to_who_asks(rig: Rig) -> None:
    stream = await rig.open(True)
    chunks = chunks_of(await all_of(stream))
    assert all(chunk["choices"] and "usage" not in chunk for chunk in chunks)
    assert stream.usage == Usage(7, 5)  # type: ignore[attr-defined]


async def test_the_first_chunk_comes_before_the_answer_is_whole(rig: Rig) -> None:
    held = threading.Event()
    rig.answers(text("Hello."), events=4, held=held)
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
        ("end_turn", "stop"), ("stop_sequence", "stop"), ("pause_turn", "stop"),
        ("max_tokens", "length"), ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"), ("refusal", "content_filter"), ("of_a_later_day", "stop"),
    ],
)  # fmt: skip
async def test_why_an_answer_ends(rig: Rig, reason: str, finish: str, streamed: bool) -> None:
    rig.answers(text("x"), stop_reason=reason)
    if streamed:
        assert joined(await rig.chunks())["finish_reason"] == finish
    else:
        assert (await rig.completion())["choices"][0]["finish_reason"] == finish


def test_what_a_refusal_says_is_kept() -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "That would harm."}
    message = {
        "type": "message", "id": "1", "content": [], "stop_reason": "refusal",
        "stop_details": details,
    }  # fmt: skip
    made = completion(json.dumps(message).encode(), NO_SECRETS)["choices"][0]["message"]
    assert made == {"role": "assistant", "content": None, "refusal": "That would harm."}
    events = stream_events(Reply(stop_reason="refusal"))
    events[-2]["delta"]["stop_details"] = details
    last = [json.loads(data) for data in read(events) if data][-1]["choices"][0]
    assert last["delta"] == {"refusal": "That would harm."}
    assert last["finish_reason"] == "content_filter"


def read(events: list[Document]) -> list[bytes]:
    reader, progress = MessageEvents(False), Progress(CHAT)
    datas = [reader.read(ServerEvent(json.dumps(e).encode()), progress) for e in events]
    return [data[0] if data else b"" for data in datas]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("status", "error", "kind", "reason"),
    [
        (529, "overloaded_error", UpstreamBusy, "upstream_busy"),
        (529, "", UpstreamBusy, "upstream_busy"),
        (429, "rate_limit_error", UpstreamBusy, "upstream_busy"),
        (402, "billing_error", UpstreamBusy, "upstream_busy"),
        (401, "authentication_error", UpstreamFailed, "upstream_credentials"),
        (403, "permission_error", UpstreamFailed, "upstream_credentials"),
        (400, "invalid_request_error", UpstreamRefused, "upstream_refused"),
        (404, "not_found_error", UpstreamRefused, "upstream_refused"),
        (413, "request_too_large", UpstreamRefused, "upstream_refused"),
        (500, "api_error", UpstreamFailed, "upstream_failed"),
        (504, "timeout_error", UpstreamFailed, "upstream_failed"),
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
    if kind is UpstreamBusy:
        assert caught.value.retry_after_s == 3.0
    if isinstance(caught.value, UpstreamRefused):
        assert caught.value.http_status == status
        assert json.loads(caught.value.body or b"") == {
            "error": {"type": error, "message": "Not now."}
        }


@pytest.mark.parametrize("events", [0, 1, 4, 6])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("", UpstreamUnreachable),
        ("overloaded_error", UpstreamBusy),
        ("api_error", UpstreamFailed),
        ("invalid_request_error", UpstreamRefused),
    ],
)
async def test_a_stream_without_its_last_event_is_broken(
    rig: Rig, events: int, error: str, kind: type[UpstreamError]
) -> None:
    rig.answers(text("Hello."), events=events, error=error)
    with pytest.raises(kind) as caught:
        await rig.chunks()
    assert type(caught.value) is kind


async def test_not_even_the_reason_of_the_end_ends_a_stream(rig: Rig) -> None:
    rig.answers(text("x"), events=-1)
    with pytest.raises(UpstreamUnreachable):
        await rig.chunks()


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "server_tool_use", "id": "1", "name": "x", "input": {}}],
        [{"type": "text"}],
        ["x"],
    ],
    ids=str,
)
async def test_a_block_that_a_chat_has_no_words_for_fails_the_call(content: list[Any]) -> None:
    body = json.dumps({"type": "message", "id": "1", "content": content}).encode()
    with pytest.raises(UpstreamFailed, match="no words"):
        completion(body, NO_SECRETS)
    start = {"type": "content_block_start", "index": 0, "content_block": content[0]}
    with pytest.raises(UpstreamFailed, match="no words"):
        read([start])


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"type": "message"}', b'{"a": 1, "a": 2}'])
def test_what_is_no_message_fails_the_call(body: bytes) -> None:
    with pytest.raises(UpstreamFailed):
        completion(body, NO_SECRETS)


@pytest.mark.parametrize(
    "event",
    ["[]", "nothing", '{"type": "content_block_delta", "index": 0, "delta": {"type": "x"}}'],
)
def test_what_is_no_event_breaks_the_stream(event: str) -> None:
    with pytest.raises(UpstreamFailed):
        MessageEvents(False).read(ServerEvent(event.encode()), Progress(CHAT))


def test_an_event_of_more_than_can_be_parsed_breaks_the_stream() -> None:
    data = b'{"type": "ping", "a": [%b]}' % b",".join([b"[]"] * 200_000)
    with pytest.raises(UpstreamFailed, match="too large"):
        MessageEvents(False).read(ServerEvent(data), Progress(CHAT))


def test_an_event_of_a_later_version_is_passed_over() -> None:
    assert read([{"type": "ping"}, {"type": "of_a_later_day"}]) == [b"", b""]


def test_a_text_before_its_message_breaks_the_stream() -> None:
    delta = {"type": "text_delta", "text": "x"}
    with pytest.raises(UpstreamFailed):
        read([{"type": "content_block_delta", "index": 0, "delta": delta}])


def test_arguments_that_come_with_the_call_are_not_written_twice() -> None:
    start, *_ = stream_events(Reply())
    block = {"type": "content_block_start", "index": 0, "content_block": tool_use("f", a=1)}
    stop = {"type": "content_block_stop", "index": 0}
    chunks = [json.loads(data) for data in read([start, block, stop]) if data]
    assert joined(chunks)["tool_calls"][0]["function"]["arguments"] == '{"a":1}'


def test_a_long_number_in_arguments_is_not_rounded() -> None:
    body = json.dumps({"type": "message", "content": [tool_use("f", a=1 << 80)]}).encode()
    (call,) = completion(body, NO_SECRETS)["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"a": 1 << 80}


async def test_a_long_call_is_translated_beside_the_loop(rig: Rig) -> None:
    long = [{"role": "user", "content": "hello " * 20_000}]
    made = await rig.completion(size=AT_ONCE_BYTES + 1, messages=long)
    assert made["choices"][0]["message"]["content"] == "Hello."
    assert rig.api.requests[0]["messages"] == long


async def test_it_serves_chats_alone(rig: Rig) -> None:
    with pytest.raises(UpstreamRefused):
        await rig.open(operation=COMPLETIONS)
    assert rig.api.requests == []


async def test_the_probe_says_whether_the_key_is_accepted(api: AnthropicApi, rig: Rig) -> None:
    assert await rig.connector.ready()
    for settings in ({"api_key": "sk-ant-wrong"}, {"url": "http://127.0.0.1:9"}):
        other = connector_of(api, **settings)
        assert not await other.ready()
        await other.aclose()


async def test_headers_of_the_settings_win(api: AnthropicApi) -> None:
    stated = {"Anthropic-Version": "2030-01-01", "anthropic-beta": "x"}
    other = connector_of(api, headers=stated)
    with pytest.raises(UpstreamRefused):  # the API has another version
        await other.open(asked(), SERVED)
    await other.aclose()


async def test_the_key_is_in_no_failure(rig: Rig) -> None:
    rig.answers(status=400, error=f"of {KEY}")
    with pytest.raises(UpstreamRefused) as caught:
        await rig.open()
    assert KEY.encode() not in (caught.value.body or b"")
