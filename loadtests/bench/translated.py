"""What a translated call costs more: `python -m loadtests.bench.translated`.

Recorded chats of some 3 KB (`--recorded FILE`, of `loadtests.load.mixed`), or made ones, go to an
endpoint of kind openai and to one of kind anthropic in turns, as chats and as Responses, which
neither has, over sockets of this process that answer with prepared bytes: whole, and as streams of
100 chunks, in one read and in a read for each (where the server's writes count, too). Processor
time of this process in ms a call, the median of the rounds; what decides whether the call may go
there is counted too. A recorded `top_p` is left out: with a temperature beside it the call would go
nowhere.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway.config import EndpointSettings
from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
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

_CHUNKS = 100
_PIECE = " words"
_ROUTES = [(operation, kind) for operation in (CHAT, RESPONSES) for kind in ("openai", "anthropic")]
_CHATS_ALONE = frozenset({CHAT.name})
_APART = b"/apart/"
_CASES = {
    "whole": ("/v1", False),
    "stream": ("/v1", True),
    "stream, event by event": (f"{_APART.decode()}v1", True),
}
_USAGE = {"input_tokens": 700, "output_tokens": _CHUNKS}
_TOTALS = {"prompt_tokens": 700, "completion_tokens": _CHUNKS, "total_tokens": 700 + _CHUNKS}
Document = dict[str, Any]
Route = tuple[OperationSpec, str]
"""An operation, and the kind of the endpoint."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--recorded", type=Path)
    parser.add_argument("--calls", type=int, default=200, help="in a round, of each kind")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    for name, costs_ms in asyncio.run(_measure(args)).items():
        usual = costs_ms[_ROUTES[0]]
        print(f"{name:24} {usual:.3f} ms")
        for (operation, kind), cost_ms in list(costs_ms.items())[1:]:
            print(f"  {operation.name:18} {kind:10} {cost_ms:.3f} ms, {cost_ms - usual:+.3f} ms")


async def _measure(args: argparse.Namespace) -> dict[str, dict[Route, float]]:
    documents = _documents(args.recorded, args.calls)
    bodies = {CHAT: documents, RESPONSES: [_as_responses(each) for each in documents]}
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    costs: dict[str, dict[Route, float]] = {}
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as provider:
        provider.write("title: Chats\noperations: {chat.completions: /chat/completions}\n")
        provider.flush()
        for name, (base, streamed) in _CASES.items():
            connectors = {
                kind: _connector(kind, f"{url}{base}", provider.name)
                for kind in ("openai", "anthropic")
            }
            rounds: dict[Route, list[float]] = {route: [] for route in _ROUTES}
            for _ in range(args.rounds):
                for operation, kind in _ROUTES:
                    began = time.process_time()
                    for document in bodies[operation]:
                        await _call(connectors[kind], operation, kind, document, streamed)
                    took_ms = (time.process_time() - began) * 1000
                    rounds[operation, kind].append(took_ms / len(documents))
            costs[name] = {route: statistics.median(ms) for route, ms in rounds.items()}
            for connector in connectors.values():
                await connector.aclose()
    server.close()
    return costs


def _as_responses(chat: Document) -> Document:
    """The same call."""
    body = {"model": chat["model"], "input": chat["messages"]}
    body |= {name: chat[name] for name in ("temperature", "user") if name in chat}
    if "max_tokens" in chat:
        body["max_output_tokens"] = chat["max_tokens"]
    if "tools" in chat:
        body["tools"] = [{"type": "function", **each["function"]} for each in chat["tools"]]
    return body


def _documents(recorded: Path | None, calls: int) -> list[Document]:
    if recorded is None:
        content = "How do I restart a service that stopped? " * 75
        return [{"model": "m", "messages": [{"role": "user", "content": content}]}] * calls
    with recorded.open() as lines:
        documents = [json.loads(line) for line, _ in zip(lines, range(calls), strict=False)]
    bodies = [each.get("body", each) for each in documents]
    return [{key: value for key, value in each.items() if key != "top_p"} for each in bodies]


def _connector(kind: str, url: str, provider: str) -> Connector:
    """`provider`: the description of one that has chats alone."""
    settings = {"kind": kind, "zone": CLOUD, "url": url, "api_key": "key-0123456789"}
    if kind == "openai":
        settings["provider"] = provider
    return build_connector(EndpointSettings.model_validate(settings), None)


async def _call(
    connector: Connector, operation: OperationSpec, kind: str, document: Document, streamed: bool
) -> None:
    if streamed:
        document = {**document, "stream": True}
        if operation is CHAT:
            document["stream_options"] = {"include_usage": True}
    served = ServedModel("m")
    call = DocumentCall(operation, document, streamed)
    deadline = Deadline.after(60.0)
    request = InferenceRequest("1", WireProtocol.OPENAI, "t", "m", call, deadline)
    need = lacking(request, Endpoint(kind, CLOUD, kind, {"m": served}, _CHATS_ALONE), served)
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
