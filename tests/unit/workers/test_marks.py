"""What was restricted at one worker is so at all (C10, O5)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gateway.classify.conversations.taint import TAINT_LOST, TAINTED, Taint
from gateway.core.operations.chat import CHAT
from gateway.core.types import DocumentCall, InferenceRequest
from tests.unit.workers.rig import Machine, request

KEEP_S = 60.0


@pytest.fixture
def machine() -> Iterator[Machine]:
    with contextlib.closing(Machine(keep_s=KEEP_S)) as found:
        yield found


def taint(machine: Machine, worker: int) -> Taint:
    own_key = bytes([worker]) * 32
    return Taint(64, KEEP_S, machine.times, own_key, machine.marks(worker))


def chat(*texts: str, tenant: str = "acme") -> InferenceRequest:
    roles = ("user", "assistant")
    said: list[Any] = [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]
    return replace(request(tenant), payload=DocumentCall(CHAT, {"model": "m", "messages": said}))


def test_the_next_turn_is_restricted_wherever_it_comes_to(machine: Machine) -> None:
    one, two = taint(machine, 1), taint(machine, 2)
    one.mark(chat("of the meadow"), "labelled")
    on = chat("of the meadow", "well", "go on")
    assert two.source(on) == one.source(on) == TAINTED
    assert two.source(chat("of the meadow", tenant="globex")) is None
    assert two.source(chat("of the meadow", "well", "go on", tenant="globex")) is None
    assert two.source(chat("another", "well", "go on")) is None
    machine.times.now_s += KEEP_S + 1
    assert two.source(on) is None


def test_a_mark_outlives_the_worker_that_made_it(machine: Machine) -> None:
    taint(machine, 1).mark(chat("of the meadow"), "labelled")
    assert taint(machine, 1).source(chat("of the meadow", "well", "go on")) == TAINTED


def test_a_mark_that_made_room_is_known_everywhere_and_no_other_is() -> None:
    machine = Machine(marks=4, keep_s=KEEP_S)
    one, two = taint(machine, 1), taint(machine, 2)
    for at in range(40):
        one.mark(chat(f"of meadow {at}"), "labelled")
    lost = [two.source(chat(f"of meadow {at}", "well", "go on")) for at in range(40)]
    assert set(lost) == {TAINTED}
    assert two.source(chat("new")) is None
    assert two.source(chat("new", "well", "go on")) is None
    assert two.source(chat("new", "well", "go on", tenant="globex")) is None
    machine.close()


def test_a_mark_that_cannot_be_written_leaves_everybody_in_doubt(machine: Machine) -> None:
    one, two = taint(machine, 1), taint(machine, 2)
    holder = machine.held_elsewhere()
    try:
        one.mark(chat("of the meadow"), "labelled")
        assert two.source(chat("of the meadow", "well", "go on")) == TAINT_LOST
        assert two.source(chat("else", "well", "go on", tenant="globex")) == TAINT_LOST
    finally:
        holder.kill()
        holder.wait()
    machine.times.now_s += KEEP_S + 1
    assert two.source(chat("of the meadow", "well", "go on")) is None


def test_a_mark_that_could_not_be_written_is_written_later_and_ends_the_doubt(
    machine: Machine,
) -> None:
    one, two = taint(machine, 1), taint(machine, 2)
    holder = machine.held_elsewhere()
    try:
        one.mark(chat("of the meadow"), "labelled")
        assert two.source(chat("else", "well", "go on", tenant="globex")) == TAINT_LOST
    finally:
        holder.kill()
        holder.wait()
    machine.times.now_s += 1.0
    assert one.source(chat("else", "well", "go on")) is None
    assert two.source(chat("else", "well", "go on", tenant="globex")) is None
    assert two.source(chat("of the meadow", "well", "go on")) == TAINTED


def test_the_doubt_of_a_worker_that_died_with_its_mark_stays(machine: Machine) -> None:
    one = taint(machine, 1)
    holder = machine.held_elsewhere()
    try:
        one.mark(chat("of the meadow"), "labelled")
        again = taint(machine, 1)
        again.mark(chat("of another"), "labelled")
    finally:
        holder.kill()
        holder.wait()
    machine.times.now_s += 1.0
    assert again.source(chat("of another", "well", "go on")) == TAINTED
    assert again.source(chat("of the meadow", "well", "go on")) == TAINT_LOST


def test_the_larger_standing_stands_at_all_workers(machine: Machine) -> None:
    one, two = taint(machine, 1), taint(machine, 2)
    first = chat("of the meadow")
    one.mark(first, "labelled")
    two.mark(replace(first, pseudonymise=True), "entities", "policy")
    goes_on = replace(chat("of the meadow", "well", "go on"), pseudonymise=True)
    assert one.source(goes_on, "policy") == two.source(goes_on, "policy") == TAINTED


def test_what_may_leave_with_surrogates_does_so_from_any_worker(machine: Machine) -> None:
    one, two = taint(machine, 1), taint(machine, 2)
    first, second = chat("of the meadow"), chat("of the meadow", "well", "go on")
    one.mark(replace(first, pseudonymise=True), "entities", "policy")
    assert two.source(replace(second, pseudonymise=True), "policy") is None
    assert two.source(second, "policy") == TAINTED
    one.mark(first, "labelled")
    assert two.source(replace(second, pseudonymise=True), "policy") == TAINTED
