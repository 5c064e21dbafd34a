"""A JSON part that has come before says what it said, and nothing of a caller's is kept with it."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.errors import MalformedBody
from gateway.core.types import TensorCall
from gateway.protocols.oip import known_heads, rest
from gateway.protocols.oip.datatypes import join
from gateway.protocols.oip.known_heads import KnownHeads
from tests.unit.oip.test_rest import calls


def request(**changed: Any) -> dict[str, Any]:
    tensor = {
        "name": "IN", "datatype": "INT32", "shape": [2], "parameters": {"binary_data_size": 8},
    }  # fmt: skip
    return {"inputs": [tensor], "parameters": {"binary_data_output": True}, **changed}


def body(document: Any, tail: bytes) -> tuple[bytes, int]:
    text = json.dumps(document).encode()
    return text + tail, len(text)


def decode(heads: KnownHeads, document: Any, tail: bytes, version: str = "") -> TensorCall:
    whole, length = body(document, tail)
    return heads.decode(whole, length, 64, version)


def kept(heads: KnownHeads) -> int:
    return len(heads._known)


@given(st.lists(calls(), min_size=1, max_size=4))
def test_it_says_what_the_reader_says_however_often(asked: list[TensorCall]) -> None:
    heads = KnownHeads()
    for call in asked * 2:
        whole, length = rest.encode_request(call)
        assert heads.decode(whole, length, 64, "") == rest.decode_request(whole, length)


def test_other_bytes_behind_the_same_head_are_read() -> None:
    heads = KnownHeads()
    for numbers in ((1, 2), (3, 4)):
        tail = struct.pack("<2i", *numbers)
        found = decode(heads, request(), tail, "7")
        whole, length = body(request(), tail)
        assert found == rest.decode_request(whole, length, version="7")
    assert kept(heads) == 1


@pytest.mark.parametrize("tail", [b"", bytes(7), bytes(9)])
def test_a_known_head_with_too_few_or_too_many_bytes_behind_it_is_refused(tail: bytes) -> None:
    heads = KnownHeads()
    decode(heads, request(), bytes(8))
    with pytest.raises(MalformedBody):
        decode(heads, request(), tail)


STRINGS = join([b"a text"])
NOT_KEPT = [
    (request(id="4111111111111111"), bytes(8)),
    (request(parameters={"note": "for Ann"}), bytes(8)),
    (request(parameters={"sequence_id": 5555}), bytes(8)),
    (request(parameters={"for Ann": True}), bytes(8)),
    (request(outputs=[{"name": "for Ann"}]), bytes(8)),
    (
        request(inputs=[{"name": "IN", "datatype": "INT32", "shape": [2], "data": [1, 2]}]),
        b"",
    ),
    (
        request(inputs=[{"name": "IN", "datatype": "INT32", "shape": [0, 411111111111],
                         "parameters": {"binary_data_size": 0}}]),
        b"",
    ),
    (
        request(inputs=[{"name": "T", "datatype": "BYTES", "shape": [1],
                         "parameters": {"binary_data_size": len(STRINGS)}}]),
        STRINGS,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("document", "tail"), NOT_KEPT)
def test_what_could_be_content_is_not_kept(document: Any, tail: bytes) -> None:
    heads = KnownHeads()
    decode(heads, document, tail)
    assert kept(heads) == 0


def test_no_more_than_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_heads, "_MOST", 3)
    heads = KnownHeads()
    for at in range(10):
        decode(heads, request(outputs=[{"name": f"OUT{at}"}]), bytes(8))
        assert kept(heads) <= 3
