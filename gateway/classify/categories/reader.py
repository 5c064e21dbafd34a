"""Reads texts for categories beside the event loop, for no longer than a call may be read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from gateway.classify import NoScan, ScanFailed, ScanLate, ScannersBusy, ScannerUnfit
from gateway.classify.categories.matching import Matcher
from gateway.config import ClassifySettings
from gateway.core import ambient
from gateway.core.types import Finding

log = logging.getLogger(__name__)

THREADS = 2  # a long text does not hold up the others
_AT_ONCE = 8_192  # characters that are held against tables alone on the loop: a millisecond


class CategoryReader:
    def __init__(self, settings: ClassifySettings) -> None:
        self._settings = settings
        self._matcher: Matcher | None = None
        self._waiting = 0
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="categories")

    async def start(self) -> None:
        """Raises ScannerUnfit where its examples or its table do not make a category."""
        if self._matcher is not None:
            return
        try:
            self._matcher = await asyncio.to_thread(Matcher.load, self._settings)
        except ScannerUnfit:
            raise
        except Exception as exc:  # noqa: BLE001 - each file has a reader with errors of its own
            raise ScannerUnfit(f"classify.categories: {type(exc).__name__}") from None

    async def find(self, texts: Sequence[str], budget_s: float) -> list[list[Finding]]:
        """A list of findings a text, of type `category:NAME`. Raises NoScan: no text is in it."""
        matcher = self._matcher
        if matcher is None:
            raise ScanFailed("categories are not started, or closed")
        if not budget_s > 0:
            raise ScanLate("no time is left to look for categories")
        if not matcher.needs_model and sum(map(len, texts)) <= _AT_ONCE:
            return _read(matcher, texts, ambient.monotonic_s() + budget_s)
        if self._waiting >= self._settings.max_waiting:
            raise ScannersBusy("too many calls wait for their categories")
        self._waiting += 1
        until_s = ambient.monotonic_s() + budget_s
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(budget_s):
                return await loop.run_in_executor(self._threads, _read, matcher, texts, until_s)
        except TimeoutError:
            raise ScanLate("categories were not looked for in time") from None
        finally:
            self._waiting -= 1

    async def aclose(self) -> None:
        self._matcher = None
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)


def _read(matcher: Matcher, texts: Sequence[str], until_s: float) -> list[list[Finding]]:
    def go_on() -> None:
        if ambient.monotonic_s() > until_s:
            raise ScanLate("categories were not looked for in time")

    try:
        return [matcher.findings(text, go_on) for text in texts]
    except NoScan:
        raise
    except Exception as exc:  # noqa: BLE001 - restricts; its text and frames may be content
        log.error("categories: reading failed: %s", type(exc).__name__)
        raise ScanFailed("categories cannot be looked for") from None
