"""What a caller of another API costs more: `python -m loadtests.bench.translated` prints it.

The same chats come as OpenAI's and as Anthropic's, from the bytes of the body to the call, and
their answers go from the endpoint's frames to the bytes of the answer: whole, and as a stream of
100 chunks, all in one frame and in a frame for each. Nothing else of a call is in it; what is sent
to an endpoint of OpenAI's API is.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.config.model_catalog import Catalog
from gateway.core.operations.chat import CHAT
from gateway.core.operations.dialects.openai import spoken
from gateway.core.reply import Frame, Receiver, ServerEvents
from gateway.core.types import DocumentCall
from gateway.protocols import strictjson
from gateway.server.dialects.anthropic import front as anthropic
from gateway.server.dialects.anthropic.answers import message
from gateway.server.dialects.anthropic.events import MessageWriter
from gateway.server.dialects.stream import TranslatedBytes
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


def messages_body(chat: Document) -> bytes:
    """The same call as Anthropic's SDK sends it."""
    turns = [each for each in chat["messages"] if each["role"] in ("user", "assistant")]
    system = "\n".join([str(each["content"]) for each in chat["messages"] if each not in turns])
    made = {"model": chat["model"], "max_tokens": chat.get("max_tokens") or 512, "messages": turns}
    return json.dumps({**made, "system": system} if system else made).encode()


def front_costs_ms(
    chats: list[Document], catalog: Catalog, whole: bytes, events: bytes, rounds: int
) -> dict[str, tuple[float, float]]:
    """By the case, processor time of a call from OpenAI's front and from Anthropic's, in ms.
    `whole`: an endpoint's answer; `events`: those of its stream."""
    frames: dict[str, list[Frame]] = {
        "stream": [ServerEvents(events, events.count(b"\n\n"))],
        "stream, event by event": list(ServerEvents(events, 0).apart()),
    }
    cases: dict[str, tuple[Work, Work]] = {
        "whole": (
            lambda body: _opened(_chat(body, catalog)),
            lambda body: (_opened(_message(body, catalog)), message(whole, ())),
        )
    }
    for name, each in frames.items():
        cases[name] = (partial(_chat_stream, each), partial(_message_stream, each))
    bodies = (
        [json.dumps(chat).encode() for chat in chats],
        [messages_body(chat) for chat in chats],
    )
    return {name: _compared(works, bodies, rounds) for name, works in cases.items()}


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


def _message(body: bytes, catalog: Catalog) -> DocumentCall:
    described = anthropic.described(anthropic.PATH, strictjson.load_object(body), catalog)
    assert described is not None
    return described[1]


def _opened(call: DocumentCall) -> bytes:
    """As a connector of kind openai sends it."""
    chat = call.document if call.translation is None else spoken(call.document)[0]
    return strictjson.dumps({**chat, "model": "m"})


def _chat_stream(frames: list[Frame], body: bytes) -> None:
    _delivered(EventBytes(_Frames(frames), CHAT))


def _message_stream(frames: list[Frame], body: bytes) -> None:
    _delivered(TranslatedBytes(_Frames(frames), MessageWriter((), "1")))


def _delivered(written: EventBytes | TranslatedBytes) -> None:
    delivery = written.deliver(_Sink())
    try:
        delivery.send(None)
    except StopIteration:
        return
    raise AssertionError("the receiver has always room")
