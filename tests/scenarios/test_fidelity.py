"""What a REST caller gets through the gateway has the bytes that Triton wrote (O6).

Each call goes once to the embedded Triton and once through the gateway in front of it. Where both
cannot or should not be the same, a table here says so, with the reason.
"""

from __future__ import annotations

import json
import math
import random
import struct
from typing import Any

import pytest

from tests.scenarios.both_ways import Answer, BothWays
from tests.scenarios.tensor_samples import BINARY_ONLY, SAMPLES, Sample

Json = dict[str, Any]


def asked(ways: BothWays, model: str, body: Json, raw: bytes = b"", version: str = "") -> Answer:
    """The answer, which is the same both ways."""
    text = json.dumps(body).encode()
    length = len(text) if raw else None
    direct = ways.direct.infer(model, text + raw, length, version)
    assert ways.through.infer(model, text + raw, length, version) == direct
    return direct


def tensor(sample: Sample, binary: bool) -> Json:
    found: Json = {
        "name": f"INPUT_{sample.datatype}",
        "datatype": sample.datatype,
        "shape": [1, sample.count],
    }
    if binary:
        return found | {"parameters": {"binary_data_size": len(sample.raw)}}
    return found | {"data": sample.values}


FORMS = [
    (datatype, kind, sent, into)
    for (datatype, kind), sample in SAMPLES.items()
    for sent in ("json", "binary")
    if sent == "binary" or sample.values is not None
    for into in ("json", "binary")
    if into == "binary" or datatype not in BINARY_ONLY
]


@pytest.mark.parametrize(("datatype", "kind", "sent", "into"), FORMS)
def test_a_rest_answer_has_tritons_bytes(
    ways: BothWays, datatype: str, kind: str, sent: str, into: str
) -> None:
    sample = SAMPLES[datatype, kind]
    body: Json = {
        "id": "call-7",
        "inputs": [tensor(sample, sent == "binary")],
        "outputs": [
            {"name": f"OUTPUT_{datatype}", "parameters": {"binary_data": into == "binary"}}
        ],
    }
    answer = asked(ways, "all_types", body, sample.raw if sent == "binary" else b"")
    assert answer.status == 200
    assert answer.body.startswith(b'{"id":"call-7","model_name":"all_types"')
    if into == "binary" and sample.raw:
        assert answer.content_type == "application/octet-stream"
        assert answer.body[int(answer.header_length or 0) :] == sample.raw
    else:
        assert answer.content_type == "application/json"
        assert answer.header_length is None


def test_any_double_is_read_and_written_as_triton_does(ways: BothWays) -> None:
    """Triton misses the nearest double by a unit in the last place in one of some hundred."""
    bits = random.Random(7)
    words = b"".join(bits.getrandbits(64).to_bytes(8, "little") for _ in range(4000))
    values = [v for (v,) in struct.iter_unpack("<d", words) if math.isfinite(v)]
    values += [bits.uniform(-1e4, 1e4) for _ in range(2000)]
    raw = struct.pack(f"<{len(values)}d", *values)
    sample = Sample("FP64", len(values), raw, list(values))
    binary = {"outputs": [{"name": "OUTPUT_FP64", "parameters": {"binary_data": True}}]}
    answer = asked(ways, "all_types", {"inputs": [tensor(sample, False)]} | binary)
    assert answer.body[int(answer.header_length or 0) :] != raw
    written = asked(ways, "all_types", {"inputs": [tensor(sample, True)]}, raw)
    assert json.loads(written.body)["outputs"][0]["data"] == values


def test_every_datatype_at_once_some_binary_and_some_not(ways: BothWays) -> None:
    chosen = [SAMPLES[datatype, "edges"] for datatype, kind in SAMPLES if kind == "edges"]
    binary = {s.datatype: s.datatype in BINARY_ONLY or at % 2 == 0 for at, s in enumerate(chosen)}
    body = {
        "inputs": [tensor(s, binary[s.datatype]) for s in chosen],
        "outputs": [
            {
                "name": f"OUTPUT_{s.datatype}",
                "parameters": {"binary_data": s.datatype in BINARY_ONLY or not binary[s.datatype]},
            }
            for s in reversed(chosen)
        ],
    }
    raw = b"".join(s.raw for s in chosen if binary[s.datatype])
    assert asked(ways, "all_types", body, raw).status == 200


ONE: Json = {"name": "INPUT_INT32", "datatype": "INT32", "shape": [1, 2], "data": [1, -2]}
SCORES: Json = {
    "name": "SCORES",
    "datatype": "FP32",
    "shape": [2, 4],
    "data": [0.1, 0.5, 0.25, 0.3, 4, 3, 2, 1],
}


def pair(model: str = "INT32") -> list[Json]:
    return [
        {"name": f"INPUT{at}", "datatype": model, "shape": [1, 16], "data": list(range(16))}
        for at in (0, 1)
    ]


def of(output: str, **parameters: Any) -> Json:
    return {"name": output, "parameters": parameters}


ANSWERED: dict[str, tuple[str, Json]] = {
    "an id of any text": ("all_types", {"id": 'a"b\\é\n\u2028\x01/', "inputs": [ONE]}),
    "an empty id": ("all_types", {"id": "", "inputs": [ONE]}),
    "nested data": ("all_types", {"inputs": [ONE | {"data": [[1, -2]]}]}),
    "data nested in another shape": ("all_types", {"inputs": [ONE | {"data": [[1], [-2]]}]}),
    "custom parameters": ("all_types", {"parameters": {"a": "b", "n": 5}, "inputs": [ONE]}),
    "the body names the model": ("all_types", {"model_name": "other", "inputs": [ONE]}),
    "all outputs binary": (
        "all_types",
        {"parameters": {"binary_data_output": True}, "inputs": [ONE]},
    ),
    "binary_data_output with outputs named": (
        "simple",
        {
            "parameters": {"binary_data_output": True},
            "inputs": pair(),
            "outputs": [of("OUTPUT0", binary_data=False), {"name": "OUTPUT1"}],
        },
    ),
    "one output of two": ("simple", {"inputs": pair(), "outputs": [{"name": "OUTPUT1"}]}),
    "mixed outputs": (
        "simple",
        {"inputs": pair(), "outputs": [of("OUTPUT1", binary_data=True), {"name": "OUTPUT0"}]},
    ),
    "numbers as JSON writes them in other ways": (
        "all_types",
        {"inputs": [{"name": "INPUT_FP32", "datatype": "FP32", "shape": [1, 2], "data": [1, 2e3]}]},
    ),
    "classes": ("labelled", {"inputs": [SCORES], "outputs": [of("CLASSES", classification=2)]}),
    "more classes than there are": (
        "labelled",
        {"inputs": [SCORES], "outputs": [of("CLASSES", classification=9)]},
    ),
    "classes in binary": (
        "labelled",
        {"inputs": [SCORES], "outputs": [of("CLASSES", classification=1, binary_data=True)]},
    ),
    "no classes": ("labelled", {"inputs": [SCORES], "outputs": [of("CLASSES", classification=0)]}),
}


@pytest.mark.parametrize("name", ANSWERED)
def test_what_a_rest_call_asks_for_is_answered_as_by_triton(ways: BothWays, name: str) -> None:
    model, body = ANSWERED[name]
    assert asked(ways, model, body).status == 200


@pytest.mark.parametrize(("version", "answers"), [("", b"[2]"), ("1", b"[1]"), ("2", b"[2]")])
def test_a_version_in_the_path_is_the_one_that_answers(
    ways: BothWays, version: str, answers: bytes
) -> None:
    given = {"name": "INPUT", "datatype": "INT32", "shape": [1], "data": [0]}
    assert b'"data":' + answers in asked(ways, "versioned", {"inputs": [given]}, b"", version).body


PARAMETERS: dict[str, Json] = {
    "nothing": {},
    "custom": {"text": "é\n", "whole": -5, "real": 1.5, "yes": True, "most": 2**63 - 1},
    "beyond int64": {"big": 2**63},
    "a sequence": {"sequence_id": 7, "sequence_start": True, "sequence_end": True},
    "a sequence with a text id": {"sequence_id": "abc", "sequence_start": True},
    "priority": {"priority": 2},
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_model_sees_the_same_call(ways: BothWays, name: str) -> None:
    """All but `timeout`, which tells Triton what is left of the deadline (D3)."""
    given = {"name": "INPUT", "datatype": "INT32", "shape": [1], "data": [3]}
    body = {
        "id": "mine",
        "inputs": [given],
        "parameters": PARAMETERS[name],
        "outputs": [{"name": "SEEN"}],
    }
    seen = []
    for way in (ways.direct, ways.through):
        answer = json.loads(way.infer("seen", json.dumps(body).encode()).body)
        seen.append(json.loads(answer["outputs"][0]["data"][0]))
    assert seen[0].pop("timeout_us") == 0
    assert 0 < seen[1].pop("timeout_us") <= 60_000_000
    assert seen[0] == seen[1]
    assert seen[0]["id"] == "mine"


def infer_int32(**changes: Any) -> Json:
    return {"inputs": [ONE | changes]}


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
