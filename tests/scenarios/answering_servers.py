"""Chat servers that answer what they are told to, and a hook that decides by what a call says."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson


@dataclass
class Servers:
    """By the first part of their paths, what came to each."""

    url: str
    received: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def calls(self, server: str, word: str) -> list[dict[str, Any]]:
        """Those that say this word."""
        return [each for each in self.received.get(server, []) if word in str(each)]


class _Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    servers: Servers

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_GET(self) -> None:
        self._answer(200, {"object": "list", "data": []})

    def do_POST(self) -> None:
        body = orjson.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        server = self.path.split("/")[1]
        self.servers.received.setdefault(server, []).append(body)
        said = str(body)
        if server == "guardrail":
            self._guard(said)
        elif server == "v1":
            result = {"allow": "opa-refuses" not in said, "restrict": "opa-restricts" in said}
            self._answer(200, {} if "opa-undefined" in said else {"result": result})
        else:
            self._chat(server, said)

    def _guard(self, said: str) -> None:
        if "hook-hangs" in said:
            time.sleep(1.5)
        if "hook-fails" in said:
            self._answer(500, {"action": "allow"})
        elif "hook-babbles" in said:
            self._answer(200, {"action": "maybe"})
        else:
            word = next((w for w in ("refuse", "restrict") if f"hook-{w}s" in said), "allow")
            self._answer(200, {"action": word})

    def _chat(self, server: str, said: str) -> None:
        if "server-fails" in said and server == "candidate":
            self._answer(500, {"error": {"message": "broken", "type": "server_error"}})
            return
        words = (
            "one" if "answers-differ" in said and server == "candidate" else "four words as ever"
        )
        message = {"role": "assistant", "content": words}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        self._answer(
            200,
            {"id": "c", "object": "chat.completion", "created": 1, "model": server,
             "choices": [choice], "usage": usage},
        )  # fmt: skip

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        body = orjson.dumps(document)
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(body)


@contextlib.contextmanager
def answering_servers() -> Iterator[Servers]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    _Server.servers = servers = Servers(f"http://127.0.0.1:{server.server_address[1]}")
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield servers
    finally:
        server.shutdown()
        server.server_close()
        serving.join(10)
