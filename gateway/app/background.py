"""Tasks of the process that no call waits for; whoever starts one ends it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any


class BackgroundTasks:
    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def aclose(self) -> None:
        await _ended(self.tasks)


@contextlib.asynccontextmanager
async def running(work: Coroutine[Any, Any, object], name: str) -> AsyncIterator[None]:
    """In a task of that name, until the context is left."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        await _ended([task])


async def _ended(tasks: Iterable[asyncio.Task[Any]]) -> None:
    tasks = [*tasks]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
