"""What is deferred is imported when it is used, whole, and nothing else is touched."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional, cast

import pytest

from gateway.classify.scan_workers.deferred import DeferredName, deferred
from gateway.classify.scan_workers.factories import UNUSED

HEAVY = """
class Doc:
    kind = "doc"
    def __init__(self, text):
        self.text = text
"""
NAMES = ("heavy_one", "heavy_one.tokens")


@pytest.fixture(autouse=True)
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`heavy_one` is slow to import, and `uses_it` imports names out of it."""
    (tmp_path / "heavy_one").mkdir()
    (tmp_path / "heavy_one" / "__init__.py").write_text("def load():\n    return 'a model'\n")
    (tmp_path / "heavy_one" / "tokens.py").write_text(HEAVY)
    (tmp_path / "uses_it.py").write_text("import heavy_one\nfrom heavy_one.tokens import Doc\n")
    (tmp_path / "fails.py").write_text("import heavy_one.tokens, there_is_no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [*NAMES, "uses_it"]:
        sys.modules.pop(name, None)


def uses_it() -> Any:
    with deferred(NAMES):
        return importlib.import_module("uses_it")


def is_imported() -> bool:
    return any(name in sys.modules for name in NAMES)


def test_names_can_be_imported_without_their_module() -> None:
    assert isinstance(uses_it().Doc, DeferredName)
    assert not is_imported()


def test_calling_one_calls_the_real_one() -> None:
    made = uses_it().Doc("hello")
    assert made.text == "hello"
    assert type(made) is importlib.import_module("heavy_one.tokens").Doc


def test_looking_into_one_looks_into_the_real_one() -> None:
    module = uses_it()
    assert module.Doc.kind == "doc"
    assert module.heavy_one.load() == "a model"


def test_a_class_may_be_derived_from_one() -> None:
    deferred_class = uses_it().Doc

    class Longer(deferred_class):  # type: ignore[misc, valid-type]
        pass

    assert issubclass(Longer, importlib.import_module("heavy_one.tokens").Doc)


def test_nothing_is_of_a_class_that_nobody_has_imported() -> None:
    doc = uses_it().Doc
    assert not isinstance("text", doc)
    assert not is_imported()
    assert isinstance(doc("text"), doc)
    assert not isinstance("text", doc)


def test_one_may_stand_in_an_annotation() -> None:
    doc, optional, many = uses_it().Doc, cast(Any, Optional), cast(Any, list)
    assert [doc | None, None | doc, optional[doc], many[doc]]
    assert not is_imported()


def test_afterwards_an_import_is_the_ordinary_one() -> None:
    uses_it()
    heavy = importlib.import_module("heavy_one")
    tokens = importlib.import_module("heavy_one.tokens")
    assert heavy.load() == "a model"
    assert heavy.tokens is tokens
    assert tokens.Doc("x").text == "x"


def test_what_was_imported_before_stays() -> None:
    heavy = importlib.import_module("heavy_one.tokens")
    assert uses_it().Doc is heavy.Doc


def test_an_import_that_fails_leaves_nothing_behind() -> None:
    before = list(sys.meta_path)
    with pytest.raises(ImportError), deferred(NAMES):
        importlib.import_module("fails")
    assert sys.meta_path == before
    assert not is_imported()


def test_scan_workers_run_without_what_their_presidio_does_not_need() -> None:
    """And get it, as it is, where an operator's recognizer asks for it."""
    code = f"""
import json, sys
from gateway.classify.scan_workers.factories import build
from gateway.config import ClassifySettings
scanner = build(ClassifySettings(), frozenset({{"EMAIL_ADDRESS", "CREDIT_CARD"}}))
found = scanner.scan("to maria.keller@posteo.example, card 4111 1111 1111 1111")
imported = [name for name in {UNUSED!r} if name in sys.modules]
from presidio_analyzer.nlp_engine import NlpEngineProvider
engines = sorted(NlpEngineProvider().nlp_engines)
print(json.dumps([sorted(f.type for f in found), imported, engines, "spacy" in sys.modules]))
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=110
    )
    found, imported, engines, has_spacy = json.loads(ended.stdout)
    assert found == ["CREDIT_CARD", "EMAIL_ADDRESS"]
    assert imported == []
    assert {"slim", "spacy"} <= set(engines)
    assert has_spacy
