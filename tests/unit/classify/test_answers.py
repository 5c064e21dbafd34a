"""Answers piece by piece: what is held back, what is masked, what waits for the reading."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gateway.classify.classifier import Classifier
from gateway.classify.verdicts.answers import AnswerReading, held_text
from gateway.classify.verdicts.answers.held_text import HELD_CHARACTERS, HeldText
from gateway.classify.verdicts.answers.in_progress import AnswerInProgress
from gateway.classify.verdicts.answers.masked_stream import MaskedStream
from gateway.classify.verdicts.answers.masks import AnswerMasks, Mask, apart, masked
from gateway.classify.verdicts.answers.read_stream import LAST, ReadStream
from gateway.classify.verdicts.answers.texts import AnswerTexts, OpenedFrame, opened
from gateway.classify.verdicts.patterns import Verdict
from gateway.core.deadline import Deadline
from gateway.core.errors import AnswerWithheld
from gateway.core.held_bytes import AnswerShare, HeldBytes
from gateway.core.operations.chat import CHAT
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec, StreamForm
from gateway.core.reply import (
    Frame,
    GrpcMessage,
    JsonBody,
    Placement,
    Receiver,
    RestBody,
    ServerEvent,
)
from gateway.core.types import (
    CLOUD,
    DocumentCall,
    Finding,
    InferenceRequest,
    Sensitivity,
    Tensor,
    Tightening,
    WireProtocol,
)
from gateway.protocols.oip import grpc
from gateway.protocols.oip.datatypes import join
from gateway.protocols.oip.reply import TensorReply
from tests.unit.delivery import Leaves, Reader

EMAIL = re.compile(r"\b[a-z.]+@[a-z]+\.(?:com|de)\b")
SENTENCE = "the trams run until one and maria.keller@posteo.de rides them a@b.com daily"
WORDS = SENTENCE.split()


def masks_of(text: str) -> list[Mask]:
    return [Mask(m.start(), m.end(), "EMAIL_ADDRESS") for m in EMAIL.finditer(text)]


def shown(pieces: Sequence[str], waits: Callable[[], bool]) -> tuple[str, int]:
    """What goes of a text in these pieces; and the most characters that are held."""
    text, made, most = HeldText(), "", 0
    gone = 0
    for piece in pieces:
        text.add(piece)
        if text.is_due or waits():
            text.decide(masks_of(text.window()), waits(), False)
        made += text.piece(gone, text.free)
        gone = text.free
        most = max(most, text.end - text.free)
        text.forget()
    text.decide(masks_of(text.window()), False, True)
    return made + text.piece(gone, text.end), most


@pytest.mark.parametrize("seed", range(40))
def test_a_text_is_masked_alike_wherever_it_is_cut(seed: int) -> None:
    chance = random.Random(seed)
    text = " ".join(chance.choices(WORDS, k=2000))
    pieces, at = [], 0
    while at < len(text):
        size = chance.choice((1, 2, 5, 17, 300))
        pieces.append(text[at : at + size])
        at += size
    made, _ = shown(pieces, lambda: chance.random() < 0.3)
    assert made == masked(text, masks_of(text))


def test_no_more_is_held_than_a_finding_takes_and_is_read_at_once() -> None:
    text = " ".join(random.Random(7).choices(WORDS, k=2000))
    _, most = shown(list(text), lambda: False)
    assert most <= HELD_CHARACTERS + held_text._READ_EACH + len("maria.keller@posteo.de")


def test_what_waited_goes_but_for_words_that_may_go_on() -> None:
    held = HeldText()
    held.add("please write to Anna van")
    assert held.window() == "please write to Anna van"
    held.decide([], True, False)
    assert held.piece(0, held.free) == "please write to"


@pytest.mark.parametrize("whole", [False, True])
def test_text_that_came_while_a_window_was_read_stays(whole: bool) -> None:
    held = HeldText()
    held.add("x" * 300)
    assert held.window() == "x" * 300
    held.add(" to a@b.com and on" * 100)
    held.decide([], True, whole)
    assert held.free == (300 if whole else 300 - HELD_CHARACTERS)


def test_a_finding_goes_in_one_part_with_the_piece_that_begins_it() -> None:
    held = HeldText()
    held.add("at a@b.com, or")
    assert held.window() == "at a@b.com, or"
    held.decide([Mask(3, 10, "EMAIL_ADDRESS")], False, True)
    pieces = [held.piece(at, min(at + 2, 14)) for at in range(0, 14, 2)]
    assert pieces == ["at", " [EMAIL_ADDRESS]", "", "", "", ", ", "or"]


def test_findings_that_overlap_are_one_mask() -> None:
    masks = apart([Mask(5, 9, "B"), Mask(0, 6, "A"), Mask(12, 12, "C")])
    assert masks == [Mask(0, 9, "A")]
    assert masked("0123456789", masks) == "[A]9"


def chat_event(**delta: Any) -> ServerEvent:
    return ServerEvent(json.dumps({"id": "x", "choices": [{"index": 1, "delta": delta}]}).encode())


def test_pieces_of_a_stream_are_told_from_whole_texts() -> None:
    call = {"index": 0, "id": "c", "function": {"name": "mail", "arguments": '{"to"'}}
    (frame,) = opened(chat_event(role="assistant", content="Hi", tool_calls=[call]),
                      StreamForm.CHOICES)  # fmt: skip
    assert frame.texts == [
        ("Hi", ("choices", 1, "delta", "content"), False),
        ("mail", None, True),
        ('{"to"', ("choices", 1, "delta", "tool_calls", 0, "function", "arguments"), True),
    ]
    made = frame.with_texts(["Ho", "mail", ""])
    assert isinstance(made, ServerEvent)
    delta = json.loads(made.data)["choices"][0]["delta"]
    assert (delta["content"], delta["role"]) == ("Ho", "assistant")
    assert frame.with_texts([each.text for each in frame.texts]) is frame.frame


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b'{"a": 1, "a": 2}', b'{"choices": ' + b"[" * 100_000, b"\xff"],
)
def test_what_is_not_of_its_protocol_is_unread(body: bytes) -> None:
    assert OpenedFrame(JsonBody(body), StreamForm.NONE).unread == "answer_broken"
    assert OpenedFrame(ServerEvent(body), StreamForm.CHOICES).unread == "answer_broken"


@pytest.mark.parametrize("length", [4, 9_999])
def test_texts_of_tensors_are_read_from_either_wire_form(length: int) -> None:
    data = join([b"Hi, you", b"there"])
    reply = TensorReply("m", "1", (Tensor("text", "BYTES", (2,), data),))
    message = grpc.encode_response(reply)
    assert isinstance(message, GrpcMessage)
    texts = OpenedFrame(message, StreamForm.NONE).texts
    assert [each.text for each in texts] == ["Hi, you", "there"]
    damaged = data[:-1] + b"\xff"
    broken = TensorReply("m", "1", (Tensor("text", "BYTES", (2,), damaged),))
    assert OpenedFrame(grpc.encode_response(broken), StreamForm.NONE).unread == "answer_broken"
    rest = RestBody(
        b'{"outputs": [{"name": "n", "datatype": "BYTES", "shape": [1], "data": ["a"]}]}'
    )
    assert [each.text for each in OpenedFrame(rest, StreamForm.NONE).texts] == ["a"]


def test_a_text_that_a_stream_says_again_whole_is_read_once() -> None:
    texts = AnswerTexts(1000)
    place = {"item_id": "i", "output_index": 0}
    documents: list[dict[str, Any]] = [
        {"type": "response.output_text.delta", **place, "delta": "Hello "},
        {"type": "response.output_text.delta", **place, "delta": "there"},
        {"type": "response.output_text.done", **place, "text": "Hello there"},
    ]
    for document in documents:
        event = ServerEvent(json.dumps(document).encode())
        for frame in opened(event, StreamForm.RESPONSES):
            texts.add(frame)
    assert texts.texts(False) == ["Hello there"]
    assert texts.texts(True) == []


def call(*turns: str) -> InferenceRequest:
    messages = [{"role": ("user", "assistant")[n % 2], "content": t} for n, t in enumerate(turns)]
    document = DocumentCall(CHAT, {"model": "m", "messages": messages})
    return InferenceRequest("r", WireProtocol.OPENAI, "t", "m", document, Deadline.after(60.0))


class _Verdicts:
    """Finds addresses, as far as it is told to, and how often each text is read."""

    def __init__(self, *reasons: str) -> None:
        self._reasons = list(reasons)

    async def read(self, request: InferenceRequest, texts: Sequence[str]) -> Verdict:
        reason = self._reasons.pop(0) if self._reasons else "clear"
        return reason, {"EMAIL_ADDRESS": 1} if reason == "entities" else {}


class _Finder:
    async def find(self, text: str, added: Tightening, budget_s: float) -> list[Finding]:
        return [Finding(mask.type, mask.start, mask.end, 1.0) for mask in masks_of(text)]


def masks(*reasons: str) -> AnswerMasks:
    return AnswerMasks(_Verdicts(*reasons), _Finder())  # type: ignore[arg-type]


def test_a_finding_across_two_texts_has_a_mask_in_each() -> None:
    async def work() -> None:
        found = await masks("entities").find(call("x"), ["at a@b.com", "or c@d.com too"])
        assert found == [[Mask(3, 10, "EMAIL_ADDRESS")], [Mask(3, 10, "EMAIL_ADDRESS")]]

    run(work)


def test_an_answer_is_withheld_that_masks_do_not_make_clear() -> None:
    async def work() -> None:
        assert await masks("entities", "clear").find(call("x"), ["a@b.com"])
        with pytest.raises(AnswerWithheld):
            await masks("entities", "entities").find(call("x"), ["a@b.com"])
        with pytest.raises(AnswerWithheld):
            await masks("entities", "late").find(call("x"), ["a@b.com"])

    run(work)


@pytest.mark.parametrize("reason", ["late", "busy", "failed", "over_cap", "unmeasured_language"])
def test_an_answer_is_withheld_that_was_not_read(reason: str) -> None:
    async def work() -> None:
        with pytest.raises(AnswerWithheld, match=reason):
            await masks(reason, "clear").find(call("x"), ["at noon"])

    run(work)


@pytest.mark.parametrize("reason", ["late", "busy", "failed", "over_cap", "entities"])
def test_what_could_not_be_read_marks_its_conversation(classifier: Classifier, reason: str) -> None:
    """Also for reasons by which a call would not taint what follows."""
    classifier.answer_verdicts().restrict(call("first"), reason)
    assert classifier.taint.source(call("first", "then", "next")) == "tainted"
    assert classifier.taint.source(call("first")) is None
    assert classifier.taint.source(call("other", "then", "next")) is None


@pytest.mark.parametrize(("room", "unread"), [(100_000, "answers_full"), (400_000, "")])
def test_what_is_held_of_an_answer_counts_as_held(room: int, unread: str) -> None:
    budget = HeldBytes(room)
    share = AnswerShare(budget, "t")
    texts = AnswerTexts(1_000_000, share)
    for _ in range(9):
        texts.add(opened(chat_event(content="x" * 10_000), StreamForm.CHOICES)[0])
    assert texts.unread == unread
    assert budget.bytes <= room / 2
    share.close()
    assert budget.bytes == 0


class _Answer:
    """Read when the test says so."""

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.settling = asyncio.Event()

    def opened(self, frame: Frame) -> list[OpenedFrame]:
        return []

    async def settle(self) -> None:
        self.settling.set()
        await self.reads.wait()


class _Frames:
    def __init__(self, frames: Sequence[Frame]) -> None:
        self._frames = frames

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        for frame in self._frames:
            if not receiver.put(frame):
                await receiver.room()

    async def aclose(self) -> None: ...


class _Taken:
    def __init__(self) -> None:
        self.frames: list[Frame] = []

    def put(self, frame: Frame) -> bool:
        self.frames.append(frame)
        return True

    async def room(self) -> None: ...


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await work()

    asyncio.run(main())


@pytest.mark.parametrize("last", sorted(LAST))
def test_the_last_event_waits_until_the_answer_is_read(last: str) -> None:
    async def work() -> None:
        answer, taken = _Answer(), _Taken()
        events = [ServerEvent(b"{}", "response.created"), ServerEvent(b"{}", last)]
        stream = ReadStream(_Frames(events), answer)  # type: ignore[arg-type]
        delivering = asyncio.create_task(stream.deliver(taken))
        await answer.settling.wait()
        assert taken.frames == events[:1]
        answer.reads.set()
        await delivering
        assert taken.frames == events

    run(work)


def test_the_end_of_a_stream_waits_until_the_answer_is_read() -> None:
    async def work() -> None:
        answer = _Answer()
        stream = ReadStream(_Frames([chat_event(content="Hi")]), answer)  # type: ignore[arg-type]
        delivering = asyncio.create_task(stream.deliver(_Taken()))
        await answer.settling.wait()
        assert not delivering.done()
        answer.reads.set()
        await delivering

    run(work)


class _AddressVerdicts:
    """Addresses restrict, and nothing else."""

    max_bytes = 1_000_000

    async def read(self, request: InferenceRequest, texts: Sequence[str]) -> Verdict:
        await asyncio.sleep(0)
        count = sum(len(masks_of(text)) for text in texts)
        return ("entities", {"EMAIL_ADDRESS": count}) if count else ("clear", {})

    def restrict(self, request: InferenceRequest, reason: str) -> None: ...


class _Slow(_Taken):
    """Takes one frame, and then needs a moment."""

    def put(self, frame: Frame) -> bool:
        return super().put(frame) and len(self.frames) % 3 > 0

    async def room(self) -> None:
        await asyncio.sleep(0)


def in_progress(reports: list[AnswerReading], form: OperationSpec = CHAT) -> AnswerInProgress:
    verdicts: Any = _AddressVerdicts()
    placement = Placement(CLOUD, "cloud", "spill", 1, Sensitivity.CLEAR, 0.0)
    request = call("x")
    request = replace(request, payload=DocumentCall(form, {}, True))
    return AnswerInProgress(
        request, placement, verdicts, AnswerMasks(verdicts, _Finder()), True,
        lambda request, placement, reading: reports.append(reading),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(10))
def test_events_go_masked_in_their_order(seed: int) -> None:
    async def work() -> None:
        chance = random.Random(seed)
        texts = [" ".join(chance.choices(WORDS, k=200)) for _ in range(2)]
        events: list[Frame] = []
        left = list(texts)
        while any(left):
            which, size = chance.randrange(2), chance.randrange(1, 30)
            piece, left[which] = left[which][:size], left[which][size:]
            choice = {"index": which, "delta": {"content": piece}}
            events.append(ServerEvent(json.dumps({"n": len(events), "choices": [choice]}).encode()))
        reports: list[AnswerReading] = []
        taken = _Slow()
        stream = MaskedStream(_Frames(events), in_progress(reports))
        await stream.deliver(taken)
        await stream.aclose()
        assert all(isinstance(frame, ServerEvent) for frame in taken.frames)
        documents = [json.loads(e.data) for e in taken.frames if isinstance(e, ServerEvent)]
        assert [d["n"] for d in documents] == list(range(len(events)))
        for index, text in enumerate(texts):
            choices = [d["choices"][0] for d in documents if d["choices"][0]["index"] == index]
            shown = "".join(c["delta"]["content"] for c in choices)
            assert shown == masked(text, masks_of(text))
        (reading,) = reports
        assert reading.masked == sum(len(masks_of(text)) for text in texts)
        assert reading.entities == {"EMAIL_ADDRESS": reading.masked}

    run(work)


@pytest.mark.parametrize("turns", [("both",), ("reasoning", "content"), tuple("abcdefghi")])
def test_texts_that_come_side_by_side_are_held_alike(turns: Sequence[str]) -> None:
    """A server that says the same under two keys, or writes two texts in turns."""

    async def work() -> None:
        text = " ".join(random.Random(3).choices(WORDS, k=300))
        events: list[Frame] = []
        for at in range(0, len(text), 5):
            piece = text[at : at + 5]
            for turn in turns:
                keys = ("reasoning", "content") if turn == "both" else (turn,)
                events.append(chat_event(**dict.fromkeys(keys, piece)))
        taken, reports = _Taken(), list[AnswerReading]()
        stream = MaskedStream(_Frames(events), in_progress(reports))
        await stream.deliver(taken)
        deltas = [json.loads(e.data)["choices"][0]["delta"] for e in taken.frames
                  if isinstance(e, ServerEvent)]  # fmt: skip
        for key in {key for delta in deltas for key in delta}:
            said = "".join(delta.get(key, "") for delta in deltas)
            assert said == masked(text, masks_of(text))

    run(work)


def response_event(kind: str, **more: Any) -> ServerEvent:
    place = {"item_id": "i", "output_index": 0, "content_index": 0}
    return ServerEvent(json.dumps({"type": kind, **place, **more}).encode(), kind)


@pytest.mark.parametrize(
    ("form", "events"),
    [
        (CHAT, [chat_event(reasoning="It is called Oslo"),
                *(chat_event(content="and so it goes ") for _ in range(60))]),
        (RESPONSES, [response_event("response.output_text.delta", delta="It is called Oslo"),
                     response_event("response.output_text.done", text="It is called Oslo"),
                     *(response_event("response.refusal.delta", delta="and so it goes ")
                       for _ in range(40))]),
    ],
)  # fmt: skip
def test_a_text_that_is_over_holds_up_no_other(
    form: OperationSpec, events: Sequence[ServerEvent]
) -> None:
    class Checked(_Frames):
        async def deliver(self, receiver: Receiver[Frame]) -> None:
            await super().deliver(receiver)
            assert len(taken.frames) > 10

    taken = _Taken()

    async def work() -> None:
        await MaskedStream(Checked(events), in_progress([], form)).deliver(taken)
        assert taken.frames == events

    run(work)


def test_messages_with_tensors_go_until_one_restricts() -> None:
    def message(text: str) -> GrpcMessage:
        tensor = Tensor("text", "BYTES", (1,), join([text.encode()]))
        return grpc.encode_response(TensorReply("m", "1", (tensor,)))

    async def work() -> None:
        reports: list[AnswerReading] = []
        messages = [message("at noon"), message("to a@b.com"), message("and on")]
        taken = _Taken()
        stream = MaskedStream(_Frames(messages), in_progress(reports))
        with pytest.raises(AnswerWithheld):
            await stream.deliver(taken)
        await stream.aclose()
        assert taken.frames == messages[:1]
        (reading,) = reports
        assert reading.withheld
        assert reading.entities == {"EMAIL_ADDRESS": 1}

    run(work)


def test_a_caller_that_leaves_is_no_error_and_what_has_come_is_reported_once() -> None:
    async def work() -> None:
        reports: list[AnswerReading] = []
        events = [chat_event(content="to a@b.com and on ") for _ in range(100)]
        stream = MaskedStream(_Frames(events), in_progress(reports))
        with pytest.raises(Leaves):
            await stream.deliver(Reader(lambda frame: True))
        await stream.aclose()
        await stream.aclose()
        (reading,) = reports
        assert reading.reason == "entities"

    run(work)
