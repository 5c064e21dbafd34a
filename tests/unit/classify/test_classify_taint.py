"""C10: what was restricted once stays restricted in what follows from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.classify.taint import LABELLED, TAINT_LOST, TAINTED, Taint
from gateway.deadline import Deadline
from gateway.types import (
    DocumentCall,
    InferenceRequest,
    Operation,
    Payload,
    TensorCall,
    WireProtocol,
)

ENTITIES = "entities"


def taint(room: int = 100, keep_s: float = 60.0, now_s: Sequence[float] = (0.0,)) -> Taint:
    return Taint(room, keep_s, lambda: now_s[-1], b"k" * 32)


def request(payload: Payload, tenant: str = "clinic", model: str = "chat") -> InferenceRequest:
    return InferenceRequest("r-1", WireProtocol.OPENAI, tenant, model, payload, Deadline.after(60))


def turn(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def chat(*turns: dict[str, Any], **more: Any) -> DocumentCall:
    return DocumentCall(Operation.CHAT, {"model": "chat", "messages": list(turns), **more})


def responses(given: Any) -> DocumentCall:
    return DocumentCall(Operation.RESPONSES, {"model": "chat", "input": given})


def step(sequence: int | str | None, **parameters: bool) -> TensorCall:
    given = {} if sequence is None else {"sequence_id": sequence}
    return TensorCall((), parameters={**given, **parameters})


SYSTEM = turn("system", "You are brief.")
FIRST = turn("user", "Who lives at that address?")
ANSWER = turn("assistant", "A family of four.")
NEXT = turn("user", "Translate that.")


def test_the_next_turn_of_a_restricted_conversation_is_tainted() -> None:
    kept = taint()
    kept.mark(request(chat(SYSTEM, FIRST)), ENTITIES)
    assert kept.of(request(chat(SYSTEM, FIRST, ANSWER, NEXT))) == TAINTED
    assert kept.of(request(chat(SYSTEM, FIRST, ANSWER, NEXT), model="another")) == TAINTED


@pytest.mark.parametrize(
    "other",
    [
        chat(SYSTEM, FIRST),  # the same call again: it is read again
        chat(SYSTEM, NEXT, ANSWER, FIRST),
        chat(FIRST, ANSWER, NEXT),
        chat(turn("system", "You are long."), FIRST, ANSWER, NEXT),
        chat(SYSTEM, turn("assistant", FIRST["content"]), ANSWER, NEXT),
        chat(SYSTEM),
        DocumentCall(Operation.COMPLETIONS, {"prompt": FIRST["content"]}),
    ],
)
def test_another_conversation_is_not(other: DocumentCall) -> None:
    kept = taint()
    kept.mark(request(chat(SYSTEM, FIRST)), ENTITIES)
    assert kept.of(request(other)) is None


def test_another_tenant_s_identical_conversation_is_not() -> None:
    kept = taint()
    kept.mark(request(chat(FIRST)), ENTITIES)
    kept.mark(request(chat(NEXT), tenant="bank"), ENTITIES)
    assert kept.of(request(chat(FIRST, ANSWER, NEXT), tenant="bank")) is None
    assert kept.of(request(chat(NEXT, ANSWER, FIRST), tenant="bank")) == TAINTED


def test_two_tenants_marks_differ_even_on_one_shelf() -> None:
    kept = taint()
    one, other = request(chat(FIRST)), request(chat(FIRST), tenant="bank")
    assert kept._whole(one) != kept._whole(other)


@pytest.mark.parametrize(
    "again",
    [
        turn("user", [{"type": "text", "text": FIRST["content"]}]),
        turn("user", [{"type": "input_text", "text": "Who lives "},
                      {"type": "input_text", "text": "at that address?"}]),
        turn("user", FIRST["content"], name="ann", id="msg_7", status="completed"),
        {"type": "message", **FIRST},
    ],
)  # fmt: skip
def test_a_client_may_write_the_same_message_in_other_ways(again: dict[str, Any]) -> None:
    kept = taint()
    kept.mark(request(chat(FIRST)), ENTITIES)
    assert kept.of(request(chat(again, ANSWER, NEXT))) == TAINTED
    assert kept.of(request(responses([again, ANSWER, NEXT]))) == TAINTED


def test_the_input_of_responses_is_a_conversation_as_text_and_as_items() -> None:
    kept = taint()
    kept.mark(request(responses(FIRST["content"])), ENTITIES)
    assert kept.of(request(responses([FIRST, ANSWER, NEXT]))) == TAINTED
    output = {"type": "function_call_output", "call_id": "c1", "output": "Ward 7"}
    kept.mark(request(responses([NEXT, output])), ENTITIES)
    assert kept.of(request(responses([NEXT, output, ANSWER]))) == TAINTED
    assert kept.of(request(responses([NEXT, {**output, "output": "Ward 8"}, ANSWER]))) is None


def test_contents_that_are_no_text_tell_conversations_apart() -> None:
    def picture(url: str) -> dict[str, Any]:
        return turn("user", [{"type": "image_url", "image_url": {"url": url}}])

    kept = taint()
    kept.mark(request(chat(picture("a"))), "unscannable:image")
    assert kept.of(request(chat(picture("a"), ANSWER, NEXT))) == TAINTED
    assert kept.of(request(chat(picture("b"), ANSWER, NEXT))) is None


@pytest.mark.parametrize("odd", [None, 7, {"a": [1]}, [7, None, {"text": 7}], []])
def test_contents_of_any_shape_have_a_digest(odd: Any) -> None:
    kept = taint()
    kept.mark(request(chat(turn("user", odd))), ENTITIES)
    assert kept.of(request(chat(turn("user", odd), ANSWER))) == TAINTED
    kept.mark(request(responses([odd])), ENTITIES)
    assert kept.of(request(responses([odd, ANSWER]))) == TAINTED


def test_messages_do_not_run_into_each_other() -> None:
    kept = taint()
    kept.mark(request(chat(turn("user", "ab"), turn("user", "c"))), ENTITIES)
    assert kept.of(request(chat(turn("user", "a"), turn("user", "bc"), NEXT))) is None


@pytest.mark.parametrize(
    ("reason", "stays"),
    [
        ("entities", True), ("labelled", True), ("tainted", True), ("taint_lost", True),
        ("unscannable:image", True), ("undeclared_model", True),
        ("late", False), ("busy", False), ("failed", False), ("over_cap", False),
    ],
)  # fmt: skip
def test_a_conversation_stays_restricted_unless_only_the_gateway_was_in_trouble(
    reason: str, stays: bool
) -> None:
    kept = taint()
    kept.mark(request(chat(FIRST)), reason)
    assert kept.of(request(chat(FIRST, ANSWER, NEXT))) == (TAINTED if stays else None)


@pytest.mark.parametrize("reason", ["entities", "late", "busy", "failed", "over_cap"])
def test_the_rest_of_a_sequence_is_tainted_whatever_restricted_a_step(reason: str) -> None:
    """A step is not sent again, so nobody will read what was not read."""
    kept = taint()
    assert kept.of(request(step(7, sequence_start=True))) is None
    kept.mark(request(step(7, sequence_start=True)), reason)
    assert kept.of(request(step(7))) == TAINTED
    assert kept.of(request(step("7", sequence_end=True))) == TAINTED


def test_other_sequences_and_calls_of_none_are_not() -> None:
    kept = taint()
    kept.mark(request(step(7)), ENTITIES)
    kept.mark(request(step(None)), ENTITIES)
    assert kept.of(request(step(8))) is None
    assert kept.of(request(step(None))) is None
    assert kept.of(request(step(7), model="another")) is None
    assert kept.of(request(step(7), tenant="bank")) is None


def test_a_taint_ends_in_time_and_goes_on_while_the_conversation_does() -> None:
    now_s = [0.0]
    kept = taint(keep_s=60.0, now_s=now_s)
    kept.mark(request(chat(FIRST)), ENTITIES)
    now_s.append(50.0)
    second = request(chat(FIRST, ANSWER, NEXT))
    assert kept.of(second) == TAINTED
    kept.mark(second, TAINTED)
    now_s.append(100.0)
    assert kept.of(request(chat(FIRST, ANSWER, turn("user", "Another branch.")))) is None
    assert kept.of(request(chat(FIRST, ANSWER, NEXT, ANSWER, NEXT))) == TAINTED
    now_s.append(110.0)
    assert kept.of(request(chat(FIRST, ANSWER, NEXT, ANSWER, NEXT))) is None


# Want of room


def crowded(now_s: Sequence[float] = (0.0,)) -> Taint:
    """A store whose room of two was used up by one tenant's three conversations."""
    kept = taint(room=2, now_s=now_s)
    for number in range(3):
        kept.mark(request(chat(turn("user", f"question {number}"))), ENTITIES)
    return kept


@pytest.mark.parametrize(
    "payload",
    [
        chat(turn("user", "question 0"), ANSWER, NEXT),  # the one that was forgotten
        chat(SYSTEM, FIRST, ANSWER, NEXT),  # may be it, for all that is known
        responses([FIRST, ANSWER, NEXT]),
        step(7),
    ],
)
def test_whatever_may_continue_what_was_forgotten_is_restricted(payload: Payload) -> None:
    assert crowded().of(request(payload)) == TAINT_LOST


@pytest.mark.parametrize(
    "payload",
    [
        chat(SYSTEM, FIRST),
        chat(turn("developer", "x"), SYSTEM, FIRST),
        responses("hello"),
        DocumentCall(Operation.COMPLETIONS, {"prompt": "hello"}),
        DocumentCall(Operation.EMBEDDINGS, {"input": "hello"}),
        step(None),
    ],
)
def test_a_first_turn_continues_nothing(payload: Payload) -> None:
    assert crowded().of(request(payload)) is None


def test_what_is_still_known_is_said_to_be_tainted() -> None:
    assert crowded().of(request(chat(turn("user", "question 2"), ANSWER, NEXT))) == TAINTED


def test_the_doubt_is_that_tenant_s_alone_and_ends_when_the_taint_would_have() -> None:
    now_s = [0.0]
    kept = crowded(now_s)
    going_on = request(chat(FIRST, ANSWER, NEXT))
    assert kept.of(dataclasses.replace(going_on, tenant="bank")) is None
    now_s.append(59.9)
    assert kept.of(going_on) == TAINT_LOST
    now_s.append(60.0)
    assert kept.of(going_on) is None


def test_a_conversation_without_end_is_known_by_its_first_messages() -> None:
    kept = taint()
    many = [turn("user", "x")] * 5000
    kept.mark(request(chat(*many)), ENTITIES)
    assert kept.of(request(chat(*many, ANSWER, NEXT))) == TAINTED


def test_a_label_restricts_the_call_and_what_follows_from_it() -> None:
    kept = taint()
    labelled = dataclasses.replace(request(chat(FIRST)), labelled=True)
    assert kept.of(labelled) == LABELLED
    kept.mark(labelled, LABELLED)
    assert kept.of(request(chat(FIRST, ANSWER, NEXT))) == TAINTED
