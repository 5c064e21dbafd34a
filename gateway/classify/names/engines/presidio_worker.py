"""The scanner of `PresidioNames`, in its process: Presidio's engine as the operator's files say.

The worker refuses sockets and programs; here the libraries are told beforehand, so that they look
on the disk alone, and what they then miss is told in words that say what to do.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from presidio_analyzer import AnalyzerEngine, RecognizerRegistry, RecognizerResult
from presidio_analyzer.nlp_engine import NlpEngine, NlpEngineProvider
from presidio_analyzer.recognizer_registry import RecognizerRegistryProvider

from gateway.classify import ScannerUnfit
from gateway.classify.names import FULL_NAME, rules
from gateway.classify.names.engines.presidio import document, languages
from gateway.classify.scan_workers.frames import ScanSettings
from gateway.classify.scanner.engine import BlankNlpEngine, pin_suffix_list, silence
from gateway.config import NamesSettings
from gateway.core.types import Finding

_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
_PACKAGES = {
    "spacy": "spacy",
    "slim": "spacy",
    "stanza": "stanza spacy-stanza",
    "transformers": "transformers spacy-huggingface-pipelines",
}
_NOT_THERE = (
    "is not on this machine, and Spillway downloads nothing: install its package, or give the path "
    "of its directory"
)
_REFUSED = frozenset({"ForbiddenSocket", "ForbiddenProgram"})
"""Classes of gateway.classify.scan_workers.worker, by name: there it is `__main__`, and has them
twice."""


class EngineScanner:
    """A `Scanner` over any AnalyzerEngine: a text is read in each of its languages."""

    def __init__(
        self, engine: AnalyzerEngine, settings: ScanSettings, types: frozenset[str] | None
    ) -> None:
        self._engine = engine
        self._threshold = settings.threshold
        self._allowed = frozenset(settings.allow_list)
        self._types: dict[str, list[str]] = {}
        for language in engine.supported_languages:
            there = frozenset(engine.get_supported_entities(language))
            self._types[language] = sorted(there if types is None else there & types)

    def supported(self) -> frozenset[str]:
        return frozenset(t for types in self._types.values() for t in types)

    def scan(self, text: str) -> list[Finding]:
        findings = {
            finding(text, result)
            for language, types in self._types.items()
            if types
            for result in self._engine.analyze(
                text, language, entities=types, score_threshold=self._threshold
            )
            if result.entity_type in types  # recognizers may answer with more than they are asked
            and text[result.start : result.end] not in self._allowed
        }
        return sorted(findings, key=lambda f: (f.start, f.end, f.type, -f.score))


def finding(text: str, result: RecognizerResult) -> Finding:
    """A PERSON gets the score that says how much it identifies, as all engines give it."""
    kind, start, end = str(result.entity_type), int(result.start), int(result.end)
    score = float(result.score)
    if kind == "PERSON":
        if rules.identifies(text, start, end):
            score = max(score, FULL_NAME)
        else:
            score = min(max(score, rules.LONE_NAME), FULL_NAME - 0.01)
    return Finding(kind, start, end, score)


def build(settings: ScanSettings, types: frozenset[str] | None) -> EngineScanner:
    """The factory that workers call by its name. Raises ScannerUnfit."""
    os.environ.update(dict.fromkeys(_OFFLINE, "1"))  # before any of them is imported
    pin_suffix_list()
    silence()
    names = NamesSettings.model_validate(settings.names)
    spoken = languages(names)
    for module in names.modules:
        with reporting("modules"):
            importlib.import_module(module)
    nlp = _nlp_engine(names, spoken)
    with reporting("recognizers"):
        registry = _registry(names, spoken, nlp)
        engine = AnalyzerEngine(registry=registry, nlp_engine=nlp, supported_languages=list(spoken))
        scanner = EngineScanner(engine, settings, types)
    if not scanner.supported():
        raise ScannerUnfit("classify.names: the engine knows no entity that restricts a call")
    return scanner


def _nlp_engine(names: NamesSettings, spoken: tuple[str, ...]) -> NlpEngine:
    if names.nlp_configuration is None:
        return BlankNlpEngine(spoken)
    given = document("nlp_configuration", names.nlp_configuration)
    for model in _spacy_models(given):
        if not _is_there(model):
            raise ScannerUnfit(
                f"classify.names.nlp_configuration: {names.nlp_configuration}: "
                f"the spaCy model {model!r} {_NOT_THERE}"
            )
    with reporting("nlp_configuration"):
        provider = NlpEngineProvider(nlp_configuration=given)
        kind = str(given["nlp_engine_name"])
        if kind not in provider.nlp_engines:
            hint = f"; pip install {_PACKAGES[kind]}" if kind in _PACKAGES else ""
            raise ScannerUnfit(
                f"classify.names.nlp_configuration: the NLP engine {kind!r} is not available{hint}"
            )
        return provider.create_engine()


def _spacy_models(given: dict[str, Any]) -> Iterator[str]:
    """Those that Presidio would download where they are missing."""
    if given.get("nlp_engine_name") not in ("spacy", "transformers"):
        return
    models = given.get("models")
    for model in models if isinstance(models, list) else []:
        name = model.get("model_name") if isinstance(model, dict) else None
        name = name.get("spacy") if isinstance(name, dict) else name
        if isinstance(name, str):
            yield name


def _is_there(model: str) -> bool:
    import spacy.util  # half a second, and only where an engine needs it

    return bool(spacy.util.is_package(model)) or Path(model).exists()


def _registry(names: NamesSettings, spoken: tuple[str, ...], nlp: NlpEngine) -> RecognizerRegistry:
    if names.recognizers is None:
        registry = RecognizerRegistry(recognizers=[], supported_languages=list(spoken))
        registry.add_nlp_recognizer(nlp)
        return registry
    given = document("recognizers", names.recognizers)
    provider = RecognizerRegistryProvider(
        registry_configuration=given,
        nlp_engine=None if names.nlp_configuration is None else nlp,
    )
    return provider.create_recognizer_registry()


@contextmanager
def reporting(key: str) -> Iterator[None]:
    """What goes wrong while an engine is built, in words for the operator. No call was read yet, so
    the words of libraries may be told."""
    try:
        yield
    except ScannerUnfit:
        raise
    except Exception as exc:  # noqa: BLE001 - any library's; it stops the start
        words = str(exc).strip().partition("\n")[0]
        what = f"{type(exc).__name__}: {words}"
        if _REFUSED & {type(cause).__name__ for cause in _causes(exc)}:
            what = f"a model that is named there {_NOT_THERE}"
        raise ScannerUnfit(f"classify.names.{key}: {what}") from None


def _causes(exc: BaseException | None) -> Iterator[BaseException]:
    while exc is not None:
        yield exc
        exc = exc.__cause__ or exc.__context__
