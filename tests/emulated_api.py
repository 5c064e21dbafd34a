"""What emulated providers on loopback ports share: they keep what they took, and send answers."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

Document = dict[str, Any]


@dataclass
class EmulatedApi:
    url: str = ""
    requests: list[Document] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)  # of those requests
    refused: list[str] = field(default_factory=list)  # why
    left: threading.Event = field(default_factory=threading.Event)  # by who got a stream

    def forget(self) -> None:
        for each in (self.requests, self.paths, self.refused):
            each.clear()
        self.left.clear()


class ApiHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None: ...

    def read_document(self) -> Document:
        made: Document = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        return made

    def send_document(self, status: int, document: Any, headers: Document | None = None) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_events(
        self, events: Sequence[bytes], api: EmulatedApi, held: threading.Event | None = None
    ) -> None:
        """A stream that its end ends. `held`: it waits for that behind the events."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        try:
            for event in events:
                self.wfile.write(event)
            while held is not None and not held.wait(0.02):
                self.wfile.write(b": waiting\n\n")
        except OSError:
            api.left.set()


TApi = TypeVar("TApi", bound=EmulatedApi)


@contextlib.contextmanager
def serving(api: TApi, handler: type[ApiHandler]) -> Iterator[TApi]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def split(whole: str, size: int) -> list[str]:
    return [whole[at : at + size] for at in range(0, len(whole), size)]
