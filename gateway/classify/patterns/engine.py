"""What `AnalyzerEngine.analyze` finds, of only what can find something."""

from __future__ import annotations

import copy
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from presidio_analyzer import (
    AnalysisExplanation,
    AnalyzerEngine,
    EntityRecognizer,
    RecognizerResult,
)
from presidio_analyzer.nlp_engine import NlpArtifacts

from gateway.classify.patterns.context import ContextWords, enhanced
from gateway.classify.patterns.gate import PatternGate
from gateway.classify.patterns.plan import ScanPlan, has_own_context, make_plan
from gateway.classify.patterns.recognition import (
    PatternHit,
    pattern_keys,
    settled,
    without_duplicates,
)
from gateway.classify.patterns.store import BlobStore
from gateway.classify.scanner.effort import spend

_ID = RecognizerResult.RECOGNIZER_IDENTIFIER_KEY
_NAME = RecognizerResult.RECOGNIZER_NAME_KEY
_BOOSTED = RecognizerResult.IS_SCORE_ENHANCED_BY_CONTEXT_KEY
_CACHED_PLANS = 64
_STEPS_A_REPORT = 2
"""What effort.py counts for a report of an expression whose recognizer searches by itself."""
_new_result: Any = RecognizerResult  # typed as if it always had an explanation

Artifacts = Callable[[], NlpArtifacts]


@dataclass(frozen=True, slots=True)
class Scan:
    """Where expressions can match in a text, by their id."""

    folded: bytes
    ends: Mapping[int, Sequence[int]]


class PatternEngine:
    """Over an AnalyzerEngine, which says which recognizers there are. Its NLP engine is one that
    says what stands before a place (`WordsNear`), and its registry stays as it is."""

    def __init__(self, presidio: AnalyzerEngine, store: BlobStore | None = None) -> None:
        """What the registry has in patterns is loaded, or built in the background."""
        self.presidio = presidio
        self._gate = PatternGate(BlobStore.for_user() if store is None else store)
        self._plans: dict[tuple[str, tuple[str, ...]], ScanPlan] = {}
        recognizers = presidio.registry.recognizers
        self._gate.want({key for recognizer in recognizers for key in pattern_keys(recognizer)})

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until the patterns are built. Nobody has to wait: until then everything runs."""
        return self._gate.wait(timeout_s)

    @property
    def gated(self) -> bool:
        return self._gate.automaton is not None

    def find(
        self, text: str, language: str, entities: Sequence[str], score_threshold: float
    ) -> list[PatternHit]:
        """What `AnalyzerEngine.analyze` answers to the same, without its objects; findings of equal
        score, start and length may come in another order, as they do there."""
        plan = self._plan(language, tuple(entities))
        scan = _scan(plan, text)
        if plan.quiet and (not text or (scan is not None and not scan.ends)):
            return []
        artifacts: Artifacts = functools.cache(
            lambda: self.presidio.nlp_engine.process_text(text, language)
        )
        hits = _run(plan, text, scan, artifacts)
        if not hits:
            return []
        if plan.own_context:
            hits = self._enhance_as_presidio(plan, text, hits, artifacts)
        else:
            self._enhance(plan, text, hits, score_threshold)
        over = [hit for hit in hits if hit.score >= score_threshold]
        return sorted(without_duplicates(over), key=_by_score)

    def _plan(self, language: str, entities: tuple[str, ...]) -> ScanPlan:
        key = language, entities
        plan = self._plans.get(key)
        if plan is None or plan.automaton is not self._gate.automaton:
            if len(self._plans) >= _CACHED_PLANS:
                self._plans = {}
            plan = self._plans[key] = self._make_plan(language, list(entities))
        return plan

    def _make_plan(self, language: str, entities: list[str]) -> ScanPlan:
        recognizers = self.presidio.registry.get_recognizers(language=language, entities=entities)
        enhancer = self.presidio.context_aware_enhancer
        own_context = has_own_context(enhancer, recognizers)
        return make_plan(recognizers, entities, self._gate.automaton, own_context=own_context)

    def _enhance(
        self, plan: ScanPlan, text: str, hits: list[PatternHit], score_threshold: float
    ) -> None:
        rules: Any = self.presidio.context_aware_enhancer
        nlp_engine: Any = self.presidio.nlp_engine
        words = ContextWords(text, nlp_engine, rules)
        for hit in hits:
            wanted = plan.contexts.get(id(hit.recognizer))
            if wanted is None:
                continue
            better = enhanced(hit.score, rules)
            if better == hit.score or better < score_threshold or _is_boosted(hit):
                continue
            if words.support(hit.start, wanted):
                hit.score = better

    def _enhance_as_presidio(
        self, plan: ScanPlan, text: str, hits: list[PatternHit], artifacts: Artifacts
    ) -> list[PatternHit]:
        results = self.presidio._enhance_using_context(
            text,
            [_explained(hit) for hit in hits],
            artifacts(),
            list(plan.recognizers.values()),
            None,
        )
        return [_hit(result, plan.recognizers) for result in results]


def _run(plan: ScanPlan, text: str, scan: Scan | None, artifacts: Artifacts) -> list[PatternHit]:
    hits: list[PatternHit] = []
    if scan is not None:
        for id_, ends in scan.ends.items():
            for job in plan.gated.get(id_, ()):
                hits += job.run(text, scan.folded, ends)
    for job in plan.ungated:
        hits += job.run(text, b"", None)
    if hits:
        hits = settled(hits, text)
    for recognizer in plan.wholes:
        results = recognizer.analyze(text=text, entities=plan.entities, nlp_artifacts=artifacts())
        hits += _owned(results or (), recognizer, plan.recognizers)
    for recognizer in _opened_wholes(plan, scan):
        results = recognizer.analyze(text=text, entities=plan.entities, nlp_artifacts=None)
        hits += _owned(results or (), recognizer, plan.recognizers)
    return hits


def _scan(plan: ScanPlan, text: str) -> Scan | None:
    automaton = plan.automaton
    if automaton is None or not plan.databases or not text:
        return None
    folded = automaton.alphabet.encode(text)
    ends: defaultdict[int, list[int]] = defaultdict(list)

    def report(id_: int, _: int, end: int, __: int, ___: object) -> None:
        ends[id_].append(end)

    automaton.scan(folded, plan.databases, report)
    return Scan(folded, ends)


def _opened_wholes(plan: ScanPlan, scan: Scan | None) -> list[Any]:
    if scan is None or not plan.gated_wholes:
        return []
    opened: set[int] = set()
    for id_, ends in scan.ends.items():
        if at := plan.gated_wholes.get(id_):
            spend(len(ends) * _STEPS_A_REPORT)
            opened.update(at)
    return [plan.wholes_with_gates[at] for at in sorted(opened)]


def _owned(
    results: Iterable[RecognizerResult],
    recognizer: Any,
    recognizers: Mapping[str, EntityRecognizer],
) -> Iterable[PatternHit]:
    """Presidio goes on with what names one of the recognizers that it asked, or none."""
    for result in results:
        named = copy.copy(result)  # who returned it may keep it
        metadata = named.recognition_metadata = dict(result.recognition_metadata or {})
        metadata.setdefault(_ID, recognizer.id)
        metadata.setdefault(_NAME, recognizer.name)
        if metadata[_ID] in recognizers:
            yield _hit(named, recognizers)


def _hit(result: RecognizerResult, recognizers: Mapping[str, EntityRecognizer]) -> PatternHit:
    owner = recognizers[result.recognition_metadata[_ID]]
    return PatternHit(
        result.entity_type, result.start, result.end, result.score, owner, result=result
    )


def _explained(hit: PatternHit) -> RecognizerResult:
    """An enhancer writes into the explanation what it did."""
    if hit.result is not None:
        return hit.result
    metadata = {_NAME: hit.recognizer.name, _ID: hit.recognizer.id}
    explanation = AnalysisExplanation(hit.recognizer.name, hit.score)
    result: RecognizerResult = _new_result(
        hit.type, hit.start, hit.end, hit.score, explanation, metadata
    )
    return result


def _is_boosted(hit: PatternHit) -> bool:
    """By its own recognizer."""
    return hit.result is not None and bool(hit.result.recognition_metadata.get(_BOOSTED))


def _by_score(hit: PatternHit) -> tuple[float, int, int]:
    return -hit.score, hit.start, hit.start - hit.end
