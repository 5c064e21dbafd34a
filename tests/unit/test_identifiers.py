"""Identifiers of the gateway are terms of the field, and a class name stands for one class.

A word of `STOP_WORDS` says nothing of the value that it stands for: the noun of the value does
(docs/glossary.md has those that the rooms share).
"""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "gateway"
GLOSSARY = ROOT / "docs" / "glossary.md"

STOP_WORDS = frozenset(
    {
        *("told", "found", "asked", "kept", "seen", "here", "abroad"),
        *("beside", "way", "look", "of", "tell", "said", "came"),
    }
)
BORROWED = frozenset(
    {
        "FileNotFoundError",
        "ModuleNotFoundError",
        "NOT_FOUND",  # codes of gRPC
        "OUT_OF_RANGE",
        "PackageNotFoundError",
    }
)
"""Names of Python and of libraries."""

MOST_TERMS = 80
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_TERM = re.compile(r"- \*\*(?P<term>[^*]+)\*\*: (?P<sentence>.+)")


@functools.cache
def words(identifier: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(identifier))


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Every module of the gateway, by its path from the root."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {str(path.relative_to(ROOT)): ast.parse(path.read_bytes()) for path in paths}


@functools.cache
def gateways_identifiers() -> tuple[tuple[str, int, str], ...]:
    """Each with its file and line."""
    return tuple(
        (path, line, name) for path, tree in trees().items() for line, name in identifiers(tree)
    )


def identifiers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Each with its line."""
    for node in ast.walk(tree):
        for name in _names(node):
            yield getattr(node, "lineno", 0), name


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    elif isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.keyword | ast.alias):
        yield from _parts(node)
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        yield node.name or ""


def _parts(node: ast.keyword | ast.alias) -> Iterator[str]:
    if isinstance(node, ast.keyword):
        yield node.arg or ""
    else:
        yield node.name.rpartition(".")[2]
        yield node.asname or ""


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [
        ("endpoint_of", ["endpoint", "of"]),
        ("ToldNobody", ["told", "nobody"]),
        ("_KEPT_S", ["kept", "s"]),
        ("HTTPHere", ["http", "here"]),
        ("offset", ["offset"]),
    ],
)
def test_identifiers_are_read_word_by_word(identifier: str, expected: list[str]) -> None:
    assert words(identifier) == set(expected)


@pytest.mark.parametrize(
    "source",
    [
        "told = 1",
        "def found(): ...",
        "class Kept: ...",
        "def f(asked): ...",
        "f(seen=1)",
        "x.here",
        "from a import b as abroad",
        "import a.beside",
        "match x:\n    case y as way: ...",
        "try: ...\nexcept E as said: ...",
        "[look for look in x]",
        "lambda came: 0",
    ],
)
def test_every_kind_of_identifier_is_read(source: str) -> None:
    assert [n for _, n in identifiers(ast.parse(source)) if STOP_WORDS & words(n)]


def test_no_identifier_has_a_word_of_the_stop_list() -> None:
    wrong = [
        f"{path}:{line} {name}"
        for path, line, name in gateways_identifiers()
        if name not in BORROWED and STOP_WORDS & words(name)
    ]
    assert wrong == []


def test_no_module_has_a_word_of_the_stop_list() -> None:
    assert [path for path in trees() if STOP_WORDS & words(path)] == []


def test_every_borrowed_name_is_still_used() -> None:
    used = {name for _, _, name in gateways_identifiers()}
    assert used >= BORROWED


def test_a_class_name_stands_for_one_class() -> None:
    counts = Counter(classes())
    assert sorted(name for name, count in counts.items() if count > 1) == []


@functools.cache
def classes() -> tuple[str, ...]:
    nodes = (node for tree in trees().values() for node in ast.walk(tree))
    return tuple(node.name for node in nodes if isinstance(node, ast.ClassDef))


def _terms() -> list[tuple[str, str]]:
    matches = map(_TERM.fullmatch, GLOSSARY.read_text("utf-8").splitlines())
    return [(m["term"], m["sentence"]) for m in matches if m is not None]


def test_the_glossary_has_few_terms_each_once_and_in_one_sentence() -> None:
    terms = _terms()
    assert 0 < len(terms) <= MOST_TERMS
    counts = Counter(term.lower() for term, _ in terms)
    assert sorted(term for term, count in counts.items() if count > 1) == []
    for term, sentence in terms:
        assert sentence.endswith("."), term
        assert not re.search(r"[.!?] +[A-Z]", sentence), term


def test_what_the_glossary_writes_as_a_class_is_one() -> None:
    written = {name for term, _ in _terms() for name in re.findall(r"`(\w+)`", term)}
    assert written
    assert sorted(written - set(classes())) == []


def test_every_list_item_of_the_glossary_is_a_term() -> None:
    lines = GLOSSARY.read_text("utf-8").splitlines()
    assert [line for line in lines if line.startswith("-") and not _TERM.fullmatch(line)] == []


@pytest.mark.parametrize("page", ["README.md", "docs/explanation/architecture.md"])
def test_the_glossary_is_linked(page: str) -> None:
    assert "glossary.md" in (ROOT / page).read_text("utf-8")
