"""`/v1/rerank`, from its caller to a provider and back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.unit.backends import wire_rig
from tests.unit.whole_gateway import records, serving

pytestmark = pytest.mark.anyio

CARD = "My card is 4111 1111 1111 1111."
ANSWER = json.dumps(
    {
        "model": "jina-reranker-v3",
        "usage": {"total_tokens": 21},
        "results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}],
    }
).encode()


class Provider:
    def __init__(self) -> None:
        self.received: list[tuple[str, dict[str, Any]]] = []

    async def __call__(self, peer: wire_rig.Peer) -> None:
        while True:
            head, _, body = (await peer.request()).partition(b"\r\n\r\n")
            if head.startswith(b"POST "):
                self.received.append((head.split()[1].decode(), json.loads(body)))
            await peer.say(wire_rig.answer(ANSWER, extra=b"content-type: application/json\r\n"))


@asynccontextmanager
async def reranking(scratch: Path) -> AsyncIterator[tuple[httpx.AsyncClient, Provider]]:
    provider = Provider()
    async with wire_rig.listening(provider) as server:
        endpoint = {"kind": "openai", "zone": "cloud", "url": f"http://127.0.0.1:{server.port}/v1"}
        served = {"endpoint": "jina", "model": "jina-reranker-v3", "price_usd_per_1k_tokens": 1.0}
        model = {"task": "rerank", "served_by": [served]}
        async with serving(scratch, {"jina": endpoint}, {"judge": model}) as client:
            yield client, provider


async def test_a_call_goes_out_by_its_path_and_its_answer_comes_back_as_it_is(
    tmp_path: Path,
) -> None:
    async with reranking(tmp_path) as (client, provider):
        body = {"query": "Which?", "documents": ["this", {"text": "that"}], "top_n": 2}
        answer = await client.post("/v1/rerank", json={"model": "judge", **body})
        assert (answer.status_code, answer.content) == (200, ANSWER)
        sent = {"model": "jina-reranker-v3", **body}
        assert provider.received == [("/v1/rerank", sent)]
    (record,) = records(tmp_path)
    assert record["operation"] == "rerank"
    (end,) = records(tmp_path, "end")
    assert (end["total_tokens"], end["attempts"][0]["price_usd"]) == (21, 0.021)


@pytest.mark.parametrize(
    "body",
    [
        {"query": CARD, "documents": ["this"]},
        {"query": "Which?", "documents": ["this", CARD]},
        {"query": "Which?", "documents": [{"text": CARD}]},
        {"query": "Which?", "documents": ["this"], "user": CARD},
    ],
)
async def test_what_restricts_stays_wherever_it_stands(
    tmp_path: Path, body: dict[str, Any]
) -> None:
    async with reranking(tmp_path) as (client, provider):
        refused = await client.post("/v1/rerank", json={"model": "judge", **body})
        assert refused.status_code == 503
        assert provider.received == []
    assert [r["sensitivity"] for r in records(tmp_path)] == ["restricted"]
