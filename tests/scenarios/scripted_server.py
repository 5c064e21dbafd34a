"""A server of the OpenAI API, and of tensors over HTTP: the last text of a call says which part of
its script it answers with."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson

Part = bytes | float
"""Bytes that are sent at once, or seconds in which nothing is."""


@dataclass
class ScriptedServer:
    url: str
    script: dict[str, Sequence[Part]] = field(default_factory=dict)
    bodies: list[bytes] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)  # a caller, in mid-answer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    scripted: ScriptedServer

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_GET(self) -> None:
        self._answer([b'{"ready": true, "object": "list", "data": []}'], "application/json")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.scripted.bodies.append(body)
        length = int(self.headers.get("inference-header-content-length", len(body)))
        call = orjson.loads(body[:length])
        parts = self.scripted.script.get(_last_text(call, body[length:]))
        if parts is None:
            self.send_error(400)
            return
        media = "text/event-stream" if call.get("stream") else "application/json"
        try:
            self._answer(parts, media)
        except OSError:
            self.scripted.left.set()

    def _answer(self, parts: Sequence[Part], media: str) -> None:
        self.send_response(200)
        self.send_header("content-type", media)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for part in parts:
            if isinstance(part, float):
                time.sleep(part)
            else:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
                self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


def _last_text(call: dict[str, Any], tail: bytes) -> str:
    """`tail`: the tensors of a call, of which the one is a text."""
    if tail:
        return tail[4:].decode()
    last = call.get("messages") or call.get("input") or call["prompt"]
    text = last if isinstance(last, str) else last[-1]["content"]
    assert isinstance(text, str)
    return text


@contextlib.contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    class Scripted(_Handler):
        """One server's own."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    Scripted.scripted = ScriptedServer(f"http://127.0.0.1:{server.server_address[1]}")
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield Scripted.scripted
    finally:
        server.shutdown()
        server.server_close()
        serving.join(10)


def sent(*documents: Any) -> bytes:
    """Server-sent events, one for each document; of the Responses API with their names."""
    return b"".join(_event(document) for document in documents)


def _event(document: Any) -> bytes:
    name = document.get("type") if isinstance(document, dict) else None
    head = b"" if name is None else b"event: %b\n" % name.encode()
    return head + b"data: " + orjson.dumps(document) + b"\n\n"
