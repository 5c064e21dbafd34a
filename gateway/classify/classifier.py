"""The verdict on one call: clear, or restricted and why. There is no third answer.

Reason codes: `clear`, `entities`, `labelled`, `tainted`, `taint_lost`, `unscannable:<what>`,
`over_cap`, `too_many`, `late`, `failed`, `busy`, `undeclared_model`, `tensor_class`,
`tensors_unknown`, `unmeasured_language`. Only the first is clear, and `public_model`: that of a
call to a model that the operator has declared public, which is not read.

Five stages, each of which can end it. What of the call can be read (extract.py): a part that
cannot restricts it. What is known without reading (taint.py): its caller's label, and the calls
that it continues. The gate (gate/), in this process: it says that nothing in the texts could
restrict, in microseconds; what it does not clear may prove at once that it restricts (evidence.py),
which is looked at first where that is likely.
So far there is nothing to wait for, and `classify_now` has the verdict on most calls. The scan of
what was not scanned before (memory.py), in a worker, up to the first finding that restricts: that
says where the call goes, and the counts in its record are what was found by then. Names (names/),
which cost the most, are looked for by `complete`: in a call that would leave the premises.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.metadata
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from gateway.classify import NoScan, ScanFailed, ScanLate, Scans, canaries
from gateway.classify.conversations.memory import BETWEEN, Beginning, Recalled, Scope, SegmentMemory
from gateway.classify.conversations.taint import TAINTED, Taint, TaintMarks
from gateway.classify.evidence import Evidence
from gateway.classify.gate.armed import ArmedGate, known
from gateway.classify.names import LOOKED_FOR, PERSON, Names, across, engines
from gateway.classify.names.forms import find_in_all_forms
from gateway.classify.profile import Profile
from gateway.classify.scan_workers.long_reads import LONG, LongReads
from gateway.classify.scan_workers.pool import ScanPool
from gateway.classify.scan_workers.spec import worker_spec
from gateway.classify.text.extract import UNDECLARED, UNKNOWN_TENSORS, Unscannable, extract_texts
from gateway.config import ClassifySettings
from gateway.config.model_catalog import Catalog
from gateway.core import ambient, timeouts
from gateway.core.deadline import Clock
from gateway.core.process import logs
from gateway.core.structs import value
from gateway.core.types import (
    CLEAR,
    NOT_TIGHTENED,
    PUBLIC_MODEL,
    Classification,
    Finding,
    InferenceRequest,
    Sensitivity,
    TensorCall,
    Tightening,
)

if TYPE_CHECKING:
    from gateway.classify.names.remote import Door

log = logging.getLogger(__name__)

REVISION = 4  # of the rules in this package: what is read, which forms, which types restrict
PATTERNS, NAMES = "patterns", "names"  # the detectors, where verdicts are remembered
_CLEAR = frozenset({"clear", PUBLIC_MODEL})
_NOTHING: Mapping[str, int] = MappingProxyType({})
_CLEAR_VERDICT = ("clear", _NOTHING)
_AT_ONCE_BYTES = 16 * 1024
"""Of tensors, that are read at once; more is read in a thread."""
_GATE_MOST = 131_072
"""Characters that the gate is asked about: a millisecond of the event loop's time. Longer texts go
to a worker."""
_CONVERSATION, _LONG = 4, 4096
"""Texts, and characters in them, from which on it costs less to know a beginning again than to ask
the gate (`loadtests.bench.classify`)."""


@dataclass(frozen=True, slots=True)
class _Caller:
    """What restricts some callers."""

    profile: Profile
    policy: str  # the version of that
    has_names: bool  # to look for


@value
class _Begun:
    """A first look that takes a scan, or a second look, and how far it came."""

    request: InferenceRequest
    caller: _Caller
    started_s: float
    known: Recalled | None = None
    scope: Scope | None = None
    beginning: Beginning | None = None
    classification: Classification | None = None


def scan_pool(
    settings: ClassifySettings,
    added: Collection[Tightening] = (),
    on_replaced: Callable[[], None] = lambda: None,
) -> ScanPool:
    """The pool that a gateway with these settings, and such callers, classifies with."""
    spec = worker_spec(settings, added)
    return ScanPool(spec, settings.workers, settings.max_waiting, on_replaced)


def names_search(
    settings: ClassifySettings, added: Collection[Tightening], door: Door | None
) -> Names | None:
    """Where a gateway with these settings, and such callers, looks for names: nowhere, and with no
    model in memory, where none restricts anybody. `door` leads to the on-prem endpoint that the
    settings name, if they name one."""
    if LOOKED_FOR.isdisjoint(Profile.widest(settings, added).types):
        return None
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
        taint: Taint | None = None,
        marks: TaintMarks | None = None,
        evidence: Evidence | None = None,
    ) -> None:
        """`taint`: what another classifier of this process remembers as restricted; `marks`: what
        workers have in common of it. `gate` and
        `evidence` are armed when this one starts, or were with another one of the same pool."""
        self._settings = settings
        self._max_bytes = settings.max_scan_bytes
        self._added = added
        self._widest = Profile.widest(settings, added)
        self._catalog = catalog
        self._pool = pool
        self._gate = ArmedGate() if gate is None else gate
        self._names = names
        self._clock = clock
        self._version = _version(settings)
        self._usual = self._scan_caller(Profile.from_settings(settings))
        self._callers = {NOT_TIGHTENED: self._usual}
        self._names_always = settings.names.when == "always"
        self._evidence = Evidence() if evidence is None else evidence
        self._begun: _Begun | None = None
        self._tensors_were_read = False
        self._long = LongReads()
        key, keep = ambient.random_bytes(32), settings.memory
        self._segments = SegmentMemory(keep.verdicts, keep.verdict_s, clock, key)
        self.taint = taint or Taint(keep.taints, keep.taint_s, clock, key, marks)

    def for_catalog(self, catalog: Catalog) -> Classifier:
        """The same scanners for other models. What was restricted stays so; no verdict is known.
        It is started and closed with this one."""
        return Classifier(
            self._settings, catalog, self._pool, self._clock, self._gate, self._added,
            self._names, self.taint, evidence=self._evidence,
        )  # fmt: skip

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
        self._evidence.arm({n.recognizer for n in needs.needs}, self._settings.allow_list)
        await self._gate.arm(needs, canaries.positives(self._settings, self._widest.types))

    async def aclose(self) -> None:
        await self._gate.aclose()
        if self._names is not None:
            await self._names.aclose()
        await self._pool.aclose()

    def classify_now(self, request: InferenceRequest) -> Classification | None:
        """The first look, if it needs no scan: the usual call's. None: `classify` goes on from
        here. Never raises."""
        started_s = self._clock()
        self._begun = None
        try:
            added = request.tightening
            caller = self._usual if added is NOT_TIGHTENED else self._caller(added)
            verdict = self._at_once(request, caller, started_s)
        except Unscannable as unread:
            verdict = unread.reason, _NOTHING
        except Exception as failure:  # noqa: BLE001 - whatever goes wrong here, the call stays on the premises
            # guard: C14.error-restricts -> return self._classification(request, 'clear', {},
            #   started_s)
            return self._classification(request, self._failed(request, failure), {}, started_s)
        if verdict is None:
            return None
        classification = self._classification(
            request, *verdict, started_s, self._is_all(request, caller)
        )
        if self._names_always and not (classification.restricted or classification.complete):
            self._begun = _Begun(request, caller, started_s, classification=classification)
            return None
        return classification

    async def classify(self, request: InferenceRequest) -> Classification:
        """The first look: everything but names, unless these are looked for in every call."""
        begun = self._taken()
        if begun is None or begun.request is not request:  # guard: C14.request-identity minus 2
            if (at_once := self.classify_now(request)) is not None:
                return at_once
            begun = self._taken()
        assert begun is not None
        classification = begun.classification
        if classification is None:
            reason, counts = await self._prior_verdict(self._scanned(begun), request)
            complete = self._is_all(request, begun.caller)
            classification = self._classification(
                request, reason, counts, begun.started_s, complete
            )
        return (
            await self.complete(request, classification) if self._names_always else classification
        )

    def _is_all(self, request: InferenceRequest, caller: _Caller) -> bool:
        """Whether nothing is left to look for in a call that would leave."""
        return not caller.has_names and not isinstance(request.payload, TensorCall)

    def _taken(self) -> _Begun | None:
        begun, self._begun = self._begun, None
        return begun

    def _classification(
        self,
        request: InferenceRequest,
        reason: str,
        counts: Mapping[str, int],
        started_s: float,
        complete: bool = False,
    ) -> Classification:
        """`complete`: whether there is nothing else to look for in a call that is clear."""
        clear = reason in _CLEAR
        # guard: C18.masked-or-restricted
        if clear and complete and request.pseudonymise and self._stays_unmasked(request):
            clear, reason = False, TAINTED
        if not clear:
            self._taint(request, reason)
        return Classification(
            request.id,
            CLEAR if clear else Sensitivity.RESTRICTED,
            reason,
            counts,
            self._clock() - started_s,
            clear and (complete or reason == PUBLIC_MODEL),
        )

    async def complete(
        self, request: InferenceRequest, classification: Classification
    ) -> Classification:
        """The second look, at a call that nothing has restricted so far: names, and what its
        tensors may be."""
        if classification.restricted or classification.complete:
            return classification
        started_s = self._clock()
        reason, counts = await self._prior_verdict(
            self._verdict_at_the_door(request, started_s), request
        )
        # guard: C18.door-unmasked
        if reason == "clear" and request.pseudonymise and self._stays_unmasked(request):
            reason = TAINTED
        if reason != "clear":
            self._taint(request, reason)
        return replace(
            classification,
            sensitivity=CLEAR if reason == "clear" else Sensitivity.RESTRICTED,
            reason=reason,
            entities={**classification.entities, **counts},
            classify_s=classification.classify_s + self._clock() - started_s,
            complete=reason in ("clear", "entities"),
        )

    async def _prior_verdict(
        self, verdict: Awaitable[tuple[str, Mapping[str, int]]], request: InferenceRequest
    ) -> tuple[str, Mapping[str, int]]:
        """A verdict, whatever becomes of the looking: what is not known restricts."""
        counts: Mapping[str, int] = {}
        try:
            reason, counts = await verdict
        except NoScan as failure:
            reason = failure.reason
        except Exception as failure:  # noqa: BLE001 - whatever goes wrong here, the call stays on the premises
            reason = self._failed(request, failure)
        return reason, counts

    def _failed(self, request: InferenceRequest, failure: Exception) -> str:
        fields = logs.call_fields(request.record_id, request.record_trace)
        log.error("classifying failed: %s", type(failure).__name__, extra=fields)
        return ScanFailed.reason

    def _stays_unmasked(self, request: InferenceRequest) -> bool:
        """Whether a call in which nothing was found goes on from one that was restricted. When
        that is not known, it does."""
        try:
            return self.taint.leaves_masked_alone(request)
        except Exception as failure:  # noqa: BLE001 - whatever goes wrong here, the call stays on the premises
            self._failed(request, failure)
            return True

    def _taint(self, request: InferenceRequest, reason: str) -> None:
        if request.explained or request.surrogates:
            return
        try:
            self.taint.mark(request, reason, self._caller(request.tightening).policy)
        except Exception as failure:  # noqa: BLE001 - restricted as it is; its next turn fails there too
            fields = logs.call_fields(request.record_id, request.record_trace)
            log.error("marking failed: %s", type(failure).__name__, extra=fields)

    def _at_once(
        self, request: InferenceRequest, caller: _Caller, started_s: float
    ) -> tuple[str, Mapping[str, int]] | None:
        """The reason and the counts; None if it takes a scan. Raises Unscannable."""
        model = self._catalog.models.get(request.model)
        if model is None:
            return UNDECLARED, _NOTHING
        if model.public and request.tightening == NOT_TIGHTENED:  # guard: C16.key-floor minus 2
            # guard: C16.label-taint minus 1
            return self.taint.source(request) or PUBLIC_MODEL, _NOTHING
        texts = extract_texts(request.payload, model, self._max_bytes)
        if (stays := self.taint.source(request, caller.policy)) is not None:
            return stays, _NOTHING
        if model.tensors_clear and isinstance(request.payload, TensorCall):
            catalog = self._catalog
            if catalog.may_leave(model) and catalog.tensor_names(model) is None:
                return UNKNOWN_TENSORS, _NOTHING
        if not texts:
            return _CLEAR_VERDICT
        scope: Scope | None = None
        beginning: Beginning | None = None
        gate = self._gate.gate
        if gate is not None:
            if len(texts) < _CONVERSATION or sum(map(len, texts)) < _LONG:
                rest = BETWEEN.join(texts)
            else:
                scope = Scope(request.tenant, caller.policy, PATTERNS)
                beginning = self._segments.beginning(scope, texts)
                rest = beginning.rest
            if len(rest) <= _GATE_MOST:  # guard: C14.text-offload always
                evidence, profile = self._evidence, caller.profile
                first = evidence.likely(rest)
                if first and (kind := evidence.find(rest, profile)) is not None:
                    return "entities", {kind: 1}
                if gate.clear(rest):
                    if beginning is not None:
                        assert scope is not None
                        self._segments.keep(scope, beginning)
                    return _CLEAR_VERDICT
                if not first and (kind := evidence.find(rest, profile)) is not None:
                    return "entities", {kind: 1}
        scope = scope or Scope(request.tenant, caller.policy, PATTERNS)
        known = self._segments.recall(scope, texts)
        if known.settled:
            return ("entities" if known.restricted else "clear"), known.entities
        self._begun = _Begun(request, caller, started_s, known, scope, beginning)
        return None

    async def _scanned(self, begun: _Begun) -> tuple[str, Mapping[str, int]]:
        profile, known, scope = begun.caller.profile, begun.known, begun.scope
        assert known is not None
        assert scope is not None
        request, started_s = begun.request, begun.started_s

        async def scan(texts: Sequence[str]) -> list[list[Finding]]:
            size = sum(map(len, texts))

            def read() -> Awaitable[list[list[Finding]]]:
                left_s = self._left_s(request, started_s, size)
                if profile == self._widest:
                    return self._pool.scan(texts, left_s)
                return self._pool.scan(texts, left_s, (profile.types, profile.threshold))

            return await self._long.read(size, self._left_s(request, started_s, size), read)

        restricted, counts = await self._segments.scan_unseen(scope, known, scan, profile)
        # guard: C15.clear-only minus 1
        if not (restricted or counts) and begun.beginning is not None:
            self._segments.keep(scope, begun.beginning)
        return ("entities" if restricted else "clear"), counts

    async def _verdict_at_the_door(
        self, request: InferenceRequest, started_s: float
    ) -> tuple[str, Mapping[str, int]]:
        model = self._catalog.find(request.model)
        payload = request.payload
        caller = self._caller(request.tightening)
        try:
            texts = extract_texts(payload, model, self._max_bytes)
            if isinstance(payload, TensorCall):
                spelled = await self._spelled(request, payload, started_s)
                if spelled:
                    reason, counts = await self._verdict_on_spelled(
                        request, caller, spelled, started_s
                    )
                    if reason != "clear":
                        return reason, counts
                    read = set(texts)  # a text that stands twice in a call reads differently
                    texts += [t for t in spelled if t not in read and t.upper() != t.lower()]
        except Unscannable as unread:
            return unread.reason, {}
        if not caller.has_names:
            return _CLEAR_VERDICT
        return await self._verdict_on_names(request, caller, texts, started_s)

    async def _spelled(
        self, request: InferenceRequest, call: TensorCall, started_s: float
    ) -> list[str]:
        """What its tensors may say. Raises Unscannable, NoScan."""
        size = sum([len(tensor.data) for tensor in call.inputs])
        if self._tensors_were_read and size <= _AT_ONCE_BYTES:
            return _spelled_texts(call, self._max_bytes)
        left_s = max(0.0, self._left_s(request, started_s, size))
        try:
            with timeouts.within(left_s):
                spelled = await asyncio.to_thread(_spelled_texts, call, self._max_bytes)
        except TimeoutError:
            raise ScanLate("the tensors were not read in time") from None
        self._tensors_were_read = True
        return spelled

    async def _verdict_on_spelled(
        self, request: InferenceRequest, caller: _Caller, spelled: list[str], started_s: float
    ) -> tuple[str, Mapping[str, int]]:
        """By the patterns."""
        gate = self._gate.gate
        if gate is not None and gate.clear(BETWEEN.join(spelled)):
            return _CLEAR_VERDICT
        scope = Scope(request.tenant, caller.policy, PATTERNS)
        known = self._segments.recall(scope, spelled)
        if known.settled:
            return ("entities" if known.restricted else "clear"), known.entities
        return await self._scanned(_Begun(request, caller, started_s, known, scope))

    async def _verdict_on_names(
        self,
        request: InferenceRequest,
        caller: _Caller,
        texts: Sequence[str],
        started_s: float,
    ) -> tuple[str, Mapping[str, int]]:
        assert self._names is not None
        names = self._names
        profile, allowed = caller.profile, self._settings.allow_list
        scope = Scope(request.tenant, caller.policy, NAMES)
        whole = sum(map(len, texts))
        left_s = self._left_s(request, started_s, whole)
        people = await across.people_findings(names, request.payload, texts, left_s, allowed)
        if profile.restricts(people):
            return "entities", {PERSON: len(people)}

        async def scan(some: Sequence[str]) -> list[list[Finding]]:
            size = sum(map(len, some))

            def read() -> Awaitable[list[list[Finding]]]:
                left_s = self._left_s(request, started_s, size)
                return find_in_all_forms(names, some, left_s, allowed, records=False)

            return await self._long.read(size, self._left_s(request, started_s, size), read)

        restricted, counts = await self._segments.scan(scope, texts, scan, profile)
        if not restricted and PERSON in counts and PERSON in profile.types:
            left_s = self._left_s(request, started_s, whole)
            people = await across.lone_people(names, request.payload, texts, left_s, allowed)
            restricted = profile.restricts(people)
        return ("entities" if restricted else "clear"), counts

    def _left_s(self, request: InferenceRequest, started_s: float, size: int) -> float:
        """Seconds for reading so many characters. A long text has as much more as it is longer, if
        half of what the call has left is for its answer."""
        budget_s, spent_s = self._settings.budget_ms / 1e3, self._clock() - started_s
        remaining_s = request.deadline.remaining_s()
        if size <= LONG:
            return min(budget_s - spent_s, remaining_s)
        return max(
            min(budget_s - spent_s, remaining_s),
            min(budget_s * size / LONG - spent_s, remaining_s / 2),
        )

    def looks_for(self, added: Tightening) -> bool:
        """Whether the scanners were built for all that this adds."""
        profile, widest = self._caller(added).profile, self._widest
        return profile.types <= widest.types and profile.threshold >= widest.threshold

    def _caller(self, added: Tightening) -> _Caller:
        """What restricts a caller: as many as callers add to the settings, each in its own way."""
        if added not in self._callers:
            self._callers[added] = self._scan_caller(Profile.from_settings(self._settings, added))
        return self._callers[added]

    def _scan_caller(self, profile: Profile) -> _Caller:
        rules = repr((self._version, profile.name, sorted(profile.types), profile.threshold))
        return _Caller(
            profile,
            hashlib.sha256(rules.encode()).hexdigest(),
            self._names is not None and not LOOKED_FOR.isdisjoint(profile.types),
        )


def _spelled_texts(call: TensorCall, max_bytes: int) -> list[str]:
    # a tenth of a second; few calls need it
    from gateway.classify.tensor_inputs.tensors import spelled_texts

    return spelled_texts(call, max_bytes)


def _version(settings: ClassifySettings) -> str:
    """`presidio version/names version/revision/hash of what decides`; lists go in as a hash."""
    rules = settings.model_dump_json(exclude={"budget_ms", "workers", "max_waiting", "memory"})
    digest = hashlib.sha256(rules.encode()).hexdigest()[:12]
    presidio = importlib.metadata.version("presidio-analyzer")
    return f"presidio-{presidio}/{engines.version(settings.names)}/{REVISION}/{digest}"
