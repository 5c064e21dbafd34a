"""Everything that is made of one version of the settings, and answers calls by it.

A call belongs to the core that it came to: classes, zones, callers, queues and the policy hash in
its record are that core's until it ends, whatever is reloaded meanwhile (O2). What must not be had
twice is the process's: money, limits, the count of calls inside, the audit, what was restricted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gateway.accounting.ledger.ledger import Ledger
from gateway.accounting.metrics import Metrics
from gateway.accounting.records import DecisionLog
from gateway.app.endpoint_set import EndpointSet, ProcessServices
from gateway.app.factories import policy, retry_budget, shadows, spill_limits, spill_stop
from gateway.app.scanner_set import Scanning, pseudonymises
from gateway.auth import Callers, building
from gateway.classify.classifier import Classifier
from gateway.classify.conversations.taint import TaintMarks
from gateway.config import Settings
from gateway.config.zones import Zones
from gateway.core import ambient
from gateway.core.aliases import Aliases
from gateway.core.deadline import Clock
from gateway.core.held_bytes import HeldBytes
from gateway.core.tasks import close_all, ended
from gateway.core.trace_context import ALL, Sampler, Trace, Untraced
from gateway.endpoints.connectors import Inspector, OnPremBackend
from gateway.endpoints.versions.parts import EndpointParts
from gateway.pipeline.accounts import Accounts
from gateway.pipeline.admission import Admission
from gateway.pipeline.decisions import Pseudonyms
from gateway.pipeline.dispatcher import Dispatcher, QueuesPort
from gateway.pipeline.pipeline import Pipeline
from gateway.pipeline.rate_limits import RateLimits
from gateway.pipeline.retries import RetryBudget
from gateway.server import Services
from gateway.server.hosts import AllowedHosts

if TYPE_CHECKING:
    from gateway.classify.verdicts.answers.reader import Handle
    from gateway.classify.verdicts.hooks.classifier import HookedClassifier
    from gateway.cluster.node import Node
    from gateway.pipeline.shadow.mirror import Mirrors

_FETCH_S = 3.0  # for the keys of an issuer that is new; then its tokens are refused until they come


@dataclass(frozen=True, slots=True)
class SharedResources:
    """What all cores have in common."""

    services: ProcessServices
    admission: Admission
    limits: RateLimits
    log: DecisionLog
    ledger: Ledger | None
    fit: Callable[[], bool]  # whether records can be written
    take_trace: Callable[[Trace], None] | None  # None: nothing is traced
    aliases: Aliases  # in the place of ids that callers give
    held_bytes: HeldBytes  # of bodies that have not come whole
    held_answers: HeldBytes
    marks: TaintMarks | None = None  # what workers have in common of what was restricted
    queues: Callable[[EndpointParts, str], QueuesPort | None] | None = None
    """Where calls of these settings wait, if not here: at the worker that decides for all."""

    @property
    def metrics(self) -> Metrics:
        return self.services.metrics

    @property
    def clock(self) -> Clock:
        return self.services.clock


class Core:
    def __init__(
        self, settings: Settings, process: SharedResources, before: Core | None = None
    ) -> None:
        """Raises ConfigError. `close` closes it, also when it was never started."""
        self.settings = settings
        self.policy = settings.policy_hash()
        self._process = process
        self._before = before
        self._inside = 0
        self._left = asyncio.Event()
        self._calling: asyncio.Task[None] | None = None
        clock, metrics, classes = process.clock, process.metrics, settings.data_classes()
        self.callers = self._callers()
        if before is not None:
            self.callers.follow(before.callers)
        keeps_site = before is not None and before.site.fits(settings)
        self.site: EndpointSet = (
            before.site
            if before is not None and keeps_site
            else EndpointSet(settings, process.services, None if before is None else before.site)
        )
        self.node = self._node()
        self.scanning = self._scanning()
        self.classifier: Classifier = self.scanning.classifier(self.site.catalog, classes)
        self.callers.scans_are_built(self.classifier.looks_for)
        self._hooked = self._hooked_classifier()
        self.accounts = Accounts(
            process.log, metrics, clock, self.policy, process.ledger,
            before_dispatch=settings.audit.before_dispatch == "cloud",
        )  # fmt: skip
        same_retries = before is not None and _retries(before.settings) == _retries(settings)
        self._retry_budget: RetryBudget = (
            before._retry_budget
            if before is not None and same_retries
            else retry_budget(settings, clock)
        )
        parts = self.site.parts
        self.shadows = shadows(settings.routing, settings.queue, parts, metrics, clock)
        self.pipeline = Pipeline(
            process.admission,
            self.classifier if self._hooked is None else self._hooked,
            parts.snapshots,
            parts.entry,
            parts.recovery,
            policy(settings.routing),
            Dispatcher(
                parts,
                clock,
                self._retry_budget,
                settings.routing.hedge,
                self._queues(),
            ),
            self.accounts,
            block_unknown=settings.classify.on_unknown == "block",
            pseudonyms=self._pseudonyms(),
            limits=process.limits,
            shadows=self.shadows,
        )
        self._mirrors = self._mirrored()
        self.services = Services(
            handle=self._handle(),
            callers=self.callers,
            catalog=self.site.catalog,
            inspection=_Inspection(self.site, process),
            limits=settings.limits,
            new_id=ambient.new_id,
            clock=clock,
            sampler=self._sampler(),
            new_trace=None if process.take_trace is None else self._new_trace,
            on_error=lambda protocol, reason: metrics.error_answers.labels(protocol, reason).inc(),
            held_bytes=process.held_bytes,
            held_answers=process.held_answers,
            zones=Zones(settings.zones),
            classes=frozenset(classes.admitted),
            hosts=_hosts(settings),
            held=self,
            aliases=process.aliases,
        )

    # Parts

    def _callers(self) -> Callers:
        refused = self._process.metrics.credentials_refused
        return building.build(self.settings, lambda kind, why: refused.labels(kind, why).inc())

    def _node(self) -> Node | None:
        cluster = self.settings.cluster
        if cluster is None:
            return None
        if self._before is not None:
            return self._before.node
        from gateway.cluster.node import Node  # most gateways stand alone

        process = self._process
        return Node(
            cluster,
            self.settings.limits,
            self.site.parts,
            process.metrics,
            process.clock,
            process.held_answers,
        )

    def _queues(self) -> QueuesPort | None:
        if self.node is not None:
            return self.node.queues
        elsewhere = self._process.queues
        return None if elsewhere is None else elsewhere(self.site.parts, self.policy)

    def _scanning(self) -> Scanning:
        settings, before, process = self.settings, self._before, self._process
        added, door = self.callers.tightenings(), self._names_door()
        if before is not None and before.scanning.fits(settings, added, door):
            return before.scanning
        return Scanning(
            settings, added, door, self.site.catalog, process.clock,
            process.metrics.scan_workers_replaced.inc,
            None if before is None else before.scanning,
            process.marks,
        )  # fmt: skip

    def _hooked_classifier(self) -> HookedClassifier | None:
        if not self.settings.hooks:
            return None
        # Most gateways have none.
        from gateway.classify.verdicts.hooks.classifier import HookedClassifier

        answers = self._process.metrics.hook_answers
        return HookedClassifier(
            self.classifier,
            self.settings.hooks,
            self.site.catalog,
            self.settings.classify.max_scan_bytes,
            lambda hook, answer: answers.labels(hook, answer).inc(),
        )

    def _mirrored(self) -> Mirrors | None:
        stated = {name: model.mirror for name, model in self.settings.models.items()}
        if not any(stated.values()):
            return None
        from gateway.pipeline.shadow.mirror import Mirror, Mirrors  # most gateways have none

        compared = self._process.metrics.mirrored_calls
        return Mirrors(
            self.pipeline.handle,
            {n: Mirror(m.model, m.share, m.at_once) for n, m in stated.items() if m is not None},
            lambda model, agreement: compared.labels(model, agreement).inc(),
            self._process.clock,
        )

    def _names_door(self) -> OnPremBackend | None:
        """The way to the endpoint that looks for names, if one does. One of another zone has no
        on-prem door."""
        name = self.settings.classify.names.endpoint
        return self.site.states[name].onprem if name else None

    def _pseudonyms(self) -> Pseudonyms | None:
        finder = self.scanning.full
        if finder is None or not pseudonymises(self.settings):
            return None
        # Imports presidio-anonymizer, which takes a second; most gateways never need it.
        from gateway.classify.pseudonyms.pseudonymiser import Pseudonymiser

        doubts = self._process.metrics.pseudonym_doubts
        unrestored = self._process.metrics.unrestored
        return Pseudonymiser(
            finder,
            self.classifier,
            self._process.clock,
            lambda reason: doubts.labels(reason).inc(),
            unrestored=unrestored.inc,
        )

    def _handle(self) -> Handle:
        """From a call to its answer, which is read where the settings ask for that."""
        answers = self.settings.classify.answers
        handle = self.pipeline.handle if self._mirrors is None else self._mirrors.handle
        if answers == "off":
            return handle
        # Most gateways read none.
        from gateway.accounting.answers import AnswerLog
        from gateway.classify.verdicts.answers.reader import AnswerInspector

        verdicts, finder = self.classifier.answer_verdicts(), self.scanning.full
        report = AnswerLog(self._process.log, self._process.metrics)
        restrict = answers == "restrict"  # guard: C20.setting -> restrict = True
        return AnswerInspector(handle, verdicts, finder, restrict, report).handle

    def _sampler(self) -> Sampler:
        telemetry = self.settings.telemetry
        if self._process.take_trace is None:
            return ALL
        return Sampler(telemetry.trace_ratio, telemetry.callers_decide)

    def _new_trace(self, traceparent: str, caller_span: str, received_s: float) -> Untraced:
        take = self._process.take_trace
        assert take is not None
        return Trace(traceparent, caller_span, received_s, self._process.clock, take)

    # Its life

    async def start(self, probe: bool = True) -> None:
        """Whatever takes time, before any call comes; without a `probe` nothing is sent to any
        endpoint. Raises ScannerUnfit."""
        before = self._before
        self._calling = asyncio.create_task(self.callers.run(), name="callers")
        if before is None or self.scanning is not before.scanning:
            await self.scanning.start()
        if probe and (before is None or self.site is not before.site):
            await self.site.first_probe()
        if before is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FETCH_S):
                    await self.callers.fetched()

    def begin(self) -> None:
        """Calls come from now on, and those of before go on. In one step: no call finds a part of
        the one and a part of the other."""
        before, self._before = self._before, None
        settings, process = self.settings, self._process
        if before is None:
            self.site.begin()
            return
        process.admission.limits = settings.limits
        # guard: S5.reload-door without not settings.routing.closes_cloud
        process.services.spill.follow(
            spill_stop(settings, process.clock),
            spill_limits(settings),
            not settings.routing.closes_cloud,
        )
        if before.site is not self.site:
            self.site.begin(before.site)

    def __enter__(self) -> None:
        """A call is being read or answered by this core, until it leaves."""
        self._inside += 1

    def __exit__(self, *_: object) -> None:
        self._inside -= 1
        if not self._inside:
            self._left.set()

    async def quiet(self) -> None:
        """Returns once no call is here."""
        while self._inside or self.accounts.open_calls:
            self._left.clear()
            if self._inside:
                await self._left.wait()
            await self.accounts.quiet()

    async def close(self, others: Iterable[Core] = ()) -> None:
        """All but what the others, which live on, have, too."""
        others = [*others]
        if self._calling is not None:
            await ended([self._calling])
        closing: list[Callable[[], Awaitable[None]]] = []
        if self._mirrors is not None:
            closing.append(self._mirrors.aclose)
        if self._hooked is not None:
            closing.append(self._hooked.aclose)
        if all(other.scanning is not self.scanning for other in others):
            closing.append(self.scanning.aclose)
        if all(other.site is not self.site for other in others):
            closing.append(lambda: self.site.aclose([other.site for other in others]))
        await close_all(*closing)


def _retries(settings: Settings) -> Any:
    return settings.routing.retry_share, settings.routing.retry_reserve


class _Inspection:
    """Which server answers metadata calls."""

    def __init__(self, site: EndpointSet, process: SharedResources) -> None:
        self._registry = site.parts.registry
        self._process = process

    def server_inspector(self) -> Inspector:
        return self._registry.server_inspector()

    def model_inspector(self, model: str) -> tuple[Inspector, str]:
        return self._registry.model_inspector(model)

    def live(self) -> bool:
        return True

    def ready(self) -> bool:
        if self._process.admission.draining or not self._process.fit():
            return False
        return self._registry.ready()

    def onprem_up(self) -> bool:
        return self._registry.onprem_up()

    def model_ready(self, model: str) -> bool:
        return self._registry.model_ready(model)


def _hosts(settings: Settings) -> AllowedHosts | None:
    """With keys whoever calls has shown one, by whatever name."""
    listen = settings.listen
    if not settings.anybody and not listen.allowed_hosts:
        return None
    return AllowedHosts(listen.host, listen.allowed_hosts, listen.cors.origins)
