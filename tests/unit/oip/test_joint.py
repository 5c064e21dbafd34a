"""Calls that are joined into one of more rows, and its answer as theirs."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from tritonclient.grpc import service_pb2

from gateway.core.errors import UpstreamFailed
from gateway.core.reply import Frame, GrpcMessage, RestBody
from gateway.core.types import RequestedOutput, Tensor, TensorCall
from gateway.protocols.oip import grpc, joint, rest_reply
from gateway.protocols.oip.datatypes import join
from gateway.protocols.oip.joint import Part
from gateway.protocols.oip.reply import TensorReply

ROWS = (1, 3, 2)
PARTS = [Part(rows, call_id) for rows, call_id in zip(ROWS, ("", '7 "é', "c"), strict=True)]


def floats(rows: int, begin: int) -> Tensor:
    numbers = [0.1 * (begin * 4 + at) - 1.0 for at in range(rows * 4)]
    return Tensor("scores", "FP32", (rows, 2, 2), struct.pack(f"<{len(numbers)}f", *numbers))


def words(rows: int, begin: int) -> Tensor:
    texts = [f'wörd "{begin + at}"\n'.encode() * (begin + at) for at in range(rows)]
    return Tensor("words", "BYTES", (rows, 1), join(texts))


def counts(rows: int, begin: int) -> Tensor:
    return Tensor("count", "INT64", (rows,), struct.pack(f"<{rows}q", *range(begin, begin + rows)))


def flags(rows: int, begin: int) -> Tensor:
    return Tensor("flag", "BOOL", (rows, 1), bytes((begin + at) % 2 for at in range(rows)))


def reply(rows: int, begin: int, call_id: str = "") -> TensorReply:
    """Of the rows from `begin` on, as a server would answer them in one request."""
    outputs = tuple(make(rows, begin) for make in (floats, words, counts, flags))
    return TensorReply("m", "3", outputs, call_id)


def answers() -> list[TensorReply]:
    begins = (0, 1, 4)
    return [reply(p.rows, begin, p.id) for p, begin in zip(PARTS, begins, strict=True)]


def test_a_message_is_divided_into_what_each_call_alone_would_have() -> None:
    whole = grpc.encode_response(reply(sum(ROWS), 0))
    assert joint.divided(whole, PARTS) == [grpc.encode_response(each) for each in answers()]


@pytest.mark.parametrize("binary", [(), ("words",), ("scores", "count"), ("scores", "words")])
def test_json_is_divided_into_the_bytes_that_the_server_would_have_written(
    binary: tuple[str, ...],
) -> None:
    call = TensorCall((), tuple(RequestedOutput(n, {"binary_data": True}) for n in binary))
    whole = rest_reply.encode_response(reply(sum(ROWS), 0), call)
    alone = [rest_reply.encode_response(each, call) for each in answers()]
    assert joint.divided(whole, PARTS) == alone


def message(**changed: object) -> bytes:
    outputs = (replace(counts(6, 0), **changed),)  # type: ignore[arg-type]
    return grpc.encode_response(TensorReply("m", "1", outputs)).message


def with_parameter() -> bytes:
    answer = service_pb2.ModelInferResponse.FromString(message())
    answer.parameters["which"].int64_param = 1
    written: bytes = answer.SerializeToString()
    return written


@pytest.mark.parametrize(
    "answer",
    [
        None,
        GrpcMessage(b"\xff"),
        GrpcMessage(message(shape=(5,), data=bytes(40))),
        GrpcMessage(message(shape=())),
        GrpcMessage(message(data=bytes(40))),
        GrpcMessage(message(datatype="BYTES", data=bytes(20))),
        GrpcMessage(message(datatype="BYTES", data=bytes(28))),
        GrpcMessage(with_parameter()),
        RestBody(b"[]"),
        RestBody(b'{"outputs":[{"name":"o","datatype":"INT8","shape":[6],"data":[1]}]}'),
        RestBody(b'{"model_name":"m","model_version":"1","outputs":[],"parameters":{"a":1}}'),
        RestBody(b'{"model_name":"m","model_version":"1","outputs":[]} ', 51),
        RestBody(b"[" * 100_000),
    ],
)
def test_an_answer_that_is_not_of_so_many_rows_is_divided_among_nobody(
    answer: Frame | None,
) -> None:
    with pytest.raises(UpstreamFailed):
        joint.divided(answer, PARTS)


def call(rows: int = 1, **changed: object) -> TensorCall:
    made = TensorCall((Tensor("x", "FP32", (rows, 2), bytes(8 * rows)),), version="2")
    return replace(made, **changed)  # type: ignore[arg-type]


def test_rows_stand_in_the_order_of_the_calls() -> None:
    first, second = floats(2, 0), floats(1, 2)
    both = joint.joined([TensorCall((first,), id="a", version="2"), TensorCall((second,))])
    assert both == TensorCall((floats(3, 0),), version="2")


def _same(one: TensorCall, other: TensorCall) -> bool:
    said = [(each.inputs, each.outputs, repr(each.parameters)) for each in (one, other)]
    return said[0] == said[1]


@pytest.mark.parametrize(
    "other",
    [
        call(inputs=(Tensor("x", "FP32", (1, 3), bytes(12)),)),
        call(inputs=(Tensor("x", "INT32", (1, 2), bytes(8)),)),
        call(inputs=(Tensor("y", "FP32", (1, 2), bytes(8)),)),
        call(inputs=(Tensor("x", "FP32", (1, 2), bytes(8), {"a": 1}),)),
        call(outputs=(RequestedOutput("o"),)),
        call(outputs=(RequestedOutput("o", {"classification": 2}),)),
        call(parameters={"priority": 1}),
        call(parameters={"priority": True}),
        call(parameters={"priority": 1.0}),
    ],
)
def test_calls_are_alike_that_differ_in_their_rows_alone(other: TensorCall) -> None:
    others = [call(), call(outputs=(RequestedOutput("o"),)), call(parameters={"priority": 1})]
    likenesses = [joint.likeness(each) for each in others]
    assert likenesses.count(joint.likeness(other)) == sum(_same(each, other) for each in others)
    assert joint.likeness(call(3, id="a")) == joint.likeness(call())


@pytest.mark.parametrize(
    ("asked", "rows"),
    [
        (call(3), 3),
        (call(streamed=True), 0),
        (call(inputs=()), 0),
        (call(parameters={"sequence_id": 4}), 0),
        (call(parameters={"sequence_start": True}), 0),
        (call(inputs=(Tensor("x", "FP32", (), bytes(4)),)), 0),
        (call(inputs=(Tensor("x", "INT8", (2,), bytes(2)), Tensor("y", "INT8", (1,), b"1"))), 0),
    ],
)
def test_a_call_that_is_not_rows_of_one_batch_is_not_joined(asked: TensorCall, rows: int) -> None:
    assert joint.row_count(asked) == rows
