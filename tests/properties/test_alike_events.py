"""Events that are taken for alike to one that was read are: read one by one, they say the same of a
stream, and nothing that is no JSON passes."""

from __future__ import annotations

import json

import orjson
from hypothesis import given
from hypothesis import strategies as st

from gateway.backends.alike import Alike
from gateway.backends.openai import Progress
from gateway.backends.sse import EventParser
from gateway.types import Operation

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
    found = Progress(Operation.CHAT)
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
