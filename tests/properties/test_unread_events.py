"""Events that are passed on unread say nothing of their stream: read one by one, they leave it as
it is but for what choice 0 has begun to say."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.operations.chat import CHAT
from gateway.endpoints.connectors.openai.event_stream import Progress
from gateway.endpoints.connectors.openai.sse import EventParser, tells_nothing

WORDS = st.text('aé😀"\\ \n', max_size=8) | st.sampled_from(
    ['","usage":{}', "\n\ndata: {", '"finish_reason"', "}\n\n", '"index":1', "response.failed"]
)
CHOICES: Any = st.fixed_dictionaries(
    {"delta": st.fixed_dictionaries({"content": WORDS})},
    optional={
        "index": st.sampled_from([0, 1, None]),
        "finish_reason": st.sampled_from([None, "stop", ""]),
    },
)
DOCUMENTS: Any = st.fixed_dictionaries(
    {},
    optional={
        "id": WORDS,
        "type": st.sampled_from(["chunk", "error"]),
        "object": st.sampled_from(["chat.completion.chunk", "error"]),
        "choices": st.lists(CHOICES, max_size=2),
        "usage": st.sampled_from([None, {"total_tokens": 3, "prompt_tokens": 1}]),
        "error": st.sampled_from([None, {"message": "no"}]),
    },
)
LINES = st.one_of(
    st.builds(
        lambda document, ascii, spaced: json.dumps(
            document, ensure_ascii=ascii, separators=None if spaced else (",", ":")
        ).encode(),
        DOCUMENTS,
        st.booleans(),
        st.booleans(),
    ),
    st.sampled_from([b"[DONE]", b"{}", b"{", b"[]", b'{"a":1}{', b""]),
)
ENDS = st.sampled_from([b"\n\n"] * 9 + [b"\n", b"\n\n\n", b"\r\n\r\n"])


@given(st.lists(st.tuples(LINES, ENDS), min_size=1, max_size=5), st.integers(0, 12))
def test_what_is_passed_on_unread_changes_nothing(
    lines: list[tuple[bytes, bytes]], cut: int
) -> None:
    text = b"".join([b"data: " + data + end for data, end in lines])
    text = text[: len(text) - cut]
    parser = EventParser(1 << 20)
    parser.feed(text)
    events, count = parser.take_unread()
    assert text.startswith(events)
    alone, progress, read = EventParser(1 << 20), Progress(CHAT), 0
    alone.feed(events)
    while (event := alone.next()) is not None:
        assert not event.event
        assert tells_nothing(event.data)
        progress.note(orjson.loads(event.data))
        read += 1
    assert (read, alone.held) == (count, 0)
    assert (progress.failure, progress.usage, progress.total_tokens) == (None, None, None)
    assert not progress.ended
    assert progress._open <= {0}
    assert not progress._finished


def event(more: str = "", index: str = "0", finish: str = "null") -> bytes:
    choice = f'{{"index":{index},"delta":{{"content":"a"}},"finish_reason":{finish}}}'
    return f'data: {{"id":"c","choices":[{choice}]{more}}}\n\n'.encode()


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (event(), 1),
        (event() * 3, 3),
        (event(',"usage":null'), 1),
        (event(',"usage": {"total_tokens":1}'), 0),
        (event(finish='"stop"'), 0),
        (event(index="1"), 0),
        (event(index="01"), 0),
        (event(',"error":{}'), 0),
        (event() * 2 + b"data: [DONE]\n\n", 2),
        (event() + event()[:-1], 1),
        (event() + event(finish='"stop"') + event(), 1),
        (event().replace(b"data: ", b"data:"), 0),
        (event().replace(b"data: ", b"id: 1\ndata: "), 0),
        (event().replace(b"\n", b"\r\n"), 0),
        (b"data: {}\n\n", 0),
        (b"", 0),
    ],
)
def test_what_tells_something_is_read(text: bytes, count: int) -> None:
    parser = EventParser(1 << 20)
    parser.feed(text)
    events, unread = parser.take_unread()
    assert unread == count == events.count(b"\n\n")
    assert text.startswith(events)


@pytest.mark.parametrize("rest", [b"data: [DONE]\n\n", event(finish='"stop"'), b"data: {", b""])
def test_nothing_is_passed_on_behind_the_last_that_may_be(rest: bytes) -> None:
    """Compiled, a slice of bytes whose end stands before its beginning is an error."""
    parser = EventParser(1 << 20)
    parser.feed(event(finish='"stop"') + rest)
    assert parser.next() is not None
    assert parser.take_unread() == (b"", 0)
