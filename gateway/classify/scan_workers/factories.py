"""What scan workers build their scanners with. Presidio is imported here, without the NLP engines
that none of these scanners use."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gateway.classify.patterns.expressions import caching
from gateway.classify.patterns.store import BlobStore
from gateway.classify.scan_workers.deferred import deferred

if TYPE_CHECKING:
    from gateway.classify.scan_workers.frames import ScanSettings
    from gateway.classify.scanner.recognizers import FirstVerdict, PresidioScanner
    from gateway.config import ClassifySettings

_ENGINES = "presidio_analyzer.nlp_engine."
UNUSED = (
    *("spacy", "spacy.tokens", "spacy.vocab"),
    *(f"{_ENGINES}{kind}_nlp_engine" for kind in ("spacy", "slim_spacy", "stanza", "transformers")),
    f"{_ENGINES}ner_model_configuration",
    "presidio_analyzer.input_validation",  # with Pydantic
    *("requests", "requests_file", "filelock"),  # for a list that engine.py pins
)


def build(
    settings: ClassifySettings | ScanSettings, types: frozenset[str] | None
) -> PresidioScanner:
    """Looks for everything, or everything of these types."""
    ahead()
    from gateway.classify.scanner.recognizers import PresidioScanner  # takes a while

    return PresidioScanner(settings, types)


def build_first(
    settings: ClassifySettings | ScanSettings, types: frozenset[str] | None
) -> FirstVerdict:
    """For verdicts: stops at the first finding of these types."""
    ahead()
    from gateway.classify.scanner.recognizers import FirstVerdict  # takes a while

    return FirstVerdict(settings, types)


def ahead() -> None:
    """Import what these import. Presidio compiles every expression that it or we write down, to see
    whether it is one: those have a file of their own."""
    if "gateway.classify.scanner.recognizers" in sys.modules:
        return
    with caching(BlobStore.for_user(), b"imports"):
        _import_presidio()
        from gateway.classify.scanner import recognizers  # noqa: F401


def _import_presidio() -> None:
    with deferred(UNUSED):
        import presidio_analyzer.predefined_recognizers  # noqa: F401 - before anything imports more
