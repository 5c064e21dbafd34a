"""A backend that costs next to nothing: what is measured in front of it is the gateway.

    python -m loadtests.echo --port 9000 --grpc-port 9001 --chunks 100 --gap-ms 1

It answers OpenAI chat completions (streamed too), Open Inference Protocol over HTTP, JSON and
binary, and over gRPC, all with prepared bytes. `--delay-ms` is how long it thinks. Every chunk of a
stream is a write of its own, `--gap-ms` after the one before; or as soon as that was written, where
the prompt says `AT_ONCE`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

import grpc
import grpc.aio
import httptools
import uvloop
from tritonclient.grpc import service_pb2

MODEL = "echo"
"""The model that it serves, under both protocols. It takes other names too."""

AT_ONCE = "Without a pause. "
"""In the prompt of a streamed call: its chunks are not to wait for each other."""

_AT_ONCE = AT_ONCE.encode()
_TEXT = "Measured in front of a backend that says the same to everybody. " * 4


@dataclass(frozen=True, slots=True)
class Manners:
    """How it answers; times in seconds."""

    chunks: int = 100
    gap_s: float = 0.0
    delay_s: float = 0.0


class _Server(asyncio.Protocol):
    def __init__(self, manners: Manners) -> None:
        self._manners = manners
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._body: list[bytes] = []
        self._binary = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def on_url(self, url: bytes) -> None:
        self._url = url
        self._body.clear()
        self._binary = False

    def on_header(self, name: bytes, value: bytes) -> None:
        # Twenty-nine letters; the length tells it from nearly all others.
        if len(name) == 31 and name.lower() == b"inference-header-content-length":
            self._binary = True

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        if self._manners.delay_s and self._parser.get_method() == b"POST":
            asked = self._url, self._streamed(), self._binary, self._gap_s()
            self._loop.call_later(self._manners.delay_s, self._answer, *asked)
        else:
            self._answer(self._url, self._streamed(), self._binary, self._gap_s())

    def _streamed(self) -> bool:
        return any(b'"stream":true' in part or b'"stream": true' in part for part in self._body)

    def _gap_s(self) -> float:
        gap_s = self._manners.gap_s
        return 0.0 if gap_s and any(_AT_ONCE in part for part in self._body) else gap_s

    def _answer(self, url: bytes, streamed: bool, binary: bool, gap_s: float) -> None:
        if url.endswith(b"/chat/completions"):
            if streamed:
                self._transport.write(_EVENTS)
                self._chunk(self._manners.chunks, gap_s)
            else:
                self._transport.write(_COMPLETION)
        elif url.endswith(b"/infer"):
            self._transport.write(_TENSORS if binary else _INFERENCE)
        elif url.endswith(b"/models"):
            self._transport.write(_MODELS)
        elif url.startswith(b"/v2/models/") and not url.endswith(b"/ready"):
            self._transport.write(_METADATA)
        else:
            self._transport.write(_FINE)

    def _chunk(self, left: int, gap_s: float) -> None:
        if self._transport.is_closing():
            return
        if not left:
            self._transport.write(_DONE)
            return
        self._transport.write(_CHUNK)
        if gap_s:
            self._loop.call_later(gap_s, self._chunk, left - 1, gap_s)
        else:
            self._loop.call_soon(self._chunk, left - 1, gap_s)


def _whole(document: object, kind: str = "application/json", extra: str = "") -> bytes:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{extra}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _event(document: object) -> bytes:
    event = b"data: " + json.dumps(document).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(event), event)


_COMMON = {"id": "chatcmpl-echo", "created": 1700000000, "model": MODEL}
_COMPLETION = _whole(
    {
        **_COMMON,
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": _TEXT},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 400, "completion_tokens": 60, "total_tokens": 460},
    }
)
_EVENTS = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_CHUNK = _event(
    {
        **_COMMON,
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {"content": " measured"}, "finish_reason": None}],
    }
)
_LAST = _event(
    {
        **_COMMON,
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
    }
)
_DONE = _LAST + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
_OUTPUT = {"name": "OUTPUT", "datatype": "FP32", "shape": [1, 16]}
_INFERENCE = _whole(
    {"model_name": MODEL, "model_version": "1", "outputs": [{**_OUTPUT, "data": [0.5] * 16}]}
)
_TENSOR = struct.pack("<16f", *[0.5] * 16)
_TENSOR_HEAD = json.dumps(
    {
        "model_name": MODEL,
        "model_version": "1",
        "outputs": [{**_OUTPUT, "parameters": {"binary_data_size": len(_TENSOR)}}],
    }
).encode()
_TENSORS = _whole(
    _TENSOR_HEAD + _TENSOR,
    "application/octet-stream",
    f"inference-header-content-length: {len(_TENSOR_HEAD)}\r\n",
)
_MODELS = _whole({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "echo"}]})
_METADATA = _whole(
    {
        "name": MODEL,
        "versions": ["1"],
        "platform": "echo",
        "inputs": [{"name": "INPUT", "datatype": "FP32", "shape": [-1, 16]}],
        "outputs": [{"name": "OUTPUT", "datatype": "FP32", "shape": [-1, 16]}],
    }
)
_FINE = _whole({"status": "ok", "live": True, "ready": True})


class _Grpc(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Bytes in, prepared bytes out: messages are neither parsed nor made."""

    def __init__(self, manners: Manners) -> None:
        self._manners = manners

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        method = str(handler_call_details.method).rpartition("/")[2]
        answer = _GRPC.get(method)
        if answer is None:
            return None
        wait_s = self._manners.delay_s if method == "ModelInfer" else 0.0
        return grpc.unary_unary_rpc_method_handler(_saying(answer, wait_s))


def _saying(answer: bytes, wait_s: float) -> Callable[..., Awaitable[bytes]]:
    async def say(request: bytes, context: object) -> bytes:
        if wait_s:
            await asyncio.sleep(wait_s)
        return answer

    return say


def _grpc_answers() -> dict[str, bytes]:
    inferred = service_pb2.ModelInferResponse(model_name=MODEL, model_version="1")
    output = inferred.outputs.add(name="OUTPUT", datatype="FP32")
    output.shape.extend([1, 16])
    inferred.raw_output_contents.append(_TENSOR)
    told = service_pb2.ModelMetadataResponse(name=MODEL, versions=["1"], platform="echo")
    for tensors, name in ((told.inputs, "INPUT"), (told.outputs, "OUTPUT")):
        tensors.add(name=name, datatype="FP32").shape.extend([-1, 16])
    messages = {
        "ServerLive": service_pb2.ServerLiveResponse(live=True),
        "ServerReady": service_pb2.ServerReadyResponse(ready=True),
        "ModelReady": service_pb2.ModelReadyResponse(ready=True),
        "ServerMetadata": service_pb2.ServerMetadataResponse(name="echo", version="1"),
        "ModelMetadata": told,
        "ModelInfer": inferred,
    }
    return {name: message.SerializeToString() for name, message in messages.items()}


_GRPC = _grpc_answers()


async def serve(port: int, grpc_port: int | None, manners: Manners) -> None:
    """Serves on the loopback until cancelled."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Server(manners), "127.0.0.1", port, backlog=1024)
    if grpc_port is not None:
        grpc_server = grpc.aio.server()
        grpc_server.add_generic_rpc_handlers((_Grpc(manners),))
        grpc_server.add_insecure_port(f"127.0.0.1:{grpc_port}")
        await grpc_server.start()
    async with server:
        await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--grpc-port", type=int, help="also gRPC; without it HTTP alone")
    parser.add_argument("--chunks", type=int, default=100, help="of a streamed completion")
    parser.add_argument("--gap-ms", type=float, default=0.0, help="between two chunks")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="before an answer begins")
    args = parser.parse_args()
    manners = Manners(args.chunks, args.gap_ms / 1e3, args.delay_ms / 1e3)
    uvloop.run(serve(args.port, args.grpc_port, manners))


if __name__ == "__main__":
    main()
