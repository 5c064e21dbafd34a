"""The composition root: settings become objects here, and nowhere else are concrete classes named.

`Gateway.run` is the whole life of the process: start what is on-prem, listen, drain, stop. What a
version of the settings makes is a `Core`; new calls come to the newest of `LiveGenerations`, which
a reload begins.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from gateway import __version__
from gateway.accounting.audit import AuditError, alias_key
from gateway.accounting.audit.actions import ActionWatch
from gateway.accounting.ledger.store import LedgerStore
from gateway.accounting.metrics import Metrics
from gateway.accounting.records import RecordUnwritable
from gateway.app import ledger
from gateway.app.console import ProcessConsole
from gateway.app.generation import Core
from gateway.app.generations import LiveGenerations
from gateway.app.listeners import Listeners
from gateway.app.process_parts import ProcessParts
from gateway.app.reload import LastReload, Reloading, SettingsFile
from gateway.app.reports import ProcessReports
from gateway.auth.key_store import KeyReader
from gateway.config import ConfigError, Settings
from gateway.core import ambient
from gateway.core.aliases import Aliases
from gateway.core.tasks import BackgroundTasks, running
from gateway.endpoints.triton.supervisor import Progress, SupervisorPort, TritonSupervisor
from gateway.models.registry.fallback import VersionFallback
from gateway.protocols.http.connection import App
from gateway.protocols.listeners import bound, refuse_key_logging
from gateway.server import status

if TYPE_CHECKING:
    from gateway.cluster.workers.siblings import SiblingWorker
    from gateway.cluster.workers.worker import Worker

log = logging.getLogger(__name__)


class Gateway:
    """Everything between the listening sockets and the endpoints, in one event loop."""

    def __init__(
        self,
        settings: Settings,
        progress: Progress = lambda line: None,
        file: SettingsFile | None = None,
        worker: Worker | None = None,
    ) -> None:
        """`file`: what the settings were read from; without it they stay as they are. `worker`:
        which of several this is, and what it has in common with them."""
        self._worker = worker
        self.settings = settings
        self._progress = progress
        self._clock = ambient.clock()
        self.metrics = Metrics()
        self.background = BackgroundTasks()
        self.generations = LiveGenerations()
        self.http_port = 0
        self.grpc_port = 0
        self._stop = asyncio.Event()
        restarted = self.metrics.triton_restarts.inc
        self._keeper: SupervisorPort = (
            TritonSupervisor(
                settings, self._clock, progress, self.background.spawn, restarted, VersionFallback
            )
            if worker is None
            else worker.keeper
        )
        self._siblings = None if worker is None else self._join_siblings(worker)
        self.reloading = None if file is None else Reloading(
            file, lambda: self.settings, self.apply, self.metrics
        )  # fmt: skip

    def _join_siblings(self, worker: Worker) -> SiblingWorker:
        from gateway.cluster.workers.siblings import SiblingWorker  # most gateways are one process

        return SiblingWorker(worker, self.metrics)

    def _compose(self, aliases: Aliases, store: LedgerStore | None = None) -> None:
        worker, siblings = self._worker, self._siblings
        self.parts = parts = ProcessParts(
            self.settings, self.metrics, self._clock, self._keeper, aliases, store, worker, siblings
        )
        self.generations.live.append(Core(self.settings, parts.shared))
        self._console = ProcessConsole(
            parts, self.generations, self.background, self._clock, worker, siblings
        )
        self.reports = ProcessReports(
            self.generations, parts, self._console, self._last_reload, worker
        )
        self._listeners = Listeners(self.reports, self._console, siblings)

    @property
    def core(self) -> Core:
        """What new calls come to."""
        return self.generations.newest

    def _last_reload(self) -> LastReload | None:
        return None if self.reloading is None else self.reloading.last

    # Running

    async def run(self, on_ready: Callable[[Gateway], None] = lambda gateway: None) -> None:
        """Serve until `stop`. Raises ConfigError or TritonServerError when it cannot start."""
        refuse_key_logging()
        self._refuse_to_be_alone()  # guard: O5.unshared-workers
        if self.settings.anybody and self._speaks:
            log.warning(
                "development mode: no keys are configured, so whoever reaches %s may call; "
                "add keys before you expose it", self.settings.listen.host,
            )  # fmt: skip
        async with contextlib.AsyncExitStack() as stack:
            listen, worker = self.settings.listen, self._worker
            http_port, grpc_port = listen.http_port, listen.grpc_port
            if worker is not None:
                http_port, grpc_port = worker.place.http_port, worker.place.grpc_port
                worker.stop = self.stop
                await worker.connect()
            http_socket = bound(listen.host, http_port, shared=worker is not None)
            stack.callback(http_socket.close)
            store = ledger.open_store(self.settings)
            stack.callback(store.close)
            await self._keeper.start(stack)
            self._compose(alias_key.aliases(self.settings.audit.directory), store)
            await self._start(stack)
            self.grpc_port = await self._listeners.start(self.core, http_socket, grpc_port)
            self.http_port = http_socket.getsockname()[1]
            following = self.reloading
            reloads = contextlib.nullcontext() if following is None else running(
                following.run(), "reloading"
            )  # fmt: skip
            async with reloads:
                on_ready(self)
                if self._siblings is not None:
                    self._siblings.serves()
                await self._stop.wait()
            await self._drain()

    async def _start(self, stack: contextlib.AsyncExitStack) -> None:
        """All that is composed, before any call comes."""
        core, parts = self.core, self.parts
        self._keeper.moved = lambda name: self.background.spawn(self.core.site.watch.probe(name))
        self._keeper.heard = lambda name: self.core.site.states[name].heard
        self._open_audit()
        stack.push_async_callback(parts.audit.aclose)
        assert parts.ledger is not None
        await stack.enter_async_context(ledger.written(parts.ledger))
        stack.push_async_callback(self.generations.close)
        stack.push_async_callback(self.background.aclose)
        self._progress("starting the classifier")
        await core.start()
        if core.node is not None:
            stack.push_async_callback(core.node.aclose)
            await core.node.start(bound)
            await stack.enter_async_context(running(core.node.run(), "cluster"))
        core.begin()
        if self._siblings is not None:
            await self._siblings.begin(self.reports, stack)
        if self._speaks:  # what operators do is on record once
            await stack.enter_async_context(running(self._action_watch().run(), "actions"))
        if parts.collector is not None:
            pushing = parts.collector.run(self.reports.refresh_gauges)
            await stack.enter_async_context(running(pushing, "telemetry"))

    @property
    def _speaks(self) -> bool:
        """Whether it says what all workers would: once is enough."""
        return self._worker is None or self._worker.owns

    def _refuse_to_be_alone(self) -> None:
        """Several processes that know nothing of each other would each have every limit."""
        if self._worker is None and self.settings.listen.worker_count > 1:
            raise ConfigError(
                "listen.workers: several workers need a parent, which has what they share, so "
                "that limits and budgets hold for all of them together: run `spillway serve`"
            )

    def _open_audit(self) -> None:
        try:
            self.parts.audit.start(lambda: {"version": __version__, "policy": self.core.policy})
        except AuditError as exc:
            raise ConfigError(str(exc)) from None

    def _action_watch(self) -> ActionWatch:
        store = self.settings.key_store
        reader = None if store is None else KeyReader(store)
        parts = self.parts
        return ActionWatch(
            parts.actions, lambda: parts.spill.stop, reader, parts.audit.journal.resumed_s
        )

    @contextlib.asynccontextmanager
    async def idle(self) -> AsyncIterator[None]:
        """Everything but servers and sockets, each endpoint taken to be up: for `explain`."""
        self._compose(Aliases(ambient.random_bytes(32)))
        try:
            await self.core.start(probe=False)
            self.core.site.parts.registry.assume_up()
            yield
        finally:
            await self.generations.close()

    # Other settings

    async def apply(self, settings: Settings) -> None:
        """Serve by these from now on; calls that are under way finish by those that they came to.
        Raises ConfigError or ScannerUnfit, and has changed nothing then."""
        core = Core(settings, self.parts.shared, self.core)
        try:
            await core.start()
            app = self._listeners.app(core)
        except BaseException:
            await core.close(self.generations.live)
            raise
        self._swap(core, app)

    def _swap(self, core: Core, app: App) -> None:
        """In one step: whatever call comes before it is under the old settings, and whatever comes
        after it under the new."""
        before = self.core
        self.generations.begin(core)
        self.settings = core.settings
        if self._siblings is not None:
            self._siblings.turned()
        self._listeners.serve(core, app)
        self._console.follow(core)
        self.parts.follow(core.settings)
        status.forget(self.metrics)
        self.generations.cut_oldest()
        with contextlib.suppress(RecordUnwritable):  # it is counted; each call's record names them
            self.parts.audit.append(
                {"kind": "settings", "time": round(ambient.wall_s(), 3), "policy": core.policy,
                 "before": before.policy}
            )  # fmt: skip
        self.background.spawn(self.generations.retire(before))

    # Stopping

    def stop(self) -> None:
        self._stop.set()

    async def _drain(self) -> None:
        """Stop accepting, let calls finish for `drain_s`, then end them with a reason (O7)."""
        drain_s, admission = self.settings.limits.drain_s, self.parts.admission
        log.info("stopping: %d calls have %g s to finish", admission.inside, drain_s)
        admission.draining = True
        self._console.feed.close()
        node, live = self.core.node, self.generations.live
        if node is not None:
            node.leave()
        stopping = self._listeners.stop(drain_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(drain_s):
                for core in tuple(live):
                    await core.accounts.quiet()  # guard: O7.drain-grace
                if node is not None:
                    await node.owner.quiet()
        if calls := self.generations.open_calls():
            log.warning("cutting %d calls that did not finish", calls)
            for core in tuple(live):
                core.pipeline.cut()  # guard: O7.grace-bound
        await self._listeners.stopped(stopping)
