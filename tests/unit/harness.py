"""A whole gateway between scripted endpoints, on a clock that leaps from timer to timer.

Everything but the endpoints, the classifier and the decision log is the real thing. Nothing here
sleeps: `run` drives an event loop whose time passes only when every task waits.
"""

from __future__ import annotations

import asyncio
import itertools
import selectors
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from gateway.accounting.metrics import Metrics
from gateway.accounting.records import Durable, RecordUnwritable
from gateway.accounting.spill import SpillControl
from gateway.app.factories import shadows
from gateway.config import EndpointSettings, LimitSettings, QueueSettings, RoutingSettings
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.deadline import Deadline
from gateway.core.errors import GatewayError, UpstreamBusy, UpstreamFailed, UpstreamUnreachable
from gateway.core.errors import UpstreamRefused as Refused
from gateway.core.operations.chat import CHAT
from gateway.core.reply import (
    Frame,
    InferenceReply,
    Placement,
    Receiver,
    ReplyStream,
    ServerEvent,
    ServerEvents,
    deliver_each,
)
from gateway.core.types import (
    EVERYWHERE,
    Classification,
    DocumentCall,
    Endpoint,
    EndpointSnapshot,
    InferenceRequest,
    Payload,
    Sensitivity,
    ServedModel,
    Usage,
    WireProtocol,
    Zone,
)
from gateway.endpoints.connectors import OnPremDoor
from gateway.endpoints.connectors.egress import CloudDoor
from gateway.endpoints.state import EndpointState
from gateway.endpoints.versions.parts import EndpointParts, build_parts
from gateway.pipeline.accounts import Accounts
from gateway.pipeline.admission import Admission
from gateway.pipeline.call import ClassifierPort
from gateway.pipeline.dispatcher import Dispatcher
from gateway.pipeline.pipeline import Pipeline
from gateway.pipeline.rate_limits import RateLimits
from gateway.pipeline.retries import RetryBudget
from gateway.scheduling.factory import new_scheduler, weights
from gateway.scheduling.routing.policy import Policy
from tests.unit.delivery import Reader
from tests.unit.limits.holders import holders

T = TypeVar("T")
MODEL = "m"
FOREVER_S = 1e6
OPENING = -1


class _Leap(selectors.SelectSelector):
    """Instead of waiting for the next timer, time goes there at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("every task waits and no timer runs: this would hang for ever")
        self.now_s += max(0.0, timeout)
        return []


class LeapingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._leap = _Leap()
        super().__init__(self._leap)

    def time(self) -> float:
        return self._leap.now_s

    def is_busy_for(self, seconds: float) -> None:
        """Nothing else runs meanwhile."""
        self._leap.now_s += seconds


def run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        return runner.run(main)


def now_s() -> float:
    """The clock of whichever loop runs."""
    return asyncio.get_running_loop().time()


@dataclass(frozen=True, slots=True)
class Plan:
    """How an endpoint treats one call. A position is OPENING or the number of a frame."""

    frames: int = 1
    open_s: float = 0.01
    frame_s: float = 0.0
    close_s: float = 0.0
    error: Callable[[], Exception] | None = None
    fails_at: int = OPENING
    hangs_at: int | None = None
    tokens: int | None = None
    usage: Usage | None = None
    at_once: int = 1  # so many events come together behind the first


ANSWERS = Plan()
HANGS = Plan(hangs_at=OPENING)
HANGS_BEFORE_FIRST_FRAME = Plan(hangs_at=0)
UNREACHABLE = Plan(error=lambda: UpstreamUnreachable("it cannot be connected to"))
FAILS = Plan(error=lambda: UpstreamFailed("it answered 500"))
BUSY = Plan(error=lambda: UpstreamBusy("it answered 429"))
REFUSES = Plan(error=lambda: Refused("it answered 422", http_status=422))
EMPTY = Plan(frames=0)
GARBAGE = Plan(error=lambda: UpstreamFailed("its answer makes no sense"), fails_at=0)
BUG = Plan(error=lambda: ValueError("a connector's bug"))


def cut_after(frames: int) -> Plan:
    """The connection breaks after so many frames."""
    return Plan(
        frames=frames + 1, error=lambda: UpstreamUnreachable("the stream broke"), fails_at=frames
    )


def idle_after_s(seconds: float, fails_at: int = 0) -> Plan:
    """Silent for so long that the connector gives it up."""
    return Plan(
        open_s=seconds, error=lambda: UpstreamUnreachable("the stream is idle"), fails_at=fails_at
    )


class ScriptedConnector:
    """An endpoint that does as its plans say, in turn, and remembers every call that reached it."""

    def __init__(self, *plans: Plan, healthy: bool = True) -> None:
        self._plans = itertools.cycle(plans or (ANSWERS,))
        self.seen: list[InferenceRequest] = []
        self.healthy = healthy
        self.replies: set[ScriptedReply] = set()
        self.opening: set[str] = set()
        self.closing: set[str] = set()

    @property
    def seen_ids(self) -> list[str]:
        return [request.id for request in self.seen]

    async def open(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        self.seen.append(request)
        plan = next(self._plans)
        self.opening.add(request.id)
        try:
            await asyncio.sleep(FOREVER_S if plan.hangs_at == OPENING else plan.open_s)
        finally:
            self.opening.discard(request.id)
        if plan.error is not None and plan.fails_at == OPENING:
            raise plan.error()
        return ScriptedReply(self, request.id, plan)

    async def ready(self) -> bool:
        return self.healthy

    async def aclose(self) -> None:
        pass


class ScriptedReply:
    def __init__(self, connector: ScriptedConnector, call: str, plan: Plan) -> None:
        self._connector, self._call, self._plan = connector, call, plan
        self._next = 0
        self._closed = False
        self.total_tokens, self.usage = plan.tokens, plan.usage
        connector.replies.add(self)

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        await self._wait()
        first = self._frame()
        if self._next == 1 or self._plan.at_once == 1:
            return first
        events, plan = [first.framed()], self._plan
        ends = {plan.frames, plan.fails_at, plan.hangs_at}
        while len(events) < plan.at_once and self._next not in ends:
            events.append(self._frame().framed())
        return ServerEvents(b"".join(events), len(events))

    async def _wait(self) -> None:
        """For the next frame."""
        if self._plan.hangs_at == self._next:
            await asyncio.sleep(FOREVER_S)
        await asyncio.sleep(self._plan.frame_s)

    def _frame(self) -> ServerEvent:
        plan, number = self._plan, self._next
        if plan.error is not None and plan.fails_at == number:
            raise plan.error()
        if number >= plan.frames:
            raise StopAsyncIteration
        self._next += 1
        return ServerEvent(b"%s/%d" % (self._call.encode(), number))

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        await deliver_each(self, receiver)

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._connector.closing.add(self._call)
        await asyncio.sleep(self._plan.close_s)
        self._connector.closing.discard(self._call)
        self._connector.replies.discard(self)


class ScriptedClassifier:
    """Calls whose id starts with `restricted` are; the others are clear."""

    def __init__(self, takes_s: float = 0.0, reason: str = "entities") -> None:
        self._takes_s, self._reason = takes_s, reason
        self.inside: set[str] = set()

    def classify_now(self, request: InferenceRequest) -> None:
        """There is always something to wait for."""

    async def classify(self, request: InferenceRequest) -> Classification:
        self.inside.add(request.id)
        try:
            if self._takes_s:
                await asyncio.sleep(self._takes_s)
        finally:
            self.inside.discard(request.id)
        return verdict(request, self._reason)

    async def complete(
        self, request: InferenceRequest, classification: Classification
    ) -> Classification:
        return classification


def verdict(request: InferenceRequest, reason: str = "entities") -> Classification:
    if request.id.startswith("restricted"):
        return Classification(
            request.id, Sensitivity.RESTRICTED, reason, {"PERSON": 1}, complete=True
        )
    return Classification(request.id, Sensitivity.CLEAR, "clear", complete=True)


@dataclass(frozen=True, slots=True)
class Known:
    """A verdict, and a door at which nobody looks."""

    classification: Classification

    async def to_leave(self, zone: Zone) -> None:
        return None


class MemoryLog:
    def __init__(self) -> None:
        self.written: list[Mapping[str, Any]] = []
        self.lines: list[dict[str, Any]] = []  # a call each, with its end once that is there
        self.full = False
        self.shut = False  # full, and known to be

    def check(self) -> None:
        if self.shut:
            raise RecordUnwritable("the audit cannot be written: no space is left")

    def append(self, record: Mapping[str, Any]) -> Durable | None:
        if self.full:
            raise RecordUnwritable("the audit cannot be written: no space is left")
        self.written.append(dict(record))
        if record["kind"] == "end":
            (call,) = [x for x in self.lines if x.get("number") == record["number"]]
            call.update(record, kind="call")
        elif record["kind"] != "intent":
            self.lines.append(dict(record))
        return None

    def note(self, record: Mapping[str, Any]) -> None:
        MemoryLog.append(self, record)

    def of(self, call: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line.get("id") == call]

    def ends(self) -> dict[str, list[str]]:
        """Every way in which each call ended: one, when all is well."""
        found: dict[str, list[str]] = {}
        for line in self.written:
            if line.get("outcome", "sent") != "sent":
                found.setdefault(line["id"], []).append(line["outcome"])
        return found


@dataclass(frozen=True, slots=True)
class Site:
    name: str
    zone: Zone
    connector: ScriptedConnector = field(default_factory=ScriptedConnector)
    price_usd: float = 0.0
    expected_ms: float = 10.0
    max_in_flight: int = 256
    kind: str = "triton"
    address: str = "localhost:1"


def onprem(*plans: Plan, name: str = "gpu") -> Site:
    return Site(name, Zone.ONPREM, ScriptedConnector(*plans))


def cloud(*plans: Plan, name: str = "cloud") -> Site:
    return Site(name, Zone.CLOUD, ScriptedConnector(*plans), price_usd=0.001)


@dataclass(frozen=True, slots=True)
class Setup:
    policy: Policy = field(default_factory=Policy)
    queue: QueueSettings = field(default_factory=QueueSettings)
    routing: RoutingSettings = field(default_factory=RoutingSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    spill: SpillControl | None = None
    retries: RetryBudget | None = None
    hedging: bool = False
    max_batch: int = 1
    block_unknown: bool = False
    classifier: ClassifierPort = field(default_factory=ScriptedClassifier)


@dataclass(frozen=True, slots=True)
class Ended:
    """What the caller saw of one call."""

    frames: tuple[bytes, ...] = ()
    placement: Placement | None = None
    error: BaseException | None = None
    at_s: float = 0.0

    @property
    def reason(self) -> str:
        return self.error.reason if isinstance(self.error, GatewayError) else ""


class Rig:
    """The composition root of the tests. Build it inside a running loop."""

    def __init__(
        self, *sites: Site, setup: Setup | None = None, before: Rig | None = None,
        same: frozenset[str] = frozenset(), same_queues: bool = True, policy: str = "policy",
        follows: bool = True,
    ) -> None:  # fmt: skip
        """`before`: whose calls go on under the settings of before, as a reload leaves them; the
        sites named in `same` are what they were. One that does not follow never serves."""
        setup = setup or Setup()
        self.sites = {site.name: site for site in sites}
        self.catalog = Catalog(
            {MODEL: CatalogModel(MODEL, "infer", tuple(self.sites), max_batch=setup.max_batch)},
            {s.name: _endpoint(s) for s in sites},
        )
        self.metrics: Metrics = Metrics() if before is None else before.metrics
        self.log: MemoryLog = MemoryLog() if before is None else before.log
        states = {
            site.name: before.parts.registry.states[site.name]
            if before is not None and site.name in same
            else _state(site)
            for site in sites
        }
        self.parts: EndpointParts = build_parts(
            self.catalog, states, self.metrics, now_s,
            weights(setup.queue, setup.routing), new_scheduler(setup.queue, setup.routing),
            setup.spill,
        )  # fmt: skip
        parts = self.parts
        self.registry, self.queues, self.clouds = parts.registry, parts.queues, parts.clouds
        self.conditions, self.entry, self.handover = parts.conditions, parts.entry, parts.handover
        self.snapshots, self.outcomes, self.recovery = (
            parts.snapshots,
            parts.outcomes,
            parts.recovery,
        )
        self.registry.assume_up()
        self.admission: Admission = Admission(setup.limits) if before is None else before.admission
        self.limits: RateLimits = RateLimits(now_s) if before is None else before.limits
        self.accounts = Accounts(self.log, self.metrics, now_s, policy)
        self.classifier = setup.classifier
        self.dispatcher = Dispatcher(parts, now_s, setup.retries, setup.hedging)
        self.shadows = shadows(setup.routing, setup.queue, parts, self.metrics, now_s)
        self.pipeline = Pipeline(
            self.admission, self.classifier, self.snapshots, self.entry, self.recovery,
            setup.policy, self.dispatcher, self.accounts, setup.block_unknown, limits=self.limits,
            shadows=self.shadows,
        )  # fmt: skip
        if before is not None and follows:
            self.handover.follow(before.handover, same_queues)

    @property
    def cloud_seen(self) -> list[InferenceRequest]:
        return [r for s in self.sites.values() if s.zone is Zone.CLOUD for r in s.connector.seen]

    async def call(self, request: InferenceRequest, read: int = 1 << 30) -> Ended:
        """Be a front: take the reply, read up to so many frames, close it on every exit."""
        frames: list[bytes] = []
        placement = None
        error: BaseException | None = None
        try:
            reply = await self.pipeline.handle(request)
            placement = reply.placement
            try:
                await _read(reply, frames, read)
            finally:
                await reply.frames.aclose()
        except (Exception, asyncio.CancelledError) as exc:  # noqa: BLE001 - a front meets them all
            error = exc
        return Ended(tuple(frames), placement, error, now_s())

    def eject(self, name: str) -> None:
        for _ in range(3):
            epoch = self.registry.model_state(name, MODEL).breaker.epoch
            self.outcomes.failed(
                self.catalog.endpoints[name], MODEL, epoch, UpstreamFailed("500"), now_s()
            )

    def leftovers(self) -> dict[str, float]:
        """Whatever is held although no call is open. Empty when all was given back."""
        held: dict[str, float] = {
            "admission": self.admission.inside,
            "accounts": self.accounts.open_calls,
            "limits": sum(h.inside for h in holders(self.limits)),
            "wait for the cloud": self.clouds.waiting,
            "cuttable": len(self.pipeline._open),
            "gauge": self.metrics.registry.get_sample_value("spillway_calls_in_flight") or 0,
        }
        for name, site in self.sites.items():
            state = self.registry.states[name]
            held |= {
                f"{name} in flight": state.in_flight,
                f"{name} open": len(site.connector.replies),
            }
            for model_state in state.model_states.values():
                held |= {
                    f"{name} lane": model_state.in_flight,
                    f"{name} probe": model_state.breaker.probing,
                }
        for (_, servers), group in self.queues:
            held[f"{servers} waiting"] = group.waiting
            for name in servers:
                held[f"{name} queue in flight"] = self.queues.in_flight(MODEL, name)
        return {what: count for what, count in held.items() if count}


def state_of(rig: Rig, name: str) -> EndpointSnapshot:
    snapshots = rig.snapshots.snapshot(request(budget_s=5.0))
    return next(s for s in snapshots if s.endpoint.name == name)


async def _read(reply: InferenceReply, frames: list[bytes], most: int) -> None:
    def is_last(frame: Frame) -> bool:
        assert isinstance(frame, ServerEvent | ServerEvents)
        events = frame.apart() if isinstance(frame, ServerEvents) else [frame]
        frames.extend(event.data for event in events)
        return len(frames) >= most

    if most:
        await Reader(is_last).read(reply.frames)


def _endpoint(site: Site) -> Endpoint:
    return Endpoint(
        site.name, site.zone, site.kind, {MODEL: ServedModel(MODEL, price_usd=site.price_usd)}
    )


def _state(site: Site) -> EndpointState:
    settings = EndpointSettings(
        kind="triton", zone=site.zone, grpc=site.address,
        expected_ms=site.expected_ms, max_in_flight=site.max_in_flight,
    )  # fmt: skip
    away = not site.zone.onprem
    return EndpointState(
        settings=settings,
        connector=site.connector,
        onprem=None if away else OnPremDoor(site.connector),
        cloud=CloudDoor(site.connector, site.zone) if away else None,
        inspector=None,
    )


_ids: Iterator[int] = itertools.count(10**6)  # all of one length, which calls are estimated by


def request(
    kind: str = "clear",
    budget_s: float = 1.0,
    *,
    streamed: bool = False,
    payload: Payload | None = None,
    **changes: Any,
) -> InferenceRequest:
    """One call; `kind` (clear or restricted) is what the scripted classifier will find."""
    call = f"{kind}-{next(_ids)}"
    made = InferenceRequest(
        id=call,
        protocol=WireProtocol.OPENAI,
        tenant="t",
        model=MODEL,
        payload=payload or DocumentCall(CHAT, {"messages": [], "user": call}, streamed),
        deadline=Deadline.after(budget_s, now_s),
        zones=EVERYWHERE,
        received_s=now_s(),
    )
    return replace(made, **changes)
