"""The compiled build: what goes into it, and how its copy of the source differs.

With SPILLWAY_TEST_COMPILED set it is built, which takes minutes and a C compiler, and serves calls.
"""

from __future__ import annotations

import ast
import copy
import importlib.util
import inspect
import json
import os
import shutil
import subprocess
import sys
import threading
import tomllib
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from setuptools import Distribution  # type: ignore[import-untyped]

from gateway import __version__
from gateway.__main__ import main
from gateway.classify.patterns import origin
from gateway.core import compiled

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MODULES: list[str] = PROJECT["tool"]["spillway"]["compiled"]["modules"]
KEYWORDS = {"_thread", "thread"}  # an attribute of this name would be one of C's words
VALUES = '''
from dataclasses import field
from gateway.core.structs import value


@value
class Made:
    """Text."""

    name: str
    size: int = 3
    found: dict[str, int] = field(default_factory=dict, repr=False)
    twice: int = field(init=False)

    def __post_init__(self) -> None:
        self.twice = 2 * self.size

BEHIND = Made("a")
'''


@pytest.fixture(scope="module")
def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("compiled_build", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def source(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def run(text: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, "made", "exec"), namespace)
    return namespace


def test_what_is_compiled_is_there_and_in_order() -> None:
    assert [name for name in MODULES if not source(name).exists()] == []
    assert sorted(set(MODULES)) == MODULES


@pytest.mark.parametrize("name", MODULES)
def test_no_attribute_is_named_as_a_word_of_c(name: str) -> None:
    named = {
        n.attr
        for n in ast.walk(ast.parse(source(name).read_text()))
        if isinstance(n, ast.Attribute)
    }
    assert not named & KEYWORDS


LEFT_AT_ONCE = {
    "asyncio.timeout",  # of these nobody waits on the way out
    "self._asking",
    "self._committing",
    "self.leases.asking",
    "leases.asking",
}


def handled_while_waiting(tree: ast.AST) -> list[int]:
    """The lines at which a coroutine waits while it handles an exception."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Try | ast.TryStar):
            handled = [step for handler in node.handlers for step in handler.body]
            for step in (*handled, *node.finalbody):
                found += [each.lineno for each in waits(step)]
        elif isinstance(node, ast.AsyncWith):
            for item in node.items:
                entered = item.context_expr
                called = entered.func if isinstance(entered, ast.Call) else entered
                if ast.unparse(called) not in LEFT_AT_ONCE:
                    found.append(node.lineno)
    return found


def waits(node: ast.AST) -> list[Any]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return []
    here = (ast.Await, ast.Yield, ast.YieldFrom, ast.AsyncFor, ast.AsyncWith)
    found: list[Any] = [node] if isinstance(node, here) else []
    return found + [each for child in ast.iter_child_nodes(node) for each in waits(child)]


@pytest.mark.parametrize("name", MODULES)
def test_nothing_waits_while_it_handles_an_exception(name: str) -> None:
    """mypyc 2.4 does not keep apart what several coroutines handle
    (`gateway/core/deferred_error.py`)."""
    assert handled_while_waiting(ast.parse(source(name).read_text())) == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("try:\n  a()\nexcept E:\n  await b()", [4]),
        ("try:\n  a()\nfinally:\n  if b:\n    await c()", [5]),
        ("try:\n  a()\nexcept E:\n  for _ in b:\n    async for c in d:\n      pass", [5]),
        ("async with TaskGroup():\n  pass", [1]),
        ("try:\n  await a()\nexcept E:\n  b()\nelse:\n  await c()", []),
        ("try:\n  a()\nexcept E:\n  async def b():\n    await c()", []),
        ("async with asyncio.timeout(1):\n  await a()", []),
    ],
)
def test_who_waits_in_a_handler_is_found(text: str, lines: list[int]) -> None:
    wrapped = "async def f():\n" + "\n".join(f"  {line}" for line in text.split("\n"))
    assert handled_while_waiting(ast.parse(wrapped)) == [line + 1 for line in lines]


def test_what_is_not_compiled_inherits_nothing_from_what_is() -> None:
    """An interpreted class cannot inherit from a native one."""
    wrong = []
    for path in (ROOT / "gateway").rglob("*.py"):
        own = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        nodes = list(ast.walk(ast.parse(path.read_text())))
        came = {
            alias.asname or alias.name: node.module
            for node in nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        wrong += [
            f"{own}.{node.name}"
            for node in nodes
            if isinstance(node, ast.ClassDef) and own not in MODULES
            for base in node.bases
            if came.get(ast.unparse(base).split("[")[0]) in MODULES
            and not any(ast.unparse(each) == "Protocol" for each in node.bases)
        ]
    assert wrong == []


def test_a_value_with_its_constructor_written_out_is_the_same_value(build: ModuleType) -> None:
    plain, written = run(VALUES)["Made"], run(build.written_out(VALUES))["Made"]
    for given in ({"name": "a"}, {"name": "b", "size": 4}, {"name": "c", "found": {"d": 1}}):
        one, other = plain(**given), written(**given)
        assert repr(one) == repr(other)
        assert vars_of(one) == vars_of(other)
        assert written(**given) == other
    assert list(inspect.signature(plain).parameters) == list(inspect.signature(written).parameters)
    assert written("a").found is not written("a").found
    assert hash(written("a", 1, ())) == hash(plain("a", 1, ()))


def vars_of(made: Any) -> dict[str, Any]:
    return {name: getattr(made, name) for name in ("name", "size", "found", "twice")}


@pytest.mark.parametrize("name", MODULES)
def test_every_line_stays_where_it_was(name: str, build: ModuleType) -> None:
    before = source(name).read_text()
    after = build.written_out(before)
    starts = [
        {n.name: n.lineno for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)}
        for text in (before, after)
    ]
    assert {k: v for k, v in starts[1].items() if k != "__init__"} == {
        k: v for k, v in starts[0].items() if k != "__init__"
    }


def test_an_attribute_that_is_none_at_first_is_there(build: ModuleType) -> None:
    plain = "class Made:\n    other: Kind | None = None  # at first\n"
    written = build.written_out(plain)
    assert written != plain
    assert run("Kind = int\n" + written)["Made"].other is None


def test_a_value_that_cannot_be_written_out_ends_the_build(build: ModuleType) -> None:
    with pytest.raises(ValueError, match="found"):
        build.written_out(VALUES.replace("dict[str, int]", "dict[str, int] | None"))
    with pytest.raises(ValueError, match="no empty line"):
        build.written_out(VALUES.replace("\n\nBEHIND", "\nBEHIND"))


@pytest.mark.parametrize(
    ("command", "said", "is_asked_for"),
    [
        ("bdist_wheel", "1", True),
        ("build_ext", "1", True),
        ("dist_info", "1", False),
        ("egg_info", "1", False),
        ("bdist_wheel", "", False),
    ],
)
def test_c_is_written_where_it_is_compiled_and_nowhere_else(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, command: str, said: str, is_asked_for: bool
) -> None:
    monkeypatch.setattr(sys, "argv", ["setup.py", command])
    monkeypatch.setenv("SPILLWAY_COMPILE", said)
    assert build._is_asked_for() is is_asked_for


class FakeCompiler:
    """Compiles a file that begins with `slow` when `others` were: one after the other it would
    wait for ever."""

    def __init__(self, others: int) -> None:
        self.others = threading.Semaphore(0), others
        self.done: list[str] = []

    def _compile(self, obj: str, *_: Any) -> None:
        there, count = self.others
        if obj.startswith("slow"):
            for _each in range(count):
                assert there.acquire(timeout=20)
        if obj.startswith("wrong"):
            raise ValueError(obj)
        self.done.append(obj)
        there.release()

    def compile(self, objects: list[str]) -> list[str]:
        for obj in objects:
            self._compile(obj, "source", ".c", [], [], [])
        return objects

    def link_shared_object(self, objects: list[str], name: str, **_: Any) -> None:
        assert set(objects) <= set(self.done)
        self.done.append(name)


def on_all_cores(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, compiler: FakeCompiler, made: Any
) -> None:
    def one_after_the_other(command: Any) -> None:
        for name, objects in made.items():
            command.compiler.link_shared_object(command.compiler.compile(objects), name)

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(build.build_ext, "build_extensions", one_after_the_other)
    command = build.OnAllCores(Distribution())
    command.compiler = compiler
    command.build_extensions()


def test_files_are_compiled_at_once_and_linked_when_they_are_there(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = FakeCompiler(others=1)
    made = {"one.so": ["slow.o", "a.o"], "other.so": ["b.o", "c.o"]}
    on_all_cores(build, monkeypatch, compiler, made)
    assert sorted(compiler.done) == ["a.o", "b.o", "c.o", "one.so", "other.so", "slow.o"]


def test_a_file_that_cannot_be_compiled_ends_the_build(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = FakeCompiler(others=0)
    with pytest.raises(ValueError, match=r"wrong\.o"):
        on_all_cores(build, monkeypatch, compiler, {"one.so": ["a.o", "wrong.o", "b.o"]})
    assert "one.so" not in compiler.done


def test_the_command_line_tells_whether_it_is_compiled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for is_so, behind in ((False, ""), (True, " (compiled)")):
        monkeypatch.setattr(compiled, "is_compiled", lambda is_so=is_so: is_so)
        with pytest.raises(SystemExit):
            main(["--version"])
        assert capsys.readouterr().out == f"spillway {__version__}{behind}\n"


def test_what_is_kept_depends_on_the_source_of_a_compiled_module_and_not_on_its_shell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, find = origin._code(), importlib.util.find_spec

    def compiled_as(name: str) -> Any:
        spec = copy.copy(find(name))  # of a module that is imported it is the module's own
        assert spec is not None
        spec.origin = str(spec.origin).removesuffix(".py") + EXTENSION_SUFFIXES[0]
        return spec

    monkeypatch.setattr(importlib.util, "find_spec", compiled_as)
    assert origin._code() == plain


@pytest.mark.skipif(not os.environ.get("SPILLWAY_TEST_COMPILED"), reason="takes minutes")
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.timeout(3600)
def test_the_compiled_gateway_serves_a_call(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        tree.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tree)
    shutil.copytree(
        ROOT / "gateway", tree / "gateway", ignore=shutil.ignore_patterns("*.pyc", "*.so")
    )
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps"]
    subprocess.run(
        [
            *pip,
            "--no-build-isolation",
            "--no-index",
            "--target",
            str(tmp_path / "there"),
            str(tree),
        ],
        env={**os.environ, "SPILLWAY_COMPILE": "1", "SPILLWAY_COMPILE_LEVEL": "0"},
        check=True,
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "there"), str(ROOT)]),
    }
    version = subprocess.run(
        [sys.executable, "-m", "gateway", "--version"],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert version == f"spillway {__version__} (compiled)\n"
    for model, kind in (
        ("inspected", "chat"),
        ("inspected", "stream"),
        ("onprem", "chat"),
        ("inspected", "v2-json"),
    ):
        counted = subprocess.run(
            [sys.executable, "-m", "loadtests.bench.live", "--json", "--model", model,
             "--kind", kind],
            env=environment, cwd=tmp_path, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert json.loads(counted)["bytecodes"] > 0, (model, kind)
