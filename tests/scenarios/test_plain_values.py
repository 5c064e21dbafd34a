"""Triton's generate and KServe's first protocol, on the real Triton: plain values in and out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.live import LiveGateway

GENERATE = "/v2/models/scribe/generate"
PREDICT = "/v1/models/simple:predict"
ROW = list(range(16))


def events(text: str) -> list[dict[str, Any]]:
    assert text.endswith("\n\n")
    return [json.loads(event.removeprefix("data: ")) for event in text[:-2].split("\n\n")]


def test_a_text_is_generated(gateway: LiveGateway) -> None:
    asked = {"text_input": "Once upon", "id": "7", "parameters": {"max_tokens": 4, "stream": False}}
    answer = gateway.client.post(GENERATE, json=asked)
    assert answer.status_code == 200, answer.text
    document = answer.json()
    assert (document["model_name"], document["id"]) == ("scribe", "7")
    assert isinstance(document["text_output"], str)
    assert answer.headers["x-spillway-sensitivity"] == "clear"
    again = gateway.client.post("/v2/models/scribe/versions/1/generate", json=asked)
    assert again.json()["model_version"] == "1"


def test_a_text_comes_piece_by_piece(gateway: LiveGateway) -> None:
    asked = {"text_input": "Once upon", "max_tokens": 4, "stream": True}
    answer = gateway.client.post(f"{GENERATE}_stream", json=asked)
    assert answer.headers["content-type"].startswith("text/event-stream")
    pieces = events(answer.text)
    assert len(pieces) > 1
    assert all("text_output" in piece for piece in pieces)
    refused = gateway.client.post(GENERATE, json=asked)
    assert refused.status_code == 400
    assert "generate_stream" in refused.json()["error"]


def test_a_model_with_one_answer_streams_it(gateway: LiveGateway) -> None:
    answer = gateway.client.post("/v2/models/minilm/generate_stream", json={"text": "hello"})
    (only,) = events(answer.text)
    assert len(only["embedding"]) == 384


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (GENERATE, {"text_input": 1}, 400),
        (GENERATE, {"text_input": ["a", "b"]}, 400),
        (GENERATE, {"text_input": [["a"]]}, 400),
        (GENERATE, {"text_input": "a", "note": {"a": 1}}, 400),
        (GENERATE, {"text_input": "a", "parameters": {"text_input": "b"}}, 400),
        (GENERATE, {"text_input": "a", "note": 1, "parameters": {"note": 2}}, 400),
        (GENERATE, {"text_input": "a", "parameters": 1}, 400),
        (GENERATE, {"text_input": "a", "id": 1}, 400),
        ("/v2/models/nobody/generate", {"text_input": "a"}, 404),
        ("/v2/models/scribe/versions/x/generate", {"text_input": "a"}, 404),
        (PREDICT, {"instances": []}, 400),
        (PREDICT, {"instances": [ROW]}, 400),
        (PREDICT, {"instances": [{"INPUT0": ROW, "INPUT1": ROW}, {"INPUT0": ROW}]}, 400),
        (PREDICT, {"instances": [{"INPUT0": ROW, "INPUT9": ROW}]}, 400),
        (PREDICT, {"instances": [{"INPUT0": ROW[:3], "INPUT1": ROW}]}, 400),
        (PREDICT, {"instances": [], "inputs": {}}, 400),
        (PREDICT, {"instances": [1], "signature_name": "a"}, 400),
        (PREDICT, {}, 400),
        ("/v1/models/nobody:predict", {"instances": [1]}, 404),
        ("/v1/models/simple:explain", {"instances": [1]}, 404),
    ],
)
def test_what_cannot_be_is_refused(
    gateway: LiveGateway, path: str, body: dict[str, Any], status: int
) -> None:
    answer = gateway.client.post(path, json=body)
    assert answer.status_code == status, answer.text
    assert isinstance(answer.json()["error"], str)


def test_only_a_post_asks(gateway: LiveGateway) -> None:
    for path in (GENERATE, f"{GENERATE}_stream", PREDICT):
        answer = gateway.client.get(path)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert gateway.client.post(path, content=b"a", headers={"content-type": "text/plain"}
        ).status_code == 415  # fmt: skip


def test_rows_are_predicted(gateway: LiveGateway) -> None:
    row = {"INPUT0": ROW, "INPUT1": [1] * 16}
    answer = gateway.client.post(PREDICT, json={"instances": [row, row]})
    assert answer.status_code == 200, answer.text
    first, second = answer.json()["predictions"]
    assert first == second == {
        "OUTPUT0": [n + 1 for n in ROW], "OUTPUT1": [n - 1 for n in ROW],
    }  # fmt: skip
    assert answer.headers["x-spillway-zone"] in ("onprem", "cloud")


def test_whole_tensors_are_predicted(gateway: LiveGateway) -> None:
    given = {"INPUT0": [ROW], "INPUT1": [[1] * 16]}
    outputs = gateway.client.post(PREDICT, json={"inputs": given}).json()["outputs"]
    assert outputs == {"OUTPUT0": [[n + 1 for n in ROW]], "OUTPUT1": [[n - 1 for n in ROW]]}


def test_a_model_with_one_input_needs_no_name(gateway: LiveGateway) -> None:
    path = "/v1/models/minilm:predict"
    answer = gateway.client.post(path, json={"instances": ["a cat", "a dog", "a mat"]})
    rows = answer.json()["predictions"]
    assert [len(row["embedding"]) for row in rows] == [384] * 3
    whole = gateway.client.post(path, json={"inputs": ["a cat"]}).json()["outputs"]
    assert whole["embedding"][0] == pytest.approx(rows[0]["embedding"], abs=1e-4)
