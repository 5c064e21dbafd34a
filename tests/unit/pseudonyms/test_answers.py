"""Originals in whole answers and in events of streams; nothing lost, doubled, out of order."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.classify.pseudonyms.answers.frames import RestoredFrames
from gateway.classify.pseudonyms.answers.restorer import Restorer
from gateway.classify.pseudonyms.forms import SurrogateForm
from gateway.core.errors import GatewayError, UpstreamFailed, UpstreamUnreachable
from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
from gateway.core.reply import Frame, JsonBody, Receiver, ServerEvent, deliver_each, received
from gateway.core.types import JsonDocument
from tests.unit.delivery import Stepwise

FORMS = (
    SurrogateForm("Aurelind", "Maria"),
    SurrogateForm("Brisolden", "Müller"),
    SurrogateForm("inkwater123@example.com", "maria@posteo.de"),
)
MASKED = "Dear Aurelind Brisolden, I wrote to inkwater123@example.com. Yours, Aur"
ANSWER = "Dear Maria Müller, I wrote to maria@posteo.de. Yours, Aur"


class Upstream:
    """Frames, perhaps a break, and whether it was closed."""

    def __init__(self, frames: Sequence[Frame], error: GatewayError | None = None) -> None:
        self._frames = list(frames)
        self._error = error
        self.closed = 0

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        if self._frames:
            return self._frames.pop(0)
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        await deliver_each(self, receiver)

    async def aclose(self) -> None:
        self.closed += 1
        self._frames.clear()


def restored(frames: Sequence[Frame], operation: OperationSpec = CHAT) -> list[Frame]:
    async def read() -> list[Frame]:
        return await received(RestoredFrames(Upstream(frames), operation, Restorer(FORMS)))

    return asyncio.run(read())


def events(frames: Sequence[Frame]) -> list[JsonDocument]:
    assert all(isinstance(f, ServerEvent) for f in frames)
    return [json.loads(f.data) for f in frames if isinstance(f, ServerEvent)]


def chunk(delta: JsonDocument, finish: str | None = None, index: int = 0, **more: Any) -> Frame:
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
    return ServerEvent(json.dumps({"id": "c1", "choices": [choice], **more}).encode())


def pieces(text: str, cuts: Sequence[int]) -> list[str]:
    at = [0, *sorted(c % (len(text) + 1) for c in cuts), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(at)]


def content(found: Sequence[JsonDocument], index: int = 0, field: str = "content") -> str:
    deltas = [c["delta"] for e in found for c in e["choices"] if c["index"] == index]
    return "".join(delta.get(field) or "" for delta in deltas)


CUTS = st.lists(st.integers(0, 1000), max_size=40)


# Whole answers


def test_every_string_of_a_whole_answer_is_restored() -> None:
    call = {
        "id": "t1",
        "function": {"name": "mail", "arguments": '{"to": "Aurelind\\n Brisolden"}'},
    }
    message = {"role": "assistant", "content": MASKED, "reasoning": MASKED, "tool_calls": [call]}
    came = {"choices": [{"index": 0, "message": message}], "usage": {"total_tokens": 3}}
    (body,) = restored([JsonBody(json.dumps(came).encode())])
    assert isinstance(body, JsonBody)
    got = json.loads(body.body)
    assert got["choices"][0]["message"]["content"] == ANSWER
    assert got["choices"][0]["message"]["reasoning"] == ANSWER
    arguments = got["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"to": "Maria\n Müller"}
    assert got["usage"] == {"total_tokens": 3}


def test_an_answer_without_surrogates_goes_on_byte_for_byte() -> None:
    body = b'{ "choices":[], "x": 1.0e3, "n": 123456789012345678901234567890 }'
    assert restored([JsonBody(body)]) == [JsonBody(body)]
    event = ServerEvent(b'{ "choices" : [ {"index":0, "delta":{"content":"Hello."}} ] }', "x")
    assert restored([event]) == [event]


def test_numbers_of_an_answer_are_not_rounded_on_the_way() -> None:
    (body,) = restored([JsonBody(b'{"a":"Aurelind","n":123456789012345678901234567890}')])
    assert isinstance(body, JsonBody)
    assert json.loads(body.body) == {"a": "Maria", "n": 123456789012345678901234567890}


def test_logprobs_keep_the_tokens_of_the_model() -> None:
    choice = {"text": "Aurelind", "logprobs": {"tokens": ["Aurelind"]}}
    (body,) = restored([JsonBody(json.dumps({"choices": [choice]}).encode())])
    assert isinstance(body, JsonBody)
    got = json.loads(body.body)["choices"][0]
    assert (got["text"], got["logprobs"]) == ("Maria", {"tokens": ["Aurelind"]})


def test_a_signature_of_thoughts_comes_as_it_is_and_in_one() -> None:
    call = {"index": 0, "function": {"name": "f", "arguments": "{}"}}
    for signature in ("c2lnAurelind", "c2lnAur"):
        signed = {**call, "extra_content": {"google": {"thought_signature": signature}}}
        frame = chunk({"tool_calls": [signed]}, "tool_calls")
        (made,) = events(restored([frame]))
        assert made["choices"][0]["delta"]["tool_calls"] == [signed]
        whole = json.dumps({"choices": [{"message": {"tool_calls": [signed]}}]}).encode()
        assert restored([JsonBody(whole)]) == [JsonBody(whole)]


def test_an_answer_is_restored_however_deep_it_nests() -> None:
    deep = b'{"a":' + b"[" * 5000 + b'"Aurelind"' + b"]" * 5000 + b"}"
    assert restored([JsonBody(deep)]) == [JsonBody(deep.replace(b"Aurelind", b"Maria"))]


def test_an_event_that_nests_too_deep_is_the_endpoints_failure() -> None:
    deep = b'{"a":' + b"[" * 500 + b"]" * 500 + b"}"
    with pytest.raises(UpstreamFailed):
        restored([ServerEvent(deep)])


# Chat and completions, streamed


@settings(max_examples=200)
@given(CUTS, CUTS)
def test_two_choices_come_whole_however_they_are_cut(one: list[int], two: list[int]) -> None:
    first = [chunk({"content": p}) for p in pieces(MASKED, one)]
    second = [chunk({"content": p}, index=1) for p in pieces(MASKED, two)]
    mixed = [f for pair in zip(first, second, strict=False) for f in pair]
    rest = first[len(second) :] + second[len(first) :]
    ends = [chunk({}, "stop"), chunk({}, "stop", 1)]
    got = events(restored([chunk({"role": "assistant"}), *mixed, *rest, *ends]))
    assert content(got, 0) == content(got, 1) == ANSWER


def test_the_event_that_finishes_goes_on_as_it_came_behind_what_was_held() -> None:
    finish = chunk({}, "stop", usage=None)
    usage = ServerEvent(b'{"id":"c1","choices":[],"usage":{"total_tokens":9}}')
    frames = restored([chunk({"content": "It is Aur"}, usage=None), finish, usage])
    assert frames[2:] == [finish, usage]
    held = events(frames)[1]
    assert held["choices"] == [
        {"index": 0, "delta": {"content": "Aur"}, "logprobs": None, "finish_reason": None}
    ]
    assert (held["id"], held["usage"]) == ("c1", None)
    assert content(events(frames)) == "It is Aur"


def test_a_last_event_with_text_takes_what_was_held_along() -> None:
    got = events(restored([chunk({"content": "Aure"}), chunk({"content": "lind Au"}, "length")]))
    assert len(got) == 2
    assert content(got) == "Maria Au"
    assert got[1]["choices"][0]["finish_reason"] == "length"


def test_a_stream_that_ends_without_a_finish_loses_nothing() -> None:
    assert content(events(restored([chunk({"content": "Aure"})]))) == "Aure"


def test_reasoning_and_content_are_texts_of_their_own() -> None:
    frames = [
        chunk({"reasoning_content": "It is Aure"}),
        chunk({"content": "lind? Bris"}),
        chunk({"reasoning_content": "lind."}),
        chunk({"content": "olden."}),
        chunk({}, "stop"),
    ]
    got = events(restored(frames))
    assert content(got, field="reasoning_content") == "It is Maria."
    assert content(got) == "lind? Müller."


@settings(max_examples=100)
@given(CUTS, CUTS)
def test_arguments_of_parallel_tool_calls_come_whole(one: list[int], two: list[int]) -> None:
    said = [
        json.dumps({"to": "inkwater123@example.com", "text": "Dear\nAurelind"}),
        json.dumps({"name": "Brisolden", "left": "Aur"}),
    ]
    frames = [
        chunk({"tool_calls": [{"index": at, "id": f"t{at}", "type": "function",
                               "function": {"name": "mail", "arguments": ""}}]})
        for at in (0, 1)
    ]  # fmt: skip
    for at, cuts in ((0, one), (1, two)):
        frames += [
            chunk({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
            for piece in pieces(said[at], cuts)
        ]
    got = events(restored([*frames, chunk({}, "tool_calls")]))
    arguments = {0: "", 1: ""}
    for event in got:
        for call in event["choices"][0]["delta"].get("tool_calls", []):
            arguments[call["index"]] += call["function"]["arguments"]
    assert json.loads(arguments[0]) == {"to": "maria@posteo.de", "text": "Dear\nMaria"}
    assert json.loads(arguments[1]) == {"name": "Müller", "left": "Aur"}
    assert got[-1]["choices"][0]["finish_reason"] == "tool_calls"


@settings(max_examples=100)
@given(CUTS)
def test_text_completions_are_restored(cuts: list[int]) -> None:
    frames = [
        ServerEvent(json.dumps({"choices": [{"index": 0, "text": piece}]}).encode())
        for piece in pieces(MASKED, cuts)
    ]
    end = ServerEvent(b'{"choices":[{"index":0,"text":"","finish_reason":"stop"}]}')
    got = events(restored([*frames, end], COMPLETIONS))
    assert "".join(e["choices"][0]["text"] for e in got) == ANSWER


# Responses, streamed


def response_events(text: str, cuts: Sequence[int]) -> list[Frame]:
    place = {"item_id": "m1", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    steps: list[tuple[str, JsonDocument]] = [
        ("response.created", {"response": {"instructions": "be kind to Aurelind", "output": []}}),
        *(
            ("response.output_text.delta", {**place, "delta": p, "logprobs": []})
            for p in pieces(text, cuts)
        ),
        ("response.output_text.done", {**place, "text": text, "logprobs": []}),
        ("response.content_part.done", {**place, "part": part}),
        ("response.completed", {"response": {"output": [{"content": [part]}], "usage": {}}}),
    ]
    return [
        ServerEvent(json.dumps({"type": kind, "sequence_number": n, **more}).encode(), kind)
        for n, (kind, more) in enumerate(steps)
    ]


@settings(max_examples=200)
@given(CUTS)
def test_responses_are_restored_and_their_numbers_stay_in_a_row(cuts: list[int]) -> None:
    frames = restored(response_events(MASKED, cuts), RESPONSES)
    got = events(frames)
    assert [e["sequence_number"] for e in got] == list(range(len(got)))
    assert [f.event for f in frames if isinstance(f, ServerEvent)] == [e["type"] for e in got]
    deltas = [e["delta"] for e in got if e["type"] == "response.output_text.delta"]
    assert "".join(deltas) == ANSWER
    kinds = [e["type"] for e in got]
    assert kinds.index("response.output_text.done") == kinds.count("response.output_text.delta") + 1
    assert got[-3]["text"] == got[-2]["part"]["text"] == ANSWER
    assert got[-1]["response"]["output"][0]["content"][0]["text"] == ANSWER
    assert got[0]["response"]["instructions"] == "be kind to Maria"


# Ends


def test_what_was_held_comes_before_the_break_of_a_stream() -> None:
    async def main() -> None:
        upstream = Upstream([chunk({"content": "It is Aure"})], UpstreamUnreachable("it broke"))
        stream = Stepwise[Frame](RestoredFrames(upstream, CHAT, Restorer(FORMS)))
        got = [await anext(stream), await anext(stream)]
        assert content(events(got)) == "It is Aure"
        with pytest.raises(UpstreamUnreachable):
            await anext(stream)

    asyncio.run(main())


@pytest.mark.parametrize("read", [0, 1, 99])
def test_the_mapping_is_gone_when_the_answer_was_read_or_its_caller_left(read: int) -> None:
    async def main() -> None:
        restorer = Restorer(FORMS)
        upstream = Upstream([chunk({"content": "Aurelind"}), chunk({}, "stop")])
        stream = RestoredFrames(upstream, CHAT, restorer)
        frames = Stepwise[Frame](stream)
        for _ in range(read):
            await anext(frames, None)
        if read < 99:
            await stream.aclose()
            await stream.aclose()
            assert upstream.closed == 2
            assert restorer.whole("Aurelind") == "Aurelind"
            assert await anext(frames, None) is None
        assert restorer.whole("Aurelind") == "Aurelind"

    asyncio.run(main())
