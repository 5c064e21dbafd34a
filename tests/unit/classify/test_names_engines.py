"""Which place looks for names, and what it calls itself in records."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.classify import ScannerUnfit
from gateway.classify.classifier import Classifier
from gateway.classify.names import Names, engines
from gateway.classify.names.engines.local import LocalNames
from gateway.classify.names.engines.presidio import PresidioNames
from gateway.classify.names.engines.triton import TritonNames
from gateway.classify.scan_workers.spec import worker_spec
from gateway.classify.verdicts.readers import names_search
from gateway.config import ClassifySettings
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.types import Finding, Tightening


class NothingFound:
    """Pattern scans of harmless texts."""

    async def start(self) -> None: ...

    async def scan(
        self,
        texts: Sequence[str],
        budget_s: float,
        restricts: tuple[frozenset[str], float] | None = None,
    ) -> list[list[Finding]]:
        return [[] for _ in texts]

    async def aclose(self) -> None: ...


def settings(**names: Any) -> ClassifySettings:
    return ClassifySettings.model_validate({"names": names})


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ({}, LocalNames),
        ({"engine": "triton", "endpoint": "gpu"}, TritonNames),
        ({"engine": "presidio", "nlp_configuration": __file__}, PresidioNames),
        ({"engine": "off"}, type(None)),
    ],
)
def test_every_engine_has_its_place(names: dict[str, Any], kind: type[Names]) -> None:
    assert type(engines.build(settings(**names))) is kind


@pytest.mark.parametrize(
    ("classify", "added", "kind"),
    [
        ({"profile": "balanced"}, (), LocalNames),
        ({"profile": "patterns"}, (), type(None)),
        ({"restrict": ["EMAIL_ADDRESS"]}, (), type(None)),
        ({"profile": "patterns", "restrict": ["PERSON"]}, (), LocalNames),
        ({"profile": "patterns"}, (Tightening("strict"),), LocalNames),
        ({"profile": "patterns"}, (Tightening(types=frozenset({"USERNAME"})),), LocalNames),
        ({"profile": "patterns"}, (Tightening(types=frozenset({"URL"})),), type(None)),
    ],
)
def test_names_are_in_memory_where_they_restrict_somebody(
    classify: dict[str, Any], added: tuple[Tightening, ...], kind: type[Names]
) -> None:
    assert type(names_search(ClassifySettings.model_validate(classify), added, None)) is kind


def test_an_endpoint_without_a_door_on_the_premises_does_not_start() -> None:
    async def scenario() -> None:
        names = engines.build(settings(engine="triton", endpoint="gpu"), door=None)
        assert names is not None
        try:
            await names.start()
        finally:
            await names.aclose()

    with pytest.raises(ScannerUnfit, match="on the premises only"):
        asyncio.run(scenario())


def test_the_place_does_not_change_what_the_model_is() -> None:
    here, there = settings(), settings(engine="triton", endpoint="gpu")
    assert engines.version(here.names) == engines.version(there.names)
    assert engines.version(settings(engine="off").names) != engines.version(here.names)


def test_another_file_is_another_version(tmp_path: Path) -> None:
    path = tmp_path / "nlp.yaml"

    def version(content: str, key: str = "nlp_configuration") -> str:
        path.write_text(content)
        return engines.version(settings(engine="presidio", **{key: str(path)}).names)

    assert version("models: []") == version("models: []")
    assert version("models: []") != version("models: [1]")
    assert version("models: []") != version("models: []", "recognizers")
    assert version("models: []", "recognizers") != version("models: [1]", "recognizers")


@pytest.mark.parametrize(
    ("names", "needed"),
    [
        ({}, {"US_SSN"}),
        ({"engine": "triton", "endpoint": "gpu"}, {"US_SSN"}),
        ({"engine": "presidio", "nlp_configuration": __file__}, {"US_SSN", "USERNAME"}),
        ({"engine": "off"}, {"US_SSN", "USERNAME", "PERSON"}),
    ],
)
def test_a_type_that_the_names_model_finds_needs_no_pattern(
    names: dict[str, Any], needed: set[str]
) -> None:
    given = settings(**names).model_copy(update={"restrict": ("US_SSN", "USERNAME", "PERSON")})
    assert worker_spec(given).required == needed


@pytest.mark.parametrize(
    ("types", "sought"),
    [({"USERNAME"}, True), ({"PERSON"}, True), ({"STREET_ADDRESS", "US_SSN"}, False)],
)
def test_names_are_looked_for_where_what_they_find_restricts(
    types: set[str], sought: bool, kit: Any
) -> None:
    assert (engines.for_reports(settings(), types) is not None) is sought
    given = ClassifySettings(restrict=tuple(types))
    catalog = Catalog(models={"chat": CatalogModel("chat", "generate", ("gpu",))})
    names = engines.build(given)
    classifier = Classifier(given, catalog, NothingFound(), time.monotonic, names=names)
    message = {"role": "user", "content": "hello"}
    found = asyncio.run(classifier.classify(kit.make_request({"messages": [message]})))
    assert found.reason == "clear"
    assert found.complete is not sought
