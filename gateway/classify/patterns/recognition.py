"""What of a recognizer may be skipped, and what running it means when it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from presidio_analyzer import EntityRecognizer, PatternRecognizer, RecognizerResult
from presidio_analyzer.pattern_recognizer import REGEX_TIMEOUT_SECONDS
from presidio_analyzer.predefined_recognizers import IbanRecognizer, PhoneRecognizer

from gateway.classify.patterns import phones, proxies
from gateway.classify.patterns.automaton import Automaton, Key
from gateway.classify.patterns.finder import Finder

_RUNS_PATTERNS = "_PatternRecognizer__analyze_patterns"
_RUNS_IBANS = "_IbanRecognizer__analyze_patterns"


@dataclass(slots=True)
class Hit:
    """A finding on its way: `result` is what a recognizer of its own kind returned."""

    type: str
    start: int
    end: int
    score: float
    recognizer: Any  # Presidio's classes do not say what type their attributes have
    result: RecognizerResult | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One thing to run on a text: `run(text, folded, ends)`. Its findings are nowhere but where one
    of the expressions matches."""

    keys: tuple[Key, ...]
    run: Callable[[str, bytes, Sequence[int] | None], Iterator[Hit]]


@dataclass(frozen=True, slots=True)
class Whole:
    """A recognizer with an `analyze` of its own. `keys`: it finds nothing where none of these
    matches; None: it decides by itself, on every text."""

    recognizer: Any
    keys: tuple[Key, ...] | None


def work_of(
    recognizer: Any, automaton: Automaton | None, match_only: tuple[type, ...]
) -> list[Job] | Whole:
    """`match_only`: kinds of PatternRecognizer that override `analyze`, and for which it is vouched
    that it finds nothing where none of their patterns matches, and reads no NLP artifacts."""
    if _runs_stock_patterns(recognizer):
        return [_pattern_job(recognizer, at, automaton) for at in range(len(recognizer.patterns))]
    if phones.is_understood(recognizer) and _has_no_own(recognizer, "analyze"):
        return [Job((phones.gate_expression(recognizer),), _phone_run(recognizer))]
    if not _has_patterns(recognizer):
        return Whole(recognizer, None)
    own_iban = type(recognizer) is IbanRecognizer and _has_no_own(
        recognizer, "analyze", _RUNS_IBANS
    )
    proxies.install(recognizer)
    keys = tuple((p.regex, int(recognizer.global_regex_flags)) for p in recognizer.patterns)
    return Whole(recognizer, keys if own_iban or isinstance(recognizer, match_only) else None)


def keys_of(recognizer: Any) -> set[Key]:
    """The expressions that the automaton should know, for its sake."""
    if phones.is_understood(recognizer):
        return {phones.gate_expression(recognizer)}
    if _has_patterns(recognizer):
        flags = int(recognizer.global_regex_flags)
        return {(pattern.regex, flags) for pattern in recognizer.patterns}
    return set()


def _has_patterns(recognizer: Any) -> bool:
    return isinstance(recognizer, PatternRecognizer) and isinstance(
        recognizer.global_regex_flags, int
    )


def _runs_stock_patterns(recognizer: EntityRecognizer) -> bool:
    return (
        _has_patterns(recognizer)
        and type(recognizer).analyze is PatternRecognizer.analyze
        and getattr(type(recognizer), _RUNS_PATTERNS) is getattr(PatternRecognizer, _RUNS_PATTERNS)
        and _has_no_own(recognizer, "analyze", _RUNS_PATTERNS)
    )


def _has_no_own(recognizer: EntityRecognizer, *names: str) -> bool:
    return not any(name in vars(recognizer) for name in names)


def _pattern_job(recognizer: Any, at: int, automaton: Automaton | None) -> Job:
    pattern = recognizer.patterns[at]
    key = (pattern.regex, int(recognizer.global_regex_flags))
    known = automaton.known.get(key) if automaton is not None else None
    finder = Finder(*key, None if known is None else known.reading)
    check = _check(recognizer)
    type_, own_score = recognizer.supported_entities[0], pattern.score

    def run(text: str, folded: bytes, ends: Sequence[int] | None) -> Iterator[Hit]:
        try:
            for match in finder.find(text, folded, ends, REGEX_TIMEOUT_SECONDS):
                start, end = match.span()
                if start == end:
                    continue
                score = own_score if check is None else check(text[start:end], own_score)
                if score > EntityRecognizer.MIN_SCORE:
                    yield Hit(type_, start, end, score, recognizer)
        except TimeoutError:
            return  # as Presidio does: the next pattern

    return Job((key,), run)


def _check(recognizer: PatternRecognizer) -> Callable[[str, float], float] | None:
    """Presidio's validators, and what their answers do to a score. None where there are none."""
    kind: Any = type(recognizer)
    validates = kind.validate_result is not PatternRecognizer.validate_result
    invalidates = kind.invalidate_result is not PatternRecognizer.invalidate_result
    own = not _has_no_own(recognizer, "validate_result", "invalidate_result")
    if not (validates or invalidates or own):
        return None

    def check(found: str, score: float) -> float:
        valid = recognizer.validate_result(found)
        if valid is not None:
            score = EntityRecognizer.MAX_SCORE if valid else EntityRecognizer.MIN_SCORE
        return EntityRecognizer.MIN_SCORE if recognizer.invalidate_result(found) else score

    return check


def _phone_run(
    recognizer: PhoneRecognizer,
) -> Callable[[str, bytes, Sequence[int] | None], Iterator[Hit]]:
    def run(text: str, _: bytes, __: Sequence[int] | None) -> Iterator[Hit]:
        for start, end in phones.find(recognizer, text):
            yield Hit(recognizer.supported_entities[0], start, end, recognizer.SCORE, recognizer)

    return run


def without_duplicates(hits: Sequence[Hit]) -> list[Hit]:
    """As `EntityRecognizer.remove_duplicates`: no score of zero, and nothing within a finding of
    its own type with the same score or a better one."""
    if len(hits) < 2:
        return [hit for hit in hits if hit.score != 0]
    kept: list[Hit] = []
    open_: list[Hit] = []
    for hit in sorted(hits, key=_by_place):
        if hit.score == 0:
            continue
        if open_ and open_[0].type != hit.type:
            open_ = []
        open_ = [other for other in open_ if other.end >= hit.start]
        if not any(o.end >= hit.end and o.score >= hit.score for o in open_):
            kept.append(hit)
            open_.append(hit)
    return kept


def _by_place(hit: Hit) -> tuple[str, int, int, float]:
    return str(hit.type), hit.start, hit.start - hit.end, -hit.score
