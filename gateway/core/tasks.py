"""Several coroutines at once, or one after the other, of which one may fail.

By itself, because what waits on its way out of `async with` is never compiled (`deferred_error`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine


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
