"""What Triton refuses over REST is refused through the gateway, and what is not the same is known
(O6)."""

from __future__ import annotations

import json

import pytest

from tests.scenarios.both_ways import BothWays
from tests.scenarios.rest_calls import ONE, Json, infer_int32, pair, tensor
from tests.scenarios.tensor_samples import BINARY_ONLY, SAMPLES

IN_TRITONS_WORDS: dict[str, tuple[str, Json]] = {
    "an input that the model does not have": ("all_types", infer_int32(name="OTHER")),
    "an input of another datatype": ("all_types", infer_int32(datatype="FP32")),
    "no inputs": ("all_types", {"inputs": []}),
    "an input less": ("simple", {"inputs": pair()[:1]}),
    "a batch beyond the model's": ("all_types", infer_int32(shape=[9, 1], data=[1] * 9)),
    "a dimension less": ("all_types", infer_int32(shape=[2])),
    "no dimension": ("all_types", infer_int32(shape=[], data=[1])),
    "a batch of nothing": ("all_types", infer_int32(shape=[0, 4], data=[])),
    "another fixed dimension": (
        "simple",
        {"inputs": [item | {"shape": [1, 15], "data": [0] * 15} for item in pair()]},
    ),
    "an output that the model does not have": (
        "all_types",
        infer_int32() | {"outputs": [{"name": "OTHER"}]},
    ),
    "a reserved parameter": ("all_types", infer_int32() | {"parameters": {"triton_x": 1}}),
    "a decoupled model": (
        "repeat_int32",
        {
            "inputs": [
                {"name": name, "datatype": kind, "shape": [1], "data": [1]}
                for name, kind in (("IN", "INT32"), ("DELAY", "UINT32"), ("WAIT", "UINT32"))
            ]
        },
    ),
    "a sequence that did not start": (
        "simple_sequence",
        {
            "parameters": {"sequence_id": 4711},
            "inputs": [{"name": "INPUT", "datatype": "INT32", "shape": [1, 1], "data": [1]}],
        },
    ),
    "a model's own refusal": (
        "simple_string",
        {"inputs": [item | {"data": ["x"] * 16} for item in pair("BYTES")]},
    ),
}


@pytest.mark.parametrize("name", IN_TRITONS_WORDS)
def test_what_triton_refuses_is_refused_in_its_words(ways: BothWays, name: str) -> None:
    model, body = IN_TRITONS_WORDS[name]
    text = json.dumps(body).encode()
    direct, through = ways.direct.infer(model, text), ways.through.infer(model, text)
    assert direct.status >= 400
    assert (through.status, through.body) == (direct.status, direct.body)
    # Triton labels some of these `text/plain`, though all of them are JSON.
    assert through.content_type == "application/json"


def test_a_version_that_there_is_not_is_refused_in_tritons_words(ways: BothWays) -> None:
    text = json.dumps(infer_int32()).encode()
    direct = ways.direct.infer("all_types", text, version="9")
    through = ways.through.infer("all_types", text, version="9")
    assert (through.status, through.body) == (direct.status, direct.body)
    assert direct.status == 404


@pytest.mark.parametrize("datatype", BINARY_ONLY)
def test_a_half_precision_output_as_json_is_refused_in_tritons_words(
    ways: BothWays, datatype: str
) -> None:
    sample = SAMPLES[datatype, "edges"]
    body = json.dumps({"inputs": [tensor(sample, binary=True)]}).encode()
    direct, through = (
        way.infer("all_types", body + sample.raw, len(body)) for way in (ways.direct, ways.through)
    )
    assert (through.status, through.body) == (direct.status, direct.body)
    assert b"sending %s data via JSON is not supported" % datatype.encode() in direct.body


ITS_FAULT = "Triton answers 500 to what is the caller's fault"
NOT_JSON = "not JSON (RFC 8259): a parser in between would have to guess what it says"
OTHER_NUMBER = "Triton executes another number than the one that was sent"
NO_NAME = "names are the caller's text, and are not repeated"
LEFT_OUT = "a part of Triton that the gateway does not offer"
UNSCANNED = "what the gateway did not read must not go on"
OWN_WORDS = "the gateway reads the call before Triton does, and says where it is wrong"

DIFFERENT: dict[str, tuple[str, bytes | Json, int, int, str]] = {
    # name: (model, body, Triton's status, the gateway's, why they differ)
    "an unknown model": ("nobody", infer_int32(), 404, 404, NO_NAME),
    "half precision in JSON": (
        "all_types",
        {"inputs": [{"name": "INPUT_FP16", "datatype": "FP16", "shape": [1, 1], "data": [1.0]}]},
        400,
        400,
        OWN_WORDS,
    ),
    "an unknown datatype": ("all_types", infer_int32(datatype="INT33"), 400, 400, OWN_WORDS),
    "no data": ("all_types", {"inputs": [{k: ONE[k] for k in ONE if k != "data"}]}, 400, 400,
                OWN_WORDS),
    "an input twice": ("all_types", {"inputs": [ONE, ONE]}, 400, 400, OWN_WORDS),
    "a parameter that is none": (
        "all_types", infer_int32() | {"parameters": {"a": {}}}, 400, 400, OWN_WORDS
    ),
    "an empty parameter": (
        "all_types", infer_int32() | {"parameters": {"a": None}}, 400, 400, OWN_WORDS
    ),
    "no body": ("all_types", b"", 400, 400, LEFT_OUT),
    "half an object": ("all_types", b"{", 500, 400, ITS_FAULT),
    "a list": ("all_types", b"[]", 500, 400, ITS_FAULT),
    "an empty object": ("all_types", {}, 500, 400, ITS_FAULT),
    "no datatype": ("all_types", {"inputs": [{k: ONE[k] for k in ONE if k != "datatype"}]}, 500,
                    400, ITS_FAULT),
    "an element less": ("all_types", infer_int32(data=[1]), 500, 400, ITS_FAULT),
    "an element more": ("all_types", infer_int32(data=[1, 2, 3]), 500, 400, ITS_FAULT),
    "a negative dimension": ("all_types", infer_int32(shape=[1, -1]), 500, 400, ITS_FAULT),
    "a fraction": ("all_types", infer_int32(data=[1.5, 1]), 500, 400, ITS_FAULT),
    "a word": ("all_types", infer_int32(data=["1", 1]), 500, 400, ITS_FAULT),
    "true as a number": ("all_types", infer_int32(data=[True, 1]), 500, 400, ITS_FAULT),
    "a number as an id": ("all_types", infer_int32() | {"id": 5}, 500, 400, ITS_FAULT),
    "a switch that is a number": (
        "all_types", infer_int32() | {"parameters": {"binary_data_output": 1}}, 500, 400, ITS_FAULT
    ),
    "beyond 64 bits": (
        "all_types",
        {"inputs": [{"name": "INPUT_UINT64", "datatype": "UINT64", "shape": [1, 1],
                     "data": [2**64]}]},
        500,
        400,
        ITS_FAULT,
    ),
    "beyond a double": (
        "all_types",
        b'{"inputs":[{"name":"INPUT_FP64","datatype":"FP64","shape":[1,1],"data":[1e400]}]}',
        500,
        400,
        ITS_FAULT,
    ),
    "NaN": (
        "all_types",
        b'{"inputs":[{"name":"INPUT_FP32","datatype":"FP32","shape":[1,1],"data":[NaN]}]}',
        200,
        400,
        NOT_JSON,
    ),
    "infinity": (
        "all_types",
        b'{"inputs":[{"name":"INPUT_FP64","datatype":"FP64","shape":[1,1],"data":[-Infinity]}]}',
        200,
        400,
        NOT_JSON,
    ),
    "a key twice": (
        "all_types",
        b'{"id":"a","id":"b","inputs":[{"name":"INPUT_INT8","datatype":"INT8","shape":[1,1],'
        b'"data":[1]}]}',
        200,
        400,
        NOT_JSON,
    ),
    "a byte that holds 300": (
        "all_types",
        {"inputs": [{"name": "INPUT_UINT8", "datatype": "UINT8", "shape": [1, 1], "data": [300]}]},
        200,
        400,
        OTHER_NUMBER,
    ),
    "a float that holds 1e39": (
        "all_types",
        {"inputs": [{"name": "INPUT_FP32", "datatype": "FP32", "shape": [1, 1], "data": [1e39]}]},
        200,
        400,
        OTHER_NUMBER,
    ),
    "uneven data": ("all_types", infer_int32(data=[[1], 2]), 200, 400, OTHER_NUMBER),
    "a field of nobody": ("all_types", infer_int32() | {"extra": "text"}, 200, 400, UNSCANNED),
    "shared memory": (
        "all_types",
        {"inputs": [{k: ONE[k] for k in ONE if k != "data"}
                    | {"parameters": {"shared_memory_region": "x", "shared_memory_byte_size": 8}}]},
        404,
        400,
        LEFT_OUT,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_the_gateway_says_otherwise_is_known(ways: BothWays, name: str) -> None:
    model, body, tritons, ours, _why = DIFFERENT[name]
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    direct, through = ways.direct.infer(model, text), ways.through.infer(model, text)
    assert (direct.status, through.status) == (tritons, ours)
    assert through.content_type == "application/json"
    assert list(json.loads(through.body)) == ["error"]


def test_an_unknown_model_is_refused_in_words_that_clients_look_for(ways: BothWays) -> None:
    answer = ways.through.infer("nobody", json.dumps(infer_int32()).encode())
    assert json.loads(answer.body)["error"].startswith("Request for unknown model")


def test_a_raw_request_without_json_is_refused(ways: BothWays) -> None:
    """Triton's shortcut for models of one input: it says nothing of what is in it."""
    answer = ways.through.infer("simple_identity", b"text", 0)
    assert answer.status == 400
    assert b"without a JSON part are not offered" in answer.body
