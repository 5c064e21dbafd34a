"""The parser of server-sent events: any split of the bytes gives the same events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.errors import UpstreamFailed
from gateway.core.reply import ServerEvent
from gateway.endpoints.connectors.openai.sse import EventParser

CAP = 1 << 20


def parse(*chunks: bytes, cap: int = CAP) -> list[ServerEvent]:
    parser, found = EventParser(cap), []
    for chunk in chunks:
        parser.feed(chunk)
        while (event := parser.next()) is not None:
            found.append(event)
    return found


@pytest.mark.parametrize(
    ("text", "events"),
    [
        (b"data: a\n\n", [ServerEvent(b"a")]),
        (b"data:a\r\n\r\n", [ServerEvent(b"a")]),
        (b"data: a\r\r", [ServerEvent(b"a")]),
        (b"data:  a\n\n", [ServerEvent(b" a")]),
        (b"data: a\ndata: b\n\n", [ServerEvent(b"a\nb")]),
        (b"data\n\n", [ServerEvent(b"")]),
        (b"data:\ndata:\n\n", [ServerEvent(b"\n")]),
        (b"event: x\ndata: a\n\n", [ServerEvent(b"a", "x")]),
        (b"data: a\nevent: x\n\ndata: b\n\n", [ServerEvent(b"a", "x"), ServerEvent(b"b")]),
        (b"event: lonely\n\ndata: b\n\n", [ServerEvent(b"b")]),
        (b": ping\n\ndata: a\n\n", [ServerEvent(b"a")]),
        (b"id: 1\nretry: 5\nother: x\ndata: a\n\n", [ServerEvent(b"a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [ServerEvent(b"a")]),
        (b"\n\n\ndata: a\n\n\n", [ServerEvent(b"a")]),
        (b"data: a\n\ndata: cut", [ServerEvent(b"a")]),
        (b"data: a\x0bb\x1cc\xc2\x85d\n\n", [ServerEvent(b"a\x0bb\x1cc\xc2\x85d")]),
        ("data: a\u2028b\n\n".encode(), [ServerEvent("a\u2028b".encode())]),
        ("data: é😀\n\n".encode(), [ServerEvent("é😀".encode())]),
        (b"", []),
    ],
)  # fmt: skip
def test_events_follow_the_standard(text: bytes, events: list[ServerEvent]) -> None:
    assert parse(text) == events
    assert parse(*(text[i : i + 1] for i in range(len(text)))) == events


LINES = st.sampled_from(
    ["data: {}", "data:x", "data: é😀", "data", "event: e", ": c", "id: 7", "", "", "\ufeff", "x"]
)
ENDS = st.sampled_from(["\n", "\r", "\r\n"])


@given(st.lists(st.tuples(LINES, ENDS), max_size=20), st.data())
def test_any_split_gives_the_same_events(lines: list[tuple[str, str]], data: st.DataObject) -> None:
    text = "".join(line + end for line, end in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    chunks = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert parse(*chunks) == parse(text)


@given(st.binary(max_size=200), st.integers(1, 7))
def test_any_bytes_are_read_the_same_in_any_pieces(text: bytes, size: int) -> None:
    assert parse(*(text[i : i + size] for i in range(0, len(text), size))) == parse(text)


@pytest.mark.parametrize("text", [b"data: " + b"x" * 200, b"data: x\n" * 30, b"event: x\n" * 30])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_unfinished_event_is_bounded(text: bytes, size: int) -> None:
    with pytest.raises(UpstreamFailed, match="more than 100 bytes"):
        parse(*(text[i : i + size] for i in range(0, len(text), size)), cap=100)


def test_many_events_in_one_chunk_and_endless_comments_are_no_large_event() -> None:
    assert len(parse(b"data: 0123456789\n\n" * 50, cap=100)) == 50
    assert parse(b": ping\n" * 5000, cap=100) == []
    assert parse(b": ping\r\n\r\n" * 5000, cap=100) == []
