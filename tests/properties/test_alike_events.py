"""Events that are taken for alike to one that was read are: read one by one, they say the same of a
stream, and nothing that is no JSON passes."""

from __future__ import annotations

import json

import orjson
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.operations.chat import CHAT
from gateway.endpoints.connectors.openai.alike import Alike
from gateway.endpoints.connectors.openai.event_stream import Progress
from gateway.endpoints.connectors.openai.sse import EventParser

WORDS = st.text('aé😀"\\ \n', max_size=8) | st.sampled_from(['","usage":{}', "\n\ndata: "])
RAW = st.binary(max_size=6) | st.sampled_from(
    [b"\\", b'"', b"\\u00e9", b"\\ud83d", b"\\ud83d\\ude00", b"\\u12", b"\xff", b"\x00", b" "]
)


def event(text: str, plain: bool) -> bytes:
    delta = {"content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return json.dumps({"id": "c", "choices": [choice]}, ensure_ascii=plain).encode()


def in_chunk(text: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(text), text)


def progress_of(datas: list[bytes]) -> Progress:
    found = Progress(CHAT)
    for data in datas:
        found.note(orjson.loads(data))
    return found


@given(st.lists(WORDS, min_size=2, max_size=6), st.booleans(), st.integers(0, 40))
def test_what_is_alike_is_taken_whole_however_much_has_come(
    words: list[str], plain: bool, cut: int
) -> None:
    first, *others = [event(word, plain) for word in words]
    alike = Alike.to(first)
    assert alike is not None
    text = b"".join(b"data: " + other + b"\n\n" for other in others)
    parser = EventParser(1 << 20)
    parser.feed(text[: len(text) - cut])
    raw, count = parser.take_alike(alike)
    assert text.startswith(raw)
    if not cut:
        assert (raw, count) == (text, len(others))
        assert alike.is_chunk(in_chunk(text)) == (len(others) == 1)
    assert raw.count(b"\n\n") == count


@given(st.lists(RAW, min_size=1, max_size=4), st.data())
def test_what_is_alike_is_json_and_changes_nothing(said: list[bytes], data: st.DataObject) -> None:
    first = event("word", True)
    alike = Alike.to(first)
    assert alike is not None
    sep = data.draw(st.sampled_from([b"\n\ndata: ", b"\ndata: ", b"\n\n"]))
    text = b"data: " + sep.join(first.replace(b"word", each) for each in said) + b"\n\n"
    end, count = alike.run(text, 0)
    taken = [each.removeprefix(b"data: ") for each in text[:end].split(b"\n\n")[:-1]]
    assert len(taken) == count
    assert progress_of([first, *taken]) == progress_of([first])
    if alike.is_chunk(in_chunk(text)):
        assert count == len(said) == 1


LINES = st.builds(lambda word: b"data: " + event(word, True), WORDS)
SPOILT = st.builds(lambda raw: b"data: " + event("word", True).replace(b"word", raw), RAW)
OTHERS = st.sampled_from(
    [b"", b"data: [DONE]", b"data: " + event("word", True)[:-1], b": beat", b"data: {}"]
)
MANY = st.lists(LINES | LINES | LINES | SPOILT | OTHERS, max_size=12)
ENDS = st.lists(st.sampled_from([b"\n\n"] * 9 + [b"\n", b"\n\n\n", b"\r\n\r\n"]), min_size=12)


@given(MANY, ENDS, st.integers(0, 90), st.integers(0, 3))
def test_what_is_alike_is_what_is_so_one_by_one(
    lines: list[bytes], ends: list[bytes], cut: int, at: int
) -> None:
    alike = Alike.to(event("word", True))
    assert alike is not None
    events = b"".join(line + end for line, end in zip(lines, ends, strict=False))
    text = b"x" * at + events[: len(events) - cut]
    assert alike.run(text, at) == one_by_one(alike, text, at)
    if not at:
        end, count = one_by_one(alike, text, 0)
        assert alike.all_in(text) == (count if end == len(text) else 0)


def one_by_one(alike: Alike, text: bytes, at: int) -> tuple[int, int]:
    """Where they end, how many; none where one of them says what is no string."""
    before, behind = alike._before, alike._behind
    found, count = at, 0
    while (end := text.find(b"\n\n", found)) >= 0:
        one = text[found : end + 2]
        if b"\n" in one[:-2] or not (one.startswith(before) and one.endswith(behind)):
            break
        try:
            assert len(one) >= len(before) + len(behind)
            said = orjson.loads(b'"%b"' % one[len(before) : -len(behind)])
        except orjson.JSONDecodeError:
            return at, 0
        assert isinstance(said, str)
        found, count = end + 2, count + 1
    return found, count


@given(st.dictionaries(st.sampled_from(["content", 'a"content', "text", "error"]), WORDS))
def test_what_is_found_in_an_event_is_a_value(document: dict[str, str]) -> None:
    data = json.dumps(document).encode()
    alike = Alike.to(data)
    if alike is not None:
        end, count = alike.run(b"data: " + data + b"\n\n", 0)
        assert (end, count) == (len(data) + 8, 1)
        others = json.loads(data.replace(data, alike._before[6:] + b"X" + alike._behind[:-2]))
        changed = [key for key in document if others[key] != document[key]]
        assert len(changed) <= 1
        assert "error" not in changed
