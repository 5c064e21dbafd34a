"""The gRPC form, and what crosses between the two forms."""

from __future__ import annotations

import contextlib
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as pb

from gateway.core.errors import MalformedBody, NotOffered, RequestRejected, UpstreamFailed
from gateway.core.reply import GrpcMessage, RestBody
from gateway.core.types import RequestedOutput, Tensor, TensorCall
from gateway.protocols.oip import grpc
from gateway.protocols.oip.datatypes import DATATYPES, join
from gateway.protocols.oip.reply import TensorReply

from .test_rest import calls, tensors

TYPED: dict[str, list[Any]] = {
    "BOOL": [True, False],
    "UINT8": [0, 255],
    "UINT16": [0, 65535],
    "UINT32": [0, (1 << 32) - 1],
    "UINT64": [0, (1 << 64) - 1],
    "INT8": [-128, 127],
    "INT16": [-32768, 32767],
    "INT32": [-(1 << 31), (1 << 31) - 1],
    "INT64": [-(1 << 63), (1 << 63) - 1],
    "FP32": [0.5, -1e30],
    "FP64": [0.1, -1e300],
    "BYTES": [b"", b"\xff\x00x"],
}


def rest_only_dropped(call: TensorCall) -> TensorCall:
    outputs = tuple(RequestedOutput(output.name) for output in call.outputs)
    return TensorCall(call.inputs, outputs, call.parameters, call.id, call.version)


@given(calls())
def test_what_is_written_reads_back_the_same(call: TensorCall) -> None:
    message = pb.ModelInferRequest.FromString(b"".join(grpc.encode_request(call, "m", "3")))
    assert (message.model_name, message.model_version) == ("m", "3")
    read = grpc.decode_request(message)
    assert rest_only_dropped(read) == rest_only_dropped(
        TensorCall(call.inputs, call.outputs, call.parameters, call.id, "3")
    )


@pytest.mark.parametrize("datatype", sorted(TYPED))
def test_typed_contents_become_raw_elements(datatype: str) -> None:
    message = pb.ModelInferRequest()
    item = message.inputs.add(name="IN", datatype=datatype, shape=[1, 2])
    known = DATATYPES[datatype]
    getattr(item.contents, known.contents).extend(TYPED[datatype])
    (found,) = grpc.decode_request(message).inputs
    expected = (
        join(TYPED[datatype])
        if not known.size
        else struct.pack(f"<2{known.code}", *TYPED[datatype])
    )
    assert found == Tensor("IN", datatype, (1, 2), expected)


def request(raw: list[bytes] = [], **fields: Any) -> Any:  # noqa: B006 - never changed
    message = pb.ModelInferRequest(raw_input_contents=raw)
    message.inputs.add(**{"name": "IN", "datatype": "INT32", "shape": [2], **fields})
    return message


FOUR = pb.InferTensorContents(int_contents=[1, 2, 3, 4])

REFUSED = [
    (request(), "its shape expects 2 elements, contents have 0"),
    (request(contents=FOUR), "expects 2 elements, contents have 4"),
    (request([bytes(8), bytes(8)]), "1 tensors, but raw_input_contents has 2 entries"),
    (request([bytes(7)]), "INT32 expect 8 bytes, got 7"),
    (request([bytes(8)], contents=FOUR), "has both contents and raw contents"),
    (request([bytes(8)], shape=[-2]), "shape must hold whole numbers"),
    (request([bytes(8)], datatype="INT"), "datatype must be one of"),
    (request([bytes(8)], name=""), "has no name"),
    (request(datatype="FP16"), "FP16 must be sent in raw contents"),
    (request(datatype="INT64", contents=FOUR), "INT64 belongs into int64_contents alone"),
    (
        request(datatype="INT8", contents=pb.InferTensorContents(int_contents=[1, 300])),
        "INT8 cannot hold",
    ),
    (
        request(
            contents=pb.InferTensorContents(int_contents=[1, 2], bytes_contents=[b"hidden text"])
        ),
        "INT32 belongs into int_contents alone",
    ),
]


@pytest.mark.parametrize(("message", "words"), REFUSED)
def test_a_mismatch_is_refused_by_name(message: Any, words: str) -> None:
    with pytest.raises(MalformedBody) as caught:
        grpc.decode_request(message)
    assert words in caught.value.message


def test_surplus_raw_contents_are_refused_without_any_input() -> None:
    with pytest.raises(MalformedBody):
        grpc.decode_request(pb.ModelInferRequest(raw_input_contents=[b"hidden text"]))


def test_two_tensors_of_one_name_are_refused() -> None:
    message = pb.ModelInferRequest(raw_input_contents=[b"1", b"2"])
    for _ in range(2):
        message.inputs.add(name="IN", datatype="INT8", shape=[1])
    with pytest.raises(MalformedBody):
        grpc.decode_request(message)


@pytest.mark.parametrize("where", ["request", "input", "output"])
def test_shared_memory_is_not_offered(where: str) -> None:
    message = pb.ModelInferRequest()
    owner = {"request": message}
    owner["input"] = message.inputs.add(name="IN", datatype="INT8", shape=[0])
    owner["output"] = message.outputs.add(name="OUT")
    owner[where].parameters["shared_memory_region"].string_param = "r"
    with pytest.raises(NotOffered):
        grpc.decode_request(message)


def test_fields_that_nobody_knows_do_not_survive() -> None:
    hidden = pb.ModelInferRequest(id="x").SerializeToString() + b"\xfa\x7f\x06hidden"
    inner = pb.ModelInferRequest.InferInputTensor(name="IN", datatype="INT8", shape=[0])
    raw = inner.SerializeToString() + b"\xfa\x7f\x06hidden"
    message = pb.ModelInferRequest()
    message.ParseFromString(hidden + b"\x2a" + bytes([len(raw)]) + raw)
    assert message.SerializeToString().count(b"hidden") == 2
    written = b"".join(grpc.encode_request(grpc.decode_request(message), "m"))
    assert b"hidden" not in written


@pytest.mark.parametrize("version", ["x", "1.0", "-1", "\uff11", "9" * 40])
def test_a_version_is_decimal_digits(version: str) -> None:
    with pytest.raises(MalformedBody):
        grpc.decode_request(pb.ModelInferRequest(model_version=version))


def test_a_version_that_is_one_is_kept() -> None:
    assert grpc.decode_request(pb.ModelInferRequest(model_version="12")).version == "12"


@given(st.binary(max_size=300))
def test_any_message_is_either_a_call_or_a_refusal(data: bytes) -> None:
    message = pb.ModelInferRequest()
    try:
        message.ParseFromString(data)
    except Exception:  # noqa: BLE001 - not a message at all
        return
    with contextlib.suppress(RequestRejected):
        grpc.decode_request(message)


@given(tensors("A"), tensors("B"), st.booleans())
def test_an_answer_crosses_to_rest_and_back(a: Tensor, b: Tensor, named: bool) -> None:
    reply = TensorReply("m", "1", (a, b), "id", {"triton_final_response": True})
    asked = {"binary_data": True}
    call = TensorCall(
        (),
        (RequestedOutput("A", asked), RequestedOutput("B", asked)) if named else (),
        {} if named else {"binary_data_output": True},
    )
    message = grpc.encode_response(reply)
    body = grpc.rest_from_grpc(message, call)
    assert body.header_length is not None
    assert grpc.decode_response(grpc.grpc_from_rest(body)) == reply


def test_the_rest_answer_honours_what_was_asked() -> None:
    reply = TensorReply(
        "m",
        "1",
        (
            Tensor("F", "FP32", (2,), struct.pack("<2f", 1e-7, 0.1)),
            Tensor("S", "BYTES", (1,), join([b'a"\xff'])),
            Tensor("B", "BOOL", (2,), b"\x02\x00"),
            Tensor("U", "UINT64", (1,), b"\xff" * 8),
        ),
    )
    call = TensorCall((), (RequestedOutput("S", {"binary_data": True}),))
    body = grpc.rest_from_grpc(grpc.encode_response(reply), call)
    head = (
        b'{"model_name":"m","model_version":"1","outputs":['
        b'{"name":"F","datatype":"FP32","shape":[2],"data":[1.0000000116860974e-7,0.10000000149011612]},'
        b'{"name":"S","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":7}},'
        b'{"name":"B","datatype":"BOOL","shape":[2],"data":[true,false]},'
        b'{"name":"U","datatype":"UINT64","shape":[1],"data":[18446744073709551615]}]}'
    )
    assert body == RestBody(head + join([b'a"\xff']), len(head))
    plain = grpc.rest_from_grpc(grpc.encode_response(reply), TensorCall(()))
    assert plain.header_length is None
    assert b'"data":["a\\"\xff"]' in plain.body


def test_json_of_other_servers_crosses_to_grpc() -> None:
    """They may ignore that raw bytes were asked for, write FP16 as numbers, and NaN."""
    document = {
        "model_name": "m",
        "outputs": [
            {"name": "H", "datatype": "FP16", "shape": [1], "data": [0.5]},
            {"name": "F", "datatype": "FP32", "shape": [2, 1], "data": [[1.5], [float("nan")]]},
        ],
    }
    message = pb.ModelInferResponse()
    message.ParseFromString(grpc.grpc_from_rest(RestBody(json.dumps(document).encode())).message)
    assert message.raw_output_contents[0] == struct.pack("<e", 0.5)
    assert message.raw_output_contents[1] == struct.pack("<2f", 1.5, float("nan"))


@pytest.mark.parametrize(
    "message",
    [
        b"\xff\xff",
        pb.ModelInferResponse(raw_output_contents=[b"x"]).SerializeToString(),
        pb.ModelInferResponse(
            outputs=[{"name": "O", "datatype": "INT8", "shape": [2]}], raw_output_contents=[b"x"]
        ).SerializeToString(),
    ],
)
def test_nonsense_of_an_endpoint_is_its_failure(message: bytes) -> None:
    with pytest.raises(UpstreamFailed):
        grpc.decode_response(GrpcMessage(message))
