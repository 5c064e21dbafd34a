"""When the settings file is read again, and what came of it (O2).

On SIGHUP at once, and when the file has changed and stood still for one look: an editor or a copy
may be at work on it. Whatever is wrong with a new version, the one that serves goes on.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.accounting.metrics import Metrics
from gateway.classify import ScannerUnfit
from gateway.config import ConfigError, Settings
from gateway.config.changes import changed, needs_restart
from gateway.core import ambient

log = logging.getLogger(__name__)

EVERY_S = 0.5
_MOST_KEYS = 12  # that a line of the log names

Stamp = tuple[int, int, int] | None
"""Of a file: modified, size, inode. None: it cannot be looked at."""


class SettingsFile:
    """A file of settings, and how it is read: by the same code at the start and ever after."""

    def __init__(self, path: Path, load: Callable[[Path], Settings]) -> None:
        self.path = path
        self._load = load
        self._stamp: Stamp = None
        self._digest = b""

    def read(self) -> Settings:
        """Raises ConfigError. What stood there before it was read is what counts as read: a change
        in this moment is seen at the next look."""
        self._stamp, self._digest = stamp(self.path), _digest(self.path)
        return self._load(self.path)

    @property
    def read_stamp(self) -> Stamp:
        return self._stamp

    def differs(self) -> bool:
        """Whether there is something else in it than what was read last."""
        now, digest = stamp(self.path), _digest(self.path)
        if digest == self._digest:
            self._stamp = now
            return False
        return True


@dataclass(frozen=True, slots=True)
class LastReload:
    """The last reload, for /status."""

    result: str
    at_s: float  # since 1970
    keys: tuple[str, ...] = ()  # that need a restart
    problems: int = 0

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = {"result": self.result, "at": round(self.at_s, 3)}
        if self.keys:
            document["needs_restart"] = [*self.keys]
        if self.problems:
            document["problems"] = self.problems  # in the log: their words quote the file
        return document


class Reloading:
    def __init__(
        self,
        file: SettingsFile,
        current: Callable[[], Settings],
        apply: Callable[[Settings], Awaitable[None]],
        metrics: Metrics,
        every_s: float = EVERY_S,
    ) -> None:
        """`apply` raises ConfigError or ScannerUnfit, and has changed nothing then."""
        self._file = file
        self._current = current
        self._apply = apply
        self._metrics = metrics
        self._every_s = every_s
        self._requested = asyncio.Event()
        self.last: LastReload | None = None

    def ask(self) -> None:
        """Read it again now, whether it has changed or not."""
        self._requested.set()

    async def run(self) -> None:
        settling: Stamp = self._file.read_stamp
        while True:
            if await self._wait_for_request():
                self._requested.clear()
                await self.reload()
            elif self._current().reload.watch:
                now = await asyncio.to_thread(stamp, self._file.path)
                stands, settling = now == settling, now
                if now == self._file.read_stamp or not stands:  # guard: O2.partial-file minus 2
                    continue
                if await asyncio.to_thread(self._file.differs):
                    await self.reload()

    async def _wait_for_request(self) -> bool:
        try:
            async with asyncio.timeout(self._every_s):
                await self._requested.wait()
        except TimeoutError:
            return False
        return True

    async def reload(self) -> str:
        """The result, as the metric has it."""
        try:
            self.last = await self._reload()
        except ConfigError as exc:  # guard: O2.bad-file ConfigError -> OSError
            lines = str(exc).splitlines()
            for line in lines:
                log.error("the settings are not taken, those of before stay: %s", line)
            self.last = LastReload("refused", ambient.wall_s(), problems=len(lines))
        except ScannerUnfit as exc:
            log.error("the settings are not taken, those of before stay: %s", str(exc))
            self.last = LastReload("refused", ambient.wall_s(), problems=1)
        except Exception:  # guard: O2.bad-file Exception -> OSError
            log.exception("the settings are not taken, those of before stay")
            self.last = LastReload("refused", ambient.wall_s(), problems=1)
        self._metrics.config_reloads.labels(self.last.result).inc()
        return self.last.result

    async def _reload(self) -> LastReload:
        before = self._current()
        after = await asyncio.to_thread(self._file.read)
        fixed = tuple(needs_restart(before, after))
        if fixed:  # guard: O2.restart-needed
            log.error(
                "the settings are not taken, those of before stay: these count from a start on, "
                "so restart the gateway or put them back: %s", _some(fixed),
            )  # fmt: skip
            return LastReload("needs_restart", ambient.wall_s(), fixed)
        keys = changed(before, after)
        # Asked for, it is done though nothing in the file changed: files that it names may have.
        await self._apply(after)
        if not keys:
            log.info("the settings are what they were")
            return LastReload("unchanged", ambient.wall_s())
        log.info("settings %s are in use; changed: %s", after.policy_hash(), _some(keys))
        return LastReload("applied", ambient.wall_s())


def stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _digest(path: Path) -> bytes:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return b""


def _some(keys: list[str] | tuple[str, ...]) -> str:
    more = len(keys) - _MOST_KEYS
    return ", ".join(keys[:_MOST_KEYS]) + (f" and {more} more" if more > 0 else "")
