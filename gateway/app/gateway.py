"""The composition root: settings become objects here, and nowhere else are concrete classes named.

`Gateway.run` is the whole life of the process: start what is on-prem, listen, drain, stop. What a
version of the settings makes is a `Core`; the one that new calls come to is one reference, which
the listeners read once for each call, and a reload changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any

from gateway import __version__
from gateway.accounting import otlp
from gateway.accounting.audit import AuditError, alias_key
from gateway.accounting.audit.actions import Actions, ActionWatch
from gateway.accounting.ledger.database import LedgerDown, LedgerError
from gateway.accounting.ledger.ledger import Ledger, LedgerThread
from gateway.accounting.ledger.opening import opened
from gateway.accounting.ledger.reading import LedgerReader
from gateway.accounting.ledger.store import LedgerStore
from gateway.accounting.ledger_watch import LedgerWatch
from gateway.accounting.live import shares
from gateway.accounting.live.decisions import Decisions, WatchedLog
from gateway.accounting.live.explanation import explanation
from gateway.accounting.live.feed import Feed
from gateway.accounting.metrics import Metrics
from gateway.accounting.pricing import usd
from gateway.accounting.records import RecordUnwritable
from gateway.app.endpoint_set import ProcessServices
from gateway.app.factories import audit_writer, spill_control
from gateway.app.generation import Core, SharedResources
from gateway.app.reload import Reloading, SettingsFile
from gateway.auth.key_store import KeyReader
from gateway.config import ConfigError, Settings
from gateway.core import ambient, compiled
from gateway.core.aliases import Aliases
from gateway.core.errors import Draining
from gateway.core.held_bytes import HeldBytes
from gateway.core.types import Quota
from gateway.endpoints.triton.supervisor import Progress, SupervisorPort, TritonSupervisor
from gateway.endpoints.versions.parts import EndpointParts
from gateway.pipeline.admission import Admission
from gateway.pipeline.rate_limits import RateLimits
from gateway.protocols.http.server import HttpServer
from gateway.protocols.listeners import bound, listener_files, refuse_key_logging
from gateway.protocols.tls import listening
from gateway.server import ops, status
from gateway.server.console import page
from gateway.server.console.front import ConsoleFront
from gateway.server.console.operators import Operators
from gateway.server.console.picture import ConsoleSources, Picture, ignore_drained
from gateway.server.console.spend import BudgetSpend, LedgerSpend, Spend
from gateway.server.grpc.front import GrpcFront
from gateway.server.http import App, Front
from gateway.server.kserve import front as kserve
from gateway.server.openai import front as openai

if TYPE_CHECKING:
    from gateway.accounting.otlp.collector import OtlpExporter
    from gateway.cluster.workers.siblings import SiblingWorker
    from gateway.cluster.workers.worker import Worker

log = logging.getLogger(__name__)

_UNWIND_S = 2.0  # for calls that are cut to end with their reason
_LARGEST_HELD = 4  # bodies, and answers, at least: two of them by one caller
_MOST_BEHIND = 8  # versions of the settings that calls are still under; over it the oldest are cut


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
        self._file = file
        self._clock = ambient.clock()
        self.metrics = Metrics()
        self._tasks: set[asyncio.Task[None]] = set()
        self._store: LedgerStore | None = None  # without one nothing is kept of what calls cost
        self._ledger: Ledger | None = None
        self.http_port = 0
        self.grpc_port = 0
        self._stop = asyncio.Event()
        restarted = self.metrics.triton_restarts.inc
        self._keeper: SupervisorPort = (
            TritonSupervisor(settings, self._clock, progress, self._spawn, restarted)
            if worker is None
            else worker.keeper
        )
        self._siblings = None if worker is None else self._join_siblings(worker)
        self._cores: list[Core] = []  # that live, the newest last
        self.retired: Callable[[], object] = _nothing  # called when one of them is gone
        self._grpc: GrpcFront | None = None
        self._http: HttpServer | None = None
        self.reloading = None if file is None else Reloading(
            file, lambda: self.settings, self.apply, self.metrics
        )  # fmt: skip
        self._loaded_s = ambient.wall_s()
        self._process_id = ambient.random_hex(8)  # what it is told apart by when started again

    # Building

    def _join_siblings(self, worker: Worker) -> SiblingWorker:
        from gateway.cluster.workers.siblings import SiblingWorker  # most gateways are one process

        return SiblingWorker(self, worker, self.metrics)

    def _compose(self, aliases: Aliases) -> None:
        settings = self.settings
        self.spill = spill_control(settings, self._clock)
        self._ledger = self._new_ledger()
        worker = self._worker
        self.audit = (
            audit_writer(settings.audit, self.metrics)
            if worker is None
            else audit_writer(settings.audit, self.metrics, worker.place.number, worker.place.count)
        )
        self.actions = Actions(self.audit)
        decisions = Decisions(self._clock, settings.console.tail)
        log = WatchedLog(self.audit, decisions) if settings.console.enabled else self.audit
        self.admission = Admission(settings.limits) if worker is None else worker.admission()
        self.collector = self._collector()
        services = ProcessServices(
            self._keeper,
            self.spill,
            self.metrics,
            self._clock,
            self._scheduler_failed,
            self.audit,
            self._scheduler_resumed,
        )
        limits = settings.limits
        self.held_bytes = HeldBytes(
            max(limits.max_held_bytes, _LARGEST_HELD * limits.max_body_bytes)
        )
        self.held_answers = HeldBytes(
            max(limits.max_held_answer_bytes, _LARGEST_HELD * limits.max_answer_bytes)
        )
        self._process = SharedResources(
            services,
            self.admission,
            RateLimits(self._clock, self._limit_refused)
            if worker is None
            else worker.limits(self._limit_refused),
            log,
            self._ledger,
            lambda: not self.audit.failing,
            None if self.collector is None else self.collector.take,
            aliases,
            self.held_bytes,
            self.held_answers,
            None if worker is None else worker.marks,
            None if self._siblings is None else self._siblings.queues,
        )
        self._cores.append(core := Core(settings, self._process))
        self.sight = self._sight(core, decisions)
        self._picture = Picture(self.sight)
        self.feed = Feed(
            decisions, self._picture, shares=self.sight.shares, worker=self.sight.worker
        )

    @property
    def core(self) -> Core:
        """What new calls come to."""
        return self._cores[-1]

    def _scheduler_failed(self, exc: Exception) -> None:
        self.metrics.scheduler_failures.inc()
        log.error("a queue's scheduler failed; a simple rule goes on in its place", exc_info=exc)

    def _scheduler_resumed(self) -> None:
        log.warning("a queue's scheduler decides again in the place of the simple rule")

    def _limit_refused(self, quota: Quota, what: str) -> None:
        self.metrics.limit_refusals.labels(quota.tenant, quota.kind, what).inc()

    def _sight(self, core: Core, decisions: Decisions) -> ConsoleSources:
        budgets = self.spill.budgets
        spend: Spend = BudgetSpend(budgets)
        if self._ledger is not None:
            spend = LedgerSpend(
                budgets,
                lambda: LedgerReader.from_settings(self.settings).saved_today(),
                self._spawn,
                self._clock,
            )
        return ConsoleSources(
            registry=core.site.parts.registry,
            queues=core.site.parts.queues,
            catalog=core.site.catalog,
            admission=self.admission,
            calls=self._calls,
            decisions=decisions,
            stop=lambda: self.spill.stop,
            spend=spend,
            max_waiting=self.settings.queue.max_waiting,
            default_budget_s=self.settings.limits.default_latency_budget_ms / 1000,
            policy=lambda: self.core.policy,
            version=__version__,
            clock=self._clock,
            announce_drained=ignore_drained
            if self._siblings is None
            else self._siblings.announce_drained,
            worker=1 if self._worker is None else self._worker.place.number,
            shares=shares.alone() if self._siblings is None else self._siblings.shares(),
            decides=self._speaks,
        )

    def _collector(self) -> OtlpExporter | None:
        if self.settings.telemetry.otlp_url is None:
            return None
        try:  # an extra: most gateways are scraped, and trace nothing
            from gateway.accounting.otlp.collector import OtlpExporter
        except ModuleNotFoundError as exc:
            raise ConfigError(
                f"telemetry.otlp_url: needs the package {exc.name}; install {otlp.EXTRA}"
            ) from None
        return OtlpExporter(self.settings.telemetry, self.metrics)

    def http_app(self, core: Core) -> App:
        services, settings = core.services, core.settings
        operators = Operators(
            settings.console.operators, not settings.anybody, core.callers.issued_ids
        )
        operator = ops.OpsFront(
            services,
            self.render_metrics,
            self.status,
            core.pipeline.explain,
            None if self._store is None else LedgerReader.from_settings(settings).document,
            operators.knows,
            self._siblings,
        )
        return App(
            services,
            [
                openai.front(services),
                kserve.front(services),
                *self._console_front(settings, operators),
                operator.front(),
            ],
        )

    def _console_front(self, settings: Settings, operators: Operators) -> list[Front]:
        if not settings.console.enabled:
            return []
        return [
            ConsoleFront(
                self.sight,
                self.feed,
                operators,
                settings.limits,
                self.metrics,
                page.files(),
                self.actions,
            ).front()
        ]

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
            self._open_ledger(stack)
            await self._keeper.start(stack)
            self._compose(alias_key.aliases(self.settings.audit.directory))
            core = self.core
            self._keeper.moved = lambda name: self._spawn(self.core.site.watch.probe(name))
            self._keeper.heard = lambda name: self.core.site.states[name].heard
            self._open_audit()
            stack.push_async_callback(self.audit.aclose)
            await stack.enter_async_context(self._keeping_ledger())
            stack.push_async_callback(self._close_all)
            stack.push_async_callback(lambda: _ended(self._tasks))
            self._progress("starting the classifier")
            await core.start()
            if core.node is not None:
                stack.push_async_callback(core.node.aclose)
                await core.node.start(bound)
                await stack.enter_async_context(self._owned(core.node.run(), "cluster"))
            core.begin()
            if self._siblings is not None:
                await self._siblings.begin(stack)
            if self._speaks:  # what operators do is on record once
                await stack.enter_async_context(self._owned(self._noticed().run(), "actions"))
            if self.collector is not None:
                pushing = self.collector.run(self._refresh_gauges)
                await stack.enter_async_context(self._owned(pushing, "telemetry"))
            tls = listener_files(self.settings)
            http = HttpServer(self.http_app(core), None if tls is None else listening(tls))
            grpc = GrpcFront(
                core.services, listen.host, grpc_port, tls=tls, shared=worker is not None
            )
            self.grpc_port = await grpc.start()
            self.http_port = http_socket.getsockname()[1]
            self._http, self._grpc = http, grpc
            await http.start([http_socket])
            following = self.reloading
            reloads = contextlib.nullcontext() if following is None else self._owned(
                following.run(), "reloading"
            )  # fmt: skip
            async with reloads:
                on_ready(self)
                if self._siblings is not None:
                    self._siblings.serves()
                await self._stop.wait()
            await self._drain(http, grpc)

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

    # Other settings

    async def apply(self, settings: Settings) -> None:
        """Serve by these from now on; calls that are under way finish by those that they came to.
        Raises ConfigError or ScannerUnfit, and has changed nothing then."""
        core = Core(settings, self._process, self.core)
        try:
            await core.start()
            app = self.http_app(core)
        except BaseException:
            await core.close(self._cores)
            raise
        self._swap(core, app)

    def _swap(self, core: Core, app: App) -> None:
        """In one step: whatever call comes before it is under the old settings, and whatever comes
        after it under the new."""
        before = self.core
        core.begin()
        self._cores.append(core)
        self.settings = core.settings
        if self._siblings is not None:
            self._siblings.turned()
        self._loaded_s = ambient.wall_s()
        if self._http is not None and self._grpc is not None:
            self._http.serve(app)  # guard: O2.http-newest
            self._grpc.serve(core.services)
        parts = core.site.parts
        self.sight.registry, self.sight.queues = parts.registry, parts.queues
        self.sight.catalog = core.site.catalog
        self.sight.max_waiting = core.settings.queue.max_waiting
        self.sight.default_budget_s = core.settings.limits.default_latency_budget_ms / 1000
        status.forget(self.metrics)
        for oldest in self._cores[: -1 - _MOST_BEHIND]:
            oldest.pipeline.cut(_outlived)
        with contextlib.suppress(RecordUnwritable):  # it is counted; each call's record names them
            self.audit.append(
                {"kind": "settings", "time": round(ambient.wall_s(), 3), "policy": core.policy,
                 "before": before.policy}
            )  # fmt: skip
        self._spawn(self._retire(before))

    async def _retire(self, core: Core) -> None:
        """Close it once its calls have ended, which their deadlines see to."""
        await core.quiet()  # guard: O2.version-lifetime -> await asyncio.sleep(0)
        self._cores.remove(core)
        await core.close(self._cores)
        self.retired()

    async def _close_all(self) -> None:
        while self._cores:
            core = self._cores.pop()
            await core.close(self._cores)

    def _calls(self) -> int:
        return sum(core.accounts.open_calls for core in self._cores)

    def stop(self) -> None:
        self._stop.set()

    async def _drain(self, http: HttpServer, grpc: GrpcFront) -> None:
        """Stop accepting, let calls finish for `drain_s`, then end them with a reason (O7)."""
        drain_s = self.settings.limits.drain_s
        log.info("stopping: %d calls have %g s to finish", self.admission.inside, drain_s)
        self.admission.draining = True
        self.feed.close()
        node = self.core.node
        if node is not None:
            node.leave()
        http.stop()
        grpc_drain = asyncio.create_task(grpc.drain(drain_s + _UNWIND_S))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(drain_s):
                for core in tuple(self._cores):
                    await core.accounts.quiet()  # guard: O7.drain-grace
                if node is not None:
                    await node.owner.quiet()
        if calls := self._calls():
            log.warning("cutting %d calls that did not finish", calls)
            for core in tuple(self._cores):
                core.pipeline.cut()  # guard: O7.grace-bound
        await asyncio.gather(http.stopped(_UNWIND_S), grpc_drain)

    @contextlib.asynccontextmanager
    async def idle(self) -> AsyncIterator[None]:
        """Everything but servers and sockets, each endpoint taken to be up: for `explain`."""
        self._compose(Aliases(ambient.random_bytes(32)))
        try:
            await self.core.start(probe=False)
            self.core.site.parts.registry.assume_up()
            yield
        finally:
            await self._close_all()

    def _noticed(self) -> ActionWatch:
        store = self.settings.key_store
        reader = None if store is None else KeyReader(store)
        return ActionWatch(
            self.actions, lambda: self.spill.stop, reader, self.audit.journal.resumed_s
        )

    def _open_audit(self) -> None:
        try:
            self.audit.start(lambda: {"version": __version__, "policy": self.core.policy})
        except AuditError as exc:
            raise ConfigError(str(exc)) from None

    @contextlib.asynccontextmanager
    async def _owned(self, work: Any, name: str) -> AsyncIterator[None]:
        task = asyncio.create_task(work, name=name)
        try:
            yield
        finally:
            await _ended([task])

    # The ledger

    def _open_ledger(self, stack: contextlib.AsyncExitStack) -> None:
        settings, dsn = self.settings, self.settings.ledger.postgres
        try:
            self._store = opened(
                settings.ledger_path, dsn.get_secret_value() if dsn else None, ambient.wall_s
            )
        except LedgerError as exc:
            raise ConfigError(f"ledger: {exc}") from None
        stack.callback(self._store.close)

    def _new_ledger(self) -> Ledger | None:
        if self._store is None:
            return None
        budgets, settings = self.spill.budgets, self.settings
        ledger = Ledger(
            self._store, budgets.limits, budgets, LedgerWatch(self.metrics), self._clock,
            LedgerThread(), settings.limits.max_latency_budget_ms / 1000, settings.ledger.keep_days,
        )  # fmt: skip
        self.spill.leases = ledger.leases
        return ledger

    @contextlib.asynccontextmanager
    async def _keeping_ledger(self) -> AsyncIterator[None]:
        assert self._ledger is not None
        try:
            await self._ledger.start()
        except LedgerDown as down:
            raise ConfigError(f"ledger: {down}") from None
        try:
            async with self._owned(self._ledger.run(), "ledger"):
                yield
        finally:
            await self._ledger.aclose()

    # What runs beside

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # For the operator

    def _refresh_gauges(self) -> None:
        site, node = self.core.site, self.core.node
        status.publish(self.metrics, site.states, site.parts.queues)
        self.metrics.held_bytes.set(self.held_bytes.bytes)
        self.metrics.held_answer_bytes.set(self.held_answers.bytes)
        self.metrics.ready.set(self.core.services.inspection.ready())
        left = self.spill.budgets.left()
        self.metrics.spill_budget_left.set(math.inf if left is None else usd(left))
        if node is not None:
            node.publish()
        if self.core.shadows is not None:
            self.core.shadows.publish()
        if self._worker is not None and self._worker.owns:
            self.metrics.worker_restarts.set(self._worker.memory.restarts)

    def status(self) -> dict[str, Any]:
        core, last = self.core, None if self.reloading is None else self.reloading.last
        return {
            "version": __version__,
            "compiled": compiled.is_compiled(),
            "policy": core.policy,
            "settings": {
                "policy": core.policy,
                "loaded_at": round(self._loaded_s, 3),
                "still_in_use": [c.policy for c in self._cores[:-1]],
                "last_reload": None if last is None else last.document(),
            },
            "detector": core.classifier.version,
            "development_mode": core.callers.anybody,
            "draining": self.admission.draining,
            "ready": core.services.inspection.ready(),
            "onprem_up": core.site.parts.registry.onprem_up(),
            "calls_in_flight": self._calls(),
            "public_models": {
                name: model.public_reason
                for name, model in core.settings.models.items()
                if model.public
            },
            "endpoints": status.report(core.site.states),
            "queues": core.site.parts.queues.report(),
            "shadows": [] if core.shadows is None else core.shadows.report(),
            "models": sorted(core.site.catalog.names()),
            "cluster": None if core.node is None else core.node.report(),
            "workers": None,
        }

    def worker_status(self, number: int) -> dict[str, Any]:
        """What the others tell of this one in their status."""
        return {
            "worker": number,
            "process": os.getpid(),
            "policy": self.core.policy,
            "calls_in_flight": self._calls(),
            "draining": self.admission.draining,
            "drained": [n for n, state in self.core.site.states.items() if state.drained],
        }

    def console_part(self, question: dict[str, Any]) -> dict[str, Any]:
        """For the worker that serves the page."""
        sight = self.sight
        return shares.answer(
            question, self._process_id, sight.worker, sight.decisions, self._picture
        )

    def explained(self, seq: int) -> dict[str, Any] | None:
        decision = self.sight.decisions.find(seq)
        return None if decision is None else explanation(decision)

    def serving(self) -> tuple[EndpointParts, str]:
        return self.core.site.parts, self.core.policy

    def render_metrics(self, tenants: bool) -> bytes:
        self._refresh_gauges()
        return self.metrics.render(tenants)


async def _ended(tasks: Iterable[asyncio.Task[None]]) -> None:
    tasks = [*tasks]
    for running in tasks:
        running.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _outlived() -> Draining:
    return Draining(
        "the settings of this call have been replaced too often; call again", retry_after_s=1.0
    )


def _nothing() -> None:
    """Nobody asked to be told."""
