"""Bytes that come in pieces are what they were, and cost little more than they measure."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from gateway.protocols.pieces import PieceBuffer

sizes = st.one_of(st.integers(0, 20), st.sampled_from([2047, 2048, 5000, 65_535, 70_000]))


@given(st.lists(st.tuples(sizes, st.sampled_from(["add", "cut", "first", "take"])), max_size=30))
def test_pieces_are_what_came(steps: list[tuple[int, str]]) -> None:
    pieces, held, octet = PieceBuffer(), b"", 0
    for size, step in steps:
        if step == "add":
            octet = (octet + 1) % 256
            came = bytes((octet,)) * size
            pieces.add(came)
            held += came
        elif step == "cut" and 0 < size <= len(held):
            cut = pieces.cut(size)
            assert type(cut) is bytes
            assert cut == held[:size]
            held = held[size:]
        elif step == "first":
            assert pieces.first(size) == held[:size]
        elif step == "take":
            taken = pieces.take()
            assert type(taken) is bytes
            assert taken == held
            held = b""
        assert pieces.size == len(held)
    assert pieces.take() == held


def test_octets_that_come_one_by_one_are_joined() -> None:
    pieces = PieceBuffer()
    for _ in range(200_000):
        pieces.add(b"x")
    held = sum(sys.getsizeof(piece) for piece in pieces._pieces)
    assert held < 1.25 * pieces.size


def test_small_messages_are_cut_off_a_large_piece_without_copying_it() -> None:
    whole = bytes(1 << 20)
    pieces = PieceBuffer()
    pieces.add(whole)
    for _ in range(1000):
        pieces.cut(10)
    assert pieces._pieces[0] is whole
