"""Counts what leaves an event loop for a thread."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class Threads(ThreadPoolExecutor):
    count = 0

    def submit(self, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        return super().submit(*args, **kwargs)


def counted() -> Threads:
    """The executor of the running loop from now on."""
    threads = Threads(1)
    asyncio.get_running_loop().set_default_executor(threads)
    return threads
