"""Names by Presidio's engines: real spaCy pipelines and recognizers, in real scanner processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import spacy
import yaml
from spacy.training import Example

from gateway.classify import NoScan, ScanFailed, ScannerUnfit
from gateway.classify.names import FULL_NAME
from gateway.classify.names.engines import presidio_worker
from gateway.classify.names.engines.presidio import PresidioNames, languages, worker_spec
from gateway.classify.names.engines.reader import UnmeasuredLanguage
from gateway.classify.scan_workers.frames import ScanSettings, WorkerSpec
from gateway.config import ClassifySettings, NamesSettings
from gateway.core.types import Finding

ADA = "Please ask Ada Lovelace about it."
RECOGNIZERS = "tests.unit.classify.presidio_recognizers"


@pytest.fixture(scope="session")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spaCy pipeline that knows two names by rule."""
    nlp = spacy.blank("en")
    rules = nlp.add_pipe("entity_ruler")
    rules.add_patterns(  # type: ignore[attr-defined]
        [
            {"label": "PERSON", "pattern": "Ada Lovelace"},
            {"label": "PERSON", "pattern": "Ada"},
            {"label": "GPE", "pattern": "London"},
        ]
    )
    path = tmp_path_factory.mktemp("ruled") / "model"
    nlp.to_disk(path)
    return path


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spaCy pipeline that has learnt from a few sentences what stands after "ask"."""
    nlp = spacy.blank("en")
    nlp.add_pipe("ner")
    examples = []
    for first in ("Ada", "Grace", "Alan", "Emmy"):
        for last in ("Lovelace", "Hopper", "Turing", "Noether"):
            text = f"Please ask {first} {last} about it."
            span = (11, 12 + len(first) + len(last), "PERSON")
            examples.append(Example.from_dict(nlp.make_doc(text), {"entities": [span]}))
    negative = "Write a short summary of the water cycle for a class."
    examples.append(Example.from_dict(nlp.make_doc(negative), {"entities": []}))
    spacy.util.fix_random_seed(7)  # type: ignore[attr-defined]
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(12):
        nlp.update(examples, sgd=optimizer)
    path = tmp_path_factory.mktemp("trained") / "model"
    nlp.to_disk(path)
    return path


def nlp_file(scratch: Path, model: object, engine: str = "spacy", language: str = "en") -> Path:
    path = scratch / "nlp.yaml"
    models = [{"lang_code": language, "model_name": model}]
    path.write_text(yaml.safe_dump({"nlp_engine_name": engine, "models": models}))
    return path


def recognizers_file(scratch: Path, name: str, **more: Any) -> Path:
    path = scratch / "recognizers.yaml"
    row = {"name": name, "type": "predefined", **more}
    path.write_text(yaml.safe_dump({"supported_languages": ["en"], "recognizers": [row]}))
    return path


def settings(**names: Any) -> ClassifySettings:
    given = {"engine": "presidio", "other_languages": "scan", "samples": [ADA], **names}
    return ClassifySettings.model_validate({"names": given})


@contextlib.asynccontextmanager
async def running(given: ClassifySettings) -> AsyncIterator[PresidioNames]:
    names = PresidioNames(given)
    try:
        await names.start()
        yield names
    finally:
        await names.aclose()


def found(given: ClassifySettings, *texts: str) -> list[list[Finding]]:
    async def scenario() -> list[list[Finding]]:
        async with running(given) as names:
            return await names.find(texts, 20.0)

    return asyncio.run(scenario())


def refusal(given: ClassifySettings) -> str:
    async def scenario() -> None:
        async with running(given):
            raise AssertionError("it started")

    with pytest.raises(ScannerUnfit) as caught:
        asyncio.run(scenario())
    return str(caught.value)


def unfit(given: ClassifySettings) -> str:
    """What the scanner's process says where it cannot be built, which it is here."""
    spec = worker_spec(given)
    settings, before = WorkerSpec.unpack(orjson.loads(spec.pack()[4:])).settings, dict(os.environ)
    assert isinstance(settings, ScanSettings)
    try:
        with pytest.raises(ScannerUnfit) as caught:
            presidio_worker.build(settings, spec.types)
    finally:
        os.environ.clear()
        os.environ.update(before)
    return str(caught.value)


# What they find


def test_a_spacy_pipeline_finds_names_and_says_how_much_they_identify(
    ruled: Path, tmp_path: Path
) -> None:
    """A text in a language that it does not have restricts."""
    given = settings(nlp_configuration=nlp_file(tmp_path, str(ruled)), other_languages="restrict")

    async def scenario() -> list[list[Finding]]:
        async with running(given) as names:
            with pytest.raises(UnmeasuredLanguage):
                await names.find(["Кошка сидела на ковре и смотрела в окно."], 20.0)
            texts = ["I am Ada Lovelace.", "Ada's ducks lay eggs.", "In London."]
            return await names.find(texts, 20.0)

    whole, lone, place = asyncio.run(scenario())
    assert [(f.type, f.start, f.end) for f in whole] == [("PERSON", 5, 17)]
    assert whole[0].score >= FULL_NAME
    assert [(f.type, f.start, f.end) for f in lone] == [("PERSON", 0, 3)]
    assert lone[0].score < FULL_NAME
    assert place == []  # places restrict nothing by default, so nobody looks for them


def test_a_trained_spacy_model_finds_whom_it_was_not_told_of(trained: Path, tmp_path: Path) -> None:
    given = settings(nlp_configuration=nlp_file(tmp_path, str(trained)))
    (one,) = found(given, "Please ask Emmy Turing about it.")
    assert [(f.type, f.start, f.end) for f in one] == [("PERSON", 11, 22)]


def test_a_recognizer_of_the_operators_own_needs_no_nlp_engine(tmp_path: Path) -> None:
    """And one that raises restricts its call and no other."""
    given = settings(
        recognizers=recognizers_file(tmp_path, "AfterMet"),
        modules=[RECOGNIZERS],
        samples=["I met Ada Lovelace."],
    )

    async def scenario() -> NoScan:
        async with running(given) as names:
            assert await names.find(["She met Grace Hopper"], 20.0) == [
                [Finding("PERSON", 8, 20, 0.6)]
            ]
            with pytest.raises(ScanFailed) as caught:
                await names.find(["met Ada Lovelace, do explode"], 20.0)
            assert len((await names.find(["met Ada Lovelace"], 20.0))[0]) == 1
            return caught.value

    assert "Ada" not in str(asyncio.run(scenario()))


GLINER = """
import re

GLiNERConfig = None


class GLiNER:
    @classmethod
    def from_pretrained(cls, name, **_):
        assert name == "/models/gliner"
        return cls()

    def predict_entities(self, text, labels, **_):
        assert "person" in labels
        return [
            {"start": m.start(), "end": m.end(), "label": "person", "score": 0.9}
            for m in re.finditer("Ada Lovelace|Grace Hopper", text)
        ]
"""


def test_gliner_is_a_recognizer_like_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Presidio's own recognizer, with its chunks, over a stand-in for the package and its model,
    which needs torch and half a gigabyte of weights."""
    (tmp_path / "gliner.py").write_text(GLINER)
    monkeypatch.syspath_prepend(tmp_path)  # workers look for modules where the gateway does
    path = recognizers_file(
        tmp_path,
        "GLiNERRecognizer",
        model_name="/models/gliner",
        map_location="cpu",
        entity_mapping={"person": "PERSON"},
    )
    text = "Nobody is here. " * 40 + "But Grace Hopper."
    (one,) = found(settings(recognizers=path), text)
    assert [(f.type, text[f.start : f.end]) for f in one] == [("PERSON", "Grace Hopper")]


def test_what_the_operator_allows_is_no_finding(ruled: Path, tmp_path: Path) -> None:
    names = settings(nlp_configuration=nlp_file(tmp_path, str(ruled))).names
    given = ClassifySettings(names=names, allow_list=("Ada",))
    assert [len(f) for f in found(given, "Ada's ducks", "Ada Lovelace")] == [0, 1]


# What stops the start


def test_an_engine_that_misses_its_sample_stops_the_start(ruled: Path, tmp_path: Path) -> None:
    given = settings(
        nlp_configuration=nlp_file(tmp_path, str(ruled)), samples=["Please ask Emmy Noether."]
    )
    assert refusal(given) == "the scanner fails its samples: PERSON"


def test_an_engine_that_sees_people_everywhere_stops_the_start(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns(  # type: ignore[attr-defined]
        [{"label": "PERSON", "pattern": [{"IS_ALPHA": True}]}]
    )
    nlp.to_disk(tmp_path / "model")
    given = settings(nlp_configuration=nlp_file(tmp_path, str(tmp_path / "model")))
    assert "PERSON (false alarm)" in refusal(given)


def test_a_language_without_a_sample_stops_the_start(ruled: Path, tmp_path: Path) -> None:
    given = settings(nlp_configuration=nlp_file(tmp_path, str(ruled), language="ja"), samples=[])
    assert refusal(given).startswith("classify.names.samples: there is no sample in ja; give a")


def test_languages_have_samples_of_our_own(ruled: Path, tmp_path: Path) -> None:
    given = settings(nlp_configuration=nlp_file(tmp_path, str(ruled)), samples=[])
    ((kind, text),) = worker_spec(given).canaries
    assert kind == "PERSON"
    assert "Margaret Whitfield" in text


@pytest.mark.parametrize("engine", ["slim", "transformers"])
def test_a_spacy_model_that_is_missing_is_told_and_not_downloaded(
    engine: str, tmp_path: Path
) -> None:
    model: object = "en_core_web_none"
    if engine == "transformers":
        model = {"spacy": model, "transformers": "nobody/nothing"}
    told = refusal(settings(nlp_configuration=nlp_file(tmp_path, model, engine)))
    assert "and Spillway downloads nothing: install its package, or give the path" in told
    assert ("'en_core_web_none'" in told) == (engine != "slim")  # which loads what it wants


@pytest.mark.parametrize("kind", ["Downloads", "RunsPip"])
def test_a_model_that_would_be_fetched_opens_no_socket(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening() as (address, connected):
        monkeypatch.setenv("LC_ALL", address)  # one of the few that a worker keeps
        path = recognizers_file(tmp_path, kind)
        told = refusal(settings(recognizers=path, modules=[RECOGNIZERS]))
        assert "downloads nothing" in told
        assert not connected()


@contextlib.contextmanager
def listening() -> Iterator[tuple[str, Any]]:
    """An address, and whether anybody has connected to it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.0)

        def connected() -> bool:
            try:
                server.accept()[0].close()
            except BlockingIOError:
                return False
            return True

        yield f"127.0.0.1:{server.getsockname()[1]}", connected


@pytest.mark.parametrize(
    ("engine", "hint"),
    [("stanza", "pip install stanza spacy-stanza"), ("other", "classify.names.nlp_configuration")],
)
def test_an_engine_that_is_not_installed_is_told(engine: str, hint: str, tmp_path: Path) -> None:
    assert hint in unfit(settings(nlp_configuration=nlp_file(tmp_path, "en", engine)))


def test_gliner_without_its_package_is_told(tmp_path: Path) -> None:
    path = recognizers_file(tmp_path, "GLiNERRecognizer", supported_entities=["PERSON"])
    assert "classify.names.recognizers: ImportError: GLiNER" in unfit(settings(recognizers=path))


def test_a_module_that_is_not_there_is_told(tmp_path: Path) -> None:
    given = settings(recognizers=recognizers_file(tmp_path, "AfterMet"), modules=["no.such"])
    assert "classify.names.modules: ModuleNotFoundError" in unfit(given)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is no YAML file"),
        ("[]", "must be a mapping"),
        ("models: []", "name each language"),
        ("models: [{lang_code: no, model_name: x}]", "name each language"),  # no is false, to YAML
    ],
)
def test_a_file_that_names_no_languages_is_told(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "nlp.yaml"
    path.write_text(text)
    with pytest.raises(ScannerUnfit, match=told):
        languages(NamesSettings(engine="presidio", nlp_configuration=path))
