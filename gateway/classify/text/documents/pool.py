"""The processes that read documents: started when they are needed, ended when they are late."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import orjson

from gateway.classify import ScanFailed, ScanLate, ScannersBusy, ScannerUnfit
from gateway.classify.scan_workers import frames
from gateway.classify.scan_workers.process import WorkerProcess, spawned
from gateway.classify.text.documents import FORMAT, Unread
from gateway.classify.text.documents.attachments import Attachment

log = logging.getLogger(__name__)

_MODULE = "gateway.classify.text.documents.worker"
_START_S = 60.0
_MOST_READ = 200
"""Documents that one process reads: what a library leaks ends with it."""


class DocumentWorker(WorkerProcess):
    """One process."""

    read_count = 0

    @classmethod
    async def start(cls) -> DocumentWorker:
        """Raises ScannerUnfit when packages are absent or a sample is not read right."""
        worker = cls(await spawned(_MODULE))
        try:
            async with asyncio.timeout(_START_S):
                first = _unpacked(await worker.ask(frames.pack({})))
        except (TimeoutError, ScanFailed):
            first = {}
        except BaseException:
            await worker.kill()
            raise
        if (unfit := _unfit(first)) is not None:  # guard: K1.canary
            await worker.kill()
            raise ScannerUnfit(unfit)
        return worker

    async def read(self, attachment: Attachment, characters: int) -> list[str]:
        """Raises Unread, ScanFailed."""
        self.read_count += 1
        job = {
            "base64": attachment.base64,
            "media_type": attachment.media_type,
            "filename": attachment.filename,
            "characters": characters,
        }
        reply = _unpacked(await self.ask(frames.pack(job)))
        match reply:
            case {"texts": [*texts]} if all(type(text) is str for text in texts):
                return texts
            case {"unread": str(reason)}:
                raise Unread(reason)
            case {"failed": str(name)}:
                log.info("a document could not be read: %s", name)
                raise Unread(FORMAT)
        raise ScanFailed("the worker's answer is nonsense")


class DocumentPool:
    """At most so many processes, and so many calls that wait for one."""

    def __init__(self, workers: int, max_waiting: int, max_characters: int) -> None:
        self._room = asyncio.Semaphore(workers)
        self._max_waiting = max_waiting
        self._characters = max_characters
        self._waiting = 0
        self._idle: list[DocumentWorker] = []

    async def start(self) -> None:
        """Raises ScannerUnfit."""
        self._idle.append(await DocumentWorker.start())

    async def read(self, attachment: Attachment, budget_s: float) -> list[str]:
        """The texts of a document. Raises Unread, NoScan."""
        if self._room.locked() and self._waiting >= self._max_waiting:
            raise ScannersBusy("too many documents wait")
        self._waiting += 1
        try:
            async with asyncio.timeout(max(0.0, budget_s)):
                async with self._room:
                    return await self._read(attachment)
        except TimeoutError:
            raise ScanLate("the document was not read in time") from None
        finally:
            self._waiting -= 1

    async def _read(self, attachment: Attachment) -> list[str]:
        worker = self._idle.pop() if self._idle else await DocumentWorker.start()
        fit = False
        try:
            texts = await worker.read(attachment, self._characters)
            fit = True
            return texts
        except Unread:
            fit = True
            raise
        finally:
            if fit and worker.alive and worker.read_count < _MOST_READ:
                self._idle.append(worker)
            else:
                await worker.kill()  # guard: K1.late-killed

    async def aclose(self) -> None:
        idle, self._idle = self._idle, []
        for worker in idle:
            await worker.kill()


def _unfit(first: dict[str, Any]) -> str | None:
    """What the first answer of a process says against it."""
    match first:
        case {"missed": []}:
            return None
        case {"absent": str(module)}:
            return (
                "classify.documents: read needs the extra documents "
                f"(pip install 'spillway-gateway[documents]'): no module {module}"
            )
    return f"classify.documents: read fails its samples: {first.get('missed', 'no answer')}"


def _unpacked(body: bytes) -> dict[str, Any]:
    try:
        reply = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise ScanFailed("the worker's answer is not JSON") from None
    if not isinstance(reply, dict):
        raise ScanFailed("the worker's answer is no object")
    return reply
