"""Servers that repeat the credentials of whoever calls them, in every failure that they report."""

from __future__ import annotations

import base64
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import grpc
import orjson
from tritonclient.grpc import service_pb2

if TYPE_CHECKING:  # generic in its stubs only
    _Handler = grpc.GenericRpcHandler[Any, Any]
else:
    _Handler = grpc.GenericRpcHandler


@dataclass
class Repeating:
    url: str
    target: str = ""
    received: list[str] = field(default_factory=list)
    """The heads and bodies of all requests."""


def _repeated(text: str) -> str:
    """As it came, in a URL, and in base64."""
    return f"{text} {quote(text, safe='')} {base64.b64encode(text.encode()).decode()}"


class _Http(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    repeating: Repeating

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_GET(self) -> None:
        self._note("")
        self._answer(200, b'{"ready": true, "live": true, "object": "list", "data": []}')

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        said = _repeated(self._note(body.decode("latin-1")))
        error: object = {"message": said, "type": "invalid_request_error"}
        if self.path.startswith("/v2/"):
            error = said
        status = 401 if self.path.startswith("/token") else 400
        document = {"error": error, "error_description": said}
        self._answer(status, orjson.dumps(document))

    def _note(self, body: str) -> str:
        said = f"{self.path} {' '.join(self.headers.values())}"
        self.repeating.received.append(f"{said} {body}")
        return said

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Grpc(_Handler):
    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        pairs = handler_call_details.invocation_metadata or ()
        said = " ".join(str(pair[1]) for pair in pairs)

        def infer(raw: bytes, context: grpc.ServicerContext) -> bytes:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, _repeated(said))
            raise AssertionError

        def ready(raw: bytes, context: grpc.ServicerContext) -> bytes:
            return bytes(service_pb2.ServerReadyResponse(ready=True).SerializeToString())

        method = handler_call_details.method.rpartition("/")[2]
        answers = infer if "Infer" in method else ready
        return grpc.unary_unary_rpc_method_handler(answers)


@contextlib.contextmanager
def repeating_provider() -> Iterator[Repeating]:
    http = ThreadingHTTPServer(("127.0.0.1", 0), _Http)
    rpc = grpc.server(ThreadPoolExecutor(2), handlers=[_Grpc()])
    port = rpc.add_insecure_port("127.0.0.1:0")
    _Http.repeating = repeating = Repeating(
        f"http://127.0.0.1:{http.server_address[1]}", f"127.0.0.1:{port}"
    )
    rpc.start()
    serving = threading.Thread(target=http.serve_forever, daemon=True)
    serving.start()
    try:
        yield repeating
    finally:
        http.shutdown()
        http.server_close()
        serving.join(10)
        rpc.stop(None).wait(10)
