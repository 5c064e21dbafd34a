"""C10: what was restricted once stays restricted in what follows from it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.classify.conversations.taint import LABELLED, TAINT_LOST, TAINTED, Taint
from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
from gateway.core.types import (
    DocumentCall,
    InferenceRequest,
    JsonDocument,
    Payload,
    Tensor,
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
    return DocumentCall(CHAT, {"model": "chat", "messages": list(turns), **more})


def responses(given: Any) -> DocumentCall:
    return DocumentCall(RESPONSES, {"model": "chat", "input": given})


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
    assert kept.source(request(chat(SYSTEM, FIRST, ANSWER, NEXT))) == TAINTED
    assert kept.source(request(chat(SYSTEM, FIRST, ANSWER, NEXT), model="another")) == TAINTED


@pytest.mark.parametrize(
    "other",
    [
        chat(SYSTEM, FIRST),  # the same call again: it is read again
        chat(SYSTEM, NEXT, ANSWER, FIRST),
        chat(FIRST, ANSWER, NEXT),
        chat(turn("system", "You are long."), FIRST, ANSWER, NEXT),
        chat(SYSTEM, turn("assistant", FIRST["content"]), ANSWER, NEXT),
        chat(SYSTEM),
        DocumentCall(COMPLETIONS, {"prompt": FIRST["content"]}),
    ],
)
def test_another_conversation_is_not(other: DocumentCall) -> None:
    kept = taint()
    kept.mark(request(chat(SYSTEM, FIRST)), ENTITIES)
    assert kept.source(request(other)) is None


def test_another_tenant_s_identical_conversation_is_not() -> None:
    kept = taint()
    kept.mark(request(chat(FIRST)), ENTITIES)
    kept.mark(request(chat(NEXT), tenant="bank"), ENTITIES)
    assert kept.source(request(chat(FIRST, ANSWER, NEXT), tenant="bank")) is None
    assert kept.source(request(chat(NEXT, ANSWER, FIRST), tenant="bank")) == TAINTED


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
    assert kept.source(request(chat(again, ANSWER, NEXT))) == TAINTED
    assert kept.source(request(responses([again, ANSWER, NEXT]))) == TAINTED


def test_the_input_of_responses_is_a_conversation_as_text_and_as_items() -> None:
    kept = taint()
    kept.mark(request(responses(FIRST["content"])), ENTITIES)
    assert kept.source(request(responses([FIRST, ANSWER, NEXT]))) == TAINTED
    output = {"type": "function_call_output", "call_id": "c1", "output": "Ward 7"}
    kept.mark(request(responses([NEXT, output])), ENTITIES)
    assert kept.source(request(responses([NEXT, output, ANSWER]))) == TAINTED
    assert kept.source(request(responses([NEXT, {**output, "output": "Ward 8"}, ANSWER]))) is None


def test_contents_that_are_no_text_tell_conversations_apart() -> None:
    def picture(url: str) -> dict[str, Any]:
        return turn("user", [{"type": "image_url", "image_url": {"url": url}}])

    kept = taint()
    kept.mark(request(chat(picture("a"))), "unscannable:image")
    assert kept.source(request(chat(picture("a"), ANSWER, NEXT))) == TAINTED
    assert kept.source(request(chat(picture("b"), ANSWER, NEXT))) is None


@pytest.mark.parametrize("odd", [None, 7, {"a": [1]}, [7, None, {"text": 7}], []])
def test_contents_of_any_shape_have_a_digest(odd: Any) -> None:
    kept = taint()
    kept.mark(request(chat(turn("user", odd))), ENTITIES)
    assert kept.source(request(chat(turn("user", odd), ANSWER))) == TAINTED
    kept.mark(request(responses([odd])), ENTITIES)
    assert kept.source(request(responses([odd, ANSWER]))) == TAINTED


def test_messages_do_not_run_into_each_other() -> None:
    kept = taint()
    kept.mark(request(chat(turn("user", "ab"), turn("user", "c"))), ENTITIES)
    assert kept.source(request(chat(turn("user", "a"), turn("user", "bc"), NEXT))) is None


@pytest.mark.parametrize(
    ("reason", "stays"),
    [
        ("entities", True), ("labelled", True), ("tainted", True), ("taint_lost", False),
        ("unscannable:image", True), ("undeclared_model", True),
        ("late", False), ("busy", False), ("failed", False), ("over_cap", False),
    ],
)  # fmt: skip
def test_a_conversation_stays_restricted_unless_only_the_gateway_was_in_trouble(
    reason: str, stays: bool
) -> None:
    kept = taint()
    kept.mark(request(chat(FIRST)), reason)
    assert kept.source(request(chat(FIRST, ANSWER, NEXT))) == (TAINTED if stays else None)


@pytest.mark.parametrize("reason", ["entities", "late", "busy", "failed", "over_cap"])
def test_the_rest_of_a_sequence_is_tainted_whatever_restricted_a_step(reason: str) -> None:
    """A step is not sent again, so nobody will read what was not read."""
    kept = taint()
    assert kept.source(request(step(7, sequence_start=True))) is None
    kept.mark(request(step(7, sequence_start=True)), reason)
    assert kept.source(request(step(7))) == TAINTED
    assert kept.source(request(step("7", sequence_end=True))) == TAINTED


def test_other_sequences_and_calls_of_none_are_not() -> None:
    kept = taint()
    kept.mark(request(step(7)), ENTITIES)
    kept.mark(request(step(None)), ENTITIES)
    assert kept.source(request(step(8))) is None
    assert kept.source(request(step(None))) is None
    assert kept.source(request(step(7), model="another")) is None
    assert kept.source(request(step(7), tenant="bank")) is None


def test_a_taint_ends_in_time_and_goes_on_while_the_conversation_does() -> None:
    now_s = [0.0]
    kept = taint(keep_s=60.0, now_s=now_s)
    kept.mark(request(chat(FIRST)), ENTITIES)
    now_s.append(50.0)
    second = request(chat(FIRST, ANSWER, NEXT))
    assert kept.source(second) == TAINTED
    kept.mark(second, TAINTED)
    now_s.append(100.0)
    assert kept.source(request(chat(FIRST, ANSWER, turn("user", "Another branch.")))) == TAINTED
    assert kept.source(request(chat(FIRST, ANSWER, NEXT, ANSWER, NEXT))) == TAINTED
    now_s.append(110.0)
    assert kept.source(request(chat(FIRST, ANSWER, NEXT, ANSWER, NEXT))) is None


def test_a_long_conversation_has_one_mark() -> None:
    """Else a few long ones would use up the memory of all."""
    kept = taint(room=2)
    turns = [FIRST]
    kept.mark(request(chat(*turns)), ENTITIES)
    kept.mark(request(chat(turn("user", "another secret"))), ENTITIES)
    for number in range(20):
        turns += [ANSWER, turn("user", f"And {number}?")]
        going_on = request(chat(*turns))
        assert kept.source(going_on) == TAINTED
        kept.mark(going_on, TAINTED)
    assert kept._marks.get("clinic", kept._whole(request(chat(*turns)))[0]) == 0
    assert kept.source(request(chat(turn("user", "another secret"), ANSWER, NEXT))) == TAINTED


# Want of room

ROOM = 2
MADE_FOR = 1024  # marks that fade within a quarter of the time, at the least


def crowded(count: int, now_s: Sequence[float] = (0.0,)) -> Taint:
    """A store whose room of two was used up by one tenant's conversations."""
    memory = taint(room=ROOM, now_s=now_s)
    for number in range(count):
        memory.mark(request(chat(turn("user", f"question {number}"))), ENTITIES)
    return memory


def going_on(number: int | str) -> InferenceRequest:
    return request(chat(turn("user", f"question {number}"), ANSWER, NEXT))


def test_what_has_no_room_any_more_is_tainted_and_nothing_else_is() -> None:
    memory = crowded(ROOM + MADE_FOR)
    assert {memory.source(going_on(number)) for number in range(ROOM + MADE_FOR)} == {TAINTED}
    clear = [memory.source(going_on(f"clear {number}")) for number in range(2000)]
    assert clear.count(None) == len(clear)
    assert memory.source(request(step(7))) is None


def test_a_flood_of_restricted_conversations_loses_none_and_leaves_most_clear_ones_alone() -> None:
    memory = crowded(ROOM + 3 * MADE_FOR)
    reasons = {memory.source(going_on(number)) for number in range(3 * MADE_FOR)}
    assert reasons == {TAINT_LOST}
    clear = [memory.source(going_on(f"clear {number}")) for number in range(2000)]
    assert clear.count(None) > 0.9 * len(clear)


def test_clear_conversations_never_fill_the_memory() -> None:
    """What is restricted as `taint_lost` alone is not remembered, or it would restrict others."""
    memory = crowded(ROOM + 8 * MADE_FOR)
    reasons = [memory.source(going_on(f"clear {number}")) for number in range(500)]
    assert TAINT_LOST in reasons
    for number, reason in enumerate(reasons):
        if reason is not None:
            memory.mark(going_on(f"clear {number}"), reason)
    assert [memory.source(going_on(f"clear {number}")) for number in range(500)] == reasons


def test_what_faded_is_over_when_the_taint_would_have_been_and_is_another_tenant_s_matter() -> None:
    now_s = [0.0]
    memory = crowded(ROOM + 3 * MADE_FOR, now_s)
    faded = going_on(0)
    assert memory.source(dataclasses.replace(faded, tenant="bank")) is None
    now_s.append(59.9)
    assert memory.source(faded) == TAINT_LOST
    now_s.append(75.0)  # a quarter of the time later at the most
    assert memory.source(faded) is None
    assert [memory.source(going_on(f"clear {number}")) for number in range(500)] == [None] * 500


def test_a_faded_conversation_that_goes_on_is_known_exactly_again() -> None:
    now_s = [0.0]
    memory = crowded(ROOM + 1, now_s)
    now_s.append(50.0)
    assert memory.source(going_on(0)) == TAINTED
    memory.mark(going_on(0), TAINTED)
    now_s.append(100.0)
    assert memory.source(going_on(0)) == TAINTED


def test_a_tenant_s_clear_conversations_go_whatever_comes_in_a_day() -> None:
    """At 2 restricted and 20 clear conversations a second for a day, with a memory of 1.5 a second:
    the same in small."""
    now_s = [0.0]
    memory = taint(room=100, keep_s=66.0, now_s=now_s)
    kept_for_nothing = 0
    for at in range(660):
        now_s.append(at / 2)
        memory.mark(going_on(f"secret {at}"), ENTITIES)
        for other in range(10):
            clear = going_on(f"clear {at} {other}")
            if (reason := memory.source(clear)) is not None:
                kept_for_nothing += 1
                memory.mark(clear, reason)
    assert kept_for_nothing == 0


@pytest.mark.parametrize(
    "payload",
    [
        chat(SYSTEM, FIRST),
        chat(turn("developer", "x"), SYSTEM, FIRST),
        responses("hello"),
        DocumentCall(COMPLETIONS, {"prompt": "hello"}),
        DocumentCall(EMBEDDINGS, {"input": "hello"}),
        step(None),
    ],
)
def test_a_first_turn_continues_nothing(payload: Payload) -> None:
    assert crowded(ROOM + 3 * MADE_FOR).source(request(payload)) is None


def test_a_conversation_without_end_is_known_by_its_first_messages() -> None:
    kept = taint()
    many = [turn("user", "x")] * 5000
    kept.mark(request(chat(*many)), ENTITIES)
    assert kept.source(request(chat(*many, ANSWER, NEXT))) == TAINTED


def test_a_label_restricts_the_call_and_what_follows_from_it() -> None:
    kept = taint()
    labelled = dataclasses.replace(request(chat(FIRST)), labelled=True)
    assert kept.source(labelled) == LABELLED
    kept.mark(labelled, LABELLED)
    assert kept.source(request(chat(FIRST, ANSWER, NEXT))) == TAINTED


# Whichever field a conversation stands in

SECOND = [FIRST, ANSWER, NEXT]
DECOY = turn("user", "Good morning.")


def anywhere(turns: Any) -> list[JsonDocument]:
    """Documents with a conversation beside a harmless one."""
    decoy, text = [DECOY], json.dumps(turns)
    return [
        {"messages": decoy, "input": turns},
        {"input": decoy, "messages": turns},
        {"messages": decoy, "prompt": turns},
        {"messages": decoy, "history": turns},
        {"messages": None, "input": turns},
        {"messages": [], "input": turns},
        {"messages": "Good morning.", "input": turns},
        {"input": "Good morning.", "instructions": turns},
        {"prompt": "Good morning.", "messages": turns},
        {"messages": decoy, "extra_body": {"deep": [{"messages": turns}]}},
        {"messages": decoy, "unheard_of": turns},
        {"messages": decoy, "metadata": {"history": text}},
        {"input": text},
        {"prompt": text},
        {"prompt": f"  {text}"},
    ]


@pytest.mark.parametrize("operation", [CHAT, RESPONSES, COMPLETIONS])
@pytest.mark.parametrize("at", range(len(anywhere(SECOND))))
def test_a_conversation_is_tainted_in_whichever_field_it_stands(
    at: int, operation: OperationSpec
) -> None:
    memory = taint()
    memory.mark(request(DocumentCall(operation, anywhere([FIRST])[at])), ENTITIES)
    assert memory.source(request(DocumentCall(operation, anywhere(SECOND)[at]))) == TAINTED
    assert memory.source(request(chat(*SECOND))) == TAINTED
    other = anywhere([NEXT, ANSWER, FIRST])[at]
    assert memory.source(request(DocumentCall(operation, other))) is None


def test_what_calls_have_in_common_beside_their_conversations_taints_nothing() -> None:
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    shared = {"tools": tools, "stop": ["END OF IT"], "logit_bias": {}, "temperature": 0.2}
    memory = taint()
    memory.mark(request(chat(FIRST, **shared)), ENTITIES)
    more = {**shared, "tools": tools * 2, "stop": ["END OF IT", "AND THIS"]}
    assert memory.source(request(chat(NEXT, ANSWER, FIRST, **more))) is None


def test_prompts_in_a_list_are_turns() -> None:
    memory = taint()
    memory.mark(request(DocumentCall(COMPLETIONS, {"prompt": ["the plan"]})), LABELLED)
    longer = DocumentCall(COMPLETIONS, {"prompt": ["the plan", "a merger", "why?"]})
    assert memory.source(request(longer)) == TAINTED
    other = DocumentCall(COMPLETIONS, {"prompt": ["a plan", "a merger", "why?"]})
    assert memory.source(request(other)) is None


def tensor(*texts: str) -> TensorCall:
    data = b"".join(len(t.encode()).to_bytes(4, "little") + t.encode() for t in texts)
    return TensorCall((Tensor("text", "BYTES", (len(texts),), data),))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (tensor("the plan"), tensor("the plan", "a merger", "why?")),
        (tensor(json.dumps([FIRST])), tensor(json.dumps(SECOND))),
        (tensor(json.dumps({"messages": [FIRST]})), tensor(json.dumps({"messages": SECOND}))),
        (tensor(json.dumps([FIRST])), chat(*SECOND)),
        (chat(FIRST), tensor(json.dumps(SECOND))),
        (TensorCall((), parameters={"messages": json.dumps([FIRST])}),
         TensorCall((), parameters={"messages": json.dumps(SECOND)})),
    ],
)  # fmt: skip
def test_a_conversation_in_a_text_tensor_is_one(first: Payload, second: Payload) -> None:
    memory = taint()
    memory.mark(request(first), ENTITIES)
    assert memory.source(request(second)) == TAINTED
    assert memory.source(request(tensor("a plan", "a merger", "why?"))) is None


def test_lengths_that_do_not_add_up_are_no_trouble() -> None:
    memory = taint()
    memory.mark(request(chat(FIRST)), ENTITIES)
    odd = TensorCall((Tensor("text", "BYTES", (1,), b"\xff\xff\xff\x7fabc"),))
    assert memory.source(request(odd)) is None


def test_a_call_with_more_conversations_than_are_looked_at_is_no_way_out() -> None:
    memory = taint()
    memory.mark(request(chat(FIRST)), ENTITIES)
    decoys = {f"field_{number}": [DECOY] for number in range(200)}
    crowd = DocumentCall(CHAT, {**decoys, "messages": SECOND})
    assert memory.source(request(crowd)) == TAINT_LOST
    assert memory.source(dataclasses.replace(request(crowd), tenant="bank")) is None
    deep: Any = SECOND
    for _ in range(20):
        deep = {"a": deep}
    assert memory.source(request(DocumentCall(CHAT, {"x": deep}))) == TAINT_LOST


@pytest.mark.parametrize(
    "again",
    [
        turn("user", f"{FIRST['content']}\n"),
        {"author": "user", "text": FIRST["content"]},
        {"from": "user", "value": FIRST["content"]},
        {"role": "user", "parts": [{"text": FIRST["content"]}]},
        FIRST["content"],
    ],
)
def test_other_clients_words_for_who_says_what(again: Any) -> None:
    memory = taint()
    memory.mark(request(chat(FIRST)), ENTITIES)
    assert memory.source(request(chat(again, ANSWER, NEXT))) == TAINTED
    developer = turn("developer", SYSTEM["content"])
    memory.mark(request(chat(SYSTEM, NEXT)), ENTITIES)
    assert memory.source(request(chat(developer, NEXT, ANSWER, FIRST))) == TAINTED


# What may leave with surrogates

POLICY, LAXER = "policy", "laxer policy"


def masked(asked: InferenceRequest) -> InferenceRequest:
    return dataclasses.replace(asked, pseudonymise=True)


def test_what_may_leave_with_surrogates_taints_for_whoever_has_none() -> None:
    memory = taint()
    memory.mark(masked(request(chat(FIRST))), ENTITIES, POLICY)
    second = request(chat(*SECOND))
    assert memory.source(second, POLICY) == TAINTED
    assert memory.source(masked(second), LAXER) == TAINTED  # it would not replace all of that
    assert memory.source(masked(second), POLICY) is None
    assert memory.leaves_masked_alone(masked(second))
    assert not memory.leaves_masked_alone(masked(request(chat(NEXT, ANSWER, FIRST))))
    embeddings = DocumentCall(EMBEDDINGS, {"input": SECOND})
    assert memory.source(masked(request(embeddings)), POLICY) == TAINTED


@pytest.mark.parametrize("first", [True, False])
def test_another_reason_wins_over_surrogates(first: bool) -> None:
    memory = taint()
    reasons = ["labelled", ENTITIES] if first else [ENTITIES, "labelled"]
    for reason in reasons:
        memory.mark(masked(request(chat(FIRST))), reason, POLICY)
    assert memory.source(masked(request(chat(*SECOND))), POLICY) == TAINTED


def test_a_turn_that_was_tainted_for_want_of_surrogates_stays_for_good() -> None:
    """It was not read: what is new in it may be nothing that the first policy finds."""
    memory = taint()
    memory.mark(masked(request(chat(FIRST))), ENTITIES, POLICY)
    second = request(chat(*SECOND))
    memory.mark(second, TAINTED, LAXER)
    third = chat(*SECOND, ANSWER, NEXT)
    assert memory.source(masked(request(third)), POLICY) == TAINTED


def test_surrogates_in_the_place_of_findings_are_no_next_turn_of_these() -> None:
    memory = taint()
    memory.mark(masked(request(chat(FIRST))), ENTITIES, POLICY)
    sent = dataclasses.replace(request(chat(*SECOND)), surrogates=True)
    assert memory.source(sent, POLICY) is None
    memory.mark(request(chat(FIRST)), "labelled")
    assert memory.source(sent, POLICY) == TAINTED
