"""The names model as a recognizer of Presidio, for whoever runs an analyzer of their own.

>>> from presidio_analyzer import AnalyzerEngine
>>> from gateway.classify.names.recognizer import NamesRecognizer
>>> analyzer = AnalyzerEngine()
>>> analyzer.registry.add_recognizer(NamesRecognizer(supported_language="en"))

It needs no NLP engine, downloads nothing and reads the language that it is asked for like the
others that it knows: one model has them all, and it is loaded once for all recognizers.
"""

from __future__ import annotations

import functools
import threading
from pathlib import Path

from presidio_analyzer import AnalysisExplanation, EntityRecognizer, RecognizerResult
from presidio_analyzer.nlp_engine import NlpArtifacts

from gateway.classify.names import rules
from gateway.classify.names.model.card import WEIGHTS, card
from gateway.classify.names.model.tagger import Tagger
from gateway.core.types import Finding

ENTITIES = ("PERSON", "STREET_ADDRESS", "USERNAME")


class NamesRecognizer(EntityRecognizer):
    """`PERSON`, `STREET_ADDRESS` and `USERNAME` (handles). A PERSON of score 0.5 and more is a full
    name, or one with a title; a lone name scores 0.35 to 0.49."""

    name: str

    def __init__(
        self,
        supported_language: str = "en",
        supported_entities: list[str] | None = None,
        name: str = "NamesRecognizer",
        context: list[str] | None = None,
        weights: Path | str = WEIGHTS,
    ) -> None:
        """Raises ValueError for a language or an entity that the model was not measured on."""
        self._weights = Path(weights)
        wanted = list(ENTITIES) if supported_entities is None else supported_entities
        if unknown := sorted(set(wanted) - set(ENTITIES)):
            raise ValueError(f"no entities {unknown}; there are: {', '.join(ENTITIES)}")
        super().__init__(
            supported_entities=wanted,
            name=name,
            supported_language=supported_language,
            version=str(card(self._weights)["version"]),
            context=context,
        )

    def load(self) -> None:
        self._model = loaded(self._weights)
        if self.supported_language not in self._model.languages:
            raise ValueError(
                f"the names model was not measured on {self.supported_language!r}; "
                f"there are: {', '.join(self._model.languages)}"
            )

    def analyze(
        self, text: str, entities: list[str], nlp_artifacts: NlpArtifacts | None = None
    ) -> list[RecognizerResult]:
        wanted = set(entities or self.supported_entities) & set(self.supported_entities)
        return [self._result(f) for f in self._model.find(text) if f.type in wanted]

    def _result(self, finding: Finding) -> RecognizerResult:
        return RecognizerResult(
            finding.type,
            finding.start,
            finding.end,
            finding.score,
            analysis_explanation=AnalysisExplanation(
                recognizer=self.name,
                original_score=finding.score,
                textual_explanation="found by the names model",
            ),
            recognition_metadata={
                RecognizerResult.RECOGNIZER_NAME_KEY: self.name,
                RecognizerResult.RECOGNIZER_IDENTIFIER_KEY: self.id,
            },
        )


class SharedModel:
    """One tagger for all recognizers of a process, and for all their threads."""

    def __init__(self, weights: Path) -> None:
        model_card = card(weights)
        self.languages: tuple[str, ...] = tuple(model_card["languages"])
        self._thresholds: dict[str, float] = model_card["thresholds"]
        self._tagger = Tagger.load(weights)
        self._lock = threading.Lock()

    def find(self, text: str) -> list[Finding]:
        with self._lock:
            (mentions,) = self._tagger.find(
                [text], rules.least(self._thresholds), handle=self._thresholds["handle"]
            )
        return rules.findings(text, mentions, self._thresholds)


loaded = functools.lru_cache(maxsize=4)(SharedModel)
