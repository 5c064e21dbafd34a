"""A real Chromium for tests of the console; they skip where there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    """Its path; skips the test, with the reason, where it or what drives it is not installed."""
    pytest.importorskip("playwright", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    return found


@asynccontextmanager
async def browser(path: str) -> AsyncIterator[Any]:
    from playwright.async_api import async_playwright

    # Chromium refuses to be root with its sandbox, and the pages are our own.
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    environment = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(
            executable_path=path, args=["--disable-dev-shm-usage", *root], env=dict(environment)
        )
        try:
            yield opened
        finally:
            await opened.close()


async def serious(page: Any) -> list[str]:
    """What axe-core finds on the page that keeps people out."""
    from axe_playwright_python.async_playwright import Axe

    found = (await Axe().run(page)).response["violations"]
    return [
        f"{one['id']}: {node['html'][:160]}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]
