"""Who receives the frames of a reply in tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Generic, Protocol, TypeVar

from gateway.core.reply import Receiver

T = TypeVar("T")
TSent = TypeVar("TSent", covariant=True)


class Source(Protocol[TSent]):
    async def deliver(self, receiver: Receiver[TSent]) -> None: ...


class Leaves(Exception):
    """The receiver has had enough."""


class Stepwise(Generic[T]):
    """Iterates over what a source delivers: that goes on when the next item is asked for."""

    def __init__(self, source: Source[T]) -> None:
        self._source = source
        self._items: asyncio.Queue[T] = asyncio.Queue()
        self._asked = asyncio.Semaphore(0)
        self._delivering: asyncio.Task[None] | None = None

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        if self._delivering is None:
            self._delivering = asyncio.create_task(self._source.deliver(self))
        else:
            self._asked.release()
        next_item = asyncio.create_task(self._items.get())
        await asyncio.wait({next_item, self._delivering}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(0)
        if next_item.done():
            return next_item.result()
        next_item.cancel()
        await self._delivering
        raise StopAsyncIteration

    def put(self, item: T) -> bool:
        self._items.put_nowait(item)
        return False

    async def room(self) -> None:
        await self._asked.acquire()


class Reader(Generic[T]):
    """Reads until `enough`, which is asked with each item; then it leaves."""

    def __init__(self, enough: Callable[[T], bool]) -> None:
        self._enough = enough
        self._leaves = False

    def put(self, item: T) -> bool:
        self._leaves = self._leaves or self._enough(item)
        return not self._leaves

    async def room(self) -> None:
        raise Leaves

    async def read(self, source: Source[T]) -> bool:
        """Whether it has read all."""
        try:
            await source.deliver(self)
        except Leaves:
            return False
        return True
