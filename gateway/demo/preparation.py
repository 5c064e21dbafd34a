"""`spillway prepare`, run before the demo's gateway starts: else its first calls would be read by
the slow exact path, and some stay on the premises for want of time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path


async def prepare(
    config: Path, environment: Mapping[str, str], report: Callable[[str], None]
) -> None:
    """What goes wrong is told and no more: a gateway that is not prepared is slow, and safe."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "prepare", "--config", str(config)),
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is the demo's
    )
    try:
        assert process.stderr is not None
        async for line in process.stderr:
            report(line.decode("utf-8", "replace").rstrip())
        await process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()  # and its compiler ends with it
        await process.wait()
