"""When the settings file is read again, and what came of it (O2).

On SIGHUP at once, and when the file, or one that its references lead to, has changed and stood
still for one look: an editor or a copy may be at work on it. The commands of references run again
now and then. Whatever is wrong with a new version, the one that serves goes on.
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
from gateway.core import ambient, yaml_document

log = logging.getLogger(__name__)

EVERY_S = 0.5
_MOST_KEYS = 12  # that a line of the log names

Stamp = tuple[int, int, int] | None
"""Of a file: modified, size, inode. None: it cannot be looked at."""
Stamps = tuple[Stamp, ...]
"""Of the settings file, and of those that its references lead to."""


class SettingsFile:
    """A file of settings, and how it is read: by the same code at the start and ever after."""

    def __init__(self, path: Path, load: Callable[[Path], Settings]) -> None:
        self.path = path
        self._load = load
        self._files: tuple[Path, ...] = (path,)
        self._stamps: Stamps = ()
        self._digests: tuple[bytes, ...] = ()
        self.has_commands = False

    def read(self) -> Settings:
        """Raises ConfigError. What stood there before it was read is what counts as read: a change
        in this moment is seen at the next look."""
        files, self.has_commands = yaml_document.sources(self.path)
        self._files = (self.path, *files)
        self._stamps, self._digests = self.stamps(), self._current_digests()
        return self._load(self.path)

    @property
    def read_stamps(self) -> Stamps:
        return self._stamps

    def stamps(self) -> Stamps:
        return tuple(map(stamp, self._files))

    def differs(self) -> bool:
        """Whether there is something else in one of them than what was read last."""
        now = self.stamps()
        if self._current_digests() == self._digests:
            self._stamps = now
            return False
        return True

    def _current_digests(self) -> tuple[bytes, ...]:
        return tuple(map(_digest, self._files))


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
        self._renewed_s = ambient.monotonic_s()
        self.last: LastReload | None = None

    def ask(self) -> None:
        """Read it again now, whether it has changed or not."""
        self._requested.set()

    async def run(self) -> None:
        settling = self._file.read_stamps
        while True:
            if await self._wait_for_request():
                self._requested.clear()
                await self.reload()
            elif self._current().reload.watch:
                now = await asyncio.to_thread(self._file.stamps)
                stands, settling = now == settling, now
                if now == self._file.read_stamps:
                    await self._renew()
                    continue
                if not stands:  # guard: O2.partial-file
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

    async def _renew(self) -> None:
        """Run the commands again when that is due."""
        due_s = self._renewed_s + self._current().reload.commands_s
        if self._file.has_commands and ambient.monotonic_s() >= due_s:
            await self.reload(renewing=True)

    async def reload(self, renewing: bool = False) -> str:
        """The result, as the metric has it. `renewing`: where nothing has changed, nothing is
        done."""
        self._renewed_s = ambient.monotonic_s()
        try:
            result = await self._reload(renewing)
            if result is None:
                return "unchanged"
            self.last = result
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

    async def _reload(self, renewing: bool) -> LastReload | None:
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
        if renewing and not keys:
            return None
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
