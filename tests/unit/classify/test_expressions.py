"""A start has its expressions as the one before it compiled them, and finds the same with them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import regex

from gateway.classify.patterns import expressions
from gateway.classify.patterns.expressions import caching
from gateway.classify.patterns.store import BlobStore

CASES: tuple[tuple[str, int], ...] = (
    (r"(?<year>\d{4})-(?P<month>\d\d)", 0),
    (r"\bnaïve\b|straße", int(regex.IGNORECASE | regex.DOTALL | regex.MULTILINE)),
    (r"(?i)(?:https?://)[\w.]{1,20}+", 0),
    (r"\b[[a-z]--[aeiou]]+\b", int(regex.V1)),
)
TEXT = "On 2024-05 a NAÏVE one read HTTP://example.org in the Straße, shhh\nrhythm"
compiler: Any = regex.compile


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "cache")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the compiler itself is asked to compile."""
    found: list[str] = []

    def counted(text: str, *more: Any, **named: Any) -> Any:
        found.append(text)
        return compiler(text, *more, **named)

    monkeypatch.setattr(expressions, "_compile", counted)
    return found


def compiled(store: BlobStore, of: bytes = b"a start") -> list[Any]:
    with caching(store, of):
        return [regex.compile(text, flags) for text, flags in CASES]


def answers(found: list[Any]) -> list[Any]:
    return [[(m.span(), m.groupdict()) for m in one.finditer(TEXT)] for one in found]


def test_the_second_start_compiles_nothing_and_finds_the_same(
    store: BlobStore, asked: list[str]
) -> None:
    first = answers(compiled(store))
    assert len(asked) == len(CASES)
    assert all(first)
    assert answers(compiled(store)) == first
    assert len(asked) == len(CASES)


def test_the_same_text_with_other_flags_is_another_expression(store: BlobStore) -> None:
    compiled(store)
    with caching(store, b"a start"):
        assert regex.compile("naïve|straße", 0).search(TEXT) is None
        found = regex.compile(CASES[1][0], 0)
    assert found.search(TEXT) is None
    assert compiled(store)[1].search(TEXT) is not None


def test_a_start_with_more_expressions_keeps_those_too(store: BlobStore, asked: list[str]) -> None:
    compiled(store)
    for _ in range(2):
        with caching(store, b"a start"):
            regex.compile(r"\bmore\b")
    assert asked.count(r"\bmore\b") == 1


def test_what_names_its_lists_or_is_no_text_is_compiled_by_itself(store: BlobStore) -> None:
    for word in ("one", "two"):
        with caching(store, b"a start"):
            assert regex.compile(r"\L<words>", words=[word]).fullmatch(word)
            assert regex.compile(rb"bytes").fullmatch(b"bytes")
            assert regex.compile(regex.compile("again")).fullmatch("again")


def test_an_expression_that_is_wrong_is_told_each_time(store: BlobStore) -> None:
    for _ in range(2):
        with pytest.raises(regex.error), caching(store, b"a start"):
            regex.compile("(")


def test_a_start_that_fails_keeps_nothing_and_leaves_the_compiler_as_it_was(
    store: BlobStore,
) -> None:
    with pytest.raises(regex.error), caching(store, b"a start"):
        regex.compile("(")
    assert regex.compile is compiler
    assert store.directory is not None
    assert not store.directory.exists()


class Hostile:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("touched"),))


@pytest.mark.parametrize(
    "blob",
    [b"", b"nonsense", pickle.dumps({("a", 0): Hostile()}), pickle.dumps({("a", 0): print})],
    ids=["empty", "nonsense", "calls", "names"],
)
def test_a_file_with_anything_else_in_it_is_not_taken(
    blob: bytes, store: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    compiled(store)
    assert store.directory is not None
    (file,) = store.directory.iterdir()
    assert store.write(file.name, blob)
    assert all(answers(compiled(store)))
    assert not (tmp_path / "touched").exists()
