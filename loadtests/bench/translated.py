"""What an endpoint with an API of its own costs more: `python -m loadtests.bench.translated`.

Recorded chats of some 3 KB (`--recorded FILE`, of `loadtests.load.mixed`), or made ones, go to an
endpoint of kind openai and to one of kind anthropic in turns, over sockets of this process that
answer with prepared bytes: whole, and as streams of 100 chunks, in one read and in a read for each
(where the server's writes count, too). Processor time of this process in
ms a call, the median of the rounds; what decides whether the call may go there is counted too. A
recorded `top_p` is left out: with a temperature beside it the call would go nowhere.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway.config import EndpointSettings
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.reply import FrameSource, received
from gateway.core.types import (
    CLOUD,
    DocumentCall,
    Endpoint,
    InferenceRequest,
    ServedModel,
    WireProtocol,
)
from gateway.endpoints.connectors import Connector
from gateway.endpoints.connectors.kinds import build_connector
from gateway.scheduling.routing.needs import lacking
from loadtests.bench.fronts import front_costs_ms

_CHUNKS = 100
_PIECE = " words"
_KINDS = ("openai", "anthropic")
_APART = b"/apart/"
_CASES = {
    "whole": ("/v1", False),
    "stream": ("/v1", True),
    "stream, event by event": (f"{_APART.decode()}v1", True),
}
_USAGE = {"input_tokens": 700, "output_tokens": _CHUNKS}
_TOTALS = {"prompt_tokens": 700, "completion_tokens": _CHUNKS, "total_tokens": 700 + _CHUNKS}
Document = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--recorded", type=Path)
    parser.add_argument("--calls", type=int, default=200, help="in a round, of each kind")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    for name, costs_ms in asyncio.run(_measure(args)).items():
        openai, anthropic = costs_ms["openai"], costs_ms["anthropic"]
        more = anthropic - openai
        print(f"{name:24} openai {openai:.3f} ms, anthropic {anthropic:.3f} ms, {more:+.3f} ms")
    print("callers of each API, to an endpoint of OpenAI's:")
    chats, whole, events = _documents(args.recorded, args.calls), *_bodies()
    names = {"m", *(str(chat["model"]) for chat in chats)}
    catalog = Catalog({name: CatalogModel(name, "generate", ()) for name in names})
    fronts = front_costs_ms(chats, catalog, whole, events, args.rounds)
    for name, (chat, own) in fronts.items():
        print(f"{name:32} chat {chat:.3f} ms, its own {own:.3f} ms, {own - chat:+.3f} ms")


async def _measure(args: argparse.Namespace) -> dict[str, dict[str, float]]:
    documents = _documents(args.recorded, args.calls)
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    costs: dict[str, dict[str, float]] = {}
    for name, (base, streamed) in _CASES.items():
        connectors = {kind: _connector(kind, f"{url}{base}") for kind in _KINDS}
        rounds: dict[str, list[float]] = {kind: [] for kind in _KINDS}
        for _ in range(args.rounds):
            for kind, connector in connectors.items():
                began = time.process_time()
                for document in documents:
                    await _call(connector, kind, document, streamed)
                rounds[kind].append((time.process_time() - began) * 1000 / len(documents))
        costs[name] = {kind: statistics.median(ms) for kind, ms in rounds.items()}
        for connector in connectors.values():
            await connector.aclose()
    server.close()
    return costs


def _documents(recorded: Path | None, calls: int) -> list[Document]:
    if recorded is None:
        content = "How do I restart a service that stopped? " * 75
        return [{"model": "m", "messages": [{"role": "user", "content": content}]}] * calls
    with recorded.open() as lines:
        documents = [json.loads(line) for line, _ in zip(lines, range(calls), strict=False)]
    bodies = [each.get("body", each) for each in documents]
    return [{key: value for key, value in each.items() if key != "top_p"} for each in bodies]


def _connector(kind: str, url: str) -> Connector:
    settings = {"kind": kind, "zone": CLOUD, "url": url, "api_key": "key-0123456789"}
    return build_connector(EndpointSettings.model_validate(settings), None)


async def _call(connector: Connector, kind: str, document: Document, streamed: bool) -> None:
    if streamed:
        document = {**document, "stream": True, "stream_options": {"include_usage": True}}
    served = ServedModel("m")
    call = DocumentCall(CHAT, document, streamed)
    deadline = Deadline.after(60.0)
    request = InferenceRequest("1", WireProtocol.OPENAI, "t", "m", call, deadline)
    need = lacking(request, Endpoint(kind, CLOUD, kind, {"m": served}), served)
    if need is not None:
        raise SystemExit(f"{need.field} has no words there: {need.capability}")
    frames: FrameSource = await connector.open(request, served)
    await received(frames)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            body = await reader.readexactly(length)
            streamed = b'"stream":true' in body
            answer = _ANSWERS[b"/messages" in head, streamed]
            for piece in _pieces(answer) if _APART in head else [answer]:
                writer.write(piece)
                await asyncio.sleep(0)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def _pieces(answer: bytes) -> list[bytes]:
    return [event + b"\n\n" for event in answer.split(b"\n\n")[:-1]]


def _bodies() -> tuple[bytes, bytes]:
    """Of an answer of OpenAI's API, and of its stream without `[DONE]`."""
    whole, events = (_ANSWERS[False, s].partition(b"\r\n\r\n")[2] for s in (False, True))
    return whole, events.removesuffix(b"data: [DONE]\n\n")


def _whole(document: Document) -> bytes:
    body = json.dumps(document).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        len(body), body,
    )  # fmt: skip


def _streamed(events: list[Document], written: Callable[[Document], bytes], end: bytes) -> bytes:
    body = b"".join(map(written, events)) + end
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n%b" % (
        len(body), body,
    )  # fmt: skip


def _chunk(delta: Document, reason: str | None = None) -> Document:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [choice]}  # fmt: skip


def _message(content: list[Document], reason: str | None) -> Document:
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
            "content": content, "stop_reason": reason, "usage": _USAGE}  # fmt: skip


def _data(document: Document) -> bytes:
    return b"data: %b\n\n" % json.dumps(document, separators=(",", ":")).encode()


def _named(document: Document) -> bytes:
    return b"event: %b\n%b" % (document["type"].encode(), _data(document))


_DELTAS = [
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": _PIECE}}
] * _CHUNKS
_ANSWERS = {
    (False, False): _whole(
        {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
         "choices": [{"index": 0, "message": {"role": "assistant", "content": _PIECE * _CHUNKS},
                      "finish_reason": "stop"}],
         "usage": _TOTALS}
    ),
    (False, True): _streamed(
        [_chunk({"content": _PIECE})] * _CHUNKS
        + [_chunk({}, "stop"), {**_chunk({}), "choices": [], "usage": _TOTALS}],
        _data,
        b"data: [DONE]\n\n",
    ),
    (True, False): _whole(_message([{"type": "text", "text": _PIECE * _CHUNKS}], "end_turn")),
    (True, True): _streamed(
        [{"type": "message_start", "message": _message([], None)},
         {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
         *_DELTAS,
         {"type": "content_block_stop", "index": 0},
         {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": _USAGE},
         {"type": "message_stop"}],
        _named,
        b"",
    ),
}  # fmt: skip
"""By whether the endpoint is of kind anthropic, and whether a stream is asked for."""


if __name__ == "__main__":
    main()
