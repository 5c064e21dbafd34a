"""Names in this process, on the CPU: one thread that reads what waits, in batches.

ONNX Runtime gives the interpreter lock back while it computes, so the event loop goes on. What
waits together is read together: calls that come at the same time share batches. A long text is
read batch by batch, with short ones that wait in between, and no further once its caller's budget
is over. Whatever goes wrong is a `NoScan`, and nobody waits past the budget (C1, C9).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.classify import NoScan, ScanFailed, ScanLate, ScannersBusy, ScannerUnfit
from gateway.classify.names import Enough
from gateway.classify.names.engines.reader import NamesReader, UnmeasuredLanguage
from gateway.classify.names.gate.windows import GatedText
from gateway.classify.names.model.card import WEIGHTS
from gateway.core import ambient
from gateway.core.types import Finding

log = logging.getLogger(__name__)

MAX_BUDGET_S = 30.0
END_S = 2.0  # for the thread to end; one that hangs in the model ends with the process
_CLOSED = "names are closed, or their thread has died"
_TOGETHER = 32  # jobs read in one go
_LONG = 6_000  # characters: a longer text is read alone
_AT_ONCE = 16_384  # characters that the gate looks at on the loop: a millisecond


Answer = list[list[Finding]]


@dataclass(slots=True, eq=False)
class _Job:
    texts: Sequence[Sized] = field(repr=False)
    until_s: float
    answer: asyncio.Future[Answer]
    size: int  # characters

    @property
    def late(self) -> bool:
        return ambient.monotonic_s() > self.until_s or self.answer.cancelled()

    def resolve(self, answer: Answer | NoScan) -> None:
        """From any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended, nobody waits
            self.answer.get_loop().call_soon_threadsafe(self._resolve, answer)

    def _resolve(self, answer: Answer | NoScan) -> None:
        if self.answer.done():
            return
        if isinstance(answer, NoScan):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)


class LocalNames:
    """The `Names` of a gateway without further settings."""

    def __init__(
        self,
        languages: Sequence[str],
        *,
        other_languages: bool = False,
        max_waiting: int = 256,
        weights: Path = WEIGHTS,
    ) -> None:
        """`other_languages`: read texts in languages that the model was not measured on too."""
        self._languages = tuple(languages)
        self._other_languages = other_languages
        self._max_waiting = max_waiting
        self._weights = weights
        self._reader: NamesReader | None = None
        self._thread: ReaderThread | None = None

    async def start(self) -> None:
        if self._thread is not None:
            return
        try:
            reader = await asyncio.to_thread(NamesReader.load, self._weights, self._other_languages)
            missed = await asyncio.to_thread(reader.missed, self._languages)
        except ScannerUnfit:
            raise
        except Exception as exc:  # noqa: BLE001 - each file has a reader with errors of its own
            raise ScannerUnfit(f"the names model cannot be loaded: {type(exc).__name__}") from None
        if missed:
            raise ScannerUnfit(f"the names model gets its samples wrong: {', '.join(missed)}")
        self._reader = reader
        self._thread = ReaderThread(reader.read_windows, self._max_waiting)

    async def find(
        self,
        texts: Sequence[str],
        budget_s: float,
        lone: Sequence[bool] | None = None,
        enough: Enough | None = None,
    ) -> Answer:
        if self._thread is None or self._reader is None:
            raise ScanFailed("names are not started, or closed")
        started_s = ambient.monotonic_s()
        gated = await self._gated(self._reader, texts, budget_s, lone, enough)
        if any(one.foreign for one in gated):
            raise UnmeasuredLanguage
        if not any(one.windows for one in gated):
            return [[] for _ in texts]
        return await self._thread.find(gated, budget_s - (ambient.monotonic_s() - started_s))

    async def _gated(
        self,
        reader: NamesReader,
        texts: Sequence[str],
        budget_s: float,
        lone: Sequence[bool] | None,
        enough: Enough | None,
    ) -> list[GatedText]:
        if sum(map(len, texts)) <= _AT_ONCE:
            return reader.filter(texts, lone, enough)
        try:
            async with asyncio.timeout(budget_s):
                return await asyncio.to_thread(reader.filter, texts, lone, enough)
        except TimeoutError:
            raise ScanLate("names were not found in time") from None

    async def aclose(self) -> None:
        thread, self._thread = self._thread, None
        self._reader = None
        if thread is not None:
            await asyncio.to_thread(thread.end)


Read = Callable[[Sequence[Any], Callable[[], None]], "list[list[Finding] | UnmeasuredLanguage]"]
"""Texts, or what the gate says of them: whatever has a length in characters to read."""


class ReaderThread:
    """Reads what waits until it is told to end. Whatever ends it, nobody waits for it in vain."""

    def __init__(self, read: Read, max_waiting: int) -> None:
        self._read_texts = read
        self._max_waiting = max_waiting
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._short: deque[_Job] = deque()
        self._long: deque[_Job] = deque()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="names", daemon=True)
        self._thread.start()

    async def find(self, texts: Sequence[Sized], budget_s: float) -> Answer:
        if not budget_s > 0:  # NaN neither
            raise ScanLate("no time is left to look for names")
        budget_s = min(budget_s, MAX_BUDGET_S)
        loop = asyncio.get_running_loop()
        until_s = ambient.monotonic_s() + budget_s
        job = _Job(texts, until_s, loop.create_future(), sum(map(len, texts)))
        self._put(job)
        try:
            async with asyncio.timeout(budget_s):
                return await job.answer
        except TimeoutError:
            raise ScanLate("names were not found in time") from None
        finally:
            # guard: A10.failed-scan
            del job  # its answer keeps what it raises, whose traceback has this frame

    def end(self) -> None:
        """Whoever waits is told that there is no scan."""
        self._ended.set()
        self._jobs.put(None)
        self._thread.join(END_S)
        if self._thread.is_alive():
            log.warning("the names model hangs; its thread ends with the process")
        self._refuse_waiting()

    def _put(self, job: _Job) -> None:
        # Also those whose callers have left: they hold their texts until it is their turn.
        if self._jobs.qsize() + len(self._short) + len(self._long) >= self._max_waiting:
            raise ScannersBusy("too many calls wait for their names")
        self._jobs.put(job)
        if self._ended.is_set():  # nobody may read it any more
            self._refuse_waiting()

    def _refuse_waiting(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                if (job := self._jobs.get_nowait()) is not None:
                    job.resolve(ScanFailed(_CLOSED))
        self._jobs.put(None)  # whom this one was to wake, another wakes

    # in the thread

    def _work(self) -> None:
        try:
            while not self._ended.is_set():
                self._take(wait=not (self._short or self._long))
                self._read_short()
                if self._long:
                    job = self._long.popleft()
                    self._read([job], between=self._read_waiting)
        finally:
            if not self._ended.is_set():
                log.error("the thread that reads names has died; calls that need it are restricted")
            self._ended.set()
            for job in (*self._short, *self._long):
                job.resolve(ScanFailed(_CLOSED))
            self._refuse_waiting()

    def _take(self, *, wait: bool) -> None:
        with contextlib.suppress(queue.Empty):
            job = self._jobs.get(block=wait)
            while job is not None:
                (self._long if job.size > _LONG else self._short).append(job)
                job = self._jobs.get_nowait()

    def _read_waiting(self) -> None:
        self._take(wait=False)
        self._read_short()

    def _read_short(self) -> None:
        """One go, so that a long text gets its turn."""
        jobs: list[_Job] = []
        room = _LONG
        while self._short and len(jobs) < _TOGETHER and room >= 0:
            jobs.append(self._short.popleft())
            room -= jobs[-1].size
        self._read(jobs)

    def _read(self, jobs: Sequence[_Job], between: Callable[[], None] = lambda: None) -> None:
        jobs = [job for job in jobs if not job.late]
        if not jobs:
            return

        def go_on() -> None:
            if self._ended.is_set():
                raise ScanFailed
            if all(job.late for job in jobs):
                raise ScanLate
            between()

        try:
            readings = iter(self._read_texts([text for job in jobs for text in job.texts], go_on))
            answers = [[next(readings) for _ in job.texts] for job in jobs]
        except BaseException as exc:  # noqa: BLE001 - restricts; its text and frames may be content
            failure = type(exc) if isinstance(exc, NoScan) else ScanFailed
            for job in jobs:
                job.resolve(failure("names cannot be looked for"))
            return
        for job, mine in zip(jobs, answers, strict=True):
            unread = any(isinstance(m, NoScan) for m in mine)
            job.resolve(
                UnmeasuredLanguage()
                if unread
                else [m for m in mine if not isinstance(m, UnmeasuredLanguage)]
            )
