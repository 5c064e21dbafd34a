"""A server of OpenAI's protocol and of the Open Inference Protocol that serves whatever model it is
asked for, and says which: by the model's name as it came, and by the path."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import orjson

TENSOR = {"name": "x", "datatype": "INT32", "shape": [2]}


@dataclass
class NamedServer:
    url: str
    models: list[str] = field(default_factory=list)  # of each call
    paths: list[str] = field(default_factory=list)
    busy: set[str] = field(default_factory=set)
    """Models that answer 429."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of: NamedServer

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_GET(self) -> None:
        if self.path.startswith("/v2/models/"):
            name = unquote(self.path.split("/")[3])
            self._answer({"name": name, "versions": ["1"], "inputs": [TENSOR], "ready": True})
        else:
            self._answer({"object": "list", "data": [], "ready": True, "live": True})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        asked = orjson.loads(
            body[: int(self.headers.get("inference-header-content-length", len(body)))]
        )
        seen = self.server_of
        seen.paths.append(self.path)
        model = unquote(self.path.split("/")[3]) if self._is_v2 else asked["model"]
        seen.models.append(model)
        if model in seen.busy:
            self._answer({"error": {"message": "too many"}}, 429)
        elif self._is_v2:
            out = {**TENSOR, "name": "y", "data": [3, 4]}
            self._answer({"model_name": model, "id": asked.get("id", ""), "outputs": [out]})
        elif self.path.endswith("/embeddings"):
            one = {"object": "embedding", "index": 0, "embedding": [0.5]}
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            self._answer({"object": "list", "model": model, "data": [one], "usage": usage})
        else:
            self._answer(_chat(model))

    @property
    def _is_v2(self) -> bool:
        return self.path.startswith("/v2/")

    def _answer(self, document: dict[str, Any], status: int = 200) -> None:
        body = orjson.dumps(document)
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _chat(model: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": f"from {model}"}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }


@contextlib.contextmanager
def named_server() -> Iterator[NamedServer]:
    class Named(_Handler):
        """One server's own."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Named)
    Named.server_of = NamedServer(f"http://127.0.0.1:{server.server_address[1]}")
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield Named.server_of
    finally:
        server.shutdown()
        server.server_close()
        serving.join(10)
