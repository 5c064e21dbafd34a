"""The openai SDK through the gateway loses no call that it would have saved alone: a provider on a
real socket that answers one call in nine with 503, by count."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import openai

from tests.live import LiveGateway, serving

ZONES = ("cloud", "onprem")
_ANSWER = {
    "id": "1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{
        "index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"},
    }],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}  # fmt: skip
Fails = Callable[[int, bytes], dict[str, str] | None]
"""For the number of a request and its body, the header fields of its 503; None: it is answered."""


@contextmanager
def provider(fails: Fails) -> Iterator[ThreadingHTTPServer]:
    numbers, lock = itertools.count(1), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(200, {"object": "list", "data": []})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            with lock:
                number = next(numbers)
            if (said := fails(number, body)) is not None:
                self._answer(503, {"error": {"message": "try again"}}, said)
            else:
                self._answer(200, _ANSWER)

        def _answer(self, status: int, document: Any, more: dict[str, str] | None = None) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            for name, value in {"content-type": "application/json", **(more or {})}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def gateway(port: int, scratch: Path, **routing: Any) -> Iterator[LiveGateway]:
    """Its two models have the zones' names, and the provider in each of them."""
    document = {
        "listen": {"http_port": 0, "grpc_port": 0},
        "audit": {"directory": str(scratch / "audit")},
        "routing": routing,
        "endpoints": {
            zone: {"kind": "openai", "zone": zone, "url": f"http://127.0.0.1:{port}"}
            for zone in ZONES
        },
        "models": {
            zone: {"task": "generate", "served_by": [{"endpoint": zone, "model": "m"}]}
            for zone in ZONES
        },
    }
    with serving(document, scratch) as served:
        yield served


def asks(client: openai.OpenAI, model: str, calls: int, threads: int = 1) -> int:
    """How many of so many calls are answered."""

    def ask(number: int) -> bool:
        try:
            client.chat.completions.create(
                model=model,
                messages=[{"role": "user", "content": f"Count to {number} by {model}."}],
            )
        except openai.APIStatusError:
            return False
        return True

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(ask, range(calls)))


def each_ninth_prompt_once() -> Fails:
    """Whatever order several threads ask in, each call meets at most one 503."""
    prompts: set[bytes] = set()

    def fails(_: int, body: bytes) -> dict[str, str] | None:
        if body in prompts:
            return None
        prompts.add(body)
        return None if len(prompts) % 9 else {}

    return fails


def test_one_503_in_nine_loses_no_call(tmp_path: Path) -> None:
    """More second tries than the reserve has: calls must have earned some of them."""
    with (
        provider(each_ninth_prompt_once()) as flaky,
        gateway(flaky.server_port, tmp_path) as served,
        openai.OpenAI(base_url=f"{served.http_url}/v1", api_key="none") as client,
    ):
        for zone in ZONES:
            assert asks(client, zone, 300, threads=4) == 300


def test_without_second_tries_of_the_gateways_own_the_sdk_makes_its_own(tmp_path: Path) -> None:
    """It is told that it may, and when, in the words of the provider."""
    retries = {"retry_share": 0.0, "retry_reserve": 0.0}
    with (
        provider(lambda number, _: None if number % 9 else {"retry-after-ms": "20"}) as flaky,
        gateway(flaky.server_port, tmp_path, **retries) as served,
        openai.OpenAI(base_url=f"{served.http_url}/v1", api_key="none") as client,
    ):
        assert asks(client, "cloud", 90) == 90
        once = client.with_options(max_retries=0)
        answers = []
        for _ in range(9):
            try:
                asked = once.chat.completions.with_raw_response.create(
                    model="cloud", messages=[{"role": "user", "content": "Count."}]
                )
                assert asked.status_code == 200
            except openai.APIStatusError as refused:
                answers.append(refused.response.headers)
        (headers,) = answers
        assert headers["x-should-retry"] == "true"
        assert headers["retry-after-ms"] == "20"
