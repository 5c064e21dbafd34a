"""The console during an outage: a real gateway, its real Triton killed, a simulated cloud."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.demo.cloud.process import SimulatedCloud
from tests.browser import browser, chromium, serious
from tests.live import MODELS, LiveGateway, LoopThread, serving, settings

CLEAR, RESTRICTED = "How do tides work?", "Write to alma.abbott@example.org"


@pytest.fixture(scope="module")
def watched_gateway(
    cloud: SimulatedCloud, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveGateway]:
    pytest.importorskip("pytriton", reason="the embedded Triton needs Python 3.11 or 3.12")
    if not (MODELS / "minilm" / "1" / "model.onnx").exists():
        pytest.fail("the models are not built: run `make models`")
    scratch = tmp_path_factory.mktemp("console")
    stop = {"spill_stop_file": str(scratch / "stop")}
    with serving(settings(cloud, scratch, routing=stop), scratch) as found:
        yield found


async def ask(gateway: LiveGateway, text: str) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(), trust_env=False) as client:
        return await client.post(
            f"{gateway.http_url}/v1/embeddings",
            json={"model": "minilm", "input": text},
            headers={"x-latency-budget-ms": "1500"},
            timeout=120,
        )


def test_an_outage_is_seen_as_it_happens_and_nothing_restricted_leaves(
    watched_gateway: LiveGateway, loop_thread: LoopThread
) -> None:
    path = chromium()

    async def main() -> None:
        async with browser(path) as opened:
            page = await opened.new_page(viewport={"width": 1280, "height": 900})
            await page.goto(f"{watched_gateway.http_url}/console")
            await page.locator("#promise.kept").wait_for()
            await _calm(page)
            await _outage(page)
            await _recovery(page)

    async def _calm(page: Any) -> None:
        for text in (CLEAR, RESTRICTED):
            assert (await ask(watched_gateway, text)).status_code == 200
        await page.locator(".decision.onprem.restricted").first.wait_for()
        await page.locator(".decision.onprem.clear").first.wait_for()
        await page.locator("[data-endpoint=local] .state.up").wait_for()

    async def _outage(page: Any) -> None:
        out = page.locator("[data-endpoint=local] .state:is(.down, .ejected)")
        seen = asyncio.ensure_future(out.wait_for())  # it is back soon
        os.kill(watched_gateway.triton_pid(), signal.SIGKILL)
        await asyncio.gather(seen, *(ask(watched_gateway, t) for t in (CLEAR, RESTRICTED) * 3))
        await page.locator(".decision.cloud.clear").first.wait_for()
        assert await page.locator("#promise .figure").inner_text() == "0"
        assert await page.locator(".decision.cloud.restricted").count() == 0
        await page.locator(".decision.cloud.clear").first.click()
        told = await page.locator("#explanation").inner_text()
        await page.locator("#explanation .headline").wait_for()
        told = await page.locator("#explanation").inner_text()
        assert "in the cloud by" in told
        assert "local" in told
        assert await serious(page) == []
        await page.keyboard.press("Escape")

    async def _recovery(page: Any) -> None:
        up = page.locator("[data-endpoint=local] .state.up")
        await up.wait_for(timeout=120_000)
        assert (await ask(watched_gateway, RESTRICTED)).status_code == 200
        assert await page.locator("#promise.kept .figure").inner_text() == "0"

    loop_thread.run(main())


def test_what_operators_do_is_done_and_on_record(watched_gateway: LiveGateway) -> None:
    client = watched_gateway.client

    def drain(drained: bool) -> None:
        asked = {"endpoint": "local", "drained": drained}
        assert client.post("/console/drain", json=asked).status_code == 200

    drain(True)
    refused = client.post("/v1/embeddings", json={"model": "minilm", "input": RESTRICTED})
    away = client.post("/v1/embeddings", json={"model": "minilm", "input": CLEAR})
    drain(False)
    assert refused.headers["x-spillway-reason"] == "onprem_unavailable_restricted"
    assert watched_gateway.record(refused.headers["x-request-id"])["vetoes"]["local"] == "drained"
    assert away.headers["x-spillway-zone"] == "cloud"
    assert watched_gateway.record(away.headers["x-request-id"])["vetoes"]["local"] == "drained"
    again = client.post("/v1/embeddings", json={"model": "minilm", "input": RESTRICTED})
    assert again.headers["x-spillway-endpoint"] == "local"


def test_no_content_of_a_call_is_anywhere_in_the_stream(watched_gateway: LiveGateway) -> None:
    marker = "Zyxomma Quillfeather"
    headers = {"x-request-id": "not-a-uuid-" + marker.replace(" ", "-")}
    watched_gateway.client.post(
        "/v1/embeddings",
        json={"model": "minilm", "input": f"{marker}, card 4111 1111 1111 1111", "user": marker},
        headers=headers,
    )
    with watched_gateway.client.stream("GET", "/console/events") as answer:
        picture = next(answer.iter_bytes())
        while b"\n\n" not in picture:
            picture += next(answer.iter_bytes())
    assert b'"decisions":' in picture
    newest = max(int(n) for n in _numbers(picture))
    explained = watched_gateway.client.get(f"/console/decisions/{newest}").content
    assert b"CREDIT_CARD" in explained
    for said in (picture, explained):
        assert b"Zyxomma" not in said
        assert b"4111" not in said


def _numbers(picture: bytes) -> list[bytes]:
    return [part.split(b",")[0] for part in picture.split(b'"seq":')[1:]]


def test_the_gateway_stops_though_somebody_looks(tmp_path: Path) -> None:
    document = {
        "listen": {"http_port": 0, "grpc_port": 0},
        "limits": {"drain_s": 20.0},
        "audit": {"directory": str(tmp_path / "audit")},
        "endpoints": {"gpu": {"kind": "triton", "zone": "onprem", "grpc": "127.0.0.1:9"}},
        "models": {"m": {"served_by": [{"endpoint": "gpu"}]}},
    }
    with serving(document, tmp_path) as found:
        with found.client.stream("GET", "/console/events") as answer:
            chunks = answer.iter_bytes()
            next(chunks)
            found.process.send_signal(signal.SIGTERM)
            for _ in chunks:
                pass  # it ends; a stream that held on would run into the client's timeout
        assert found.process.wait(15) == 0
