"""Anthropic's messages as chats, and back: what is refused, and how a stream ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.core.errors import InvalidField, UpstreamFailed, UpstreamUnreachable
from gateway.core.reply import Frame, Receiver, ServerEvent, ServerEvents
from gateway.server.dialects.anthropic.answers import message
from gateway.server.dialects.anthropic.events import MessageWriter
from gateway.server.dialects.anthropic.requests import chat
from gateway.server.dialects.stream import TranslatedBytes

Document = dict[str, Any]
HI = {"role": "user", "content": "hi"}
PLAIN: Document = {"model": "m", "max_tokens": 9, "messages": [HI]}
TOOL = {"name": "f", "input_schema": {"type": "object"}}
TEXT = {"type": "text", "text": "hi"}
PICTURE = {"type": "base64", "media_type": "image/png", "data": "AA"}


def turn(*blocks: Any, role: str = "user") -> Document:
    return {"messages": [{"role": role, "content": list(blocks)}]}


def document(source: Any, **more: Any) -> Document:
    return turn({"type": "document", "source": source, **more})


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"container": "c"}, "container"),
        ({"mcp_servers": []}, "mcp_servers"),
        ({"inference_geo": "us"}, "inference_geo"),
        ({"speed": "fast"}, "speed"),
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": None}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{"role": "tool", "content": "hi"}]}, "messages[0].role"),
        ({"messages": [{**HI, "name": "n"}]}, "messages[0].name"),
        (turn(), "messages[0].content"),
        (turn({"type": "search_result"}), "messages[0].content[0]"),
        (turn({**TEXT, "citations": [{}]}), "messages[0].content[0].citations"),
        (turn({**TEXT, "weight": 1}), "messages[0].content[0].weight"),
        (turn({"type": "image", "source": {"type": "file", "file_id": "f"}}),
         "messages[0].content[0].source"),
        (turn({"type": "image", "source": {**PICTURE, "media_type": "text/html"}}),
         "messages[0].content[0].source.media_type"),
        (document({"type": "content", "content": "x"}), "messages[0].content[0].source"),
        (document({"type": "url", "url": "u"}, citations={"enabled": True}),
         "messages[0].content[0].citations"),
        (turn(TEXT, {"type": "tool_result", "tool_use_id": "t"}), "messages[0].content[1]"),
        (turn({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "tool_reference"}]}),
         "messages[0].content[0].content[0]"),
        (turn({"type": "server_tool_use"}, role="assistant"), "messages[0].content[0]"),
        (turn({"type": "tool_use", "id": "t", "name": "f", "input": {}, "caller": {"type": "x"}},
              role="assistant"), "messages[0].content[0].caller"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type"),
        ({"tools": [{**TOOL, "input_examples": [{}]}]}, "tools[0].input_examples"),
        ({"tools": [{**TOOL, "defer_loading": True}]}, "tools[0].defer_loading"),
        ({"tool_choice": {"type": "some"}}, "tool_choice.type"),
        ({"thinking": {"type": "deep"}}, "thinking.type"),
        ({"output_config": {"task_budget": {}}}, "output_config.task_budget"),
        ({"context_management": {"edits": [{"type": "compact"}]}}, "context_management.edits"),
        ({"metadata": {"team": "t"}}, "metadata.team"),
        ({"temperature": "hot"}, "temperature"),
        ({"cache_control": "yes"}, "cache_control"),
        ({"system": [{"type": "image"}]}, "system[0]"),
    ],
)  # fmt: skip
def test_what_no_chat_can_say_is_refused_by_its_field(fields: Document, name: str) -> None:
    with pytest.raises(InvalidField) as caught:
        chat(PLAIN | fields)
    assert caught.value.param == name


@pytest.mark.parametrize(
    "fields",
    [
        {"container": None, "speed": "standard", "system": "", "tools": [], "stop_sequences": []},
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        turn({**TEXT, "citations": None, "cache_control": None}),
        {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}},
    ],
)
def test_what_asks_for_nothing_says_nothing(fields: Document) -> None:
    made, translation = chat(PLAIN | fields)
    assert made.keys() == {"model", "messages", "max_completion_tokens"}
    assert not translation.unsaid


class Broken:
    """The frames of a stream that breaks off."""

    def __init__(self, *frames: Frame) -> None:
        self._frames = frames

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        for frame in self._frames:
            receiver.put(frame)
        raise UpstreamUnreachable("it broke")

    async def aclose(self) -> None: ...


class Caller:
    def __init__(self) -> None:
        self.text = b""

    def put(self, item: bytes) -> bool:
        self.text += item
        return True

    async def room(self) -> None: ...


def piece(**delta: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode()


@pytest.mark.anyio
async def test_a_stream_that_breaks_off_ends_with_an_error_and_no_stop() -> None:
    caller = Caller()
    events = b"".join(ServerEvent(piece(content=text)).framed() for text in ("a", "\n\ndata: b"))
    frames = Broken(ServerEvent(piece(role="assistant", content="")), ServerEvents(events, 2))
    await TranslatedBytes(frames, MessageWriter((), "id")).deliver(caller)
    kinds = [each.partition(b"\n")[0].decode() for each in caller.text.split(b"\n\n")[:-1]]
    assert [kind.removeprefix("event: ") for kind in kinds] == [
        "message_start", "ping", "content_block_start", "content_block_delta",
        "content_block_delta", "error",
    ]  # fmt: skip
    error = json.loads(caller.text.rpartition(b"data: ")[2])
    assert error["error"]["type"] == "api_error"
    assert error["request_id"] == "id"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(
    "data",
    [
        b"[1]",
        b"{",
        b'{"choices": [1]}',
        piece(tool_calls=[{"index": 0, "function": {"arguments": "{}"}}]),
    ],
)
def test_what_is_no_chunk_is_the_endpoint_s_failure(data: bytes) -> None:
    with pytest.raises(UpstreamFailed):
        MessageWriter((), "id").chunk(data)


def test_a_call_that_goes_on_behind_a_text_is_the_endpoint_s_failure() -> None:
    writer, function = MessageWriter((), "id"), {"name": "f", "arguments": "{"}
    writer.chunk(piece(tool_calls=[{"index": 0, "id": "t", "function": function}]))
    writer.chunk(piece(content="a"))
    with pytest.raises(UpstreamFailed):
        writer.chunk(piece(tool_calls=[{"index": 0, "function": {"arguments": "}"}}]))


@pytest.mark.parametrize(
    "answer",
    [
        "[]",
        '{"choices": []}',
        '{"choices": [{"message": {"tool_calls": [{"function": {"arguments": "{}"}}]}}]}',
        '{"choices": [{"message": {"tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}}'
        "]}",
    ],
)
def test_what_is_no_answer_is_the_endpoint_s_failure(answer: str) -> None:
    with pytest.raises(UpstreamFailed):
        message(answer.encode(), ())


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ({"finish_reason": "stop"}, "end_turn"),
        ({"finish_reason": "length"}, "max_tokens"),
        ({"finish_reason": "tool_calls"}, "tool_use"),
        ({"finish_reason": "content_filter"}, "refusal"),
        ({"finish_reason": "odd"}, "end_turn"),
        ({"finish_reason": "stop", "stop_reason": "#"}, "stop_sequence"),
        ({"finish_reason": "stop", "stop_reason": 7}, "end_turn"),
        ({"finish_reason": "stop", "native_finish_reason": "pause_turn"}, "pause_turn"),
        ({"finish_reason": "stop", "native_finish_reason": "STOP"}, "end_turn"),
    ],
)
def test_why_an_answer_ends(choice: Document, reason: str) -> None:
    whole = {"choices": [{**choice, "message": {"role": "assistant", "content": "a"}}]}
    made = json.loads(message(json.dumps(whole).encode(), ("#",)))
    assert made["stop_reason"] == reason


def test_cached_tokens_are_apart_from_the_rest_of_the_input() -> None:
    details = {"cached_tokens": 100, "cache_creation_tokens": 20}
    usage = {"prompt_tokens": 127, "completion_tokens": 5, "prompt_tokens_details": details}
    whole = {"choices": [{"message": {"content": "a"}}], "usage": usage}
    made = json.loads(message(json.dumps(whole).encode(), ()))["usage"]
    assert made == {
        "input_tokens": 7, "output_tokens": 5,
        "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20,
    }  # fmt: skip
