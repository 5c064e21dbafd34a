"""All findings of a text with their spans, names too, where one that restricts is not enough.

Workers of their own look for everything, so that a verdict never waits behind a full search.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from gateway.classify import Scans
from gateway.classify.names import Names
from gateway.classify.names.forms import find_in_all_forms
from gateway.classify.profile import Profile
from gateway.classify.scan_workers.pool import ScanPool
from gateway.classify.scan_workers.spec import worker_spec
from gateway.classify.scanner.together import together
from gateway.config import ClassifySettings
from gateway.core import ambient
from gateway.core.types import Finding, Tightening


class FullFindings:
    def __init__(
        self,
        settings: ClassifySettings,
        added: Collection[Tightening] = (),
        names: Names | None = None,
        pool: Scans | None = None,
        on_replaced: Callable[[], None] = lambda: None,
    ) -> None:
        """`added` is what callers add to what restricts; `names` are the classifier's, who starts
        and closes them; `on_replaced` is told of workers that were replaced."""
        self._settings = settings
        self._names = names
        self._pool = pool or ScanPool(
            worker_spec(settings, added, everything=True),
            max_waiting=settings.max_waiting,
            on_replaced=on_replaced,
        )

    async def start(self) -> None:
        """Raises ScannerUnfit when a scanner misses one of its samples (C8)."""
        await self._pool.start()

    async def aclose(self) -> None:
        await self._pool.aclose()

    async def find(self, text: str, added: Tightening, budget_s: float) -> list[Finding]:
        """Those that restrict a caller who adds this to what does. Raises a NoScan."""
        profile = Profile.from_settings(self._settings, added)
        started_s = ambient.monotonic_s()
        budget_s = min(budget_s, self._settings.budget_ms / 1e3)
        (findings,) = await self._pool.scan([text], budget_s)
        if self._names is not None:
            left_s = budget_s - (ambient.monotonic_s() - started_s)
            (named,) = await find_in_all_forms(  # as for the verdict: windows may tell more
                self._names, [text], left_s, self._settings.allow_list, lone=profile.lone_names
            )
            findings = together(findings, named)
        return [f for f in findings if profile.restricts([f])]
