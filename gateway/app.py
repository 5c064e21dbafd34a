"""The composition root: settings become objects here, and nowhere else are concrete classes named.

`Gateway.run` is the whole life of the process: start what is on-prem, listen, drain, stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from gateway import __version__, ambient, otlp, status
from gateway.accounting.account import Accounts
from gateway.accounting.ledger_watch import LedgerWatch
from gateway.accounting.metrics import Metrics
from gateway.admission import Admission
from gateway.assembly import audit_writer, policy, retry_budget, spill_control
from gateway.audit import AuditError
from gateway.backends import Inspector, OnPremBackend, OnPremDoor
from gateway.backends.egress import CloudDoor
from gateway.backends.kinds import build_connector
from gateway.callers import building
from gateway.canaries import CanaryPayloads
from gateway.canaries import infer as send_canary
from gateway.catalog import Catalog
from gateway.census import ServerCensus
from gateway.classify.classifier import Classifier, names_search, scan_pool
from gateway.classify.names import Names
from gateway.classify.spans import FullFindings
from gateway.cluster.node import Node
from gateway.config import ConfigError, EndpointSettings, Settings
from gateway.console import page
from gateway.console.decisions import Decisions, WatchedLog
from gateway.console.feed import Feed
from gateway.console.front import ConsoleFront
from gateway.console.operators import Operators
from gateway.console.picture import Picture, Sight
from gateway.console.spend import BudgetSpend, LedgerSpend, Spend
from gateway.dispatch import Dispatcher
from gateway.fleet import Fleet
from gateway.folding import Folding
from gateway.fronts import Services, kserve, openai, ops
from gateway.fronts.grpc import GrpcFront
from gateway.fronts.http import Front, build_app
from gateway.keeper import Keeper, Progress
from gateway.ledger.database import LedgerDown, LedgerError
from gateway.ledger.ledger import Ledger, Thread
from gateway.ledger.opening import opened
from gateway.ledger.reading import LedgerReader
from gateway.ledger.store import Store
from gateway.limits import Limits
from gateway.listeners import HttpServer, bound, listener_files, refuse_key_logging
from gateway.pipeline import Pipeline, Pseudonyms
from gateway.place import Place
from gateway.pricing import usd
from gateway.priors import measured
from gateway.schedulers import new_scheduler, weights
from gateway.scraping import Scraping
from gateway.tending import Tending
from gateway.tracing import ALL, UNTRACED, Sampler, Trace, Untraced
from gateway.types import Quota, Tightening, Zone
from gateway.watch import Watch

if TYPE_CHECKING:
    from gateway.otlp.collector import Collector

log = logging.getLogger(__name__)


class Gateway:
    """Everything between the listening sockets and the endpoints, in one event loop."""

    def __init__(self, settings: Settings, progress: Progress = lambda line: None) -> None:
        self.settings = settings
        self._progress = progress
        self._clock = ambient.monotonic_s
        self.metrics = Metrics()
        self.catalog = Catalog.of(settings)
        self._tasks: set[asyncio.Task[None]] = set()
        self._store: Store | None = None  # without one nothing is kept of what calls cost
        self._ledger: Ledger | None = None
        self.http_port = 0
        self.grpc_port = 0
        self._stop = asyncio.Event()
        self._keeper = Keeper(
            settings, self._clock, progress, self._spawn, self.metrics.triton_restarts.inc
        )

    # Building

    def _compose(self) -> None:
        settings = self.settings
        self.spill = spill_control(settings, self._clock)
        self._ledger = self._new_ledger()
        places = {name: self._place(name, e) for name, e in settings.endpoints.items()}
        self.fleet = Fleet(
            self.catalog, places, self.metrics, self._clock,
            weights(settings.queue, settings.routing),
            new_scheduler(settings.queue, settings.routing, self._scheduler_failed),
            self.spill, settings.health,
        )  # fmt: skip
        cluster = settings.cluster
        self.node = None if cluster is None else Node(
            cluster, settings.limits, self.fleet, self.metrics, self._clock
        )  # fmt: skip
        census = ServerCensus(self.catalog, settings.undeclared_models == "onprem")
        self.watch = Watch(places, census, self.metrics)
        payloads = CanaryPayloads(self.catalog)
        self.tending = Tending(
            self.fleet, self.catalog, payloads, send_canary, self.metrics, self._clock
        )
        self.scraping = Scraping(self.fleet, self.catalog, self.metrics, self._clock)
        self.folding = Folding(
            settings.endpoints, self._keeper.metrics_port, self.metrics.triton, self.metrics,
            settings.health.triton_metrics_s,
        )  # fmt: skip
        self.audit = audit_writer(settings.audit, self.metrics)
        decisions = Decisions(self._clock, settings.console.tail)
        seen = WatchedLog(self.audit, decisions) if settings.console.enabled else self.audit
        self.accounts = Accounts(
            seen, self.metrics, self._clock, settings.policy_hash, self._ledger
        )
        self.admission = Admission(settings.limits)
        self.sight = self._sight(decisions)
        self.feed = Feed(decisions, Picture(self.sight))
        self.callers = building.build(settings, self._credential_refused)
        added = self.callers.tightenings()
        names = names_search(settings.classify, self._names_door(places))
        self.classifier = Classifier(
            settings.classify,
            self.catalog,
            scan_pool(settings.classify, added, self.metrics.scan_workers_replaced.inc),
            self._clock,
            added=added,
            names=names,
        )
        self.callers.scans_are_built(self.classifier.looks_for)
        self.full_findings = self._full_findings(added, names)
        self.collector = self._collector()
        self.pipeline = Pipeline(
            self.admission,
            self.classifier,
            self.fleet,
            policy(settings),
            Dispatcher(
                self.fleet,
                self._clock,
                retry_budget(settings, self._clock),
                settings.routing.hedge,
                None if self.node is None else self.node.queues,
            ),
            self.accounts,
            block_unknown=settings.classify.on_unknown == "block",
            pseudonyms=self._pseudonyms(self.full_findings),
            limits=Limits(self._clock, self._limit_refused),
        )
        self.services = Services(
            handle=self.pipeline.handle,
            callers=self.callers,
            catalog=self.catalog,
            inspection=_Inspection(self),
            limits=settings.limits,
            new_id=lambda: str(ambient.new_uuid()),
            clock=self._clock,
            sampler=self._sampler(),
            new_trace=self._new_trace,
            error_told=lambda protocol, reason: self.metrics.error_answers.labels(
                protocol, reason
            ).inc(),
        )

    def _scheduler_failed(self, exc: Exception) -> None:
        self.metrics.scheduler_failures.inc()
        log.error("a queue's scheduler failed; a simple rule goes on in its place", exc_info=exc)

    def _credential_refused(self, kind: str, why: str) -> None:
        self.metrics.credentials_refused.labels(kind, why).inc()

    def _limit_refused(self, quota: Quota, what: str) -> None:
        self.metrics.limit_refusals.labels(quota.tenant, quota.kind, what).inc()

    def _sight(self, decisions: Decisions) -> Sight:
        budgets = self.spill.budgets
        spend: Spend = BudgetSpend(budgets)
        if self._ledger is not None:
            avoided = LedgerReader.of(self.settings).avoided_today
            spend = LedgerSpend(budgets, avoided, self._spawn, self._clock)
        return Sight(
            fleet=self.fleet,
            catalog=self.catalog,
            admission=self.admission,
            accounts=self.accounts,
            decisions=decisions,
            stop=self.spill.stop,
            spend=spend,
            max_waiting=self.settings.queue.max_waiting,
            default_budget_s=self.settings.limits.default_latency_budget_ms / 1000,
            policy=self.settings.policy_hash,
            version=__version__,
            clock=self._clock,
        )

    def _collector(self) -> Collector | None:
        if self.settings.telemetry.otlp_url is None:
            return None
        try:  # an extra: most gateways are scraped, and trace nothing
            from gateway.otlp.collector import Collector
        except ModuleNotFoundError as exc:
            raise ConfigError(
                f"telemetry.otlp_url: needs the package {exc.name}; install {otlp.EXTRA}"
            ) from None
        return Collector(self.settings.telemetry, self.metrics)

    def _sampler(self) -> Sampler:
        telemetry = self.settings.telemetry
        if self.collector is None:
            return ALL
        return Sampler(telemetry.trace_ratio, telemetry.callers_decide)

    def _new_trace(self, traceparent: str, caller_span: str, received_s: float) -> Untraced:
        if self.collector is None:
            return UNTRACED
        return Trace(traceparent, caller_span, received_s, self._clock, self.collector.take)

    def _full_findings(
        self, added: Collection[Tightening], names: Names | None
    ) -> FullFindings | None:
        allowed = (self.settings.models.values(), self.settings.keys.values())
        if all(any(one.pseudonymise for one in some) for some in allowed):
            replaced = self.metrics.scan_workers_replaced.inc
            return FullFindings(self.settings.classify, added, names, on_replaced=replaced)
        return None

    def _pseudonyms(self, finder: FullFindings | None) -> Pseudonyms | None:
        if finder is None:
            return None
        # Imports presidio-anonymizer, which takes a second; most gateways never need it.
        from gateway.pseudonyms.pseudonymiser import Pseudonymiser

        def doubted(reason: str) -> None:
            self.metrics.pseudonym_doubts.labels(reason).inc()

        return Pseudonymiser(finder, self.classifier, self._clock, doubted)

    @contextlib.asynccontextmanager
    async def _classifying(self) -> AsyncIterator[None]:
        readers = [r for r in (self.classifier, self.full_findings) if r is not None]
        async with contextlib.AsyncExitStack() as stack:
            for reader in readers:
                stack.push_async_callback(reader.aclose)
                await reader.start()
            yield

    def _names_door(self, places: Mapping[str, Place]) -> OnPremBackend | None:
        """The way to the endpoint that looks for names, if one does. One of another zone has no
        on-prem door."""
        name = self.settings.classify.names.endpoint
        return places[name].onprem if name else None

    def _place(self, name: str, settings: EndpointSettings) -> Place:
        server = self._keeper.get(name)
        settings = self.settings.tls.of(settings)
        if server is not None and server.control_headers:
            shown = {key: SecretStr(value) for key, value in server.control_headers.items()}
            settings = settings.model_copy(update={"headers": {**settings.headers, **shown}})
        connector = build_connector(settings, None if server is None else server.ports)
        cloud = settings.zone is Zone.CLOUD
        return Place(
            settings=settings,
            connector=connector,
            onprem=None if cloud else OnPremDoor(connector),
            cloud=CloudDoor(connector) if cloud else None,
            inspector=connector if isinstance(connector, Inspector) else None,
            on_gray=None if server is None else self._keeper.restarter(name, server),
            back_in_s=(lambda: None) if server is None else server.back_in_s,
            measured={} if server is None else measured(settings.repository or Path("models")),
            provided=tuple if server is None else lambda: server.provided,
        )

    def http_app(self) -> Any:
        operator = ops.OpsFront(
            self.services,
            self._render_metrics,
            self.status,
            self.pipeline.explain,
            None if self._store is None else LedgerReader.of(self.settings).document,
        )
        return build_app(
            self.services,
            [
                kserve.front(self.services),
                openai.front(self.services),
                *self._console_front(),
                operator.front(),
            ],
        )

    def _console_front(self) -> list[Front]:
        settings = self.settings
        if not settings.console.enabled:
            return []
        operators = Operators(settings.console.operators, keys_configured=not settings.anybody)
        return [
            ConsoleFront(
                self.sight, self.feed, operators, settings.limits, self.metrics, page.files()
            ).front()
        ]

    # Running

    async def run(self, on_ready: Callable[[Gateway], None] = lambda gateway: None) -> None:
        """Serve until `stop`. Raises ConfigError or TritonServerError when it cannot start."""
        refuse_key_logging()
        if self.settings.anybody:
            log.warning(
                "development mode: no keys are configured, so whoever reaches %s may call; "
                "add keys before you expose it", self.settings.listen.host,
            )  # fmt: skip
        async with contextlib.AsyncExitStack() as stack:
            http_socket = bound(self.settings.listen.host, self.settings.listen.http_port)
            stack.callback(http_socket.close)
            self._open_ledger(stack)
            await self._keeper.start(stack)
            self._compose()
            self._keeper.moved = lambda name: self._spawn(self.watch.look_at(name))
            self._keeper.heard = lambda name: self.fleet.place(name).heard
            self._open_audit()
            stack.push_async_callback(self.audit.aclose)
            await stack.enter_async_context(self._keeping_ledger())
            stack.push_async_callback(self.fleet.aclose)
            self._progress("starting the classifier")
            await stack.enter_async_context(self._classifying())
            await self.watch.look_at_all()
            if self.node is not None:
                stack.push_async_callback(self.node.aclose)
                await self.node.start(bound)
                await stack.enter_async_context(self._owned(self.node.run(), "cluster"))
            await stack.enter_async_context(self._owned(self.callers.run(), "callers"))
            await stack.enter_async_context(self._owned(self.watch.run(), "watch"))
            await stack.enter_async_context(self._owned(self.tending.run(), "tending"))
            await stack.enter_async_context(self._owned(self.scraping.run(), "scraping"))
            await stack.enter_async_context(self._owned(self.folding.run(), "folding"))
            if self.collector is not None:
                pushing = self.collector.run(self._refresh_gauges)
                await stack.enter_async_context(self._owned(pushing, "telemetry"))
            tls = listener_files(self.settings)
            http = HttpServer(self.http_app(), self.settings.limits.drain_s, tls)
            grpc = GrpcFront(
                self.services, self.settings.listen.host, self.settings.listen.grpc_port, tls=tls
            )
            self.grpc_port = await grpc.start()
            self.http_port = http_socket.getsockname()[1]
            serving = asyncio.create_task(http.serve([http_socket]), name="http")
            on_ready(self)
            stopping = asyncio.create_task(self._stop.wait())
            await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
            await self._drain(http, grpc, serving)

    def stop(self) -> None:
        self._stop.set()

    async def _drain(self, http: HttpServer, grpc: GrpcFront, serving: asyncio.Task[None]) -> None:
        """Stop accepting, let calls finish for `drain_s`, then end them with a reason (O7)."""
        drain_s = self.settings.limits.drain_s
        log.info("stopping: %d calls have %g s to finish", self.admission.inside, drain_s)
        self.admission.draining = True
        self.feed.close()
        if self.node is not None:
            self.node.leave()
        http.should_exit = True
        grpc_drain = asyncio.create_task(grpc.drain(drain_s + 2.0))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(drain_s):
                await self.accounts.quiet()
                if self.node is not None:
                    await self.node.owner.quiet()
        if self.accounts.open_calls:
            log.warning("cutting %d calls that did not finish", self.accounts.open_calls)
            self.pipeline.cut()
        await asyncio.gather(serving, grpc_drain)

    @contextlib.asynccontextmanager
    async def idle(self) -> AsyncIterator[None]:
        """Everything but servers and sockets, each endpoint taken to be up: for `explain`."""
        self._compose()
        try:
            async with self._classifying(), self._owned(self.callers.run(), "callers"):
                self.fleet.assume_up()
                yield
        finally:
            await self.fleet.aclose()

    def _open_audit(self) -> None:
        try:
            self.audit.start(
                lambda: {"version": __version__, "policy": self.settings.policy_hash()}
            )
        except AuditError as exc:
            raise ConfigError(str(exc)) from None
        journal = self.audit.journal
        if journal.new_key:
            log.warning(
                "a new key signs the audit; keep its public half where this machine cannot "
                "change it: %s",
                journal.key.public,
            )

    @contextlib.asynccontextmanager
    async def _owned(self, work: Any, name: str) -> AsyncIterator[None]:
        task = asyncio.create_task(work, name=name)
        try:
            yield
        finally:
            for running in (task, *self._tasks):
                running.cancel()
            await asyncio.gather(task, *self._tasks, return_exceptions=True)

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
        found = Ledger(
            self._store, budgets.limits, budgets, LedgerWatch(self.metrics), self._clock,
            Thread(), settings.limits.max_latency_budget_ms / 1000, settings.ledger.keep_days,
        )  # fmt: skip
        self.spill.leases = found.leases
        return found

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
        status.publish(self.metrics, self.fleet.places, self.fleet.groups)
        left = self.spill.budgets.left()
        self.metrics.spill_budget_left.set(math.inf if left is None else usd(left))
        if self.node is not None:
            self.node.publish()

    def _render_metrics(self) -> bytes:
        self._refresh_gauges()
        return self.metrics.render()

    def status(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "policy": self.settings.policy_hash(),
            "detector": self.classifier.version,
            "development_mode": self.callers.anybody,
            "draining": self.admission.draining,
            "calls_in_flight": self.accounts.open_calls,
            "endpoints": status.report(self.fleet.places),
            "queues": self.fleet.groups.report(),
            "models": sorted(self.catalog.names()),
            "cluster": None if self.node is None else self.node.report(),
        }


class _Inspection:
    """Which server answers metadata calls."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def of_server(self) -> Inspector:
        return self._gateway.fleet.inspector_of_server()

    def of_model(self, model: str) -> tuple[Inspector, str]:
        return self._gateway.fleet.inspector_of_model(model)

    def live(self) -> bool:
        return True

    def ready(self) -> bool:
        gateway = self._gateway
        if gateway.admission.draining or gateway.audit.failing:
            return False
        return gateway.fleet.ready()

    def model_ready(self, model: str) -> bool:
        return self._gateway.fleet.model_ready(model)
