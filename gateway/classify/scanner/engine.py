"""Presidio's AnalyzerEngine on an NLP engine that needs no download and opens no socket."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import tldextract
from presidio_analyzer import AnalyzerEngine, PatternRecognizer, RecognizerRegistry
from presidio_analyzer.nlp_engine import NlpArtifacts, NlpEngine
from presidio_analyzer.predefined_recognizers import (
    EsNieRecognizer,
    EsNifRecognizer,
    FiPersonalIdentityCodeRecognizer,
)

from gateway.classify.patterns.engine import PatternEngine
from gateway.classify.patterns.registry import load as load_registry
from gateway.classify.profile import DENY_LIST
from gateway.classify.scanner.additions import ADDITIONS, REPLACED

if TYPE_CHECKING:
    from gateway.classify.scan_workers.frames import ScanSettings
    from gateway.config import ClassifySettings

EVERYWHERE = (
    EsNieRecognizer,
    EsNifRecognizer,
    FiPersonalIdentityCodeRecognizer,
)
"""Presidio's recognizers with a check digit or a telling shape: on whatever the language, because a
person's number does not change with the language of the sentence around it."""

_TOKEN = re.compile(r"\w+|[^\w\s]")
_WORD = re.compile(r"\w+")
_PUNCTUATION = re.compile(r"[^\w\s]+")
_NO_KEYWORD = "be"
"""The word that NlpArtifacts drops of any language's."""
_NEAR = (64, 512)
"""Characters in which the words before a finding are looked for, the fewest first."""


class BlankNlpEngine(NlpEngine):
    """Words and punctuation by one regex, and no entities: all that context words need.

    spaCy's blank pipelines would do the same slower; its models cannot be had from PyPI.
    """

    def __init__(self, languages: tuple[str, ...]) -> None:
        self._languages = languages

    def load(self) -> None:
        """Nothing to load."""

    def is_loaded(self) -> bool:
        return True

    def process_text(self, text: str, language: str) -> NlpArtifacts:
        offsets = [(m[0], m.start()) for m in _TOKEN.finditer(text)]
        tokens: Any = [word for word, _ in offsets]  # of a spaCy Doc only len(token) is ever asked
        return NlpArtifacts(
            entities=[],
            tokens=tokens,
            tokens_indices=[start for _, start in offsets],
            lemmas=[word.lower() for word, _ in offsets],
            nlp_engine=self,
            language=language,
        )

    def words_near(self, text: str, start: int, count: int) -> list[str]:
        """The keywords of `process_text` at a place, without reading all of the text. Raises
        ValueError where there is none but before it."""
        token = _TOKEN.search(text, start)
        if token is None:
            if _TOKEN.search(text, 0, start):
                raise ValueError("a finding stands behind the last token")
            return []
        for width in (*_NEAR, start):
            words = _words_before(text, start, token, count, max(0, start - width))
            if words is not None:
                return words
        raise AssertionError("from the beginning of the text on there are as many as there are")

    def process_batch(
        self, texts: Iterable[str], language: str, batch_size: int = 1, n_process: int = 1, **_: Any
    ) -> Iterator[tuple[str, NlpArtifacts]]:
        return ((text, self.process_text(text, language)) for text in texts)

    def is_stopword(self, word: str, language: str) -> bool:
        return False

    def is_punct(self, word: str, language: str) -> bool:
        return _PUNCTUATION.fullmatch(word) is not None

    def get_supported_entities(self) -> list[str]:
        return []

    def get_supported_languages(self) -> list[str]:
        return list(self._languages)


def _words_before(
    text: str, start: int, token: re.Match[str], count: int, first: int
) -> list[str] | None:
    """None when there are too few from `first` on."""
    preceding = _WORD.findall(text, first, start)
    is_word = _WORD.match(token[0]) is not None
    if is_word and preceding and token.start() == start and _WORD.match(text, start - 1):
        preceding[-1] += token[0]  # the finding starts within a word
    elif is_word:
        preceding.append(token[0])
    at_place = preceding[-1].lower() if is_word else _NO_KEYWORD
    if first > 0 and _WORD.fullmatch(text, first - 1, first + 1):
        del preceding[0]  # only the end of a word
    words = [word for word in map(str.lower, reversed(preceding)) if word != _NO_KEYWORD]
    if len(words) < count and first > 0:
        return None
    near = words[:count]
    if at_place == _NO_KEYWORD:
        behind = (m[0].lower() for m in _WORD.finditer(text, token.end()))
        near += next(([word] for word in behind if word != _NO_KEYWORD), [])
    return near


def pin_suffix_list() -> None:
    """Make tldextract use the list in its own package, for whoever calls it in this process.

    Presidio's e-mail recognizer calls the module-level `extract`, which downloads the list on its
    first match: a look-up that tells a third party that a gateway has just seen an address.
    """
    pinned: Any = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
    tldextract.extract = pinned
    tldextract.tldextract.TLD_EXTRACTOR = pinned


def silence() -> None:
    """Presidio logs matched text in places (an IBAN that fails to parse, context words)."""
    logger = logging.getLogger("presidio-analyzer")
    logger.handlers = [logging.NullHandler()]
    logger.propagate = False
    logger.disabled = True


def build_engine(settings: ClassifySettings | ScanSettings) -> AnalyzerEngine:
    """Presidio's default-on recognizers for the languages or the operator's registry, those of
    EVERYWHERE, and ours."""
    pin_suffix_list()
    silence()
    languages = list(settings.languages)
    registry = load_registry(settings)
    registry.recognizers = [r for r in registry.recognizers if type(r).__name__ not in REPLACED]
    for language in languages:
        _complete(registry, language, settings.deny_list)
    return AnalyzerEngine(
        registry=registry,
        nlp_engine=BlankNlpEngine(settings.languages),
        supported_languages=languages,
    )


def build_patterns(settings: ClassifySettings | ScanSettings) -> PatternEngine:
    """The same findings, at the speed of one scan."""
    return PatternEngine(build_engine(settings))


def _complete(registry: RecognizerRegistry, language: str, deny_list: tuple[str, ...]) -> None:
    present = {type(r).__name__ for r in registry.recognizers if r.supported_language == language}
    for kind in (*EVERYWHERE, *ADDITIONS):
        if kind.__name__ not in present:
            registry.add_recognizer(kind(supported_language=language))
    if deny_list:
        registry.add_recognizer(
            PatternRecognizer(
                supported_entity=DENY_LIST,
                name="OperatorsDenyList",
                deny_list=list(deny_list),
                supported_language=language,
            )
        )
