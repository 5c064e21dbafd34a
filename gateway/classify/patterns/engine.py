"""`AnalyzerEngine.analyze`, with the same findings, of only what can find something."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import regex
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
from gateway.classify.patterns.proxies import Scan, scanned
from gateway.classify.patterns.recognition import (
    PatternHit,
    pattern_keys,
    settled,
    without_duplicates,
)
from gateway.classify.patterns.store import BlobStore

_ID = RecognizerResult.RECOGNIZER_IDENTIFIER_KEY
_NAME = RecognizerResult.RECOGNIZER_NAME_KEY
_BOOSTED = RecognizerResult.IS_SCORE_ENHANCED_BY_CONTEXT_KEY
_ALLOW_FLAGS = regex.DOTALL | regex.MULTILINE | regex.IGNORECASE
_CACHED_PLANS = 64
_new_result: Any = RecognizerResult  # typed as if it always had an explanation


class PatternEngine:
    """Over an AnalyzerEngine, which says which recognizers there are and answers what is not done
    here (its decision process, its tracing).

    A recognizer that is added to the registry, taken out of it or put in another's place is noticed
    by the next call; one that is changed in place wants a `refresh`.
    """

    def __init__(
        self,
        presidio: AnalyzerEngine,
        store: BlobStore | None = None,
    ) -> None:
        self.presidio = presidio
        self._gate = PatternGate(BlobStore.for_user() if store is None else store)
        self._plans: dict[tuple[str, tuple[str, ...] | None], ScanPlan] = {}
        self._registered: list[EntityRecognizer] = []
        self.refresh()

    def refresh(self) -> None:
        """Look at the registry anew; what it has in patterns is built in the background."""
        self._registered = list(self.presidio.registry.recognizers)
        self._plans = {}
        self._gate.want(
            {key for recognizer in self._registered for key in pattern_keys(recognizer)}
        )

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until the patterns are built. Nobody has to wait: until then everything runs."""
        return self._gate.wait(timeout_s)

    @property
    def gated(self) -> bool:
        return self._gate.automaton is not None

    def analyze(
        self,
        text: str,
        language: str,
        entities: list[str] | None = None,
        correlation_id: str | None = None,
        score_threshold: float | None = None,
        return_decision_process: bool = False,
        ad_hoc_recognizers: list[EntityRecognizer] | None = None,
        context: list[str] | None = None,
        allow_list: list[str] | None = None,
        allow_list_match: str = "exact",
        regex_flags: int = _ALLOW_FLAGS,
        nlp_artifacts: NlpArtifacts | None = None,
    ) -> list[RecognizerResult]:
        """What `AnalyzerEngine.analyze` answers; results of equal score, start and length may come
        in another order, as they do there."""
        if return_decision_process or self.presidio.log_decision_process:
            return list(
                self.presidio.analyze(
                    text,
                    language,
                    entities=entities,
                    correlation_id=correlation_id,
                    score_threshold=score_threshold,
                    return_decision_process=return_decision_process,
                    ad_hoc_recognizers=ad_hoc_recognizers,
                    context=context,
                    allow_list=allow_list,
                    allow_list_match=allow_list_match,
                    regex_flags=regex_flags,
                    nlp_artifacts=nlp_artifacts,
                )
            )
        plan = self._plan(language, entities, ad_hoc_recognizers)
        hits = self._hits(plan, text, language, score_threshold, context, nlp_artifacts)
        results = [_result(hit) for hit in hits]
        if not allow_list:
            return results
        allowed: list[RecognizerResult] = self.presidio._remove_allow_list(
            results, allow_list, text, regex_flags, allow_list_match
        )
        return allowed

    def find(
        self, text: str, language: str, entities: Sequence[str], score_threshold: float
    ) -> list[PatternHit]:
        """The findings without Presidio's objects around them."""
        plan = self._plan(language, entities, None)
        return self._hits(plan, text, language, score_threshold, None, None)

    def _hits(
        self,
        plan: ScanPlan,
        text: str,
        language: str,
        score_threshold: float | None,
        context: list[str] | None,
        nlp_artifacts: NlpArtifacts | None,
    ) -> list[PatternHit]:
        scan = _scan(plan, text)
        if plan.quiet and (not text or (scan is not None and not scan.ends)):
            return []
        artifacts = _Artifacts(self.presidio, text, language, nlp_artifacts)
        hits = _run(plan, text, scan, artifacts)
        if not hits:
            return []
        if plan.own_context:
            hits = self._enhance_as_presidio(plan, text, hits, artifacts, context)
        else:
            self._enhance(plan, text, hits, artifacts, context, score_threshold)
        remaining = self._over_threshold(hits, score_threshold)
        return sorted(without_duplicates(remaining), key=_by_score)

    def _plan(
        self,
        language: str,
        entities: Sequence[str] | None,
        ad_hoc: list[EntityRecognizer] | None,
    ) -> ScanPlan:
        if self.presidio.registry.recognizers != self._registered:
            self.refresh()
        if ad_hoc:
            return self._make_plan(language, entities, ad_hoc)
        key = language, tuple(entities) if entities else None
        plan = self._plans.get(key)
        if plan is None or plan.automaton is not self._gate.automaton:
            if len(self._plans) >= _CACHED_PLANS:
                self._plans = {}
            plan = self._plans[key] = self._make_plan(language, entities, None)
        return plan

    def _make_plan(
        self,
        language: str,
        entities: Sequence[str] | None,
        ad_hoc: list[EntityRecognizer] | None,
    ) -> ScanPlan:
        wanted = list(entities) if entities else None
        recognizers = self.presidio.registry.get_recognizers(
            language=language,
            entities=wanted,
            all_fields=wanted is None,
            ad_hoc_recognizers=ad_hoc,
        )
        if wanted is None:
            wanted = self.presidio.get_supported_entities(language=language)
        return make_plan(
            recognizers,
            wanted,
            self._gate.automaton,
            own_context=has_own_context(self.presidio.context_aware_enhancer, recognizers),
        )

    def _enhance(
        self,
        plan: ScanPlan,
        text: str,
        hits: list[PatternHit],
        artifacts: _Artifacts,
        context: list[str] | None,
        score_threshold: float | None,
    ) -> None:
        rules: Any = self.presidio.context_aware_enhancer
        least = 0.0 if score_threshold is None else score_threshold
        words: ContextWords | None = None
        for hit in hits:
            wanted = plan.contexts.get(id(hit.recognizer))
            if wanted is None:
                continue
            better = enhanced(hit.score, rules)
            if better == hit.score or better < least or _is_boosted(hit):
                continue
            if words is None:
                engine = None if artifacts.given else self.presidio.nlp_engine
                given = [word.lower() for word in context or ()]
                words = ContextWords(text, engine, artifacts.get, rules, given)
            if words.support(hit.start, wanted):
                hit.score = better

    def _enhance_as_presidio(
        self,
        plan: ScanPlan,
        text: str,
        hits: list[PatternHit],
        artifacts: _Artifacts,
        context: list[str] | None,
    ) -> list[PatternHit]:
        results = self.presidio._enhance_using_context(
            text,
            [_explained(hit) for hit in hits],
            artifacts.get(),
            list(plan.recognizers.values()),
            context,
        )
        return [_hit(result, plan.recognizers) for result in results]

    def _over_threshold(
        self, hits: list[PatternHit], score_threshold: float | None
    ) -> list[PatternHit]:
        if score_threshold is not None:
            return [hit for hit in hits if hit.score >= score_threshold]
        default = self.presidio.default_score_threshold
        return [hit for hit in hits if hit.score >= _own_threshold(hit, default)]


class _Artifacts:
    """Of one text, made when somebody asks for them."""

    def __init__(
        self,
        presidio: AnalyzerEngine,
        text: str,
        language: str,
        given: NlpArtifacts | None,
    ) -> None:
        self._presidio, self._text, self._language = presidio, text, language
        self._made = given
        self.given = bool(given)

    def get(self) -> NlpArtifacts:
        if not self._made:
            self._made = self._presidio.nlp_engine.process_text(self._text, self._language)
        return self._made


def _run(plan: ScanPlan, text: str, scan: Scan | None, artifacts: _Artifacts) -> list[PatternHit]:
    hits: list[PatternHit] = []
    if scan is not None:
        for id_, ends in scan.ends.items():
            for job in plan.gated.get(id_, ()):
                hits += job.run(text, scan.folded, ends)
    for job in plan.ungated:
        hits += job.run(text, b"", None)
    if hits:
        hits = settled(hits, text)
    opened = _opened_wholes(plan, scan)
    if opened or plan.wholes:
        hits += _whole_hits(plan, text, scan, opened, artifacts)
    return hits


def _whole_hits(
    plan: ScanPlan, text: str, scan: Scan | None, opened: list[Any], artifacts: _Artifacts
) -> list[PatternHit]:
    hits: list[PatternHit] = []
    with scanned(scan):
        for recognizer in plan.wholes:
            results = recognizer.analyze(
                text=text, entities=plan.entities, nlp_artifacts=artifacts.get()
            )
            hits += _owned(results or (), recognizer, plan.recognizers)
        for recognizer in opened:
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
    return Scan(text, folded, ends, automaton)


def _opened_wholes(plan: ScanPlan, scan: Scan | None) -> list[Any]:
    if scan is None or not plan.gated_wholes:
        return []
    opened = {at for id_ in scan.ends for at in plan.gated_wholes.get(id_, ())}
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


def _result(hit: PatternHit) -> RecognizerResult:
    if hit.result is None:
        metadata = {_NAME: hit.recognizer.name, _ID: hit.recognizer.id}
        made: RecognizerResult = _new_result(
            hit.type, hit.start, hit.end, hit.score, None, metadata
        )
        return made
    given: Any = hit.result
    given.score, given.analysis_explanation = hit.score, None
    result: RecognizerResult = given
    return result


def _explained(hit: PatternHit) -> RecognizerResult:
    """An enhancer writes into the explanation what it did."""
    if hit.result is not None:
        return hit.result
    result = _result(hit)
    result.analysis_explanation = AnalysisExplanation(hit.recognizer.name, hit.score)
    return result


def _is_boosted(hit: PatternHit) -> bool:
    """By its own recognizer."""
    return hit.result is not None and bool(hit.result.recognition_metadata.get(_BOOSTED))


def _own_threshold(hit: PatternHit, default: float) -> float:
    """The recognizer's for this type, else its general one, else the engine's."""
    thresholds: dict[str, float] = hit.recognizer.score_thresholds
    for name in (hit.type, "default"):
        if thresholds.get(name) is not None:
            return thresholds[name]
    return default


def _by_score(hit: PatternHit) -> tuple[float, int, int]:
    return -hit.score, hit.start, hit.start - hit.end
