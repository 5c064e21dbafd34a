"""The verdict on one call: clear, or restricted and why. There is no third answer.

Reason codes: `clear`, `entities`, `labelled`, `tainted`, `taint_lost`, `unscannable:<what>`,
`over_cap`, `too_many`, `late`, `failed`, `busy`, `undeclared_model`, `tensor_class`,
`unmeasured_language`. Only the first is clear.

Five stages, each of which can end it. What of the call can be read (extract.py): a part that
cannot restricts it. What is known without reading (taint.py): its caller's label, and the calls
that it continues. The gate (gate/), in this process: it says that nothing in the texts could
restrict, in microseconds. The scan of what was not scanned before (memory.py), in a worker, up to
the first finding that restricts: that says where the call goes, and the counts in its record are
what was found by then. Names (names/), which cost the most, are looked for by `complete`: in a call
that would leave the premises.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace

from gateway import ambient, logs
from gateway.catalog import Catalog
from gateway.classify import NoScan, ScanFailed, Scans, canaries
from gateway.classify.extract import UNDECLARED, extract
from gateway.classify.gate.armed import ArmedGate, known
from gateway.classify.memory import BETWEEN, Scope, SegmentMemory
from gateway.classify.names import LOOKED_FOR, Names, engines
from gateway.classify.names.forms import find_in_all_forms
from gateway.classify.names.remote import Door
from gateway.classify.pool import ScanPool
from gateway.classify.profile import Profile
from gateway.classify.spec import worker_spec
from gateway.classify.taint import Taint
from gateway.config import ClassifySettings
from gateway.deadline import Clock
from gateway.errors import UnknownModel
from gateway.types import (
    Classification,
    DocumentCall,
    Finding,
    InferenceRequest,
    Sensitivity,
    Tightening,
)

log = logging.getLogger(__name__)

REVISION = 2  # of the rules in this package: what is read, which forms, which types restrict
PATTERNS, NAMES = "patterns", "names"  # the detectors, where verdicts are remembered


def scan_pool(
    settings: ClassifySettings,
    added: Collection[Tightening] = (),
    on_replaced: Callable[[], None] = lambda: None,
) -> ScanPool:
    """The pool that a gateway with these settings, and such callers, classifies with."""
    spec = worker_spec(settings, added)
    return ScanPool(spec, settings.workers, settings.max_waiting, on_replaced)


def names_search(settings: ClassifySettings, door: Door | None) -> Names | None:
    """Where a gateway with these settings looks for names; `door` leads to the on-prem endpoint
    that they name, if they name one."""
    return engines.build(settings, door)


class Classifier:
    """Never raises but for cancellation: every failure is a restricted call."""

    def __init__(
        self,
        settings: ClassifySettings,
        catalog: Catalog,
        pool: Scans,
        clock: Clock,
        gate: ArmedGate | None = None,
        added: Collection[Tightening] = (),
        names: Names | None = None,
    ) -> None:
        self._settings = settings
        self._widest = Profile.widest(settings, added)
        self._profiles: dict[Tightening, tuple[Profile, str]] = {}
        self._catalog = catalog
        self._pool = pool
        self._gate = ArmedGate() if gate is None else gate
        self._names = names
        self._clock = clock
        self._version = _version(settings)
        key, keep = ambient.random_bytes(32), settings.memory
        self._segments = SegmentMemory(keep.verdicts, keep.verdict_s, clock, key)
        self.taint = Taint(keep.taints, keep.taint_s, clock, key)

    @property
    def version(self) -> str:
        """Names policy and detector in records; a verdict is only comparable within one version."""
        return self._version

    async def start(self) -> None:
        """Raises ScannerUnfit when a scanner misses one of its samples (C8)."""
        await self._pool.start()
        if self._names is not None:
            await self._names.start()
        needs = known(getattr(self._pool, "needs", None))
        await self._gate.arm(needs, canaries.positives(self._settings, self._widest.types))

    async def aclose(self) -> None:
        await self._gate.aclose()
        if self._names is not None:
            await self._names.aclose()
        await self._pool.aclose()

    async def classify(self, request: InferenceRequest) -> Classification:
        """The first look: everything but names, unless these are looked for in every call."""
        started_s = self._clock()
        reason, counts = await self._told(self._verdict(request, started_s), request)
        found = Classification(
            request_id=request.id,
            sensitivity=Sensitivity.CLEAR if reason == "clear" else Sensitivity.RESTRICTED,
            reason=reason,
            entities=counts,
            classify_s=max(0.0, self._clock() - started_s),
            complete=reason == "clear" and not self._looks_for_names(request),
        )
        if self._settings.names.when == "always":
            return await self.complete(request, found)
        return found

    async def complete(self, request: InferenceRequest, found: Classification) -> Classification:
        """The second look, at a call that nothing has restricted so far: names."""
        if found.restricted or found.complete:
            return found
        started_s = self._clock()
        reason, counts = await self._told(self._verdict_on_names(request, started_s), request)
        return replace(
            found,
            sensitivity=Sensitivity.CLEAR if reason == "clear" else Sensitivity.RESTRICTED,
            reason=reason,
            entities={**found.entities, **counts},
            classify_s=found.classify_s + max(0.0, self._clock() - started_s),
            complete=reason in ("clear", "entities"),
        )

    async def _told(
        self, verdict: Awaitable[tuple[str, Mapping[str, int]]], request: InferenceRequest
    ) -> tuple[str, Mapping[str, int]]:
        """A verdict, whatever becomes of the looking: what is not known restricts."""
        counts: Mapping[str, int] = {}
        try:
            reason, counts = await verdict
        except NoScan as failure:
            reason = failure.reason
        except Exception as failure:  # noqa: BLE001 - whatever goes wrong here, the call stays on the premises
            told = logs.of(request.id, request.traceparent)
            log.error("classifying failed: %s", type(failure).__name__, extra=told)
            reason = ScanFailed.reason
        if reason != "clear":
            self._taint(request, reason)
        return reason, counts

    def _taint(self, request: InferenceRequest, reason: str) -> None:
        """A call that leaves with surrogates brings its originals again in the next turn, where
        they are found again."""
        if request.explained:
            return
        may_be_masked = request.pseudonymise and isinstance(request.payload, DocumentCall)
        if may_be_masked and reason == "entities":
            return
        try:
            self.taint.mark(request, reason)
        except Exception as failure:  # noqa: BLE001 - restricted as it is; its next turn fails there too
            told = logs.of(request.id, request.traceparent)
            log.error("marking failed: %s", type(failure).__name__, extra=told)

    def _looks_for_names(self, request: InferenceRequest) -> bool:
        profile, _ = self._profile(request.tightening)
        return self._names is not None and not LOOKED_FOR.isdisjoint(profile.types)

    async def _verdict(
        self, request: InferenceRequest, started_s: float
    ) -> tuple[str, Mapping[str, int]]:
        try:
            model = self._catalog.find(request.model)
        except UnknownModel:
            return UNDECLARED, {}
        read = extract(request.payload, model, self._settings.max_scan_bytes)
        if read.unscannable is not None:
            return read.unscannable, {}
        if (stays := self.taint.of(request)) is not None:
            return stays, {}
        if not read.texts or self._gate.clear(BETWEEN.join(read.texts)):
            return "clear", {}
        left_s = self._left_s(request, started_s)
        profile, policy = self._profile(request.tightening)
        scope = Scope(request.tenant, policy, PATTERNS)

        async def scan(texts: Sequence[str]) -> list[list[Finding]]:
            if profile == self._widest:
                return await self._pool.scan(texts, left_s)
            return await self._pool.scan(texts, left_s, (profile.types, profile.threshold))

        restricted, counts = await self._segments.scan(scope, read.texts, scan, profile)
        return ("entities" if restricted else "clear"), counts

    async def _verdict_on_names(
        self, request: InferenceRequest, started_s: float
    ) -> tuple[str, Mapping[str, int]]:
        assert self._names is not None
        names = self._names
        model = self._catalog.find(request.model)
        read = extract(request.payload, model, self._settings.max_scan_bytes)
        if read.unscannable is not None:
            return read.unscannable, {}
        left_s = self._left_s(request, started_s)
        profile, policy = self._profile(request.tightening)
        scope = Scope(request.tenant, policy, NAMES)

        async def scan(texts: Sequence[str]) -> list[list[Finding]]:
            return await find_in_all_forms(names, texts, left_s, self._settings.allow_list)

        restricted, counts = await self._segments.scan(scope, read.texts, scan, profile)
        return ("entities" if restricted else "clear"), counts

    def _left_s(self, request: InferenceRequest, started_s: float) -> float:
        spent_s = self._clock() - started_s
        return min(self._settings.budget_ms / 1e3 - spent_s, request.deadline.remaining_s())

    def looks_for(self, added: Tightening) -> bool:
        """Whether the scanners were built for all that this adds."""
        profile, _ = self._profile(added)
        widest = self._widest
        return profile.types <= widest.types and profile.threshold >= widest.threshold

    def _profile(self, added: Tightening) -> tuple[Profile, str]:
        """What restricts a caller, and the version of that: as many as callers add to the
        settings, each in its own way."""
        if added not in self._profiles:
            profile = Profile.of(self._settings, added)
            rules = repr((self._version, profile.name, sorted(profile.types), profile.threshold))
            self._profiles[added] = profile, hashlib.sha256(rules.encode()).hexdigest()
        return self._profiles[added]


def _version(settings: ClassifySettings) -> str:
    """`presidio version/names version/revision/hash of what decides`; lists go in as a hash."""
    rules = settings.model_dump_json(exclude={"budget_ms", "workers", "max_waiting", "memory"})
    digest = hashlib.sha256(rules.encode()).hexdigest()[:12]
    presidio = importlib.metadata.version("presidio-analyzer")
    return f"presidio-{presidio}/{engines.version(settings.names)}/{REVISION}/{digest}"
