"""Marks that lost their place, a few bits each."""

from __future__ import annotations

import hashlib

from gateway.classify.conversations.faded import DOUBTFUL, NOT_MARKED, STAYS, Faded

ROOM, KEEP_S = 1024, 80.0
MADE_FOR = 4 * ROOM
OFFSET = 24


def digest(number: int) -> bytes:
    return hashlib.blake2b(str(number).encode(), digest_size=8).digest()


class Rig:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.memory = bytearray(OFFSET + Faded.size(ROOM) + OFFSET)
        self.faded = Faded(self.memory, OFFSET, ROOM, KEEP_S, lambda: self.now_s)

    def add(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.faded.add(digest(number), self.now_s + KEEP_S)

    def standings(self, first: int, count: int) -> list[int]:
        return [self.faded.get(digest(number)) for number in range(first, first + count)]


def test_what_was_added_is_known_and_nothing_else_is() -> None:
    rig = Rig()
    rig.add(0, MADE_FOR)
    assert set(rig.standings(0, MADE_FOR)) == {STAYS}
    others = rig.standings(MADE_FOR, 20_000)
    assert others.count(NOT_MARKED) >= len(others) - 1


def test_beyond_what_it_was_made_for_it_is_less_sure_and_loses_nothing() -> None:
    rig = Rig()
    rig.add(0, 2 * MADE_FOR)
    assert set(rig.standings(0, 2 * MADE_FOR)) == {DOUBTFUL}
    others = rig.standings(2 * MADE_FOR, 5000)
    assert others.count(NOT_MARKED) > 0.99 * len(others)


def test_the_same_mark_again_takes_no_room() -> None:
    rig = Rig()
    for _ in range(3):
        rig.add(0, MADE_FOR)
    assert set(rig.standings(0, MADE_FOR)) == {STAYS}


def test_each_mark_counts_for_its_time_and_a_quarter_more_at_the_most() -> None:
    rig = Rig()
    for at in range(100):
        rig.now_s = at * 7.0
        until_s = rig.faded.add(digest(at), rig.now_s + KEEP_S)
        assert rig.now_s + KEEP_S < until_s <= rig.now_s + 1.25 * KEEP_S
    for at in range(100):
        age_s = rig.now_s - at * 7.0
        standing = rig.faded.get(digest(at))
        if age_s < KEEP_S:
            assert standing == STAYS
        elif age_s >= 1.25 * KEEP_S:
            assert standing == NOT_MARKED


def test_filters_that_are_over_are_used_again() -> None:
    """Else they would fill up for good."""
    rig = Rig()
    for day in range(8):
        rig.now_s = day * 1.25 * KEEP_S
        rig.add(day * MADE_FOR, MADE_FOR)
    last = 7 * MADE_FOR
    assert set(rig.standings(last, MADE_FOR)) == {STAYS}
    assert rig.standings(0, last).count(NOT_MARKED) >= last - 1


def test_it_stays_within_its_part_of_the_memory() -> None:
    rig = Rig()
    for quarter in range(6):
        rig.now_s = quarter * KEEP_S / 4
        rig.add(quarter * MADE_FOR, MADE_FOR)
    assert not any(rig.memory[:OFFSET])
    assert not any(rig.memory[-OFFSET:])
