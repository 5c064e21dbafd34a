"""On-prem servers that fail with their caller's own words in everything they say."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import grpc
import orjson
from tritonclient.grpc import service_pb2

GRPC_STATUSES = ("INVALID_ARGUMENT", "NOT_FOUND", "INTERNAL", "RESOURCE_EXHAUSTED", "UNAVAILABLE")
HTTP_WAYS = ("400", "404", "422", "401", "429", "500", "302", "garbage", "stream", "cut")
"""How a call ends, by the last word of the model's name; "cut" breaks off in the middle."""

if TYPE_CHECKING:  # generic in its stubs only
    _Handler = grpc.GenericRpcHandler[Any, Any]
else:
    _Handler = grpc.GenericRpcHandler


class _Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_GET(self) -> None:
        self._answer(200, b'{"ready": true, "live": true, "object": "list", "data": []}')

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        said = body.decode("latin-1")
        if self.path.startswith("/v2/"):
            way = self.path.split("/")[3].rpartition("-")[2]
        else:
            way = str(orjson.loads(body)["model"]).rpartition("-")[2]
        if way == "stream":
            event = orjson.dumps({"error": {"message": said, "type": "server_error", "code": 500}})
            self._answer(200, b"data: " + event + b"\n\n", "text/event-stream")
        elif way == "garbage":
            self._answer(200, b"<html>" + body)
        elif way == "cut":
            self._answer(200, body, announced=len(body) + 10)
            self.close_connection = True
        else:
            wrong = {"message": said, "type": "invalid_request_error", "param": said[:80]}
            document = {"error": said if self.path.startswith("/v2/") else wrong}
            self._answer(int(way), orjson.dumps(document), location=self.path + "?" + said)

    def _answer(
        self,
        status: int,
        body: bytes,
        media: str = "application/json",
        announced: int | None = None,
        location: str = "",
    ) -> None:
        words = "".join(c for c in location if c.isprintable() and c < "\x7f")[:300]
        self.send_response(status, words or None)
        self.send_header("content-type", media)
        self.send_header("content-length", str(len(body) if announced is None else announced))
        if words:
            self.send_header("location", words.replace(" ", "+"))
            self.send_header("x-said", words)
        self.end_headers()
        self.wfile.write(body)


class _GrpcEcho(_Handler):
    """Aborts with the status that the model's name says, and the message as its details."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        method = handler_call_details.method.rpartition("/")[2]
        return grpc.unary_unary_rpc_method_handler(
            self._infer if "Infer" in method else self._ready
        )

    def _ready(self, raw: bytes, context: grpc.ServicerContext) -> bytes:
        return bytes(service_pb2.ServerReadyResponse(ready=True).SerializeToString())

    def _infer(self, raw: bytes, context: grpc.ServicerContext) -> bytes:
        message = service_pb2.ModelInferRequest.FromString(raw)
        said = b" ".join(message.raw_input_contents).decode("latin-1")
        status = message.model_name.rpartition("-")[2]
        context.set_trailing_metadata((("x-said", "".join(filter(str.isalnum, said))),))
        context.abort(grpc.StatusCode[status], f"{said} in {message.id}")


@contextlib.contextmanager
def echoing_http() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        serving.join(10)


@contextlib.contextmanager
def echoing_grpc() -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(4), handlers=[_GrpcEcho()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait(10)
