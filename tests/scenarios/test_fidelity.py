"""What a caller gets through the gateway has the bytes that it would have without it (O6).

Each call goes once to the embedded Triton and once through the gateway in front of it. Where both
cannot or should not be the same, a table here says so, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.scenarios.both_ways import Answer, BothWays, both_ways
from tests.scenarios.tensor_samples import BINARY_ONLY, SAMPLES, Sample

pytest.importorskip("pytriton", reason="the embedded Triton needs Python 3.11 or 3.12")

Json = dict[str, Any]


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothWays]:
    with both_ways(tmp_path_factory.mktemp("fidelity")) as found:
        yield found


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
    if datatype in BINARY_ONLY and into == "json":
        assert answer.status == 400
        assert b"sending %s data via JSON is not supported" % datatype.encode() in answer.body
        return
    assert answer.status == 200
    assert answer.body.startswith(b'{"id":"call-7","model_name":"all_types"')
    if into == "binary" and sample.raw:
        assert answer.content_type == "application/octet-stream"
        assert answer.body[int(answer.header_length or 0) :] == sample.raw
    else:
        assert answer.content_type == "application/json"
        assert answer.header_length is None


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
