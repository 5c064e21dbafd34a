"""The names model as a recognizer of Presidio, in Presidio's own engine."""

from __future__ import annotations

import pytest
from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
from presidio_analyzer.recognizer_registry import RecognizerRegistryProvider

from gateway.classify.names import FULL_NAME
from gateway.classify.names.canaries import CANARIES
from gateway.classify.names.model.card import WEIGHTS, card
from gateway.classify.names.recognizer import NamesRecognizer, loaded
from gateway.classify.scanner.engine import BlankNlpEngine

LANGUAGES = tuple(card(WEIGHTS)["languages"])


@pytest.fixture(scope="module")
def analyzer() -> AnalyzerEngine:
    registry = RecognizerRegistry(recognizers=[], supported_languages=list(LANGUAGES))
    for language in LANGUAGES:
        registry.add_recognizer(NamesRecognizer(supported_language=language))
    return AnalyzerEngine(
        registry=registry,
        nlp_engine=BlankNlpEngine(LANGUAGES),
        supported_languages=list(LANGUAGES),
    )


@pytest.mark.parametrize(("language", "kind", "text"), CANARIES)
def test_presidio_finds_with_it_what_it_must_find(
    language: str, kind: str, text: str, analyzer: AnalyzerEngine
) -> None:
    assert kind in {r.entity_type for r in analyzer.analyze(text, language)}


def test_scores_say_how_much_a_name_identifies(analyzer: AnalyzerEngine) -> None:
    (full,) = analyzer.analyze("Please call Margaret Whitfield on Monday.", "en")
    (lone,) = analyzer.analyze("Yesterday Margaret and her dog went to the park.", "en")
    assert (full.start, full.end) == (12, 30)
    assert full.score >= FULL_NAME > lone.score


def test_what_is_not_asked_for_is_not_told(analyzer: AnalyzerEngine) -> None:
    text = "Please call Margaret Whitfield on Monday."
    assert analyzer.analyze(text, "en", entities=["STREET_ADDRESS"]) == []
    only = NamesRecognizer(supported_entities=["STREET_ADDRESS"])
    assert only.analyze(text, ["PERSON", "STREET_ADDRESS"]) == []


def test_a_result_names_its_recognizer(analyzer: AnalyzerEngine) -> None:
    (found,) = analyzer.analyze(
        "Please call Margaret Whitfield on Monday.", "en", return_decision_process=True
    )
    assert found.recognition_metadata["recognizer_name"] == "NamesRecognizer"
    assert found.analysis_explanation.recognizer == "NamesRecognizer"


def test_a_yaml_registry_can_name_it() -> None:
    provider = RecognizerRegistryProvider(
        registry_configuration={
            "supported_languages": ["en", "de"],
            "recognizers": [{"name": "NamesRecognizer", "type": "predefined"}],
        }
    )
    found = provider.create_recognizer_registry().recognizers
    assert [r.supported_language for r in found] == ["en", "de"]


def test_a_language_that_it_was_not_measured_on_is_refused() -> None:
    with pytest.raises(ValueError, match="was not measured on 'xx'; there are: en, "):
        NamesRecognizer(supported_language="xx")


def test_an_entity_that_it_does_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="no entities \\['PHONE_NUMBER'\\]"):
        NamesRecognizer(supported_entities=["PERSON", "PHONE_NUMBER"])


def test_all_recognizers_share_one_model() -> None:
    before = loaded.cache_info().misses
    NamesRecognizer("en")
    NamesRecognizer("de")
    assert loaded.cache_info().misses - before <= 1
