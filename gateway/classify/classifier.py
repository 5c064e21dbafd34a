"""The verdict on one call: clear, or restricted and why. There is no third answer.

Reason codes: `clear`, `entities`, `labelled`, `tainted`, `taint_lost`, `unscannable:<what>`,
`over_cap`, `too_many`, `late`, `failed`, `busy`, `undeclared_model`, `tensor_class`,
`tensors_unknown`, `unmeasured_language`, `category:<name>`. Only the first is clear, and
`public_model`: that of a call to a model that the operator has declared public, which is not read.

Five stages, each of which can end it. What of the call can be read (text/extract.py): a part that
cannot restricts it. What is known without reading (conversations/taint.py): its caller's label, and
the calls that it continues. The patterns (verdicts/patterns.py): the gate says in microseconds that
nothing in the texts could restrict, and what it does not clear may prove at once that it restricts.
So far there is nothing to wait for, and `classify_now` has the verdict on most calls. The scan of
what was not scanned before, in a worker, up to the first finding that restricts: that says where
the call goes, and the counts in its record are what was found by then. Names (verdicts/names.py),
and the operator's categories (verdicts/categories.py), which cost the most, are looked for by
`complete`: in a call that would leave the premises. So are documents (verdicts/documents.py) read,
where the settings have them read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gateway.classify import NoScan, ScanFailed, Scans, canaries
from gateway.classify.conversations.memory import SegmentMemory
from gateway.classify.conversations.taint import LABELLED, TAINTED, Taint, TaintMarks
from gateway.classify.gate.armed import ArmedGate, known
from gateway.classify.gate.evidence import Evidence
from gateway.classify.names import Names, forms
from gateway.classify.text.documents.attachments import detach
from gateway.classify.text.extract import UNDECLARED, UNKNOWN_TENSORS, Unscannable, extract_texts
from gateway.classify.verdicts.answers.verdicts import AnswerVerdicts
from gateway.classify.verdicts.budget import ReadingBudget
from gateway.classify.verdicts.classes import NO_CLASSES, ClassVerdicts, failed
from gateway.classify.verdicts.documents import DocumentVerdicts, ReadsDocuments
from gateway.classify.verdicts.names import NameVerdicts
from gateway.classify.verdicts.patterns import (
    NOTHING,
    PatternVerdicts,
    PendingScan,
    Verdict,
)
from gateway.classify.verdicts.policies import CallerPolicies, CallerPolicy
from gateway.classify.verdicts.readers import category_reader
from gateway.classify.verdicts.second_pass import SecondPass
from gateway.classify.verdicts.spelled import SpelledTexts
from gateway.config import ClassifySettings
from gateway.config.model_catalog import Catalog
from gateway.config.zones.admission import DataClasses
from gateway.core import ambient
from gateway.core.deadline import Clock
from gateway.core.process import logs
from gateway.core.structs import value
from gateway.core.types import (
    CLEAR,
    NOT_TIGHTENED,
    PUBLIC_MODEL,
    Classification,
    InferenceRequest,
    Sensitivity,
    TensorCall,
    Tightening,
)

if TYPE_CHECKING:
    from gateway.classify.categories.reader import CategoryReader
    from gateway.classify.verdicts.categories import CategoryVerdicts

log = logging.getLogger(__name__)

_CLEAR = frozenset({"clear", PUBLIC_MODEL})


@value
class _Begun:
    """A first look that takes a scan, or a second look, and how far it came."""

    request: InferenceRequest
    policy: CallerPolicy
    started_s: float
    pending: PendingScan | None = None
    classification: Classification | None = None


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
        categories: CategoryReader | None = None,
        documents: ReadsDocuments | None = None,
        classes: DataClasses | None = None,
    ) -> None:
        """`taint`: what another classifier of this process remembers as restricted; `marks`: what
        workers have in common of it. `gate` and `evidence` are armed when this one starts, or were
        with another one of the same pool, which `categories` are of, too. `classes`: those of the
        settings, or the built-in ones."""
        self._settings = settings
        self._max_bytes = settings.max_scan_bytes
        self._added = added
        self._catalog = catalog
        self._pool = pool
        self._gate = ArmedGate() if gate is None else gate
        self._evidence = Evidence() if evidence is None else evidence
        self._names = names
        self._clock = clock
        self._names_always = settings.names.when == "always"
        self._begun: _Begun | None = None
        key, keep = ambient.random_bytes(32), settings.memory
        self.taint = taint or Taint(keep.taints, keep.taint_s, clock, key, marks)
        self._policies = policies = CallerPolicies(settings, added, names is not None)
        budget = ReadingBudget(settings.budget_ms / 1e3, clock)
        segments = SegmentMemory(keep.verdicts, keep.verdict_s, clock, key)
        self._by_patterns = PatternVerdicts(
            pool, self._gate, self._evidence, segments, budget, policies.widest
        )
        self._by_names: NameVerdicts | None = None
        if names is not None:
            self._by_names = NameVerdicts(names, segments, budget, settings.allow_list)
        at_door: NameVerdicts | CategoryVerdicts | None = self._by_names
        self._categories = category_reader(settings) if categories is None else categories
        if self._categories is not None:
            from gateway.classify.verdicts.categories import CategoryVerdicts  # numpy

            at_door = CategoryVerdicts(settings, self._categories, self._by_names, segments, budget)
        self._documents = documents
        self._classes = ClassVerdicts(classes or DataClasses(), settings, policies, self.taint)
        self._second_pass = SecondPass(
            catalog,
            settings.max_scan_bytes,
            clock,
            self._by_patterns,
            SpelledTexts(settings.max_scan_bytes, budget),
            at_door,
            None if documents is None else DocumentVerdicts(documents, keep, clock, key),
            numbers=self._categories is not None,
        )

    def for_catalog(self, catalog: Catalog, classes: DataClasses | None = None) -> Classifier:
        """The same scanners for other models and classes. What was restricted stays so; no verdict
        is known. It is started and closed with this one."""
        return Classifier(
            self._settings, catalog, self._pool, self._clock, self._gate, self._added,
            self._names, self.taint, evidence=self._evidence, categories=self._categories,
            documents=self._documents, classes=classes,
        )  # fmt: skip

    def answer_verdicts(self) -> AnswerVerdicts:
        """What reads answers as calls are read. It is started and closed with this one."""
        return AnswerVerdicts(
            self._by_patterns, self._by_names, self._policies, self.taint, self._max_bytes,
            self._clock,
        )  # fmt: skip

    @property
    def version(self) -> str:
        """Names policy and detector in records; a verdict is only comparable within one version."""
        return self._policies.version

    async def start(self) -> None:
        """Raises ScannerUnfit when a scanner misses one of its samples (C8)."""
        await self._pool.start()
        if self._names is not None:
            await self._names.start()
            await asyncio.to_thread(forms.prepare)
        if self._categories is not None:
            await self._categories.start()
        if self._documents is not None:
            await self._documents.start()
        needs = known(getattr(self._pool, "needs", None))
        self._evidence.arm({n.recognizer for n in needs.needs}, self._settings.allow_list)
        await self._gate.arm(needs, canaries.positives(self._settings, self._policies.widest.types))

    async def aclose(self) -> None:
        await self._gate.aclose()
        if self._documents is not None:
            await self._documents.aclose()
        if self._names is not None:
            await self._names.aclose()
        if self._categories is not None:
            await self._categories.aclose()
        await self._pool.aclose()

    def classify_now(self, request: InferenceRequest) -> Classification | None:
        """The first look, if it needs no scan: the usual call's. None: `classify` goes on from
        here. Never raises."""
        started_s = self._clock()
        self._begun = None
        try:
            added = request.tightening
            policies = self._policies
            policy = policies.usual if added is NOT_TIGHTENED else policies.find(added)
            verdict = self._at_once(request, policy)
        except Unscannable as unread:
            verdict = unread.reason, NOTHING
        except Exception as failure:  # noqa: BLE001 - whatever goes wrong here, the call stays on the premises
            # guard: C14.error-restricts -> return self._classification(request, 'clear', {},
            #   started_s)
            return self._classification(request, failed(request, failure), {}, started_s)
        if isinstance(verdict, PendingScan):
            self._begun = _Begun(request, policy, started_s, verdict)
            return None
        complete = self._is_all(request, policy)
        classification = self._classification(request, *verdict, started_s, complete)
        if self._names_always and not (classification.stays or classification.complete):
            self._begun = _Begun(request, policy, started_s, None, classification)
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
            pending, policy, started_s = begun.pending, begun.policy, begun.started_s
            assert pending is not None
            scan = self._by_patterns.scan(pending, request, policy, started_s)
            reason, counts = await self._settled(scan, request)
            complete = self._is_all(request, policy)
            classification = self._classification(request, reason, counts, started_s, complete)
        return (
            await self.complete(request, classification) if self._names_always else classification
        )

    def _is_all(self, request: InferenceRequest, policy: CallerPolicy) -> bool:
        """Whether nothing is left to look for in a call that would leave."""
        if policy.has_more or isinstance(request.payload, TensorCall):
            return False
        # guard: K4.door -> return True
        return self._documents is None or not detach(request.payload)[1]

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
        classes: frozenset[str] | None = NO_CLASSES
        if self._classes.some or request.labels:  # guard: M7.label-without-classes minus 2
            classes = self._classes.derive(request, reason, counts)
            if clear and classes is None:  # guard: M7.underived
                clear, reason = False, ScanFailed.reason
        if not clear or classes:
            self.mark_restricted(request, reason, classes)
        took_s, complete = self._clock() - started_s, clear and (complete or reason == PUBLIC_MODEL)
        if classes:
            return self._classes.graded(request, classes, reason, counts, took_s, complete)
        return Classification(
            request.id,
            CLEAR if clear else Sensitivity.RESTRICTED,
            reason,
            counts,
            took_s,
            complete,
            admitted=self._classes.clear,
        )

    async def complete(
        self, request: InferenceRequest, classification: Classification
    ) -> Classification:
        """The second look, at a call that may leave as far as it has been read: names, what its
        tensors may be, and what in it is of no class that it is known to be of."""
        if classification.stays or classification.complete:
            return classification
        started_s = self._clock()
        reason, counts, classes = classification.reason, classification.entities, NO_CLASSES
        if not classification.restricted or reason == LABELLED:  # the patterns have cleared it
            reason, more = await self._settled(self._second_verdict(request, started_s), request)
            counts = {**counts, **more}
        if self._classes.some:
            reason, counts, classes = await self._classes.grade(
                request, reason, counts, partial(self._beyond, request)
            )
        # guard: C18.door-unmasked
        if reason == "clear" and request.pseudonymise and self._stays_unmasked(request):
            reason, classes = TAINTED, NO_CLASSES
        if reason != "clear":
            self.mark_restricted(request, reason, classes)
        took_s = classification.classify_s + self._clock() - started_s
        if classes:
            # guard: M7.shrinking classification.admitted -> None
            return self._classes.graded(
                request, classes, reason, counts, took_s, True, classification.admitted
            )
        return replace(
            classification,
            sensitivity=CLEAR if reason == "clear" else Sensitivity.RESTRICTED,
            reason=reason,
            entities=counts,
            classify_s=took_s,
            complete=reason in ("clear", "entities"),
            data_class="",
        )

    async def _beyond(self, request: InferenceRequest, policy: CallerPolicy) -> Verdict:
        return await self._settled(self._second_pass.whole(request, policy, self._clock()), request)

    async def _second_verdict(self, request: InferenceRequest, started_s: float) -> Verdict:
        policy = self._policies.find(request.tightening)
        return await self._second_pass.verdict(request, policy, started_s)

    async def _settled(self, verdict: Awaitable[Verdict], request: InferenceRequest) -> Verdict:
        """A verdict, whatever becomes of the looking: what is not known restricts."""
        counts = NOTHING
        try:
            reason, counts = await verdict
        except NoScan as failure:
            reason = failure.reason
        except Exception as failure:  # noqa: BLE001 - whatever goes wrong here, the call stays on the premises
            reason = failed(request, failure)
        return reason, counts

    def _stays_unmasked(self, request: InferenceRequest) -> bool:
        """Whether a call in which nothing was found goes on from one that was restricted. When
        that is not known, it does."""
        try:
            return self.taint.leaves_masked_alone(request, self._classes.some)
        except Exception as failure:  # noqa: BLE001 - whatever goes wrong here, the call stays on the premises
            failed(request, failure)
            return True

    def mark_restricted(
        self, request: InferenceRequest, reason: str, classes: frozenset[str] | None = None
    ) -> None:
        if request.explained or request.surrogates:
            return
        try:
            version = self._policies.find(request.tightening).version
            self.taint.mark(request, reason, version, classes or NO_CLASSES)
        except Exception as failure:  # noqa: BLE001 - restricted as it is; its next turn fails there too
            fields = logs.call_fields(request.record_id, request.record_trace)
            log.error("marking failed: %s", type(failure).__name__, extra=fields)

    def _at_once(self, request: InferenceRequest, policy: CallerPolicy) -> Verdict | PendingScan:
        """The reason and the counts, or what is to be scanned. Raises Unscannable."""
        model = self._catalog.models.get(request.model)
        if model is None:
            return UNDECLARED, NOTHING
        if model.public and request.tightening == NOT_TIGHTENED:  # guard: C16.key-floor minus 2
            # guard: C16.label-taint minus 1
            return self.taint.source(request, "", self._classes.some) or PUBLIC_MODEL, NOTHING
        payload = request.payload
        if self._documents is not None:
            payload, _ = detach(payload)
        texts = extract_texts(payload, model, self._max_bytes)
        stays = self.taint.source(request, policy.version, self._classes.some)
        if stays is not None:
            return stays, NOTHING
        if model.tensors_clear and isinstance(request.payload, TensorCall):
            catalog = self._catalog
            if catalog.may_leave(model) and catalog.tensor_names(model) is None:
                return UNKNOWN_TENSORS, NOTHING
        return self._by_patterns.at_once(request, policy, texts)

    def looks_for(self, added: Tightening) -> bool:
        """Whether the scanners were built for all that this adds."""
        return self._policies.cover(added)
