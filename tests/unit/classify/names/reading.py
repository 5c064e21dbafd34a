"""What the tests of the thread that reads names share: readers that wait, and calls to them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

from gateway.classify import NoScan
from gateway.classify.names.engines import local
from gateway.classify.names.engines.local import ReaderThread
from gateway.classify.names.engines.reader import NamesReader, UnmeasuredLanguage
from gateway.core.types import Finding

from .knowing import tagger_that_knows

THRESHOLDS = {"full": 0.5, "lone": 0.5, "address": 0.5, "handle": 1.0, "named_handle": 0.5}
GoOn = Callable[[], None]
Found = list[list[Finding] | UnmeasuredLanguage]
FAR_S = 20.0


class Gate:
    """A reader whose next text waits until the test lets it go; it says what it has read."""

    def __init__(self) -> None:
        self.entered, self.open = threading.Event(), threading.Event()
        self.read: list[list[str]] = []

    def __call__(self, texts: Sequence[str], go_on: GoOn) -> Found:
        self.read.append(list(texts))
        self.entered.set()
        assert self.open.wait(FAR_S)
        go_on()
        return [[Finding("PERSON", 0, len(text), 0.9)] for text in texts]


def knowing(texts: Sequence[str], go_on: GoOn) -> Found:
    return NamesReader(tagger_that_knows({"Zara": "PERSON"}), None, THRESHOLDS).read(texts, go_on)


def scenario(
    read: local.Read, play: Callable[[ReaderThread], asyncio.Future[object] | object], most: int = 8
) -> object:
    async def run() -> object:
        thread = ReaderThread(read, most)
        try:
            return await play(thread)  # type: ignore[misc]
        finally:
            await asyncio.to_thread(thread.end)

    return asyncio.run(run())


async def outcome(thread: ReaderThread, text: str = "Zara", budget_s: float = FAR_S) -> str:
    try:
        (found,) = await thread.find([text], budget_s)
    except NoScan as failure:
        return failure.reason
    return "found" if found else "nothing"


async def reached(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, FAR_S)
