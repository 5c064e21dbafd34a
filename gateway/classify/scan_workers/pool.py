"""Scan workers and who uses which. One scan at a time per worker; nothing here blocks the loop.

A scan is owned by the pool, not by the call that asked for it: when the caller leaves, the scan
runs on to its own end and the worker goes back, so early leavers cannot wear workers out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import orjson

from gateway.classify import Restricting, ScanFailed, ScanLate, ScannersBusy, ScannerUnfit, TooMany
from gateway.classify.scan_workers import frames
from gateway.classify.scan_workers.process import WorkerProcess, started
from gateway.core import ambient
from gateway.core.types import Finding

log = logging.getLogger(__name__)
T = TypeVar("T")

START_S = 60.0  # to import Presidio, build it and pass the canaries; 2 to 3 s on an idle core
LONG = 65_536
"""Characters that are read within `classify.budget_ms`."""
MAX_BUDGET_S = 30.0  # far below the limit at which Presidio skips a regex in silence
_BACKOFF_S = (0.2, 1.0, 5.0, 30.0)  # between attempts to replace a worker


class _GaveUp(Exception):
    """The worker stopped by itself at its soft limit and is ready for the next scan."""


_LATE = orjson.dumps({"late": True})


class ScanWorker(WorkerProcess):
    """One worker process, as seen from the gateway."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        super().__init__(process)
        self.needs: Any = None  # what its scanner looks for, in its own words

    @classmethod
    async def start(cls, spec: frames.WorkerSpec) -> ScanWorker:
        """Raises ScannerUnfit when the scanner cannot be built or fails its canaries."""
        worker = cls(await started(spec.factory))
        try:
            async with asyncio.timeout(START_S):
                worker.needs = _check_ready(await worker.ask(spec.pack()))
        except TimeoutError:
            await worker.kill()
            raise ScannerUnfit(f"the scanner was not ready within {START_S:.0f} s") from None
        except BaseException:
            await worker.kill()
            raise
        return worker

    async def scan(
        self, texts: Sequence[str], budget_s: float, restricts: Restricting | None = None
    ) -> list[list[Finding]]:
        """Raises ScanFailed, or _GaveUp when the worker itself ran out of time."""
        stops = None if restricts is None else [sorted(restricts[0]), restricts[1]]
        job = {"texts": texts, "budget_s": budget_s, "restricts": stops}
        body = await self.ask(frames.pack(job))
        if body == _LATE:
            raise _GaveUp
        return frames.unpack_findings(body, texts)


class ScanPool:
    """A fixed number of workers and a bounded number of calls that wait for them."""

    def __init__(
        self,
        spec: frames.WorkerSpec,
        workers: int = 1,
        max_waiting: int = 256,
        on_replaced: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_replaced`: told of each worker that was killed or found dead, for the metrics."""
        self._spec = spec
        self._on_replaced = on_replaced
        self._size = workers
        self._max_waiting = max_waiting
        self._waiting = 0
        self._closed = False
        self._idle: asyncio.Queue[ScanWorker] = asyncio.Queue()
        self._workers: set[ScanWorker] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.needs: Any = None  # what the scanner says that it looks for; None until it has
        self.replaced = 0

    async def start(self) -> None:
        """All workers ready, or ScannerUnfit and none left running."""
        started = await asyncio.gather(
            *(ScanWorker.start(self._spec) for _ in range(self._size)), return_exceptions=True
        )
        for worker in started:
            if isinstance(worker, ScanWorker):
                self.needs = worker.needs
                self._admit(worker)
        for failure in started:
            if isinstance(failure, BaseException):
                await self.aclose()
                raise failure

    def grow(self, more: int) -> None:
        """More workers, in the background; each scans once it has passed its samples."""
        for _ in range(more):
            self._own(self._start_another())

    async def scan(
        self, texts: Sequence[str], budget_s: float, restricts: Restricting | None = None
    ) -> list[list[Finding]]:
        """Findings per text within the budget, queueing included; else a NoScan."""
        if self._closed:
            raise ScanFailed("the pool is closed")
        if self._waiting >= self._max_waiting:
            raise ScannersBusy("too many calls wait for a scan")
        if self._size == 1 and sum(map(len, texts)) > LONG:
            self._size = 2  # or all others would wait for it, and for each one after it
            self.grow(1)
        ends_s = ambient.loop_s() + min(budget_s, MAX_BUDGET_S)
        worker = await self._next_worker(ends_s)
        return await asyncio.shield(self._own(self._run(worker, texts, ends_s, restricts)))

    async def aclose(self) -> None:
        self._closed = True
        for task in (tasks := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for worker in list(self._workers):
            self._workers.discard(worker)
            await worker.kill()

    async def _next_worker(self, ends_s: float) -> ScanWorker:
        self._waiting += 1
        try:
            async with asyncio.timeout_at(ends_s):
                while not (worker := await self._idle.get()).alive:
                    self._replace(worker)
                return worker
        except TimeoutError:
            raise ScanLate("no worker was free in time") from None
        finally:
            self._waiting -= 1

    async def _run(
        self, worker: ScanWorker, texts: Sequence[str], ends_s: float, restricts: Restricting | None
    ) -> list[list[Finding]]:
        """One scan. The worker goes back only when it is known to wait for the next one."""
        fit = False
        try:
            async with asyncio.timeout_at(ends_s):
                budget_s = ends_s - ambient.loop_s()
                findings = await worker.scan(texts, budget_s, restricts)
            fit = True
            return findings
        except TooMany:
            fit = True
            raise
        except _GaveUp:
            fit = True
            raise ScanLate("the scan took too long") from None
        except TimeoutError:
            raise ScanLate("the scan took too long") from None
        finally:
            if fit:
                self._idle.put_nowait(worker)
            else:
                self._replace(worker)

    def _replace(self, worker: ScanWorker) -> None:
        self.replaced += 1
        self._on_replaced()
        if not self._closed:  # else aclose ends it, and nobody waits for a new one
            self._own(self._start_instead(worker))

    async def _start_instead(self, dead: ScanWorker) -> None:
        await dead.kill()
        self._workers.discard(dead)
        await self._start_another()

    async def _start_another(self) -> None:
        attempt = 0
        while not self._closed:
            try:
                worker = await ScanWorker.start(self._spec)
            except Exception as exc:  # noqa: BLE001 - given up, nothing would be scanned any more
                failed = str(exc) or type(exc).__name__
            else:
                self._admit(worker)
                return
            wait_s = _BACKOFF_S[min(attempt, len(_BACKOFF_S) - 1)]
            log.warning("no new scan worker (%s); next attempt in %g s", failed, wait_s)
            attempt += 1
            await asyncio.sleep(wait_s)

    def _admit(self, worker: ScanWorker) -> None:
        self._workers.add(worker)
        self._idle.put_nowait(worker)

    def _own(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task that `aclose` ends and whose failure is always looked at."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._disown)
        return task

    def _disown(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a caller that left does not ask for it


def _check_ready(body: bytes) -> Any:
    try:
        frame = orjson.loads(body)
    except orjson.JSONDecodeError:
        frame = None
    if not isinstance(frame, dict):
        raise ScannerUnfit("the scanner's first answer is nonsense")
    if "error" in frame:
        raise ScannerUnfit(f"the scanner cannot be built: {frame['error']}")
    if frame.get("ready") is not True:
        missed = ", ".join(map(str, frame.get("missed", ()))) or "nothing that it names"
        raise ScannerUnfit(f"the scanner fails its samples: {missed}")
    return frame.get("needs")
