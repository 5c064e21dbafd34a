"""Tables of input that no protocol allows, each with words that its refusal must say."""

from __future__ import annotations

import json
import struct
from typing import Any

from tritonclient.grpc import service_pb2

DEEP = 100_000

# What is wrong with the JSON itself, wherever JSON is read.
JSON: list[tuple[bytes, str]] = [
    (b"", "not JSON"),
    (b" ", "not JSON"),
    (b"{", "not JSON"),
    (b'{"a"', "not JSON"),
    (b'{"a":', "not JSON"),
    (b'{"a":"', "not JSON"),
    (b'{"a":1,}', "not JSON"),
    (b'{"a" 1}', "not JSON"),
    (b"{'a':1}", "not JSON"),
    (b"{a:1}", "not JSON"),
    (b'{"a":01}', "not JSON"),
    (b'{"a":.5}', "not JSON"),
    (b'{"a":1.}', "not JSON"),
    (b'{"a":+1}', "not JSON"),
    (b'{"a":0x1}', "not JSON"),
    (b'{"a":True}', "not JSON"),
    (b'{"a":"\n"}', "not JSON"),
    (b'{"a":"\\x41"}', "not JSON"),
    (b'{"a":"\\u12"}', "not JSON"),
    (b'{"a":1}{"b":2}', "not JSON"),
    (b'{"a":1}\x00', "not JSON"),
    (b'{"a":1} // b', "not JSON"),
    (b'/**/{"a":1}', "not JSON"),
    (b"\x1f\x8b\x08\x00", "not UTF-8 text: byte 1"),
    (b"[]", "must be a JSON object"),
    (b"null", "must be a JSON object"),
    (b"17", "must be a JSON object"),
    (b'"a"', "must be a JSON object"),
    (b'{"a":NaN}', "NaN"),
    (b'{"a":Infinity}', "Infinity"),
    (b'{"a":-Infinity}', "-Infinity"),
    (b'{"a":1e999}', "too large for a double"),
    (b'{"a":-1E+9999}', "too large for a double"),
    (b'{"a":' + b"9" * 400 + b".5}", "too large for a double"),
    (b'{"a":' + b"9" * 5000 + b"}", "too many digits"),
    (b'{"a":1,"a":1}', "same key twice"),
    (b'{"a":1,"\\u0061":2}', "same key twice"),
    (b'{"a":[{"b":{"c":1,"d":2,"c":3}}]}', "same key twice"),
    (b"\xef\xbb\xbf{}", "not JSON"),
    ('{"a":1}'.encode("utf-16"), "not UTF-8"),
    (b'{"a":"\xff"}', "not UTF-8 text: byte 6"),
    (b'{"a":"\xc0\xaf"}', "not UTF-8"),
    (b'{"a":"\xed\xa0\x80"}', "not UTF-8"),
    (b'{"a":"\xf5\x80\x80\x80"}', "not UTF-8"),
    (b'{"\\ud800":1}', "half of a surrogate pair"),
    (b'{"a":["\\udc00\\ud800"]}', "half of a surrogate pair"),
    (b'{"a":' + b"[" * 64 + b"]" * 64 + b"}", "deeper than 64"),
    (b'{"a":' * 65 + b"1" + b"}" * 65, "deeper than 64"),
    (b'{"a":' + b"[" * DEEP + b"]" * DEEP + b"}", "deeper than 64"),
    (b"[" * DEEP, "deeper than 64"),
    (b'{"a":' * DEEP + b"1" + b"}" * DEEP, "deeper than 64"),
]

GOOD = {"name": "INPUT0", "datatype": "INT32", "shape": [1, 2], "data": [1, 2]}
TEXT = {"name": "TEXT", "datatype": "BYTES", "shape": [1], "data": ["a"]}
BINARY: dict[str, Any] = {k: v for k, v in GOOD.items() if k != "data"}


def binary(size: object, **changes: object) -> dict[str, Any]:
    return {**BINARY, "parameters": {"binary_data_size": size}, **changes}


# Documents that are JSON and no inference request.
V2: list[tuple[dict[str, Any], str]] = [
    ({}, "inputs: must be a list"),
    ({"inputs": {}}, "inputs: must be a list"),
    ({"inputs": [1]}, "inputs[0]: must be an object"),
    ({"inputs": [], "id": 5}, "id: must be a string"),
    ({"inputs": [], "outputs": {}}, "outputs: must be a list"),
    ({"inputs": [], "outputs": [{"name": ""}]}, "outputs[0].name"),
    ({"inputs": [], "parameters": []}, "the request: parameters must be an object"),
    ({"inputs": [], "parameters": {"a": None}}, "must be strings, numbers"),
    ({"inputs": [], "parameters": {"a": {}}}, "must be strings, numbers"),
    ({"inputs": [], "parameters": {"a": 1 << 64}}, "beyond 64 bits"),
    ({"inputs": [], "prompt": "a"}, "has a field other than"),
    ({"inputs": [GOOD, GOOD]}, "two tensors have the same name"),
    ({"inputs": [{**GOOD, "note": "a"}]}, "has a field other than"),
    ({"inputs": [{**GOOD, "name": None}]}, "inputs[0].name: must be a string"),
    ({"inputs": [{**GOOD, "datatype": "INT33"}]}, "datatype must be one of"),
    ({"inputs": [{**GOOD, "datatype": 32}]}, "datatype must be one of"),
    ({"inputs": [{**GOOD, "shape": 2}]}, "shape: must be a list"),
    ({"inputs": [{**GOOD, "shape": None}]}, "shape: must be a list"),
    ({"inputs": [{**GOOD, "shape": [1, -1]}]}, "shape must hold whole numbers"),
    ({"inputs": [{**GOOD, "shape": [-2, -1]}]}, "shape must hold whole numbers"),
    ({"inputs": [{**GOOD, "shape": [1, 2.0]}]}, "shape must hold whole numbers"),
    ({"inputs": [{**GOOD, "shape": [1, True]}]}, "shape must hold whole numbers"),
    ({"inputs": [{**GOOD, "shape": ["2"]}]}, "shape must hold whole numbers"),
    ({"inputs": [{**GOOD, "shape": [1 << 63]}]}, "shape must hold whole numbers"),
    ({"inputs": [{**GOOD, "shape": [1 << 32, 1 << 32]}]}, "too many elements"),
    ({"inputs": [{**GOOD, "shape": [1 << 40]}]}, "expects 1099511627776 elements"),
    ({"inputs": [{**GOOD, "shape": [1] * 65}]}, "65 dimensions"),
    ({"inputs": [{**GOOD, "shape": []}]}, "expects 1 elements, data has 2"),
    ({"inputs": [{**GOOD, "shape": [2, 2]}]}, "expects 4 elements, data has 2"),
    ({"inputs": [{**GOOD, "shape": [0]}]}, "expects 0 elements, data has 2"),
    ({"inputs": [{**GOOD, "data": [1]}]}, "expects 2 elements, data has 1"),
    ({"inputs": [{**GOOD, "data": [[1], [2, 3]]}]}, "nested unevenly"),
    ({"inputs": [{**GOOD, "data": [[1], 2]}]}, "nested unevenly"),
    ({"inputs": [{**GOOD, "data": "12"}]}, "data must be a list"),
    ({"inputs": [{**GOOD, "data": None}]}, "data must be a list"),
    ({"inputs": [{**GOOD, "data": [1, 1 << 31]}]}, "a number that INT32 cannot hold"),
    ({"inputs": [{**GOOD, "data": [1, 2.5]}]}, "must hold whole numbers only"),
    ({"inputs": [{**GOOD, "data": [1, "2"]}]}, "must hold whole numbers only"),
    ({"inputs": [{**GOOD, "data": [1, None]}]}, "must hold whole numbers only"),
    ({"inputs": [{**GOOD, "data": [1, True]}]}, "must hold whole numbers only"),
    ({"inputs": [{**GOOD, "datatype": "UINT8", "data": [1, -1]}]}, "UINT8 cannot hold"),
    ({"inputs": [{**GOOD, "datatype": "BOOL"}]}, "must hold true or false only"),
    ({"inputs": [{**GOOD, "datatype": "FP16"}]}, "FP16 data via JSON is not supported"),
    ({"inputs": [{**TEXT, "data": [5]}]}, "must hold strings only"),
    ({"inputs": [BINARY]}, "neither data nor binary_data_size"),
    ({"inputs": [{**GOOD, "parameters": {"binary_data_size": 8}}]}, "both data and"),
    ({"inputs": [binary(8)]}, "expects 8 bytes of binary data, the body has 0 left"),
    ({"inputs": [binary(-1)]}, "must be a number of bytes"),
    ({"inputs": [binary("8")]}, "must be a number of bytes"),
    ({"inputs": [binary(0)]}, "expect 8 bytes, got 0"),
    ({"inputs": [{**GOOD, "parameters": {"shared_memory_region": "a"}}]}, "shared memory is not"),
    ({"inputs": [], "outputs": [{"name": "a", "parameters": {"shared_memory_region": "b"}}]},
     "shared memory is not"),
    ({"inputs": [], "outputs": [{"name": "a", "parameters": {"binary_data": 1}}]}, "true or false"),
    ({"inputs": [], "outputs": [{"name": "a", "parameters": {"classification": -1}}]},
     "must be a number of classes"),
]  # fmt: skip

# A document, the raw bytes behind it, the header's value (or its difference to the true one).
V2_BINARY: list[tuple[dict[str, Any], bytes, int | str, str]] = [
    ({"inputs": [binary(8)]}, bytes(7), 0, "expects 8 bytes of binary data, the body has 7 left"),
    ({"inputs": [binary(8)]}, bytes(9), 0, "announce 8 bytes of binary data, the body has 9"),
    ({"inputs": [binary(7)]}, bytes(7), 0, "expect 8 bytes, got 7"),
    ({"inputs": [binary(1 << 62)]}, bytes(8), 0, "the body has 8 left"),
    ({"inputs": [GOOD]}, b"x", 0, "announce 0 bytes of binary data, the body has 1"),
    ({"inputs": [binary(8)]}, bytes(8), 1, "not JSON"),
    ({"inputs": [binary(8)]}, bytes(8), -1, "not JSON"),
    ({"inputs": [binary(8)]}, bytes(8), 9, "must be within the body's"),
    ({"inputs": [binary(8)]}, bytes(8), "0", "raw requests without a JSON part"),
    ({"inputs": [binary(8)]}, bytes(8), "-1", "must be a number of bytes"),
    ({"inputs": [binary(8)]}, bytes(8), "1e3", "must be a number of bytes"),
    ({"inputs": [binary(8)]}, bytes(8), "", "must be a number of bytes"),
    ({"inputs": [binary(8)]}, bytes(8), "9" * 18, "must be within the body's"),
    ({"inputs": [binary(8)]}, bytes(8), "9" * 19, "must be a number of bytes"),
    ({"inputs": [binary(3, datatype="BYTES", shape=[1])]}, bytes(3), 0, "an incomplete length"),
    ({"inputs": [binary(5, datatype="BYTES", shape=[1])]}, struct.pack("<Ic", 99, b"a"), 0,
     "says 99 bytes, only 1 are left"),
    ({"inputs": [binary(4, datatype="BYTES", shape=[1])]}, b"\xff" * 4, 0,
     "says 4294967295 bytes, only 0 are left"),
    ({"inputs": [binary(8, datatype="BYTES", shape=[1])]}, bytes(8), 0, "1 BYTES elements, got"),
    ({"inputs": [binary(0, datatype="BYTES", shape=[1 << 40])]}, b"", 0, "BYTES elements, got 0"),
]  # fmt: skip

HELLO = [{"role": "user", "content": "hello"}]
CHAT = {"model": "scribe", "messages": HELLO}
OPENAI: list[tuple[str, dict[str, Any], str]] = [
    ("chat/completions", {"messages": HELLO}, "model: is required"),
    ("chat/completions", {**CHAT, "model": 5}, "model: must be a string"),
    ("chat/completions", {**CHAT, "model": ["scribe"]}, "model: must be a string"),
    ("chat/completions", {**CHAT, "model": "minilm"}, "cannot serve"),
    ("chat/completions", {"model": "scribe"}, "messages: is required"),
    ("chat/completions", {**CHAT, "messages": "hello"}, "messages: must be a list"),
    ("chat/completions", {**CHAT, "messages": []}, "at least one message"),
    ("chat/completions", {**CHAT, "messages": ["hello"]}, "messages[0]: must be an object"),
    ("chat/completions", {**CHAT, "messages": [{"content": "a"}]}, "messages[0].role"),
    ("chat/completions", {**CHAT, "stream": "yes"}, "stream: must be true or false"),
    ("chat/completions", {**CHAT, "stream": 1}, "stream: must be true or false"),
    ("completions", {"model": "scribe"}, "prompt: is required"),
    ("completions", {"model": "scribe", "prompt": []}, "prompt: must not be empty"),
    ("completions", {"model": "scribe", "prompt": {"a": 1}}, "prompt: must be a string"),
    ("completions", {"model": "scribe", "prompt": ["a", 1]}, "prompt: must be a string"),
    ("embeddings", {"model": "minilm"}, "input: is required"),
    ("embeddings", {"model": "minilm", "input": [None]}, "input: must be a string"),
    ("embeddings", {"model": "minilm", "input": "a", "stream": True}, "not streamed"),
    ("responses", {"model": "scribe"}, "input: is required"),
    ("responses", {"model": "scribe", "input": 5}, "input: must be a string or a list"),
    ("responses", {"model": "scribe", "input": ["a"]}, "input[0]: must be an object"),
    ("responses", {"model": "scribe", "input": "a", "background": True}, "no state is kept"),
]


def message(*inputs: dict[str, Any], raw: list[bytes] | None = None, **fields: Any) -> bytes:
    request = service_pb2.ModelInferRequest(**{"model_name": "simple", **fields})
    for tensor in inputs:
        request.inputs.add(**tensor)
    request.raw_input_contents.extend(raw or [])
    return bytes(request.SerializeToString())


IN: dict[str, Any] = {"name": "INPUT0", "datatype": "INT32", "shape": [1, 2]}
REGION = {"shared_memory_region": service_pb2.InferParameter(string_param="a")}
INVALID, NOT_OFFERED = "INVALID_ARGUMENT", "UNIMPLEMENTED"
GRPC: list[tuple[bytes, str, str]] = [
    (b"\xff", INVALID, "not a ModelInferRequest"),
    (b"\x0a\x05abc", INVALID, "not a ModelInferRequest"),
    (b"\x0a\x02\xc0\xaf", INVALID, "not a ModelInferRequest"),
    (b'{"inputs":[]}', INVALID, "not a ModelInferRequest"),
    (message(IN), INVALID, "expects 2 elements, contents have 0"),
    (message(IN, raw=[bytes(7)]), INVALID, "expect 8 bytes, got 7"),
    (message(IN, raw=[bytes(8), b""]), INVALID, "1 tensors, but raw_input_contents has 2"),
    (message(raw=[b"a"]), INVALID, "0 tensors, but raw_input_contents has 1"),
    (message(IN, {**IN, "name": "INPUT1"}, raw=[bytes(8)]), INVALID, "2 tensors, but raw_input"),
    (message(IN, IN, raw=[bytes(8)] * 2), INVALID, "two tensors have the same name"),
    (message({**IN, "shape": [1, -2]}, raw=[bytes(8)]), INVALID, "whole numbers that are not"),
    (message({**IN, "shape": [-1, -2]}, raw=[bytes(8)]), INVALID, "whole numbers that are not"),
    (message({**IN, "shape": [1 << 62]}, raw=[bytes(8)]), INVALID, "shape must hold whole"),
    (message({**IN, "shape": [1 << 32] * 2}, raw=[bytes(8)]), INVALID, "too many elements"),
    (message({**IN, "shape": [1] * 65}, raw=[bytes(4)]), INVALID, "65 dimensions"),
    (message({**IN, "datatype": "INT33"}, raw=[bytes(8)]), INVALID, "datatype must be one of"),
    (message({**IN, "name": ""}, raw=[bytes(8)]), INVALID, "inputs[0]: has no name"),
    (message({**IN, "contents": {"int_contents": [1, 2]}}, raw=[bytes(8)]), INVALID, "has both"),
    (message({**IN, "contents": {"int64_contents": [1, 2]}}), INVALID, "belongs into int_contents"),
    (message({**IN, "contents": {"int_contents": [1]}}), INVALID, "contents have 1"),
    (message({**IN, "datatype": "INT8", "contents": {"int_contents": [1, 300]}}), INVALID,
     "INT8 cannot hold"),
    (message({**IN, "datatype": "FP16"}), INVALID, "must be sent in raw contents"),
    (message({**IN, "datatype": "BYTES", "shape": [1]}, raw=[b"\xff" * 4]), INVALID,
     "says 4294967295 bytes"),
    (message({**IN, "datatype": "BYTES", "shape": [1]}, raw=[b"abc"]), INVALID, "incomplete"),
    (message({**IN, "parameters": REGION}), NOT_OFFERED, "shared memory is not offered"),
    (message({**IN, "parameters": {"a": service_pb2.InferParameter()}}, raw=[bytes(8)]), INVALID,
     "a parameter has no value"),
    (message(IN, raw=[bytes(8)], model_version="latest"), INVALID, "model_version"),
    (message(IN, raw=[bytes(8)], model_name="nobody"), "NOT_FOUND", "not in the catalog"),
    (message(IN, raw=[bytes(8)], model_name=""), "NOT_FOUND", "not in the catalog"),
]  # fmt: skip


def written(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()
