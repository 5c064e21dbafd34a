"""The pattern engine finds what Presidio's own engine finds: types, spans and scores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from presidio_analyzer import (
    AnalysisExplanation,
    AnalyzerEngine,
    EntityRecognizer,
    Pattern,
    PatternRecognizer,
    RecognizerRegistry,
    RecognizerResult,
)
from presidio_analyzer.context_aware_enhancers import LemmaContextAwareEnhancer
from presidio_analyzer.nlp_engine import NlpArtifacts

from gateway.classify.patterns.context import ContextWords
from gateway.classify.patterns.engine import PatternEngine
from gateway.classify.patterns.narrowing import NarrowingRecognizer
from gateway.classify.patterns.store import BlobStore
from gateway.classify.scanner.engine import BlankNlpEngine, build_engine
from gateway.config import ClassifySettings
from tests.unit.classify import patterns_rig as rig

LANGUAGES = ("en", "es", "it", "pl", "de")
FEW, MANY = (12, 80) if not rig.EVERYTHING else (400, 4000)

needs_records = pytest.mark.skipif(
    not rig.RECORDS.is_dir(), reason="the development sets are not beside this checkout"
)


def assert_same(
    engine: PatternEngine,
    texts: Any,
    language: str = "en",
    entities: list[str] | None = None,
    score_threshold: float = 0.0,
) -> None:
    wanted = entities or engine.presidio.get_supported_entities(language)
    for text in texts:
        expected = engine.presidio.analyze(
            text, language, entities=wanted, score_threshold=score_threshold
        )
        hits = engine.find(text, language, wanted, score_threshold)
        assert rig.of_hits(hits) == rig.findings(expected), repr(text)


@pytest.fixture(scope="module")
def default() -> PatternEngine:
    return rig.patterns_over(rig.default_engine(*LANGUAGES))


@pytest.fixture(scope="module")
def complete() -> PatternEngine:
    return rig.patterns_over(rig.complete_engine())


@pytest.fixture(scope="module")
def ours() -> PatternEngine:
    """As it is without settings: `spillway prepare` has compiled it where the suite runs."""
    return rig.patterns_over(build_engine(ClassifySettings()))


@pytest.mark.parametrize("language", LANGUAGES)
def test_generated_texts_give_the_same_findings_in_every_language(
    default: PatternEngine, language: str
) -> None:
    assert_same(default, (rig.generated(seed, 30) for seed in range(MANY // 4)), language)


def test_every_value_gives_the_same_findings_by_itself_and_in_a_sentence(
    complete: PatternEngine,
) -> None:
    sentences = (f"it is {value}, card number bank passport {value}." for value in rig.VALUES)
    assert_same(complete, (*rig.VALUES, *sentences))


def test_the_values_that_texts_are_made_of_exercise_most_types(complete: PatternEngine) -> None:
    found = {finding[0] for v in rig.VALUES for finding in rig.found(complete, v)}
    assert len(found) > 45


def test_generated_texts_give_the_same_findings_with_all_of_presidios_recognizers(
    complete: PatternEngine,
) -> None:
    assert_same(complete, (rig.generated(seed, 25) for seed in range(MANY // 4)))


def test_long_texts_give_the_same_findings(default: PatternEngine, complete: PatternEngine) -> None:
    assert_same(default, [rig.generated(1, 1200)])
    assert_same(complete, [rig.generated(7, 500)])


def test_generated_texts_give_the_same_findings_with_the_recognizers_of_the_gateway(
    ours: PatternEngine,
) -> None:
    assert_same(ours, [rig.generated(seed, 25) for seed in range(FEW)])


@needs_records
def test_records_give_the_same_findings(default: PatternEngine) -> None:
    assert_same(default, rig.records(MANY))


@needs_records
def test_records_give_the_same_findings_with_all_of_presidios_recognizers(
    complete: PatternEngine,
) -> None:
    assert_same(complete, rig.records(FEW))


@needs_records
def test_records_give_the_same_findings_with_the_recognizers_of_the_gateway(
    ours: PatternEngine,
) -> None:
    assert_same(ours, rig.records(FEW))


_piece = st.one_of(
    st.sampled_from(rig.VALUES),
    st.sampled_from(rig.WORDS),
    st.sampled_from(rig.GLUE),
    st.text(max_size=6),
    st.text(alphabet="0123456789-./ ()+x@:ABab\u017f\u212a\n", max_size=14),
)


@settings(max_examples=MANY, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_piece, max_size=12).map("".join))
def test_any_text_gives_the_same_findings(default: PatternEngine, text: str) -> None:
    assert_same(default, [text])


@settings(max_examples=FEW, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_piece, max_size=12).map("".join))
def test_any_text_gives_the_same_findings_with_all_recognizers(
    complete: PatternEngine, text: str
) -> None:
    assert_same(complete, [text])


TEXTS = tuple(rig.generated(seed, 25) for seed in range(100, 110))


@pytest.mark.parametrize(
    "arguments",
    [
        {"score_threshold": 0.35},
        {"score_threshold": 0.5},
        {"score_threshold": 1.0},
        {"entities": ["PHONE_NUMBER"]},
        {"entities": ["CREDIT_CARD", "US_SSN", "NOT_THERE"]},
    ],
    ids=str,
)
def test_every_argument_means_the_same(default: PatternEngine, arguments: Any) -> None:
    assert_same(default, TEXTS, **arguments)


class Shouting(EntityRecognizer):
    """No pattern recognizer: it reads the text and the artifacts by itself."""

    def load(self) -> None:
        pass

    def analyze(
        self, text: str, entities: list[str], nlp_artifacts: NlpArtifacts | None = None
    ) -> list[RecognizerResult]:
        assert nlp_artifacts is not None
        explained = AnalysisExplanation("Shouting", 0.3)
        return [
            RecognizerResult("SHOUT", start, start + len(token), 0.3, explained)
            for start, token in zip(nlp_artifacts.tokens_indices, nlp_artifacts.tokens, strict=True)
            if str(token).isupper()
        ]


class Doubled(PatternRecognizer):
    """Finds by its patterns, and without them."""

    def analyze(
        self, text: str, entities: list[str], nlp_artifacts: Any = None, regex_flags: Any = None
    ) -> list[RecognizerResult]:
        found = super().analyze(text, entities, nlp_artifacts, regex_flags)
        whole = RecognizerResult("WHOLE", 0, len(text), 0.2)
        return [*found, whole] if "Mr." in text else found


class FromOwnContext(PatternRecognizer):
    def enhance_using_context(
        self, text: str, raw_recognizer_results: list[RecognizerResult], *_: Any, **__: Any
    ) -> list[RecognizerResult]:
        for result in raw_recognizer_results:
            if "card" in text:
                result.score = 0.9
                result.recognition_metadata[RecognizerResult.IS_SCORE_ENHANCED_BY_CONTEXT_KEY] = (
                    True
                )
        return raw_recognizer_results


class Halves(NarrowingRecognizer):
    """Of what is found by its first pattern the two halves, of the rest the whole."""

    def parts(self, text: str, pattern: str, start: int, end: int) -> Iterable[tuple[int, int]]:
        middle = (start + end) // 2
        if pattern == "halved":
            return [(start, middle), (middle, end)]
        return [(start, end)] if text[start - 1 : start] != "-" else []


class Lowering(Halves):
    """With an `analyze` around that of its parts."""

    def analyze(
        self, text: str, entities: list[str], nlp_artifacts: Any = None, regex_flags: Any = None
    ) -> list[RecognizerResult]:
        found = super().analyze(text, entities, nlp_artifacts, regex_flags)
        for result in found:
            result.score /= 2
        return found


HALVED = [Pattern("halved", r"\d{6}", 0.4), Pattern("whole", r"\d{6}|\d{4}(?!\d)", 0.4)]


def _zip(score: float = 0.1, **more: Any) -> PatternRecognizer:
    pattern = Pattern("zip", r"\b\d{5}(?:-\d{4})?\b", score)
    return PatternRecognizer("ZIP", patterns=[pattern], **more)


ODD_RECOGNIZERS: dict[str, Any] = {
    "reads the artifacts": lambda: Shouting(["SHOUT"], context=["card"]),
    "overrides analyze": lambda: Doubled("FOUR", patterns=[Pattern("four", r"\d{4}", 0.4)]),
    "has a context of its own": lambda: FromOwnContext(
        "FIVE", patterns=[Pattern("5", r"\d{5}", 0.3)]
    ),
    "a deny list": lambda: PatternRecognizer("TITLE", deny_list=["Mr.", "C++", "card", "\u017f"]),
    "case counts": lambda: PatternRecognizer(
        "ID", patterns=[Pattern("id", r"ID|[A-Z]{2}\d+", 0.5)], global_regex_flags=0
    ),
    "not understood": lambda: PatternRecognizer(
        "FUZZY",
        patterns=[Pattern("p", r"(?:passport){e<=1}", 0.5), Pattern("q", r"\p{Lu}{2}", 0.5)],
    ),
    "matches nothing too": lambda: PatternRecognizer("MAYBE", patterns=[Pattern("m", r"\d*", 0.5)]),
    "a reference": lambda: PatternRecognizer(
        "TWICE", patterns=[Pattern("t", r"(\w)(\w)\2\1", 0.5)]
    ),
    "looks far ahead": lambda: PatternRecognizer(
        "AHEAD", patterns=[Pattern("a", r"\d{3}(?=.*bank)", 0.5), Pattern("b", r"[a-z]+$", 0.2)]
    ),
    "letters of others": lambda: PatternRecognizer(
        "OTHER", patterns=[Pattern("o", r"[à-ÿ]\w*|[^\x00-\u0400]+", 0.5)]
    ),
    "lazy and possessive": lambda: PatternRecognizer(
        "LAZY", patterns=[Pattern("l", r"\d+?[ -]|(?>\d{2,3})\d|\w++:", 0.5)]
    ),
    "within itself": lambda: PatternRecognizer(
        "INNER",
        patterns=[Pattern("o", r"\d{3} card \d{3}", 0.5), Pattern("i", r"\d{3}$", 0.5)],
        context=["card"],
    ),
    "narrows": lambda: Halves("HALF", patterns=HALVED, context=["card"]),
    "narrows in another order": lambda: Halves("HALF", patterns=HALVED[::-1]),
    "narrows what it narrows": lambda: Lowering("HALF", patterns=HALVED),
    "thresholds": lambda: _thresholded(),
    "a long word": lambda: PatternRecognizer("LONG", patterns=[Pattern("w", r"\S{12,}", 0.5)]),
}


def _thresholded() -> PatternRecognizer:
    recognizer = _zip(0.3, context=["card"])
    recognizer.score_thresholds = {"ZIP": 0.4, "default": 0.1}
    return recognizer


@pytest.mark.parametrize("name", ODD_RECOGNIZERS)
def test_recognizers_of_every_sort_find_the_same(name: str) -> None:
    registry = rig.registry_of(ODD_RECOGNIZERS[name](), _zip(context=["born"]))
    engine = PatternEngine(rig.engine_of(registry), BlobStore(None))
    texts = (*TEXTS, "Mr. Lee has no digits", "123 card 456", "", " ", rig.generated(3, 400))
    assert_same(engine, texts)
    assert engine.wait(60)
    assert_same(engine, texts)


@pytest.mark.parametrize(
    "enhancer",
    [
        LemmaContextAwareEnhancer(context_suffix_count=3),
        LemmaContextAwareEnhancer(context_matching_mode="whole_word"),
        LemmaContextAwareEnhancer(0.2, 0.6, 2, 0),
        type("Own", (LemmaContextAwareEnhancer,), {})(context_suffix_count=1),
    ],
    ids=["behind", "whole words", "other numbers", "a class of its own"],
)
def test_context_words_count_as_the_enhancer_says(enhancer: LemmaContextAwareEnhancer) -> None:
    base = rig.default_engine("en")
    presidio = AnalyzerEngine(
        registry=base.registry,
        nlp_engine=base.nlp_engine,
        supported_languages=["en"],
        context_aware_enhancer=enhancer,
        default_score_threshold=0.2,
    )
    assert_same(rig.patterns_over(presidio), (*TEXTS, "card " * 40 + "4012888888881881"))


@pytest.mark.parametrize(
    "between", [" - " * 15, "=" * 70, " \u2013 " * 200, " be" * 250, "x" * 600]
)
def test_context_words_count_from_far_away(default: PatternEngine, between: str) -> None:
    texts = [f"a card {between} {number}" for number in ("4012888888881881", "078-05-1120")]
    assert_same(default, [*texts, *(f"card{text}" for text in texts)])


@given(
    st.lists(st.text("aAbİß\0", max_size=4), max_size=4),
    st.lists(st.text("aAbİß\0", max_size=3), min_size=1, max_size=3),
)
def test_a_context_word_is_found_as_presidio_finds_it(around: list[str], wanted: list[str]) -> None:
    class Near:
        def words_near(self, text: str, start: int, count: int) -> list[str]:
            return [word.lower() for word in around]

    rules = LemmaContextAwareEnhancer()
    expected = rules._find_supportive_word_in_context(around, wanted) != ""
    assert ContextWords("", Near(), rules).support(0, tuple(map(str.lower, wanted))) == expected


def test_a_registry_in_yaml_gives_the_same_findings(tmp_path: Any) -> None:
    file = tmp_path / "recognizers.yaml"
    file.write_text(
        "recognizers:\n"
        "- {name: Zip, supported_language: en, supported_entity: ZIP, context: [zip],\n"
        "   patterns: [{name: weak, regex: '(\\b\\d{5}(?:\\-\\d{4})?\\b)', score: 0.01}]}\n"
        "- {name: Titles, supported_language: en, supported_entity: TITLE, deny_list: [Mr., Ms.]}\n"
    )
    registry = RecognizerRegistry(supported_languages=["en"])
    registry.add_recognizers_from_yaml(file)
    engine = PatternEngine(rig.engine_of(registry), BlobStore(None))
    assert engine.wait(60)
    assert_same(engine, [*TEXTS, "Ms. Lee, zip 90210", "Mr.Lee 90210-1234 zip"])
    assert rig.found(engine, "Ms. Lee, zip 90210") == [
        ("TITLE", 0, 3, 1.0),
        ("ZIP", 13, 18, 0.4),
    ]


def test_a_recognizers_results_are_its_own() -> None:
    """One that keeps what it returned finds it as it was."""

    class Keeping(Shouting):
        kept = (RecognizerResult("SHOUT", 0, 2, 0.3),)

        def analyze(self, *_: Any, **__: Any) -> list[RecognizerResult]:
            return list(self.kept)

    engine = PatternEngine(rig.engine_of(rig.registry_of(Keeping(["SHOUT"]))), BlobStore(None))
    for _ in range(2):
        assert rig.found(engine, "HI you") == [("SHOUT", 0, 2, 0.3)]
    assert Keeping.kept[0].recognition_metadata is None


def test_the_blank_engines_words_before_a_place_are_those_of_the_whole_text() -> None:
    nlp, rules = BlankNlpEngine(("en",)), LemmaContextAwareEnhancer()
    for seed in range(5):
        text = rig.generated(seed, 40)
        artifacts = nlp.process_text(text, "en")
        for start in artifacts.tokens_indices:
            finding = RecognizerResult("X", start, start + 1, 0.5)
            expected = rules._extract_surrounding_words(artifacts, text[start : start + 1], start)
            near = nlp.words_near(text, start, rules.context_prefix_count + 1)
            assert set(near) == set(expected), (start, finding)
