"""The REST form of a call: read strictly, written anew."""

from __future__ import annotations

import contextlib
import json
import struct
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.errors import MalformedBody, NotOffered, RequestRejected, UpstreamFailed
from gateway.core.reply import RestBody
from gateway.core.types import RequestedOutput, Tensor, TensorCall
from gateway.protocols.oip import rest, rest_reply
from gateway.protocols.oip.datatypes import DATATYPES, join
from gateway.protocols.oip.reply import TensorReply

NUMPY = {
    "BOOL": np.bool_, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32,
    "UINT64": np.uint64, "INT8": np.int8, "INT16": np.int16, "INT32": np.int32,
    "INT64": np.int64, "FP16": np.float16, "FP32": np.float32, "FP64": np.float64,
}  # fmt: skip


def tensor_bytes(datatype: str, count: int) -> st.SearchStrategy[bytes]:
    if datatype == "BYTES":
        return st.lists(st.binary(max_size=20), min_size=count, max_size=count).map(join)
    if datatype == "BOOL":
        return st.lists(st.sampled_from([0, 1]), min_size=count, max_size=count).map(bytes)
    size = DATATYPES[datatype].size * count
    return st.binary(min_size=size, max_size=size)


@st.composite
def tensors(draw: st.DrawFn, name: str) -> Tensor:
    datatype = draw(st.sampled_from(sorted(DATATYPES)))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    count = int(np.prod(shape, dtype=int))
    return Tensor(name, datatype, shape, draw(tensor_bytes(datatype, count)), draw(PARAMETERS))


PARAMETERS = st.dictionaries(
    st.text(min_size=1, max_size=8).filter(
        lambda n: not n.startswith("shared_memory") and "binary_data" not in n and n != "timeout"
    ),
    st.one_of(
        st.booleans(),
        st.integers(-(1 << 63), (1 << 64) - 1),
        st.text(max_size=8),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    max_size=3,
)


@st.composite
def calls(draw: st.DrawFn) -> TensorCall:
    inputs = tuple(draw(tensors(f"IN{n}")) for n in range(draw(st.integers(0, 3))))
    outputs = tuple(
        RequestedOutput(f"OUT{n}", {"binary_data": draw(st.booleans())})
        for n in range(draw(st.integers(0, 2)))
    )
    return TensorCall(inputs, outputs, draw(PARAMETERS), draw(st.text(max_size=8)))


@given(calls())
def test_what_is_written_reads_back_the_same(call: TensorCall) -> None:
    body, header_length = rest.encode_request(call)
    assert rest.decode_request(body, header_length) == call


def one(datatype: str, shape: list[Any], **item: Any) -> dict[str, Any]:
    return {"inputs": [{"name": "IN", "datatype": datatype, "shape": shape, **item}]}


def decode(document: Any, tail: bytes = b"", binary: bool = False) -> TensorCall:
    text = json.dumps(document).encode()
    return rest.decode_request(text + tail, len(text) if tail or binary else None)


@pytest.mark.parametrize("datatype", sorted(set(NUMPY) - {"FP16"}))
@pytest.mark.parametrize("nested", [False, True])
def test_json_data_becomes_raw_elements(datatype: str, nested: bool) -> None:
    kind = NUMPY[datatype]
    if datatype == "BOOL":
        array = np.array([[True, False, True], [False, False, True]])
    elif datatype.startswith("FP"):
        array = np.array([[0.1, -2.5, 3e7], [0, -0.0, 1e-7]], kind)
    else:
        known = DATATYPES[datatype]
        array = np.array([[0, 1, 2], [known.low, known.high, 7]], kind)
    data = array.tolist() if nested else array.flatten().tolist()
    (found,) = decode(one(datatype, [2, 3], data=data)).inputs
    assert found.data == array.tobytes()
    assert found.shape == (2, 3)


def test_json_strings_become_length_prefixed_bytes() -> None:
    (found,) = decode(one("BYTES", [3], data=["", "é", "a\u0000b"])).inputs
    assert found.data == join([b"", "é".encode(), b"a\x00b"])


def test_json_and_binary_tensors_mix_in_any_order() -> None:
    a, b = struct.pack("<2i", 1, 2), join([b"x", b"yz"])
    document = {
        "id": "7",
        "parameters": {"sequence_id": 3, "binary_data_output": True},
        "inputs": [
            {"name": "A", "datatype": "INT32", "shape": [2], "parameters": {"binary_data_size": 8}},
            {"name": "J", "datatype": "FP32", "shape": [1], "data": [1]},
            {"name": "B", "datatype": "BYTES", "shape": [1, 2],
             "parameters": {"binary_data_size": len(b), "kept": "x"}},
        ],
        "outputs": [{"name": "O", "parameters": {"classification": 2}}],
    }  # fmt: skip
    call = decode(document, a + b)
    assert [tensor.data for tensor in call.inputs] == [a, struct.pack("<f", 1), b]
    assert dict(call.inputs[2].parameters) == {"kept": "x"}
    assert (call.id, call.sequence) == ("7", 3)
    assert call.outputs == (RequestedOutput("O", {"classification": 2}),)
    assert rest.wants_binary(call, "other")
    assert not rest.wants_binary(call, "O")


GOOD = {"name": "IN", "datatype": "INT32", "shape": [2], "data": [1, 2]}
BINARY = {k: v for k, v in GOOD.items() if k != "data"}

MALFORMED: list[tuple[Any, bytes, str]] = [
    ({}, b"", "inputs: must be a list"),
    ({"inputs": {}}, b"", "inputs: must be a list"),
    ({"inputs": [3]}, b"", "inputs[0]: must be an object"),
    ({"inputs": [{**GOOD, "name": ""}]}, b"", "inputs[0].name"),
    ({"inputs": [{**GOOD, "name": 3}]}, b"", "inputs[0].name"),
    ({"inputs": [{**GOOD, "datatype": "INT33"}]}, b"", "'IN': datatype must be one of"),
    ({"inputs": [{**GOOD, "datatype": None}]}, b"", "'IN': datatype"),
    ({"inputs": [{**GOOD, "shape": 2}]}, b"", "'IN': shape"),
    ({"inputs": [{**GOOD, "shape": [-2]}]}, b"", "'IN': shape must hold whole numbers"),
    ({"inputs": [{**GOOD, "shape": [2.0]}]}, b"", "'IN': shape must hold whole numbers"),
    ({"inputs": [{**GOOD, "shape": [True, 2]}]}, b"", "'IN': shape must hold whole numbers"),
    ({"inputs": [{**GOOD, "shape": [1 << 63]}]}, b"", "'IN': shape"),
    ({"inputs": [{**GOOD, "shape": [1 << 30, 1 << 30]}]}, b"", "'IN': shape has too many"),
    ({"inputs": [{**GOOD, "shape": [1] * 65}]}, b"", "'IN': shape has 65 dimensions"),
    ({"inputs": [{**GOOD, "shape": [3]}]}, b"", "expects 3 elements, data has 2"),
    ({"inputs": [{**GOOD, "data": [1, 2.0]}]}, b"", "INT32 must hold whole numbers only"),
    ({"inputs": [{**GOOD, "data": [1, True]}]}, b"", "INT32 must hold whole numbers only"),
    ({"inputs": [{**GOOD, "data": [1, None]}]}, b"", "whole numbers only"),
    ({"inputs": [{**GOOD, "data": [1, 1 << 31]}]}, b"", "INT32 cannot hold"),
    ({"inputs": [{**GOOD, "data": [[1], 2]}]}, b"", "nested unevenly"),
    ({"inputs": [{**GOOD, "data": [[1, 2], [3]]}]}, b"", "nested unevenly"),
    ({"inputs": [{**GOOD, "data": [1, [2]]}]}, b"", "whole numbers only"),
    ({"inputs": [{**GOOD, "data": "12"}]}, b"", "data must be a list"),
    (one("UINT8", [1], data=[-1]), b"", "UINT8 cannot hold"),
    (one("FP32", [1], data=[1e39]), b"", "FP32 cannot hold"),
    (one("FP64", [1], data=[10**400]), b"", "FP64 cannot hold"),
    (one("FP32", [1], data=["1"]), b"", "must hold numbers only"),
    (one("BOOL", [1], data=[1]), b"", "must hold true or false only"),
    (one("BYTES", [1], data=[1]), b"", "must hold strings only"),
    (one("FP16", [1], data=[1]), b"", "receiving FP16 data via JSON is not supported"),
    (one("BF16", [1], data=[1]), b"", "receiving BF16 data via JSON is not supported"),
    ({"inputs": [BINARY]}, b"", "has neither data nor binary_data_size"),
    ({"inputs": [GOOD, GOOD]}, b"", "inputs: two tensors have the same name"),
    ({"inputs": [], "outputs": [{"name": "O"}, {"name": "O"}]}, b"", "outputs: two tensors"),
    ({"inputs": [], "outputs": [{}]}, b"", "outputs[0].name"),
    ({"inputs": [], "outputs": ["O"]}, b"", "outputs[0]: must be an object"),
    ({"inputs": [], "outputs": {"name": "O"}}, b"", "outputs: must be a list"),
    ({"inputs": [], "id": 7}, b"", "id: must be a string"),
    ({"inputs": [], "parameters": []}, b"", "the request: parameters must be an object"),
    ({"inputs": [], "parameters": {"a": None}}, b"", "must be strings, numbers"),
    ({"inputs": [], "parameters": {"a": [1]}}, b"", "must be strings, numbers"),
    ({"inputs": [], "parameters": {"a": 1 << 64}}, b"", "beyond 64 bits"),
    ({"inputs": [], "parameters": {"binary_data_output": 1}}, b"", "must be true or false"),
    (
        {"inputs": [], "outputs": [{"name": "O", "parameters": {"binary_data": "yes"}}]},
        b"",
        "binary_data must be true or false",
    ),
    (
        {"inputs": [], "outputs": [{"name": "O", "parameters": {"classification": -1}}]},
        b"",
        "classification must be",
    ),
]


@pytest.mark.parametrize(("document", "tail", "words"), MALFORMED)
def test_a_malformed_request_is_refused_by_name(document: Any, tail: bytes, words: str) -> None:
    with pytest.raises(MalformedBody) as caught:
        decode(document, tail)
    assert words in caught.value.message


def binary(size: Any, shape: list[int], datatype: str = "INT32") -> dict[str, Any]:
    return one(datatype, shape, parameters={"binary_data_size": size})


@pytest.mark.parametrize(
    ("document", "tail", "words"),
    [
        (binary(8, [2]), b"1234567", "expects 8 bytes of binary data, the body has 7 left"),
        (binary(8, [2]), b"123456789", "announce 8 bytes of binary data, the body has 9"),
        (binary(7, [2]), b"1234567", "INT32 expect 8 bytes, got 7"),
        (binary(0, [2]), b"", "INT32 expect 8 bytes, got 0"),
        (binary(-8, [2]), b"12345678", "must be a number of bytes"),
        (binary(8.0, [2]), b"12345678", "must be a number of bytes"),
        (binary("8", [2]), b"12345678", "must be a number of bytes"),
        (binary(True, [1], "BOOL"), b"1", "must be a number of bytes"),
        (binary(1 << 62, [2]), b"12345678", "the body has 8 left"),
        (binary(3, [1], "BYTES"), b"\x01\x00\x00", "incomplete length"),
        (binary(5, [1], "BYTES"), b"\x02\x00\x00\x00a", "says 2 bytes, only 1 are left"),
        (binary(4, [1], "BYTES"), b"\xff\xff\xff\xff", "says 4294967295 bytes"),
        (binary(8, [1], "BYTES"), bytes(8), "expects 1 BYTES elements, got more"),
        (binary(4, [2], "BYTES"), bytes(4), "expects 2 BYTES elements, got 1"),
        ({"inputs": []}, b"x", "announce 0 bytes of binary data, the body has 1"),
        (one("INT32", [1], data=[1], parameters={"binary_data_size": 4}), b"1234", "has both"),
    ],
)
def test_wrong_tensor_lengths_are_refused_with_both_sizes(
    document: Any, tail: bytes, words: str
) -> None:
    with pytest.raises(MalformedBody) as caught:
        decode(document, tail, binary=True)
    assert words in caught.value.message


@pytest.mark.parametrize(
    "document",
    [
        one("INT32", [1], parameters={"shared_memory_region": "r", "shared_memory_byte_size": 4}),
        {"inputs": [], "outputs": [{"name": "O", "parameters": {"shared_memory_region": "r"}}]},
        {"inputs": [], "parameters": {"shared_memory_offset": 1}},
        {"inputs": [], "surprise": 1},
        one("INT32", [1], data=[1], surprise=1),
    ],
)
def test_what_is_not_offered_is_refused_as_such(document: Any) -> None:
    with pytest.raises(NotOffered):
        decode(document)


@pytest.mark.parametrize("length", [-1, 1 << 40, 15])
def test_a_header_length_beyond_the_body_is_refused(length: int) -> None:
    with pytest.raises(MalformedBody):
        rest.decode_request(b'{"inputs": []}', length)


def test_a_raw_request_is_not_offered() -> None:
    with pytest.raises(NotOffered):
        rest.decode_request(b"1234", 0)


def test_a_duplicate_key_is_refused_wherever_it_stands() -> None:
    for body in (
        b'{"inputs":[],"inputs":[]}',
        b'{"inputs":[{"name":"A","name":"B","datatype":"INT8","shape":[1],"data":[1]}]}',
        b'{"inputs":[],"parameters":{"a":1,"a":2}}',
    ):
        with pytest.raises(MalformedBody):
            rest.decode_request(body)


def test_a_message_never_repeats_a_name_that_could_be_content() -> None:
    for name in ("Janet Smith", "4111111111111111", "a" * 49, "é", "x@y.z"):
        with pytest.raises(MalformedBody) as caught:
            decode({"inputs": [{**GOOD, "name": name, "shape": [3]}]})
        assert name not in caught.value.message
        assert caught.value.message.startswith("inputs[0]: ")


@given(st.binary(max_size=200), st.one_of(st.none(), st.integers(0, 250)))
def test_any_bytes_are_either_a_call_or_a_refusal(body: bytes, length: int | None) -> None:
    with contextlib.suppress(RequestRejected):
        rest.decode_request(body, length)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["name", "shape", "datatype", "data", "inputs", "outputs", "parameters"]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["inputs", "outputs", "parameters", "id"]), json_values))
def test_any_document_is_either_a_call_or_a_refusal(document: Any) -> None:
    with contextlib.suppress(RequestRejected):
        decode(document)


def test_announced_sizes_cost_nothing() -> None:
    """A small body cannot make the decoder reserve memory for what it only claims."""
    document = {"inputs": [{**BINARY, "shape": [1 << 20, 1 << 20], "data": [1]}]}
    tracemalloc.start()
    with pytest.raises(MalformedBody):
        decode(document)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def test_the_timeout_takes_the_place_of_the_callers() -> None:
    call = TensorCall((), parameters={"timeout": 5, "a": "b"})
    assert json.loads(rest.encode_request(call, timeout_us=3)[0]) == {
        "parameters": {"timeout": 3, "a": "b"},
        "inputs": [],
    }


def test_binary_outputs_are_asked_for_whatever_the_caller_said() -> None:
    call = TensorCall((), (RequestedOutput("O", {"binary_data": False}), RequestedOutput("P")))
    document = json.loads(rest.encode_request(call, binary_outputs=True)[0])
    assert document["parameters"] == {"binary_data_output": True}
    assert [o["parameters"] for o in document["outputs"]] == [{"binary_data": True}] * 2


@given(tensors("A"), tensors("B"), st.booleans(), PARAMETERS)
def test_an_answer_reads_back_the_same(a: Tensor, b: Tensor, binary: bool, extra: Any) -> None:
    reply = TensorReply("m", "1", (a, b), "id", extra)
    asked = RequestedOutput("B", {"binary_data": binary})
    call = TensorCall((), (RequestedOutput("A", {"binary_data": True}), asked))
    if not binary and b.datatype in ("FP16", "BF16"):
        with pytest.raises(NotOffered):
            rest_reply.encode_response(reply, call)
        return
    body = rest_reply.encode_response(reply, call)
    if binary or _has_json_form(b):
        assert rest_reply.decode_response(body) == reply


def _has_json_form(tensor: Tensor) -> bool:
    if tensor.datatype == "BYTES":
        try:
            tensor.data.decode()
        except UnicodeDecodeError:
            return False
    if tensor.datatype.startswith("FP"):
        kind = NUMPY[tensor.datatype]
        values = np.frombuffer(tensor.data, kind).astype(float)
        return bool(np.isfinite(values).all()) and tensor.datatype == "FP32"
    return True


@pytest.mark.parametrize(
    "body",
    [
        RestBody(b""),
        RestBody(b"[]"),
        RestBody(b"{}"),
        RestBody(b'{"outputs":[{"name":"O","datatype":"INT32","shape":[2],"data":[1]}]}'),
        RestBody(b'{"outputs":[]}xxxx', 14),
        RestBody(b'{"outputs":[]}', 99),
        RestBody(b"[" * 100_000),
        RestBody(b"\xff"),
    ],
)
def test_nonsense_of_an_endpoint_is_its_failure(body: RestBody) -> None:
    with pytest.raises(UpstreamFailed):
        rest_reply.decode_response(body)
