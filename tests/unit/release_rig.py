"""A whole gateway in this loop, its callers and its endpoints, and what a call leaves behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import threading
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import yaml
from tritonclient.grpc import service_pb2

from gateway.app.gateway import Gateway
from gateway.config.reading import parse
from gateway.core.types import InferenceRequest
from tests.unit.backends import wire_rig
from tests.unit.fronts import http_rig
from tests.unit.http2 import peers

BODY_BYTES = 4 << 20
LEFT_BYTES = BODY_BYTES // 4  # by a call, its caches and the records of it
SOON = (("x-latency-budget-ms", "300"),)
_MODES = ("answers", "refuses", "fails", "cuts", "hangs", "breaks", "errs", "babbles")
_GATEWAY = str(Path(__file__).parents[2] / "gateway")
_SERVING = ("Switch.__call__", "App.__call__", "Exchange._serve")
_TEXT = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}}]})
_EVENTS = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"x"}}]}\n\n'
)
_ERROR = b'data: {"error":{"message":"no","type":"server_error"}}\n\n'
_TENSOR = {"name": "OUTPUT0", "datatype": "INT32", "shape": [1], "data": [1]}
Pairs = Sequence[tuple[str, str]]


@dataclass
class Endpoints:
    """Servers that do with a call what its model's name says."""

    held: asyncio.Event = field(default_factory=asyncio.Event)
    """A call that gets no answer has come."""

    async def over_http(self, peer: wire_rig.Peer) -> None:
        while True:
            request = await peer.request()
            line = request.split(b"\r\n", 1)[0]
            if line.startswith(b"GET "):
                await peer.say(wire_rig.answer(b"{}"))
                continue
            chat = line.split()[1].endswith(b"/chat/completions")
            where = line if not chat else request[-200:]
            mode = next((m for m in _MODES if m.encode() in where), "answers")
            small = len(request) < BODY_BYTES // 2  # a canary
            if b'"stream":true' in request.replace(b" ", b"") and mode in (
                "answers",
                "breaks",
                "errs",
            ):
                del request, where
                await peer.say(_EVENTS + (_ERROR if mode == "errs" else b""))
                if mode == "answers":
                    await peer.say(b"data: [DONE]\n\n")
                return
            del request, where
            if small or mode == "answers":
                name = line.split(b"/")[3].decode()
                told = _TEXT if chat else json.dumps({"model_name": name, "outputs": [_TENSOR]})
                await peer.say(
                    wire_rig.answer(told.encode(), extra=b"content-type: application/json\r\n")
                )
            elif mode == "refuses":
                await peer.say(wire_rig.answer(b'{"error":"no"}', b"400 Bad Request"))
            elif mode == "fails":
                await peer.say(wire_rig.answer(b'{"error":"no"}', b"503 Service Unavailable"))
            elif mode == "babbles":
                await peer.say(b"neither head nor tail\r\n\r\n")
                return
            elif mode == "cuts":
                return
            else:
                self.held.set()
                await peer.gone()
                return

    async def over_grpc(self, peer: peers.Peer) -> None:
        peer.send(
            peers.settings(window=1 << 30), peers.frame(peers.WINDOW, 0, 0, peers.number(1 << 30))
        )
        sizes: dict[int, int] = {}
        firsts: dict[int, bytes] = {}
        paths: dict[int, str] = {}
        while True:
            seen = await peer.next()
            if seen.kind == peers.SETTINGS and not seen.flags & peers.ACK:
                peer.send(peers.frame(peers.SETTINGS, peers.ACK, 0))
            elif seen.kind == peers.PING and not seen.flags & peers.ACK:
                peer.send(peers.frame(peers.PING, peers.ACK, 0, seen.payload))
            elif seen.kind == peers.HEADERS:
                paths[seen.stream] = peer.decoded(seen.payload)[":path"]
            elif seen.kind == peers.DATA:
                stream = seen.stream
                sizes[stream] = sizes.get(stream, 0) + len(seen.payload)
                if any(m.encode() in seen.payload for m in _MODES):
                    firsts[stream] = seen.payload
                if not seen.flags & peers.END_STREAM:
                    continue
                mode = next((m for m in _MODES if m.encode() in firsts.get(stream, b"")), "answers")
                small = sizes[stream] < BODY_BYTES // 2
                if paths[stream].endswith("ServerReady"):
                    self._say(peer, stream, service_pb2.ServerReadyResponse(ready=True))
                elif small or mode == "answers":
                    self._say(peer, stream, service_pb2.ModelInferResponse(model_name="answers"))
                elif mode in ("refuses", "fails"):
                    code = "3" if mode == "refuses" else "14"
                    fields = [
                        (":status", "200"),
                        ("content-type", "application/grpc"),
                        ("grpc-status", code),
                    ]
                    peer.send(peer.head(stream, fields, peers.END_HEADERS | peers.END_STREAM))
                elif mode == "cuts":
                    return
                else:
                    self.held.set()

    def _say(self, peer: peers.Peer, stream: int, answer: Any) -> None:
        begins = [(":status", "200"), ("content-type", "application/grpc")]
        peer.send(
            peer.head(stream, begins),
            peers.frame(peers.DATA, 0, stream, peers.message(answer.SerializeToString())),
            peer.head(stream, [("grpc-status", "0")], peers.END_HEADERS | peers.END_STREAM),
        )


@dataclass
class Site:
    gateway: Gateway
    endpoints: Endpoints

    async def settled(self) -> None:
        """No call is being served."""
        async with asyncio.timeout(20):
            while serving := [task for task in asyncio.all_tasks() if _serves(task)]:
                await asyncio.wait(serving)
            await _all_threads()


async def _all_threads() -> None:
    """Each has let go of what it has done: it holds that until it does something else."""
    executor: Any = vars(asyncio.get_running_loop())["_default_executor"]
    if executor is not None:
        together = threading.Barrier(executor._max_workers)
        waiting = [asyncio.to_thread(together.wait) for _ in range(together.parties)]
        await asyncio.gather(*waiting)


def _serves(task: asyncio.Task[Any]) -> bool:
    coro = task.get_coro()
    return getattr(coro, "__qualname__", "") in _SERVING


@asynccontextmanager
async def site(scratch: Path) -> AsyncIterator[Site]:
    endpoints = Endpoints()
    async with (
        wire_rig.listening(endpoints.over_http) as rest,
        peers.server(endpoints.over_grpc) as grpc,
    ):
        served: dict[str, Any] = {}
        models: dict[str, Any] = {}
        for mode in (*_MODES, "gone"):
            url = f"http://127.0.0.1:{1 if mode == 'gone' else rest.port}"
            target = "127.0.0.1:1" if mode == "gone" else grpc
            usual = {"zone": "onprem", "expected_ms": 2}
            served[f"rest-{mode}"] = {"kind": "kserve", "url": url, **usual}
            served[f"grpc-{mode}"] = {"kind": "kserve", "grpc": target, **usual}
            served[f"chat-{mode}"] = {"kind": "openai", "url": f"{url}/v1", **usual}
            for kind in ("rest", "grpc", "chat"):
                name = f"{kind}-{mode}"
                models[name] = {
                    "task": "generate" if kind == "chat" else "infer",
                    "tensors": "clear",
                    "served_by": [{"endpoint": name, "model": mode}],
                }
        document = {
            "listen": {"host": "127.0.0.1", "http_port": 0, "grpc_port": 0},
            "classify": {"profile": "patterns"},
            "endpoints": served,
            "models": models,
            "audit": {"directory": str(scratch / "audit")},
            "ledger": {"path": str(scratch / "ledger.db")},
            "log": {"level": "error"},
        }
        gateway = Gateway(parse(yaml.safe_dump(document)))
        ready = asyncio.Event()
        running = asyncio.create_task(gateway.run(lambda gateway: ready.set()))
        waiting = asyncio.create_task(ready.wait())
        try:
            await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            yield Site(gateway, endpoints)
        finally:
            waiting.cancel()
            gateway.stop()
            await running


# Callers


async def chat(site: Site, model: str, *, leaves: bool = False, headers: Pairs = ()) -> str:
    text = "word " * (BODY_BYTES // 5)
    document = {"messages": [{"role": "user", "content": text}], "model": model}
    return await _post(site, "/v1/chat/completions", json.dumps(document).encode(), leaves, headers)


async def chat_streamed(
    site: Site, model: str, *, leaves: bool = False, headers: Pairs = ()
) -> str:
    text = "word " * (BODY_BYTES // 5)
    document = {"messages": [{"role": "user", "content": text}], "stream": True, "model": model}
    return await _post(site, "/v1/chat/completions", json.dumps(document).encode(), leaves, headers)


async def v2(site: Site, model: str, *, leaves: bool = False, headers: Pairs = ()) -> str:
    size = BODY_BYTES // 4
    head = json.dumps(
        {"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [size],
                     "parameters": {"binary_data_size": 4 * size}}]}
    ).encode()  # fmt: skip
    told = (("inference-header-content-length", str(len(head))), *headers)
    return await _post(site, f"/v2/models/{model}/infer", head + bytes(4 * size), leaves, told)


async def _post(site: Site, path: str, body: bytes, leaves: bool, headers: Pairs) -> str:
    client = await http_rig.Client.to(site.gateway.http_port)
    told = [("content-type", "application/json"), *headers]
    await client.send(http_rig.head("POST", path, told, len(body)) + body)
    del body
    status = "left"
    if leaves:
        await site.endpoints.held.wait()
    else:
        answer = await client.answer()
        status = answer.headers.get("x-spillway-reason", "")
    client.close()
    return status


async def unreadable(site: Site, path: str, model: str) -> str:
    """A body that no front reads, to where calls go."""
    if path == peers.INFER:
        return await _call(site, b"\xff" * BODY_BYTES, path, False, ())
    return await _post(site, path.format(model), b"{" * BODY_BYTES, False, ())


async def broken_stream(site: Site, model: str) -> str:
    """A call, and behind it a message of a form that nobody knows."""
    async with peers.caller(site.gateway.grpc_port) as peer:
        peer.send(peer.head(1, peers.request(peers.STREAM)))
        whole = peers.message(message(model)) + peers.message(b"x", compressed=1)
        sending = asyncio.create_task(_send(peer, whole))
        del whole
        while not (seen := await peer.until(peers.HEADERS, peers.DATA)).flags & peers.END_STREAM:
            if seen.kind == peers.HEADERS:
                peer.decoder.decode(seen.payload)
        sending.cancel()
        peer.writer.transport.abort()  # what it has not sent is not the gateway's
        return peer.decoded(seen.payload)["grpc-status"]


def message(model: str) -> bytes:
    size = BODY_BYTES // 4
    asked = service_pb2.ModelInferRequest(model_name=model)
    asked.inputs.add(name="INPUT0", datatype="INT32", shape=[size])
    asked.raw_input_contents.append(bytes(4 * size))
    return bytes(asked.SerializeToString())


async def infer(site: Site, model: str, *, leaves: bool = False, headers: Pairs = ()) -> str:
    return await _call(site, message(model), peers.INFER, leaves, headers)


async def stream_infer(site: Site, model: str, *, leaves: bool = False, headers: Pairs = ()) -> str:
    return await _call(site, message(model), peers.STREAM, leaves, headers)


async def _call(site: Site, content: bytes, path: str, leaves: bool, headers: Pairs) -> str:
    async with peers.caller(site.gateway.grpc_port) as peer:
        peer.send(peer.head(1, peers.request(path, *headers)))
        sending = asyncio.create_task(_send(peer, peers.message(content)))
        del content
        if leaves:
            await sending
            await site.endpoints.held.wait()
            peer.send(peers.frame(peers.RST, 0, 1, peers.number(8)))
            await peer.until_read()
            return "left"
        words = b""
        while not (seen := await peer.until(peers.HEADERS, peers.DATA)).flags & peers.END_STREAM:
            if seen.kind == peers.HEADERS:
                peer.decoder.decode(seen.payload)
            else:
                words += seen.payload
        sending.cancel()
        told = peer.decoded(seen.payload)
        in_stream = service_pb2.ModelStreamInferResponse()
        if path == peers.STREAM and told["grpc-status"] == "0":
            in_stream.ParseFromString(words[5:])
        return in_stream.error_message or told.get("x-spillway-reason", told["grpc-status"])


async def _send(peer: peers.Peer, whole: bytes) -> None:
    """Beside the reading: what the gateway grants of window is more than enough by then."""
    step = 16384
    for at in range(0, len(whole), step):
        last = at + step >= len(whole)
        flags = peers.END_STREAM if last else 0
        peer.send(peers.frame(peers.DATA, flags, 1, whole[at : at + step]))
        await peer.writer.drain()


# What is left


@dataclass
class Left:
    bytes: int = 0
    cycles: tuple[str, ...] = ()
    """The functions of the gateway whose frames only a collection would free, and requests."""


@contextlib.contextmanager
def uncollected() -> Iterator[Left]:
    """What is done within, and over at its end, with nobody who looks for cycles meanwhile."""
    left = Left()
    gc.collect()
    gc.freeze()  # or the next collections search the whole process again, a second each
    gc.disable()
    try:
        yield left
        left.cycles = tuple(sorted(_cyclic()))
    finally:
        gc.enable()


async def left_by(site: Site, call: Callable[[], Awaitable[str]]) -> tuple[str, Left]:
    """How one call ended, and what it leaves."""
    site.endpoints.held.clear()
    with uncollected() as left:
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            status = await call()
            await site.settled()
            for _ in range(50):  # a search that was begun for the call may end after it
                left.bytes = tracemalloc.get_traced_memory()[0] - before
                if left.bytes < LEFT_BYTES:
                    break
                await asyncio.sleep(0.1)
        finally:
            tracemalloc.stop()
    return status, left


def _cyclic() -> Iterator[str]:
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        for each in gc.garbage:
            if isinstance(each, FrameType) and each.f_code.co_filename.startswith(_GATEWAY):
                yield f"{Path(each.f_code.co_filename).name}:{each.f_code.co_qualname}"
            elif isinstance(each, InferenceRequest):
                yield "a request"
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
