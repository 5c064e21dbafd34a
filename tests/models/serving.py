"""Runs the real embedded Triton for tests that are not coroutines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.endpoints.triton.server.options import TritonOptions
from gateway.endpoints.triton.server.server import TritonServer

MODELS = Path(__file__).resolve().parents[2] / "models"
TEST_MODELS = Path(__file__).resolve().parent / "repository"


@contextmanager
def running(options: TritonOptions) -> Iterator[TritonServer]:
    """A started server, supervised by an event loop of its own in another thread.

    Inside a coroutine `async with TritonServer(options) as server` does the same.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="triton-loop", daemon=True)
    thread.start()
    server = TritonServer(options)
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result()
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.aclose(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
