"""What callers learn of models: what each can do, and nothing of where."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.operations.conftest import house

CHAT = "/v1/chat/completions"
MODELS = {
    "wide": {
        "task": "generate",
        "aliases": ["gpt"],
        "served_by": [
            {"endpoint": "onprem", "lacks": ["tools", "parts"]},
            {"endpoint": "cloud", "lacks": ["logprobs"], "price_usd": 1},
        ],
    },
    "ears": {"task": "transcribe", "served_by": [{"endpoint": "onprem"}]},
    "numbers": {"task": "infer", "served_by": [{"endpoint": "tensors"}]},
    "vectors": {"task": "embeddings", "served_by": [{"endpoint": "tensors"}]},
}
ENDPOINTS = {"tensors": {"kind": "triton", "zone": "onprem", "grpc": "127.0.0.1:1"}}


def test_a_model_says_what_it_can_do(tmp_path: Path) -> None:
    with house(tmp_path, models=MODELS, endpoints=ENDPOINTS) as made:
        listed = made.client.get("/v1/models").json()
        entries = {entry["id"]: entry for entry in listed["data"]}
        assert set(entries) == {"wide", "ears", "vectors", "gpt"}
        assert set(listed["models"]) == {"wide", "ears", "numbers", "vectors"}
        wide = entries["wide"]
        assert (wide["task"], wide["operations"][0]) == ("generate", CHAT)
        assert {"/tokenize", "/v1/responses"} <= set(wide["operations"])
        assert {"tools", "parts", "logprobs", "structured_output"} <= set(wide["capabilities"])
        assert {**entries["gpt"], "id": "wide", "name": "wide"} == wide
        assert entries["ears"]["operations"] == [
            "/v1/audio/transcriptions", "/v1/audio/translations",
        ]  # fmt: skip
        assert entries["vectors"]["operations"] == ["/v1/embeddings", "/v2/models/{name}/infer"]
        assert entries["vectors"]["capabilities"] == ["dimensions", "truncation"]
        numbers = made.client.get("/v1/models/numbers").json()
        assert (numbers["name"], numbers["ready"]) == ("numbers", False)
        assert (numbers["operations"], numbers["capabilities"]) == (["/v2/models/{name}/infer"], [])
        for word in ("onprem", "cloud", "127.0.0.1"):
            assert word not in str(listed)


def test_a_key_that_stays_sees_what_the_premises_can_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "sesame-sesame-sesame")
    key = {"key": "${KEY}", "tenant": "t", "spill": "never"}
    with house(tmp_path, models=MODELS, endpoints=ENDPOINTS, keys={"k": key}) as made:
        bearing = {"authorization": "Bearer sesame-sesame-sesame"}
        wide = made.client.get("/v1/models/wide", headers=bearing).json()
        assert "logprobs" in wide["capabilities"]
        assert {"tools", "parts"}.isdisjoint(wide["capabilities"])
