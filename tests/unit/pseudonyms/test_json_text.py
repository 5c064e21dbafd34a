"""Large answers: their strings are restored where they stand, in steps that leave others their
turn."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.classify.pseudonyms.answers.frames import PARSED_BYTES, RestoredFrames, restored_body
from gateway.classify.pseudonyms.answers.json_text import UNCHANGED_KEYS, Stopped, restored_text
from gateway.classify.pseudonyms.answers.restorer import Channel, RestoredPiece, Restorer
from gateway.classify.pseudonyms.documents import changed
from gateway.classify.pseudonyms.forms import SurrogateForm
from gateway.core.operations.chat import CHAT
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
from gateway.core.reply import ServerEvent, received
from tests.unit.pseudonyms.samples import masked_one
from tests.unit.pseudonyms.test_answers import Upstream

FORMS = (
    SurrogateForm("Aurelind", "Maria"), SurrogateForm("Brisolden", "Müller \"M\" \\ \U0001f600"),
    SurrogateForm("4000 1234 5678 9010", "4111 1111 1111 1111", number=True),
)  # fmt: skip
TEXTS = st.lists(
    st.sampled_from(
        ["Aurelind", "aurelind", "Brisolden", "4000-1234 5678.9010", " ", "x", '"', "\\", "\n",
         "é", "中", "\U0001f600", "logprobs", "assistant", "1234"]
    ), max_size=12,
).map("".join)  # fmt: skip
DOCUMENTS = st.recursive(
    TEXTS | st.none() | st.booleans() | st.integers(),
    lambda each: (
        st.lists(each, max_size=4)
        | st.dictionaries(TEXTS | st.sampled_from(["logprobs", "content"]), each, max_size=4)
    ),
    max_leaves=20,
)


@given(DOCUMENTS, st.booleans(), st.sampled_from([None, 1]))
def test_a_text_is_restored_as_its_document_would_be(
    document: Any, escaped: bool, indent: int | None
) -> None:
    text = json.dumps(document, ensure_ascii=escaped, indent=indent).encode()
    by_text, by_document = Restorer(FORMS), Restorer(FORMS)
    made = restored_text(text, by_text)
    wanted = changed(document, by_document.whole, UNCHANGED_KEYS)
    assert json.loads(made) == wanted
    assert by_text.unrestored == by_document.unrestored
    if wanted == document:
        assert made is text


@pytest.mark.parametrize("escaped", [False, True])
def test_a_long_string_is_restored_in_pieces_without_a_difference(escaped: bool) -> None:
    document = {"a": 'Aurelind é\U0001f600 "Brisolden" \n 4000 1234 5678 9010, ' * 2000}
    text = json.dumps(document, ensure_ascii=escaped).encode()
    by_text, by_document = Restorer(FORMS), Restorer(FORMS)
    assert json.loads(restored_text(text, by_text)) == changed(document, by_document.whole)
    assert by_text.unrestored == by_document.unrestored == 0


class Measuring(Restorer):
    longest = 0

    def piece(self, text: str, before: str, final: bool) -> RestoredPiece:
        self.longest = max(self.longest, len(text))
        return super().piece(text, before, final)


def test_no_long_string_is_restored_in_one() -> None:
    restorer = Measuring(FORMS)
    restored_text(json.dumps("Aurelind and others. " * 10_000).encode(), restorer)
    assert 0 < restorer.longest < 20_000


@pytest.mark.parametrize(
    "text", [b'{"a":"Aurelind', b'"', b'{"a":"\\', b'["\\u12","Aurelind"]', b'\xff"\xff"', b""]
)
def test_what_is_no_json_goes_on_as_far_as_it_can_be_read(text: bytes) -> None:
    assert restored_text(text, Restorer(FORMS)) == text.replace(b'"Aurelind"', b'"Maria"')


def longest_step_s(work: Callable[[], object]) -> float:
    """The most processor time between two calls or returns. Other threads may have their turn
    between any two of them, but not while one function of C (a search, a parser) runs."""
    most, last = 0.0, time.thread_time()

    def step(*_: object) -> None:
        nonlocal most, last
        now = time.thread_time()
        most, last = max(most, now - last), time.thread_time()

    sys.setprofile(step)
    try:
        work()
    finally:
        sys.setprofile(None)
    return most


SENT, _ = masked_one("Write to Maria Keller, charge 4111 1111 1111 1111, call +49 176 12345678.")
WORST: dict[str, bytes] = {
    "one string": json.dumps({"a": f"{SENT} Said again. " * 2_000}).encode(),
    "escapes": json.dumps({"a": f'{SENT}\n"\U0001f600" ' * 2_000}).encode(),
    "lists": b'{"a":[[]' + b",[]" * 900_000 + b"]}",
    "kept lists": b'{"logprobs":[[]' + b",[]" * 150_000 + b"]}",
    "strings": json.dumps([SENT] * 2_000).encode(),
    "numbers": b'{"a":"' + b"1234 " * 30_000 + b'"}',
    "backslashes": b'{"a":"' + b"\\\\" * 40_000 + b'"}',
}


@pytest.mark.parametrize("name", WORST)
def test_no_step_over_a_large_answer_keeps_others_waiting(name: str) -> None:
    _, restorer = masked_one("Write to Maria Keller, charge 4111 1111 1111 1111.")
    tries = (longest_step_s(lambda: restored_text(WORST[name], restorer)) for _ in range(3))
    assert any(step_s < 0.015 for step_s in tries)


def test_a_large_answer_is_restored_beside_the_loop_until_nobody_waits() -> None:
    async def main() -> None:
        _, restorer = masked_one("Write to Maria Keller.")
        work = asyncio.ensure_future(restored_body(json.dumps([SENT] * 20_000).encode(), restorer))
        await asyncio.sleep(0.05)
        restorer.forget()
        with pytest.raises(Stopped):
            await work

    asyncio.run(main())


@pytest.mark.parametrize("operation", [CHAT, RESPONSES])
def test_a_large_event_is_restored_unparsed(operation: OperationSpec) -> None:
    lists = b"[[]" + b",[]" * PARSED_BYTES + b"]"
    kind = "response.completed" if operation is RESPONSES else ""
    event = ServerEvent(b'{"type":"x","text":"Aurelind","n":' + lists + b"}", kind)

    async def read() -> list[Any]:
        return await received(RestoredFrames(Upstream([event]), operation, Restorer(FORMS)))

    (made,) = asyncio.run(read())
    assert made == event._replace(data=event.data.replace(b"Aurelind", b"Maria"))


def test_a_stream_without_end_leaves_nothing_behind() -> None:
    channel = Channel(Restorer(FORMS))
    tracemalloc.start()
    try:
        for _ in range(5_000):
            channel.feed("It is Aurelind and nobody else, for all that anybody knows. ")
        assert tracemalloc.get_traced_memory()[0] < 125_000
    finally:
        tracemalloc.stop()


def test_what_is_left_of_surrogates_is_counted_while_a_stream_goes_on() -> None:
    restorer = Restorer(FORMS)
    channel = Channel(restorer)
    for _ in range(3000):
        channel.feed("Brisolde was here. ")
    assert restorer.unrestored > 1000
    channel.flush()
    assert restorer.unrestored == 3000
