"""The demo prepares its gateway, and goes on where that cannot be done."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from gateway.demo.preparation import prepare


def test_what_goes_wrong_is_told_and_no_more(tmp_path: Path) -> None:
    told: list[str] = []
    asyncio.run(prepare(tmp_path / "missing.yaml", {}, told.append))
    assert any("missing.yaml: cannot be read" in line for line in told)


def test_it_ends_with_a_demo_that_is_stopped(tmp_path: Path) -> None:
    """The settings are a pipe: who can open it for writing has a reader, as long as that lives."""
    settings = tmp_path / "settings.yaml"
    os.mkfifo(settings)

    async def stopped() -> int:
        preparing = asyncio.create_task(prepare(settings, {}, lambda line: None))
        written = await asyncio.to_thread(os.open, settings, os.O_WRONLY)
        preparing.cancel()
        await asyncio.gather(preparing, return_exceptions=True)
        return written

    written = asyncio.run(stopped())
    try:
        with pytest.raises(BrokenPipeError):
            os.write(written, b"x")
    finally:
        os.close(written)
