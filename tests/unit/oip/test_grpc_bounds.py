"""Messages that are much for their size are refused before they are read, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from gateway.core.errors import BodyTooLarge, MalformedBody, RequestRejected
from gateway.protocols.oip.datatypes import MAX_STRINGS
from gateway.protocols.oip.grpc import decode_request
from gateway.protocols.oip.grpc_bounds import (
    MOST_ELEMENTS,
    MOST_TENSORS,
    SMALL_BYTES,
    check_request,
)

Made = Callable[[Any], None]


def message(*made: Made) -> Any:
    request = service_pb2.ModelInferRequest(model_name="simple", id="one")
    for make in made:
        make(request)
    return request


def contents(field: str, datatype: str, values: list[Any]) -> Made:
    def make(request: Any) -> None:
        tensor = request.inputs.add(name="a", datatype=datatype, shape=[len(values)])
        getattr(tensor.contents, field).extend(values)

    return make


def tensors(count: int) -> Made:
    def make(request: Any) -> None:
        for at in range(count):
            request.inputs.add(name=f"n{at}", datatype="UINT8", shape=[1])
            request.raw_input_contents.append(b"x")

    return make


def parameters(count: int) -> Made:
    def make(request: Any) -> None:
        for at in range(count):
            request.parameters[f"p{at}"].int64_param = at

    return make


def raw(count: int) -> Made:
    def make(request: Any) -> None:
        request.inputs.add(name="a", datatype="UINT8", shape=[count])
        request.raw_input_contents.append(bytes(count))

    return make


TAKEN = {
    "a large tensor": raw(8 << 20),
    "many numbers": contents("fp32_contents", "FP32", [1.5] * 1_000_000),
    "many integers": contents("int64_contents", "INT64", [-1, 300] * 500_000),
    "many truths": contents("bool_contents", "BOOL", [True] * 1_000_000),
    "many strings": contents("bytes_contents", "BYTES", [b"", b"a word"] * 30_000),
    "many tensors": tensors(2000),
    "many parameters": parameters(4000),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_calls_need_is_taken(name: str) -> None:
    request = message(TAKEN[name])
    written = request.SerializeToString()
    assert len(written) > SMALL_BYTES
    check_request(written)
    decode_request(request)


REFUSED: dict[str, Callable[[], bytes]] = {
    "inputs of nothing": lambda: b"\x2a\x00" * (MOST_TENSORS + 1),
    "outputs of nothing": lambda: b"\x32\x00" * (MOST_TENSORS + 1),
    "raw contents of nothing": lambda: b"\x3a\x00" * (MOST_TENSORS + 1),
    "parameters of nothing": lambda: b"\x22\x00" * (MOST_TENSORS + 1),
    "a version again and again": lambda: b"\x12\x00" * (MOST_TENSORS + 1),
    "a field that nobody knows": lambda: b"\xf8\x07\x01" * (MOST_TENSORS + 1),
    "too many tensors": lambda: message(tensors(3000)).SerializeToString(),
    "too many numbers": lambda: message(
        contents("fp32_contents", "FP32", [1.5] * (MOST_ELEMENTS + 1))
    ).SerializeToString(),
    "too many integers": lambda: message(
        contents("int64_contents", "INT64", [1] * (MOST_ELEMENTS + 1))
    ).SerializeToString(),
    "far too many integers": lambda: message(
        contents("int_contents", "INT32", [1] * (MOST_ELEMENTS * 11))
    ).SerializeToString(),
    "too many in two tensors": lambda: message(
        contents("bool_contents", "BOOL", [True] * 600_000),
        contents("fp64_contents", "FP64", [0.5] * 600_000),
    ).SerializeToString(),
    "too many strings": lambda: message(
        contents("bytes_contents", "BYTES", [b""] * (1 << 16))
    ).SerializeToString(),
    "numbers that are not packed": lambda: (
        b"\x2a\xc0\x9a\x0c\x2a\xbc\x9a\x0c" + b"\x18\x01" * 100_000
    ),
    "parameters of an input": lambda: b"\x2a\xc0\x9a\x0c" + b"\x22\x00" * 100_000,
    "parameters of an output": lambda: b"\x32\xc0\x9a\x0c" + b"\x12\x00" * 100_000,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_call_needs_is_refused_unread(name: str) -> None:
    with pytest.raises((BodyTooLarge, MalformedBody)):
        check_request(REFUSED[name]())


def test_a_shape_without_measure_is_refused_unread() -> None:
    request = message()
    request.inputs.add(name="a", datatype="UINT8", shape=[1] * 100_000)
    with pytest.raises(MalformedBody, match="dimensions"):
        check_request(request.SerializeToString())


def test_strings_are_counted_by_the_shape_too() -> None:
    """In raw contents, where four octets are one."""
    request = message()
    count = MAX_STRINGS + 1
    request.inputs.add(name="a", datatype="BYTES", shape=[count])
    request.raw_input_contents.append(bytes(4 * count))
    check_request(request.SerializeToString())
    with pytest.raises(BodyTooLarge, match="BYTES"):
        decode_request(request)


@given(st.binary(max_size=60), st.integers(0, 40))
def test_what_protobuf_reads_is_walked_to_its_end(noise: bytes, at: int) -> None:
    """Groups apart, which nothing here has."""
    whole = message(raw(10), parameters(2)).SerializeToString()
    changed = (whole[:at] + noise + whole[at:]) + b"\x3a\x80\x80\x01" + bytes(16_384)
    try:
        check_request(changed)
    except RequestRejected:
        with_groups = any(octet & 7 in (3, 4) for octet in noise + whole)
        try:
            service_pb2.ModelInferRequest.FromString(changed)
        except DecodeError:
            return
        assert with_groups
