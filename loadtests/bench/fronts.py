"""What a caller of another API costs more: `python -m loadtests.bench.translated` prints it.

The same chats come as OpenAI's and as each other API's, from the bytes of the body to the call, and
their answers go from the endpoint's frames to the bytes of the answer: whole, and as a stream of
100 chunks, all in one frame and in a frame for each. Nothing else of a call is in it; what is sent
to an endpoint of OpenAI's API is.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from gateway.auth.caller import ANYONE
from gateway.config.model_catalog import Catalog
from gateway.core.operations.chat import CHAT
from gateway.core.operations.dialects.openai import spoken
from gateway.core.reply import Frame, Receiver, ServerEvents
from gateway.core.types import DocumentCall
from gateway.protocols import strictjson
from gateway.server.dialects.anthropic import front as anthropic
from gateway.server.dialects.anthropic.answers import message
from gateway.server.dialects.anthropic.events import MessageWriter
from gateway.server.dialects.bedrock import front as bedrock
from gateway.server.dialects.bedrock.answers import converse
from gateway.server.dialects.bedrock.events import ConverseWriter
from gateway.server.dialects.cohere import front as cohere
from gateway.server.dialects.cohere.answers import response as cohere_response
from gateway.server.dialects.cohere.events import ChatWriter
from gateway.server.dialects.gemini import front as gemini
from gateway.server.dialects.gemini.answers import response
from gateway.server.dialects.gemini.events import GenerateWriter
from gateway.server.dialects.head import TranslatedBody, read_call
from gateway.server.dialects.stream import StreamWriter, TranslatedBytes
from gateway.server.openai.documents import read
from gateway.server.openai.events import EventBytes

Document = dict[str, Any]
Work = Callable[[bytes], object]


class _Frames:
    def __init__(self, frames: list[Frame]) -> None:
        self._frames = frames

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        for frame in self._frames:
            receiver.put(frame)

    async def aclose(self) -> None: ...


class _Sink:
    def put(self, item: bytes) -> bool:
        return True

    async def room(self) -> None: ...


@dataclass(frozen=True)
class _OtherApi:
    """One front: how its SDK sends a chat, and what its calls and answers are made by."""

    path: str
    sent: Callable[[list[Document], str], Document]
    """Of the turns of a chat and its instructions."""
    described: Callable[[str, Document], TranslatedBody | None]
    whole: Callable[[bytes], bytes]
    writer: Callable[[], StreamWriter]


def _messages(turns: list[Document], system: str) -> Document:
    made = {"model": "m", "max_tokens": 512, "messages": turns}
    return {**made, "system": system} if system else made


def _gemini(turns: list[Document], system: str) -> Document:
    contents = [
        {
            "role": "user" if each["role"] == "user" else "model",
            "parts": [{"text": each["content"]}],
        }
        for each in turns
    ]
    return {"contents": contents, "systemInstruction": {"parts": [{"text": system}]}}


def _converse(turns: list[Document], system: str) -> Document:
    messages = [{**each, "content": [{"text": each["content"]}]} for each in turns]
    return {"messages": messages, "system": [{"text": system}] if system else []}


def _cohere(turns: list[Document], system: str) -> Document:
    return {"model": "m", "messages": [{"role": "system", "content": system}, *turns]}


APIS: dict[str, _OtherApi] = {
    "messages": _OtherApi(
        anthropic.PATH, _messages, anthropic.described, lambda body: message(body, ()),
        lambda: MessageWriter((), "1"),
    ),
    "gemini": _OtherApi(
        "/v1beta/models/m:generateContent", _gemini, gemini.described,
        lambda body: response(body, ()), lambda: GenerateWriter((), events=True),
    ),
    "converse": _OtherApi(
        "/model/m/converse", _converse, bedrock.described, lambda body: converse(body, (), 1),
        lambda: ConverseWriter((), lambda: 1),
    ),
    "cohere": _OtherApi(
        "/v2/chat", _cohere, cohere.described, lambda body: cohere_response(body, ()),
        lambda: ChatWriter(()),
    ),
}  # fmt: skip


def _body(api: _OtherApi, chat: Document) -> bytes:
    turns = [each for each in chat["messages"] if each["role"] in ("user", "assistant")]
    turns = [{**each, "content": str(each["content"])} for each in turns]
    system = "\n".join([str(m["content"]) for m in chat["messages"] if m["role"] == "system"])
    return json.dumps(api.sent(turns, system)).encode()


def front_costs_ms(
    chats: list[Document], catalog: Catalog, whole: bytes, events: bytes, rounds: int
) -> dict[str, tuple[float, float]]:
    """By the API and the case, processor time of a call from OpenAI's front and from the API's, in
    ms. `whole`: an endpoint's answer; `events`: those of its stream."""
    frames: dict[str, list[Frame]] = {
        "stream": [ServerEvents(events, events.count(b"\n\n"))],
        "stream, event by event": list(ServerEvents(events, 0).apart()),
    }
    costs: dict[str, tuple[float, float]] = {}
    for name, api in APIS.items():
        bodies = (
            [json.dumps(chat).encode() for chat in chats],
            [_body(api, chat) for chat in chats],
        )
        works: dict[str, tuple[Work, Work]] = {
            "whole": (
                lambda body: _opened(_chat(body, catalog)),
                partial(_whole, api, catalog, whole),
            )
        }
        for case, each in frames.items():
            works[case] = (partial(_chat_stream, each), partial(_stream, api, each))
        costs |= {
            f"{name}, {case}": _compared(pair, bodies, rounds) for case, pair in works.items()
        }
    return costs


def _compared(
    works: tuple[Work, Work], bodies: tuple[list[bytes], list[bytes]], rounds: int
) -> tuple[float, float]:
    measured: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for work, own, times in zip(works, bodies, measured, strict=True):
            began = time.process_time()
            for body in own:
                work(body)
            times.append((time.process_time() - began) * 1000 / len(own))
    return statistics.median(measured[0]), statistics.median(measured[1])


def _chat(body: bytes, catalog: Catalog) -> DocumentCall:
    document, size = strictjson.sized_object(body)
    return read(CHAT, document, catalog, 0, size)[1]


def _call(api: _OtherApi, body: bytes, catalog: Catalog) -> DocumentCall:
    described = api.described(api.path, strictjson.load_object(body))
    assert described is not None
    return read_call(described, catalog, 0, ANYONE)[1]


def _opened(call: DocumentCall) -> bytes:
    """As a connector of kind openai sends it."""
    chat = call.document if call.translation is None else spoken(call.document)[0]
    return strictjson.dumps({**chat, "model": "m"})


def _chat_stream(frames: list[Frame], body: bytes) -> None:
    _delivered(EventBytes(_Frames(frames), CHAT))


def _whole(api: _OtherApi, catalog: Catalog, answer: bytes, body: bytes) -> None:
    _opened(_call(api, body, catalog))
    api.whole(answer)


def _stream(api: _OtherApi, frames: list[Frame], body: bytes) -> None:
    _delivered(TranslatedBytes(_Frames(frames), api.writer()))


def _delivered(written: EventBytes | TranslatedBytes) -> None:
    delivery = written.deliver(_Sink())
    try:
        delivery.send(None)
    except StopIteration:
        return
    raise AssertionError("the receiver has always room")
