"""The parent of the workers: starts them, starts again those that die, hands on what it is told.

It serves nobody. It has what must be there once: the ports, the embedded servers, the memory that
the workers share. Ports are held by a socket that never listens, so that no other process takes one
between two workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from gateway.accounting.ledger.database import LedgerError
from gateway.accounting.ledger.opening import opened
from gateway.cluster.workers import OWNER, WorkerPlace
from gateway.cluster.workers.embedded import pack_server
from gateway.cluster.workers.frames import Frames, Words
from gateway.cluster.workers.memory import Memory, Unshared
from gateway.cluster.workers.slots import Slots
from gateway.cluster.workers.worker import shared_bytes
from gateway.config import ConfigError, Settings
from gateway.core import ambient
from gateway.endpoints.triton.supervisor import Progress, TritonSupervisor
from gateway.models.registry.fallback import VersionFallback
from gateway.protocols.listeners import bound, refuse_key_logging

log = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 30.0
_WELL_S = 60.0  # up for so long: the next pause is the first one again
_POLL_S = 0.5
_SILENT_S = 20.0  # a worker that says nothing for so long is ended
_LATE_S = 2.0  # a look that comes so late says that this process was stopped, and not its workers
_AFTER_DRAIN_S = 15.0
_ALIKE_S = 15.0  # from the first to the last worker that takes other settings
_RUN = "import sys; sys.path[:] = {path!r}; from gateway.__main__ import main; sys.exit(main())"
ENDED_BADLY = 1


class Parent:
    def __init__(
        self,
        settings: Settings,
        arguments: Sequence[str],
        progress: Progress,
        ready: Callable[[Parent], None],
    ) -> None:
        """`arguments`: of `spillway`, for a worker; `ready` is called when all workers serve."""
        self.settings = settings
        self.count = settings.listen.worker_count
        self._arguments, self._progress, self._ready = arguments, progress, ready
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._keeper = TritonSupervisor(
            settings,
            ambient.monotonic_s,
            progress,
            self._spawn,
            self._server_restarted,
            VersionFallback,
        )
        self._answers: dict[int, dict[str, int]] = {}
        self._workers: dict[int, _Worker] = {}
        self.http_port = self.grpc_port = 0
        self._alike_s, self._reported_differing = ambient.monotonic_s(), False

    @property
    def pids(self) -> list[int]:
        return [w.process.pid for w in self._workers.values() if w.process is not None]

    def stop(self) -> None:
        self._stop.set()

    def reload(self) -> None:
        for worker in self._workers.values():
            worker.reload()

    async def run(self) -> int:
        """The exit status. Raises ConfigError or TritonServerError when nothing can be started."""
        refuse_key_logging()
        check_shared(self.settings)
        async with contextlib.AsyncExitStack() as stack:
            self._take_ports(stack)
            self._memory = self._shared(stack)
            home = tempfile.mkdtemp(prefix="spillway-")  # only its owner can enter
            stack.callback(shutil.rmtree, home, ignore_errors=True)
            stack.callback(self._end_tasks)
            await self._keeper.start(stack)
            self._keeper.moved = lambda name: self.broadcast(self.embedded())
            self._keeper.heard = lambda name: sum(a.get(name, 0) for a in self._answers.values())
            self._restarters = {name: self._keeper.restarter(name) for name in self._keeper.servers}
            for number in range(1, self.count + 1):
                self._workers[number] = _Worker(self, number, self._place(number, home))
            status = await self._serve()
        return status

    async def _serve(self) -> int:
        """Until it is told to stop, or the first start fails."""
        running = [asyncio.create_task(self._keep_all(), name="workers")]
        running.append(asyncio.create_task(self._supervise(), name="looking"))
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait((*running, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*running, stopping):
                task.cancel()
            await asyncio.gather(*running, stopping, return_exceptions=True)
        failed = [w.failed for w in self._workers.values() if w.failed is not None]
        ended = await asyncio.gather(*(w.end() for w in self._workers.values()))
        if failed:
            return failed[0]
        return ENDED_BADLY if any(ended) else 0

    async def _keep_all(self) -> None:
        """The owner first: what is wrong with the settings is said once. Returns when one of them
        cannot be started at all."""
        first = self._workers[OWNER]
        self._progress(f"starting worker 1 of {self.count}")
        if not await first.begin():
            return
        others = [w for w in self._workers.values() if w is not first]
        self._progress(f"starting {self.count} workers")
        if not all(await asyncio.gather(*(w.begin() for w in others))):
            return
        log.info("%d workers serve", self.count)
        self._ready(self)
        await asyncio.gather(*(w.keep() for w in self._workers.values()))

    async def _supervise(self) -> None:
        before_s = ambient.monotonic_s()
        while True:
            await asyncio.sleep(_POLL_S)
            now_s = ambient.monotonic_s()
            late, before_s = now_s - before_s - _POLL_S >= _LATE_S, now_s
            for worker in self._workers.values():
                worker.check(now_s, late)
            self.broadcast(self.embedded())
            self._compare(now_s)

    # What workers say

    def heard(self, number: int, words: Words) -> None:
        if "beat" in words:
            self._answers[number] = words["beat"]
        elif "restart" in words:
            restart = self._restarters.get(words["restart"])
            if restart is not None:
                restart(str(words["model"]), str(words["reason"]))

    def _compare(self, now_s: float) -> None:
        """Each reads the file by itself, and one may refuse what the others take."""
        if len({w.policy for w in self._workers.values() if w.policy}) <= 1:
            self._alike_s, self._reported_differing = now_s, False
        elif not self._reported_differing and now_s - self._alike_s >= _ALIKE_S:
            self._reported_differing = True
            log.error("the workers serve by different settings: SIGHUP makes them read the "
                      "file again; the log says what one of them did not take")  # fmt: skip

    def embedded(self) -> Words:
        return {"embedded": {n: pack_server(s) for n, s in self._keeper.servers.items()}}

    def broadcast(self, words: Words) -> None:
        for worker in self._workers.values():
            worker.send(words)

    def _server_restarted(self) -> None:
        self._workers[OWNER].send({"restarted": True})

    def died(self, number: int) -> None:
        """Nothing of it is inside any more."""
        self._answers.pop(number, None)
        self._memory.count_restart()
        slots = Slots(self._memory, self._memory.begins, self.count)
        while True:
            try:
                with self._memory:
                    slots.forget(number)
                return
            except Unshared:
                log.warning("the memory of the workers is held by one that has stopped")

    # What is there once

    def _take_ports(self, stack: contextlib.AsyncExitStack) -> None:
        listen = self.settings.listen
        taken = []
        for key, port in (("http_port", listen.http_port), ("grpc_port", listen.grpc_port)):
            if port:  # another gateway's workers would share it with ours, and nobody would know
                bound(listen.host, port, f"listen.{key}").close()
            held = bound(listen.host, port, f"listen.{key}", shared=True)
            stack.callback(held.close)
            taken.append(int(held.getsockname()[1]))
        self.http_port, self.grpc_port = taken

    def _shared(self, stack: contextlib.AsyncExitStack) -> Memory:
        try:
            memory = Memory.new(shared_bytes(self.settings, self.count))
        except (OSError, AttributeError):
            raise ConfigError(
                "listen.workers: this system has no memory that processes share (memfd_create), "
                "so limits could not hold over several workers; set it to 1"
            ) from None
        stack.callback(memory.close)
        return memory

    def _place(self, number: int, home: str) -> WorkerPlace:
        return WorkerPlace(
            number, self.count, self._memory.fd, -1, home, self.http_port, self.grpc_port
        )

    def command(self, place: WorkerPlace) -> list[str]:
        run = _RUN.format(path=sys.path)
        worker = ["--worker", json.dumps(place.words())]
        return [sys.executable, "-c", run, *self._arguments, *worker]

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()


class _Worker:
    """One place among the workers, and the process that fills it now."""

    def __init__(self, parent: Parent, number: int, place: WorkerPlace) -> None:
        self._parent, self._number, self._place = parent, number, place
        self.process: asyncio.subprocess.Process | None = None
        self.failed: int | None = None  # the status of a first start that did not succeed
        self.policy = ""  # by which it serves
        self._frames: Frames | None = None
        self._serves = asyncio.Event()
        self._beat_s = 0.0
        self._pause_s = 0.0
        self._ending = False
        self._reload = False

    async def begin(self) -> bool:
        """Whether it serves."""
        process = await self._start()
        ended = asyncio.create_task(process.wait())
        serves = asyncio.create_task(self._serves.wait())
        try:
            await asyncio.wait((ended, serves), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (ended, serves):
                task.cancel()
        if not self._serves.is_set():
            self.failed = process.returncode or ENDED_BADLY
            if self.failed < 0:
                log.error("worker %d was ended by signal %d as it started", self._number,
                          -self.failed)  # fmt: skip
                self.failed = ENDED_BADLY
        return self._serves.is_set()

    async def keep(self) -> None:
        """Starts another one whenever one ends."""
        assert self.process is not None
        since_s = ambient.monotonic_s()
        while True:
            status = await self.process.wait()
            self._serves.clear()
            if self._ending:
                return
            now_s = ambient.monotonic_s()
            well = now_s - since_s >= _WELL_S
            self._pause_s = (
                _FIRST_PAUSE_S if well or not self._pause_s
                else min(2 * self._pause_s, _LONGEST_PAUSE_S)
            )  # fmt: skip
            log.error(
                "worker %d ended (%s); another one starts in %g s", self._number,
                f"signal {-status}" if status < 0 else f"status {status}", self._pause_s,
            )  # fmt: skip
            self._parent.died(self._number)
            await asyncio.sleep(self._pause_s)
            since_s = ambient.monotonic_s()
            await self._start()

    async def _start(self) -> asyncio.subprocess.Process:
        ours, its = socket.socketpair()
        ours.setblocking(False)
        self._frames = frames = Frames(self._heard, lambda frames: None)
        self._serves.clear()
        self._reload = False
        self._beat_s = float("inf")  # it says nothing before it serves
        self.policy = ""
        place = WorkerPlace(**{**self._place.words(), "control": its.fileno()})
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: frames, sock=ours)
            self.process = await asyncio.create_subprocess_exec(
                *self._parent.command(place),
                stdin=subprocess.DEVNULL,
                pass_fds=(its.fileno(), place.memory),
            )
        finally:
            its.close()
        self.send(self._parent.embedded())
        return self.process

    async def end(self) -> bool:
        """Lets it finish its calls. Whether it ended otherwise than it should."""
        self._ending = True
        process = self.process
        if process is None:
            return False
        before = process.returncode
        if before is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(self._parent.settings.limits.drain_s + _AFTER_DRAIN_S):
                status = await process.wait()
        except TimeoutError:
            log.error("worker %d does not stop; it is ended", self._number)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            status = await process.wait()
        if self._frames is not None:
            self._frames.close()
        return before is None and status != 0

    def reload(self) -> None:
        """One that starts has read the file before or after it changed: it is told when it can
        hear it."""
        if self.process is None or self.process.returncode is not None:
            return
        if self._serves.is_set():
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGHUP)
        else:
            self._reload = True

    def check(self, now_s: float, late: bool) -> None:
        if late:
            self._beat_s = max(self._beat_s, now_s)
        process = self.process
        if process is None or process.returncode is not None or now_s - self._beat_s < _SILENT_S:
            return
        log.error("worker %d says nothing any more; it is ended", self._number)
        self._beat_s = float("inf")
        with contextlib.suppress(ProcessLookupError):
            process.kill()

    def send(self, words: Words) -> None:
        if self._frames is not None:
            with contextlib.suppress(ConnectionError):  # it has died, which is seen to
                self._frames.send(words)

    def _heard(self, frames: Frames, words: Words) -> None:
        if frames is not self._frames:
            return
        if "ready" in words:
            self._beat_s = ambient.monotonic_s()
            self._serves.set()
            log.info("worker %d serves (process %d)", self._number, words["ready"])
            if self._reload:
                self.reload()
            return
        if "beat" in words:
            self._beat_s = ambient.monotonic_s()
        if "policy" in words:
            self.policy = words["policy"]
        self._parent.heard(self._number, words)


def check_shared(settings: Settings) -> None:
    """What is spent must be known to all workers. Raises ConfigError."""
    dsn = settings.ledger.postgres
    try:
        store = opened(
            settings.ledger_path, dsn.get_secret_value() if dsn else None, ambient.wall_s
        )
    except LedgerError as exc:
        raise ConfigError(f"ledger: {exc}") from None
    try:
        if settings.has_budgets and not store.shared:  # guard: O5.unshared-budgets
            raise ConfigError(
                f"ledger: {settings.ledger_path} is on a file system that processes cannot share "
                "(no write-ahead log), and budgets are set: put it on a disk of this machine, "
                "use ledger.postgres, or set listen.workers to 1"
            )
    finally:
        store.close()
