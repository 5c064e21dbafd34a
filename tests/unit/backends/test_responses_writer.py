"""Answers of chats as responses: what providers write in ways of their own, and what is broken."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.core.errors import AnswersFull, UpstreamError, UpstreamFailed, UpstreamUnreachable
from gateway.core.held_bytes import UNCOUNTED_BYTES, AnswerShare, HeldBytes
from gateway.core.reply import Frame, Receiver, ServerEvent, ServerEvents, received
from gateway.core.types import Usage
from gateway.endpoints.connectors.openai.responses.connector import ResponseStream
from gateway.endpoints.connectors.openai.responses.writer import ResponseWriter

pytestmark = pytest.mark.anyio

Document = dict[str, Any]


def piece(**delta: Any) -> Document:
    return {"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def tool_piece(arguments: str = "", **more: Any) -> Document:
    function = {"arguments": arguments}
    if name := more.pop("name", None):
        function["name"] = name
    return piece(tool_calls=[{**more, "function": function}])


def output(*chunks: Document) -> list[Document]:
    writer = ResponseWriter({}, "m")
    for chunk in chunks:
        writer.read(chunk)
    items: list[Document] = writer.end(None, None)["output"]
    return items


def arguments(*chunks: Document) -> list[str]:
    return [item["arguments"] for item in output(*chunks)]


def test_calls_that_all_have_one_index_are_told_apart_by_their_ids() -> None:
    chunks = (
        tool_piece('{"a": 1}', index=0, id="a", name="f"),
        tool_piece('{"b": 1}', index=0, id="b", name="f"),
    )
    assert arguments(*chunks) == ['{"a": 1}', '{"b": 1}']


def test_pieces_of_one_call_that_have_ids_of_their_own_are_one_call() -> None:
    chunks = (
        tool_piece('{"a"', index=0, id="a", name="f"),
        tool_piece(": 1}", index=0, id="b"),
    )
    assert arguments(*chunks) == ['{"a": 1}']


def test_calls_without_an_index_are_told_apart_by_their_ids() -> None:
    chunks = (
        tool_piece('{"a"', id="a", name="f"),
        tool_piece(": 1}"),
        tool_piece("{}", id="b", name="f"),
    )
    assert arguments(*chunks) == ['{"a": 1}', "{}"]


def test_a_call_without_an_id_gets_one_and_arguments_may_be_an_object() -> None:
    call = {"index": 0, "function": {"name": "f", "arguments": {"a": 1}}}
    (item,) = output(piece(tool_calls=[call]))
    assert item["call_id"].startswith("call_")
    assert json.loads(item["arguments"]) == {"a": 1}


def test_a_thought_is_told_once_where_providers_tell_it_twice() -> None:
    (item,) = output(piece(reasoning_content="Hm.", reasoning="Hm."))
    assert [part["text"] for part in item["content"]] == ["Hm."]


def test_thoughts_and_texts_in_one_list_are_items_of_their_own() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    chunks = (piece(content=[thought]), piece(content=[{"type": "text", "text": "Four."}]))
    reasoning, message = output(*chunks)
    assert reasoning["content"][0]["text"] == "Hm."
    assert message["content"][0]["text"] == "Four."


def test_what_was_cited_is_an_annotation_of_the_text() -> None:
    cited = {"url": "https://a.example", "title": "A", "start_index": 0, "end_index": 4}
    (item,) = output(
        piece(content="Four"),
        piece(annotations=[{"type": "url_citation", "url_citation": cited}]),
    )
    (part,) = item["content"]
    assert part["annotations"] == [{"type": "url_citation", **cited}]


BROKEN: list[tuple[Document, ...]] = [
    (tool_piece("{}", index=0),),
    (
        tool_piece("{", index=0, id="a", name="f"),
        tool_piece("{", index=1, id="b", name="f"),
        tool_piece("}", index=0),
    ),
    (piece(tool_calls=[{"index": 0, "type": "custom", "custom": {"name": "f"}}]),),
    (piece(tool_calls={"index": 0}),),
    (piece(content=7),),
    (piece(content=[{"type": "image_url"}]),),
    (piece(audio={"data": "AA"}),),
    (piece(function_call={"name": "f"}),),
    (piece(thinking_blocks=["Hm."]),),
    (piece(annotations=[{"type": "file_path"}]),),
    ({"choices": ["Four."]},),
]


@pytest.mark.parametrize("chunks", BROKEN)
def test_what_a_response_has_no_words_for_fails_the_answer(chunks: tuple[Document, ...]) -> None:
    with pytest.raises(UpstreamFailed):
        output(*chunks)


class Chat:
    """A stream of a chat, of these chunks, that may break off."""

    total_tokens, usage = 3, Usage(1, 2)

    def __init__(self, *chunks: Document | bytes, failure: Exception | None = None) -> None:
        self._frames = iter([c if isinstance(c, bytes) else json.dumps(c).encode() for c in chunks])
        self._failure = failure
        self.closed = False

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        for data in self._frames:
            return ServerEvent(data)
        if self._failure is not None:
            raise self._failure
        raise StopAsyncIteration

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        async for frame in self:
            if not receiver.put(frame):
                await receiver.room()

    async def aclose(self) -> None:
        self.closed = True


def response(*chunks: Document | bytes, held: AnswerShare | None = None, **more: Any) -> Any:
    return ResponseStream(Chat(*chunks, **more), ResponseWriter({}, "m"), held)


def kinds(frames: list[Frame]) -> list[str]:
    events = [each for frame in frames if isinstance(frame, ServerEvents) for each in frame.apart()]
    return [event.event.removeprefix("response.") for event in events]


async def test_a_stream_is_the_same_one_by_one_and_delivered() -> None:
    chunks = (piece(role="assistant"), piece(content="a"), piece(content="b"))
    stream = response(*chunks)
    first = await anext(stream)
    delivered = [first, *await received(stream)]
    one_by_one = [frame async for frame in response(*chunks)]
    assert kinds(delivered) == kinds(one_by_one)
    assert kinds([first]) == ["created", "in_progress"]
    assert kinds(delivered)[-2:] == ["output_item.done", "completed"]
    assert [frame async for frame in stream] == []


async def test_a_stream_that_breaks_off_has_no_last_event() -> None:
    stream = response(piece(content="a"), failure=UpstreamUnreachable("gone"))
    first = await anext(stream)
    assert kinds([first])[-1] == "output_text.delta"
    with pytest.raises(UpstreamUnreachable):
        await anext(stream)


@pytest.mark.parametrize("data", [b"{", b"[]"])
async def test_an_event_that_is_no_chunk_fails_the_answer(data: bytes) -> None:
    with pytest.raises(UpstreamError):
        await anext(response(data))


async def test_the_texts_that_a_response_repeats_are_counted() -> None:
    held = AnswerShare(HeldBytes(8 * UNCOUNTED_BYTES), "c")
    text = piece(content="a" * UNCOUNTED_BYTES)
    frames = [frame async for frame in response(text, text, held=held)]
    assert kinds(frames)[-1] == "completed"
    assert held.bytes == 2 * UNCOUNTED_BYTES
    held = AnswerShare(HeldBytes(3 * UNCOUNTED_BYTES), "c")
    with pytest.raises(AnswersFull):
        await received(response(text, text, text, held=held))


async def test_an_answer_longer_than_its_last_event_may_be_fails() -> None:
    text = piece(content="a" * (1024 * 1024))
    with pytest.raises(UpstreamFailed):
        await received(response(*[text] * 9))
