"""What of a recognizer may be skipped, and what running it means when it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from presidio_analyzer import EntityRecognizer, PatternRecognizer, RecognizerResult
from presidio_analyzer.pattern_recognizer import REGEX_TIMEOUT_SECONDS
from presidio_analyzer.predefined_recognizers import IbanRecognizer

from gateway.classify.patterns.automaton import Automaton, Key
from gateway.classify.patterns.finder import ExpressionFinder
from gateway.classify.patterns.narrowing import NarrowingRecognizer

_RUNS_PATTERNS = "_PatternRecognizer__analyze_patterns"
_RUNS_IBANS = "_IbanRecognizer__analyze_patterns"


@dataclass(slots=True)
class PatternHit:
    """A finding on its way: `pattern` is the place of the one that found it among its recognizer's,
    `result` what a recognizer of its own kind returned."""

    type: str
    start: int
    end: int
    score: float
    recognizer: Any  # Presidio's classes do not say what type their attributes have
    pattern: int = -1
    result: RecognizerResult | None = None


Run: TypeAlias = Callable[[str, bytes, Sequence[int] | None], list[PatternHit]]


@dataclass(frozen=True, slots=True)
class Job:
    """One thing to run on a text: `run(text, folded, ends)`. Its findings are nowhere but where one
    of the expressions matches."""

    keys: tuple[Key, ...]
    run: Run


@dataclass(frozen=True, slots=True)
class WholeRecognizer:
    """A recognizer with an `analyze` of its own. `keys`: it finds nothing where none of these
    matches; None: it decides by itself, on every text."""

    recognizer: Any
    keys: tuple[Key, ...] | None


def recognizer_work(recognizer: Any, automaton: Automaton | None) -> list[Job] | WholeRecognizer:
    if _runs_stock_patterns(recognizer):
        return [_pattern_job(recognizer, at, automaton) for at in range(len(recognizer.patterns))]
    return WholeRecognizer(recognizer, tuple(pattern_keys(recognizer)) or None)


def pattern_keys(recognizer: Any) -> set[Key]:
    """The expressions without a match of which it finds nothing. Empty: it decides by itself."""
    if not (_runs_stock_patterns(recognizer) or _is_iban(recognizer)):
        return set()
    flags = int(recognizer.global_regex_flags)
    return {(pattern.regex, flags) for pattern in recognizer.patterns}


def _is_iban(recognizer: Any) -> bool:
    """Presidio's own, which looks again at what its patterns match."""
    return (
        type(recognizer) is IbanRecognizer
        and _has_patterns(recognizer)
        and _has_no_own(recognizer, "analyze", _RUNS_IBANS)
    )


def _has_patterns(recognizer: Any) -> bool:
    return isinstance(recognizer, PatternRecognizer) and isinstance(
        recognizer.global_regex_flags, int
    )


def _runs_stock_patterns(recognizer: EntityRecognizer) -> bool:
    return (
        _has_patterns(recognizer)
        and _analyzes_by_patterns(type(recognizer))
        and getattr(type(recognizer), _RUNS_PATTERNS) is getattr(PatternRecognizer, _RUNS_PATTERNS)
        and _has_no_own(recognizer, "analyze", _RUNS_PATTERNS)
    )


def _analyzes_by_patterns(kind: type) -> bool:
    """By PatternRecognizer's `analyze`, perhaps with Narrowing's around it."""
    own = [base for base in kind.__mro__ if "analyze" in vars(base)]
    return own[0] is PatternRecognizer or own[:2] == [NarrowingRecognizer, PatternRecognizer]


def _has_no_own(recognizer: EntityRecognizer, *names: str) -> bool:
    return not any(name in vars(recognizer) for name in names)


def _pattern_job(recognizer: Any, at: int, automaton: Automaton | None) -> Job:
    pattern = recognizer.patterns[at]
    key = (pattern.regex, int(recognizer.global_regex_flags))
    known = automaton.known.get(key) if automaton is not None else None
    finder = ExpressionFinder(*key, None if known is None else known.reading)
    check = _check(recognizer)
    type_, own_score = recognizer.supported_entities[0], pattern.score

    def run(text: str, folded: bytes, ends: Sequence[int] | None) -> list[PatternHit]:
        hits: list[PatternHit] = []
        try:
            for match in finder.find(text, folded, ends, REGEX_TIMEOUT_SECONDS):
                start, end = match.span()
                if start == end:
                    continue
                score = own_score if check is None else check(text[start:end], own_score)
                if score > EntityRecognizer.MIN_SCORE:
                    hits.append(PatternHit(type_, start, end, score, recognizer, at))
        except TimeoutError:
            pass  # as Presidio does: the next pattern
        return hits

    return Job((key,), run)


def _check(recognizer: PatternRecognizer) -> Callable[[str, float], float] | None:
    """Presidio's validators, and what their answers do to a score. None where there are none."""
    kind: Any = type(recognizer)
    validates = kind.validate_result is not PatternRecognizer.validate_result
    invalidates = kind.invalidate_result is not PatternRecognizer.invalidate_result
    own = not _has_no_own(recognizer, "validate_result", "invalidate_result")
    if not (validates or invalidates or own):
        return None
    invalid = recognizer.invalidate_result if invalidates or own else None

    def check(value: str, score: float) -> float:
        valid = recognizer.validate_result(value)
        if valid is not None:
            score = EntityRecognizer.MAX_SCORE if valid else EntityRecognizer.MIN_SCORE
        return EntityRecognizer.MIN_SCORE if invalid is not None and invalid(value) else score

    return check


def settled(hits: Sequence[PatternHit], text: str) -> list[PatternHit]:
    """What each of Presidio's pattern recognizers makes of its own before any context words are
    looked for: no duplicates, and of a Narrowing one the parts."""
    by_recognizer: dict[int, list[PatternHit]] = {}
    for hit in hits:
        by_recognizer.setdefault(id(hit.recognizer), []).append(hit)
    remaining: list[PatternHit] = []
    for own in by_recognizer.values():
        if isinstance(own[0].recognizer, NarrowingRecognizer):
            remaining += _narrowed(own, own[0].recognizer, text)
        else:
            remaining += without_duplicates(own)
    return remaining


def _narrowed(
    hits: list[PatternHit], recognizer: NarrowingRecognizer, text: str
) -> Iterable[PatternHit]:
    if len(hits) > 1:
        hits.sort(key=_by_pattern)  # of two that found the same Presidio keeps the first
        hits = without_duplicates(hits)
    return [
        PatternHit(hit.type, start, end, hit.score, recognizer, hit.pattern)
        for hit in hits
        for start, end in recognizer.parts(
            text, recognizer.patterns[hit.pattern].name, hit.start, hit.end
        )
    ]


def without_duplicates(hits: Sequence[PatternHit]) -> list[PatternHit]:
    """As `EntityRecognizer.remove_duplicates`: no score of zero, and nothing within a finding of
    its own type with the same score or a better one."""
    if len(hits) < 2:
        return [hit for hit in hits if hit.score != 0]
    remaining: list[PatternHit] = []
    open_: list[PatternHit] = []
    for hit in sorted(hits, key=_by_place):
        if hit.score == 0:
            continue
        if open_ and open_[0].type != hit.type:
            open_ = []
        open_ = [other for other in open_ if other.end >= hit.start]
        if not any(o.end >= hit.end and o.score >= hit.score for o in open_):
            remaining.append(hit)
            open_.append(hit)
    return remaining


def _by_place(hit: PatternHit) -> tuple[str, int, int, float]:
    return str(hit.type), hit.start, hit.start - hit.end, -hit.score


def _by_pattern(hit: PatternHit) -> int:
    return hit.pattern
