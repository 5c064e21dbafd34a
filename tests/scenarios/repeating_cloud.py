"""A provider that says what it was told: the last message, three characters at a time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson


@dataclass
class RepeatingCloud:
    url: str
    bodies: list[bytes] = field(default_factory=list)
    says: Callable[[str], str] = str  # what it makes of what it was told

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [orjson.loads(body) for body in self.bodies]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cloud: RepeatingCloud

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_GET(self) -> None:
        self._answer(b'{"object": "list", "data": []}', "application/json")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.cloud.bodies.append(body)
        asked = orjson.loads(body)
        said = self.cloud.says(asked["messages"][-1]["content"])
        if not asked.get("stream"):
            message = {"role": "assistant", "content": said}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self._answer(orjson.dumps({"id": "x", "choices": [choice]}), "application/json")
            return
        deltas = [{"content": said[at : at + 3]} for at in range(0, len(said), 3)]
        events = [_event(delta, None) for delta in deltas] + [_event({}, "stop")]
        self._answer(b"".join(events) + b"data: [DONE]\n\n", "text/event-stream")

    def _answer(self, body: bytes, media: str) -> None:
        self.send_response(200)
        self.send_header("content-type", media)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _event(delta: dict[str, str], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + orjson.dumps({"id": "x", "choices": [choice]}) + b"\n\n"


@contextlib.contextmanager
def repeating_cloud() -> Iterator[RepeatingCloud]:
    class Repeating(_Handler):
        """One cloud's own."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Repeating)
    Repeating.cloud = RepeatingCloud(f"http://127.0.0.1:{server.server_address[1]}")
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield Repeating.cloud
    finally:
        server.shutdown()
        server.server_close()
        serving.join(10)
