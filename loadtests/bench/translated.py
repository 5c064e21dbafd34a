"""What a translated call costs more: `python -m loadtests.bench.translated`.

Recorded chats of some 3 KB (`--recorded FILE`, of `loadtests.load.mixed`), or made ones, go to an
endpoint of kind openai and to one of each other kind (`--kind`) in turns, those to bedrock signed,
and as Responses, which none of them has, to those of kinds openai and anthropic, over sockets of
this process that answer with prepared bytes: whole, and as streams of 100 chunks, in one read and
in a read for each (where the server's writes count, too). Processor time of this process in ms a
call, the median of the rounds; what decides whether the call may go there is counted too. A
recorded `top_p` is left out: with a temperature beside it the call would go nowhere.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import struct
import tempfile
import time
from binascii import crc32
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gateway.config import EndpointSettings
from gateway.config.model_catalog import Catalog, CatalogModel
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
from loadtests.bench.fronts import front_costs_ms

_CHUNKS = 100
_PIECE = " words"
_OTHERS = ("anthropic", "bedrock", "cohere", "gemini")
_KEYS = {"region": "eu-central-1", "access_key": "AKIDEXAMPLE", "secret_key": "key-0123456789"}
_CHATS_ALONE = frozenset({CHAT.name})
Route = tuple[OperationSpec, str]
_APART = b"/apart/"
_CASES = {
    "whole": ("/at-once", False),
    "stream": ("/at-once", True),
    "stream, event by event": ("/apart", True),
}
_USAGE = {"input_tokens": 700, "output_tokens": _CHUNKS}
_TOTALS = {"prompt_tokens": 700, "completion_tokens": _CHUNKS, "total_tokens": 700 + _CHUNKS}
Document = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--recorded", type=Path)
    parser.add_argument("--calls", type=int, default=200, help="in a round, of each kind")
    parser.add_argument("--kind", choices=_OTHERS, action="append")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    for name, costs_ms in asyncio.run(_measure(args)).items():
        usual = costs_ms.pop((CHAT, "openai"))
        print(f"{name:24} {usual:.3f} ms")
        for (operation, kind), cost_ms in costs_ms.items():
            print(f"  {operation.name:18} {kind:10} {cost_ms:.3f} ms, {cost_ms - usual:+.3f} ms")
    print("callers of each API, to an endpoint of OpenAI's:")
    chats, whole, events = _documents(args.recorded, args.calls), *_bodies()
    names = {"m", *(str(chat["model"]) for chat in chats)}
    catalog = Catalog({name: CatalogModel(name, "generate", ()) for name in names})
    fronts = front_costs_ms(chats, catalog, whole, events, args.rounds)
    for name, (chat, own) in fronts.items():
        print(f"{name:32} chat {chat:.3f} ms, its own {own:.3f} ms, {own - chat:+.3f} ms")


async def _measure(args: argparse.Namespace) -> dict[str, dict[Route, float]]:
    documents = _documents(args.recorded, args.calls)
    bodies = {CHAT: documents, RESPONSES: [_as_responses(each) for each in documents]}
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    costs: dict[str, dict[Route, float]] = {}
    kinds = ("openai", *(args.kind or _OTHERS))
    routes = [(CHAT, kind) for kind in kinds]
    routes += [(RESPONSES, kind) for kind in kinds if kind in ("openai", "anthropic")]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as provider:
        provider.write("title: Chats\noperations: {chat.completions: /chat/completions}\n")
        provider.flush()
        for name, (base, streamed) in _CASES.items():
            connectors = {
                kind: _connector(kind, f"{url}{base}/{kind}", provider.name) for kind in kinds
            }
            for connector in connectors.values():
                await _until_ready(connector)
            rounds: dict[Route, list[float]] = {route: [] for route in routes}
            for _ in range(args.rounds):
                for operation, kind in routes:
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
    settings: Document = {"kind": kind, "zone": CLOUD, "url": url, "api_key": "key-0123456789"}
    if kind == "bedrock":
        settings |= {"api_key": None, "credential": {"aws": _KEYS}}
    if kind == "openai":
        settings["provider"] = provider
    return build_connector(EndpointSettings.model_validate(settings), None)


async def _until_ready(connector: Connector) -> None:
    for _ in range(1000):
        if await connector.ready():
            return
        await asyncio.sleep(0.001)
    raise SystemExit("the endpoint has no credential")


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
            length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0] or b"0")
            body = await reader.readexactly(length)
            named = any(part in head for part in (b":streamGenerateContent", b"/converse-stream"))
            streamed = named or b'"stream":true' in body
            kind = next(kind for kind in _ANSWERS if b"/%b/" % kind.encode() in head)
            answer = _ANSWERS[kind][streamed]
            for piece in answer if _APART in head else [b"".join(answer)]:
                writer.write(piece)
                await asyncio.sleep(0)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def _bodies() -> tuple[bytes, bytes]:
    """Of an answer of OpenAI's API, and of its stream without `[DONE]`."""
    whole, events = (
        b"".join(_ANSWERS["openai"][s]).partition(b"\r\n\r\n")[2] for s in (False, True)
    )
    return whole, events.removesuffix(b"data: [DONE]\n\n")


def _whole(document: Document) -> list[bytes]:
    body = json.dumps(document).encode()
    return [_head(b"application/json", len(body)) + body]


def _streamed(
    events: Sequence[Any],
    written: Callable[[Any], bytes],
    end: bytes = b"",
    media: bytes = b"text/event-stream",
) -> list[bytes]:
    first, *others = map(written, events)
    return [_head(media, len(first) + sum(map(len, others)) + len(end)) + first, *others, end]


def _head(media: bytes, length: int) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (media, length)


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


def _framed(event: tuple[str, Document]) -> bytes:
    """As a message of AWS's event stream."""
    name, document = event
    stated = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        b"%c%b\x07%b%b" % (len(key), key.encode(), len(text).to_bytes(2, "big"), text.encode())
        for key, text in stated.items()
    )
    payload = json.dumps(document, separators=(",", ":")).encode()
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack(">I", crc32(prelude)) + headers + payload
    return message + struct.pack(">I", crc32(message))


_DELTAS = [
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": _PIECE}}
] * _CHUNKS
_GEMINI: Document = {
    "responseId": "r1", "modelVersion": "m",
    "usageMetadata": {"promptTokenCount": 700, "candidatesTokenCount": _CHUNKS},
}  # fmt: skip


def _candidate(text: str, **more: Any) -> Document:
    content = {"role": "model", "parts": [{"text": text}]}
    return {**_GEMINI, "candidates": [{"content": content, "index": 0, **more}]}


_BEDROCK_COUNTS = {
    "usage": {"inputTokens": 700, "outputTokens": _CHUNKS, "totalTokens": 700 + _CHUNKS},
    "metrics": {"latencyMs": 5},
}
_COHERE_END = {"finish_reason": "COMPLETE", "usage": {"billed_units": _USAGE}}
_COHERE_DELTA = {
    "type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": _PIECE}}},
}  # fmt: skip
_ANSWERS = {
    "openai": (
        _whole(
            {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
             "choices": [{"index": 0, "message": {"role": "assistant", "content": _PIECE * _CHUNKS},
                          "finish_reason": "stop"}],
             "usage": _TOTALS}
        ),
        _streamed(
            [_chunk({"content": _PIECE})] * _CHUNKS
            + [_chunk({}, "stop"), {**_chunk({}), "choices": [], "usage": _TOTALS}],
            _data,
            b"data: [DONE]\n\n",
        ),
    ),
    "anthropic": (
        _whole(_message([{"type": "text", "text": _PIECE * _CHUNKS}], "end_turn")),
        _streamed(
            [{"type": "message_start", "message": _message([], None)},
             {"type": "content_block_start", "index": 0,
              "content_block": {"type": "text", "text": ""}},
             *_DELTAS,
             {"type": "content_block_stop", "index": 0},
             {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": _USAGE},
             {"type": "message_stop"}],
            _named,
        ),
    ),
    "bedrock": (
        _whole(
            {"output": {"message": {"role": "assistant", "content": [{"text": _PIECE * _CHUNKS}]}},
             "stopReason": "end_turn", **_BEDROCK_COUNTS}
        ),
        _streamed(
            [("messageStart", {"role": "assistant"}),
             *[("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": _PIECE},
                                      "p": "abcdefghijklm"})] * _CHUNKS,
             ("contentBlockStop", {"contentBlockIndex": 0}),
             ("messageStop", {"stopReason": "end_turn"}),
             ("metadata", _BEDROCK_COUNTS)],
            _framed,
            media=b"application/vnd.amazon.eventstream",
        ),
    ),
    "cohere": (
        _whole(
            {"id": "c1", **_COHERE_END, "message": {
                "role": "assistant", "content": [{"type": "text", "text": _PIECE * _CHUNKS}]}}
        ),
        _streamed(
            [{"type": "message-start", "id": "c1", "delta": {"message": {"role": "assistant"}}},
             {"type": "content-start", "index": 0,
              "delta": {"message": {"content": {"type": "text", "text": ""}}}},
             *[_COHERE_DELTA] * _CHUNKS,
             {"type": "content-end", "index": 0},
             {"type": "message-end", "delta": _COHERE_END}],
            _named,
        ),
    ),
    "gemini": (
        _whole(_candidate(_PIECE * _CHUNKS, finishReason="STOP")),
        _streamed(
            [_candidate(_PIECE)] * (_CHUNKS - 1) + [_candidate(_PIECE, finishReason="STOP")],
            _data,
        ),
    ),
}  # fmt: skip
"""By the kind of the endpoint: whole, and as a stream."""


if __name__ == "__main__":
    main()
