"""Names by an NLP engine or by recognizers of Presidio, as the operator's YAML files say: spaCy,
Stanza, transformers, GLiNER, or a class of theirs.

They run in scanner processes, which can open no socket and start no program: a model that is not
there is an error that says so, and never a download. Nothing of Presidio is imported here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from gateway.classify import ScanLate, ScannerUnfit
from gateway.classify.names import Enough
from gateway.classify.names.canaries import CANARIES, NOBODY
from gateway.classify.names.engines.reader import UnmeasuredLanguage
from gateway.classify.names.model.card import WEIGHTS
from gateway.classify.names.model.languages import Languages
from gateway.classify.names.model.words import cut
from gateway.classify.profile import Profile
from gateway.classify.scan_workers.frames import WorkerSpec
from gateway.classify.scan_workers.pool import ScanPool
from gateway.config import ClassifySettings, NamesSettings
from gateway.core import ambient
from gateway.core.types import Finding

FACTORY = "gateway.classify.names.engines.presidio_worker:build"


def worker_spec(settings: ClassifySettings, *, everything: bool = False) -> WorkerSpec:
    """For verdicts (what restricts), or for reports (everything)."""
    types = Profile.from_settings(settings).types
    return WorkerSpec(
        settings=settings,
        types=None if everything else types,
        canaries=_canaries(settings) if "PERSON" in types else (),
        negatives=() if everything else NOBODY[:1],
        factory=FACTORY,
    )


class PresidioNames:
    """The `Names` of `classify.names.engine: presidio`."""

    def __init__(
        self, settings: ClassifySettings, *, everything: bool = False, weights: Path = WEIGHTS
    ) -> None:
        self._settings = settings
        self._everything = everything
        self._tables = weights / "languages.npz"
        self._pool: ScanPool | None = None
        self._foreign: Languages | None = None

    async def start(self) -> None:
        """Raises ScannerUnfit, which says what is missing, or what the engine does not find."""
        if self._pool is not None:
            return
        spec = worker_spec(self._settings, everything=self._everything)
        if self._settings.names.other_languages == "restrict":
            measured = frozenset(languages(self._settings.names))
            self._foreign = await asyncio.to_thread(Languages.load, self._tables, measured)
        self._pool = ScanPool(spec, self._settings.workers, self._settings.max_waiting)
        await self._pool.start()

    async def find(
        self,
        texts: Sequence[str],
        budget_s: float,
        lone: Sequence[bool] | None = None,
        enough: Enough | None = None,
    ) -> list[list[Finding]]:
        """All names in all of the texts, whichever count: the gate knows the built-in model."""
        assert self._pool is not None
        ends_s = ambient.monotonic_s() + budget_s
        try:
            async with asyncio.timeout(max(0.0, budget_s)):
                if await asyncio.to_thread(self._unmeasured, texts):
                    raise UnmeasuredLanguage
        except TimeoutError:
            raise ScanLate("the names were not read in time") from None
        return await self._pool.scan(texts, ends_s - ambient.monotonic_s())

    async def aclose(self) -> None:
        if self._pool is not None:
            await self._pool.aclose()

    def _unmeasured(self, texts: Sequence[str]) -> bool:
        foreign = self._foreign
        return foreign is not None and any(foreign.foreign(t, cut(t)) for t in texts)


def languages(names: NamesSettings) -> tuple[str, ...]:
    """What the files say that their engine reads. Raises ScannerUnfit."""
    recognizers: list[Any] = []
    if names.nlp_configuration is not None:
        models = document("nlp_configuration", names.nlp_configuration).get("models")
        rows = models if isinstance(models, list) else []
        recognizers = [row.get("lang_code") for row in rows if isinstance(row, dict)]
        where = f"nlp_configuration: {names.nlp_configuration}: models"
    elif names.recognizers is not None:
        given = document("recognizers", names.recognizers).get("supported_languages")
        recognizers = given if isinstance(given, list) else []
        where = f"recognizers: {names.recognizers}: supported_languages"
    if not recognizers or not all(isinstance(one, str) and one for one in recognizers):
        raise ScannerUnfit(f"classify.names.{where}: name each language by its code, like 'en'")
    return tuple(dict.fromkeys(recognizers))


def document(key: str, path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
        what = type(exc).__name__
        raise ScannerUnfit(f"classify.names.{key}: {path} is no YAML file ({what})") from None
    if not isinstance(document, dict):
        raise ScannerUnfit(f"classify.names.{key}: {path} must be a mapping, as Presidio has it")
    return document


def _canaries(settings: ClassifySettings) -> tuple[tuple[str, str], ...]:
    """The operator's own samples; else one of ours for each language of the engine (C8)."""
    if settings.names.samples:
        return tuple(("PERSON", sample) for sample in settings.names.samples)
    ours = {language: text for language, kind, text in CANARIES if kind == "PERSON"}
    wanted = languages(settings.names)
    if missing := [language for language in wanted if language not in ours]:
        raise ScannerUnfit(
            f"classify.names.samples: there is no sample in {', '.join(missing)}; "
            "give a sentence with a person's name for each language"
        )
    return tuple(("PERSON", ours[language]) for language in wanted)
