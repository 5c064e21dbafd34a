"""Tasks that run together or in the background, and closing one after the other.

By itself, because what waits on its way out of `async with` is never compiled (`deferred_error`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import Any


async def run_together(*running: Coroutine[object, object, None]) -> None:
    """Until all have ended. One that fails is raised in a group, once the others are cancelled."""
    async with asyncio.TaskGroup() as group:
        for each in running:
            group.create_task(each)


async def close_all(*closing: Callable[[], Awaitable[object]]) -> None:
    """One after the other, each whatever became of those before it; the last failure is raised."""
    async with contextlib.AsyncExitStack() as stack:
        for each in reversed(closing):
            stack.push_async_callback(each)


async def ended(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel them, and wait until they are over."""
    tasks = [*tasks]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def running(work: Coroutine[Any, Any, object], name: str) -> AsyncIterator[None]:
    """In a task of that name, until the context is left."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        await ended([task])


class BackgroundTasks:
    """Tasks that no call waits for; whoever has them ends them."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def aclose(self) -> None:
        await ended(self.tasks)
