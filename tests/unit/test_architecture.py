"""The gateway's rooms: imports point down, and nobody reaches into a family past its front page.

The tables below are the whole rule. A new module goes into a room; a new room gets its place in the
order and a docstring that says what it is for.
"""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "gateway"

ROOMS = (
    "",  # the package itself: its version
    "core",
    "config",
    "protocols",
    "classify",
    "auth",
    "scheduling",
    "accounting",
    "endpoints",
    "models",
    "pipeline",
    "simulate",
    "cluster",
    "server",
    "app",
    "demo",
    "cli",
    "__main__",
)
"""From the bottom up. A room may import what stands below it, never above it."""

MOST_NAMES = 15
"""In a room, or in a package within one; __init__ is none. More is a room of its own."""

MOST_LINES, MOST_METHODS = 400, 20
"""Of a file, and of a class."""

TOO_FULL = {"core": 18, "demo": 16, "demo.cloud": 29}
"""Packages that are still to be divided, and how many names they have. None may grow."""

FAMILIES = {
    "endpoints.connectors": ("triton", "kserve", "openai"),
    "server": ("dialects", "kserve", "openai", "grpc", "ops"),
    "server.dialects": ("anthropic", "bedrock", "cohere", "gemini"),
}
"""Packages whose members take each other's place, and may not import each other. What is nobody's
is shared, and may import no member."""

REGISTRY = "endpoints.connectors.kinds"  # names every member, which is its only task

ACROSS = {
    # `explain` reads a described call as the front of its path would.
    ("server.ops", "server.openai.documents"),
    *(
        ("server.ops", f"server.dialects.{dialect}.front")
        for dialect in ("anthropic", "bedrock", "cohere", "gemini")
    ),
    ("server.ops", "server.dialects.head"),
    # What is translated is read as the chat that it becomes.
    ("server.dialects.head", "server.openai.documents"),
    # The console's page asks who is an operator, as operations do.
    ("server.console.front", "server.ops"),
}

DOORS = {
    "endpoints.connectors": {"", "egress", "kinds"},
    "classify": {
        "",
        "categories",
        "classifier",
        "conversations.faded",
        "conversations.taint",
        "names",
        "names.model.card",
        "names.model.lexicon",
        "pseudonyms.pseudonymiser",
        "text.normalise",
        "text.spans",
        "verdicts.answers",
        "verdicts.answers.reader",
        "verdicts.readers",
        "verdicts.hooks.classifier",
    },
    "scheduling.routing": {"estimate", "fit", "needs", "policy", "version_split", "work"},
}
"""What the rest of the gateway may import of a package; commands may look deeper."""

PURE = (
    "core.deadline",
    "core.types",
    "core.reply",
    "core.errors",
    "scheduling",
    "server.latency_budget",
)
WAITING = (
    *("scheduling.arrivals", "scheduling.queue", "scheduling.queues"),
    *("scheduling.gpu_turns", "scheduling.factory"),
)
"""The queues, whose callers wait: the only part of scheduling that is not pure."""


@dataclass(frozen=True, slots=True)
class Import:
    """One import of one of our modules by another, both without the leading `gateway.`."""

    importer: str
    imported: str
    line: int

    def __str__(self) -> str:
        return f"gateway.{self.importer}:{self.line} imports gateway.{self.imported}"


def modules() -> dict[str, Path]:
    """Every module of the gateway by its name without `gateway.`; the package itself is ''."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def top(module: str) -> str:
    return module.partition(".")[0]


def within(module: str) -> str:
    return module.partition(".")[2]


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


@cache
def imports() -> tuple[Import, ...]:
    return tuple(
        Import(name, imported, getattr(node, "lineno", 0))
        for name, path in MODULES.items()
        for node in ast.walk(tree_of(path))
        for imported in _named(node)
    )


def _named(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if top(alias.name) == "gateway":
                yield within(alias.name)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports name their module in full"
        if node.module is None or top(node.module) != "gateway":
            return
        for alias in node.names:
            submodule = f"{within(node.module)}.{alias.name}".lstrip(".")
            yield submodule if submodule in MODULES else within(node.module)


def below(package: str, module: str) -> str | None:
    """The name of a module within a package, or None if it is not there."""
    if module == package:
        return ""
    return module.removeprefix(f"{package}.") if module.startswith(f"{package}.") else None


def member_of(family: str, module: str) -> str | None:
    name = below(family, module)
    return top(name) if name is not None and top(name) in FAMILIES[family] else None


def names_in() -> dict[str, set[str]]:
    """What stands in each package."""
    made: dict[str, set[str]] = {}
    for module in filter(None, MODULES):
        parts = module.split(".")
        for at in range(len(parts)):
            made.setdefault(".".join(parts[:at]), set()).add(parts[at])
    return made


def test_every_module_stands_in_a_room() -> None:
    assert {top(name) for name in MODULES} == set(ROOMS)


@pytest.mark.parametrize("room", [room for room in ROOMS if room and room != "__main__"])
def test_each_room_says_what_it_is_for(room: str) -> None:
    said = ast.get_docstring(tree_of(MODULES[room]))
    assert said
    assert len(said.splitlines()) <= 30


def test_no_room_is_too_full() -> None:
    full = {p: len(n) for p, n in names_in().items() if p and len(n) > MOST_NAMES}
    assert full == TOO_FULL


def test_no_file_and_no_class_is_too_large() -> None:
    large = []
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        if (lines := text.count("\n")) > MOST_LINES:
            large.append(f"{path.relative_to(PACKAGE)} has {lines} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                methods = sum(
                    isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) for n in node.body
                )
                if methods > MOST_METHODS:
                    large.append(f"{node.name} has {methods} methods")
    assert not large


def test_imports_point_down() -> None:
    rank = {room: at for at, room in enumerate(ROOMS)}
    wrong = [str(i) for i in imports() if rank[top(i.imported)] > rank[top(i.importer)]]
    assert wrong == []


def test_no_two_modules_import_each_other() -> None:
    left: dict[str, set[str]] = {name: set() for name in MODULES}
    for i in imports():
        if i.imported != i.importer and i.imported in left:
            left[i.importer].add(i.imported)
    while free := {name for name, needs in left.items() if not needs & left.keys()}:
        left = {name: needs for name, needs in left.items() if name not in free}
    assert sorted(left) == [], "these are in an import cycle, or above one"


@pytest.mark.parametrize("family", FAMILIES)
def test_members_of_a_family_do_not_import_each_other(family: str) -> None:
    wrong = [
        str(i)
        for i in imports()
        if below(family, i.importer) is not None
        and member_of(family, i.imported) not in (None, member_of(family, i.importer))
        and i.importer != REGISTRY
        and (i.importer, i.imported) not in ACROSS
    ]
    assert wrong == []


def test_every_exception_to_the_rule_is_still_needed() -> None:
    assert {(i.importer, i.imported) for i in imports()} >= ACROSS


@pytest.mark.parametrize("package", DOORS)
def test_packages_are_used_through_their_doors(package: str) -> None:
    wrong = [
        str(i)
        for i in imports()
        if below(package, i.importer) is None
        and top(i.importer) not in ("cli", "demo")
        and below(package, i.imported) not in (None, *DOORS[package])
    ]
    assert wrong == []


def test_only_the_composition_root_makes_doors_to_endpoints() -> None:
    """Whoever could wrap a connector in a door of the wrong zone could send a call past both
    guards; the one who does it is the one who reads the zone from the settings."""
    makers = {"endpoints.connectors.egress", REGISTRY}
    assert {i.importer for i in imports() if i.imported in makers} == {"app.endpoint_set"}


def test_nothing_but_its_command_knows_the_demo() -> None:
    importers = {
        i.importer for i in imports() if top(i.imported) == "demo" and top(i.importer) != "demo"
    }
    assert importers <= {"cli.demo"}


def test_the_simulated_cloud_shares_no_code_with_the_gateway() -> None:
    """What it recorded is evidence only if it reads the wire by itself."""
    cloud = [i for i in imports() if i.importer.startswith("demo.cloud")]
    assert [str(i) for i in cloud if not i.imported.startswith("demo.cloud")] == []


@pytest.mark.parametrize("part", PURE)
def test_the_pure_core_does_no_io(part: str) -> None:
    waits = {"asyncio", "socket", "httpx", "grpc", "logging", "os", "pathlib", "subprocess"}
    for name, path in MODULES.items():
        if below(part, name) is not None and name not in WAITING:
            tree = tree_of(path)
            imported = {n.name for n in _imported_modules(tree)}
            assert not {top(n) for n in imported} & waits, name


def _imported_modules(tree: ast.AST) -> Iterator[ast.alias]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from node.names
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield ast.alias(node.module)


def test_imports_within_functions_say_why() -> None:
    """In a comment beside the import, above it, or beside the first of several in a row."""
    wrong = []
    for name, path in MODULES.items():
        excused = _commented_lines(path)
        for line in _lines_of_late_imports(path):
            if excused & {line, line - 1}:
                excused.add(line)
            else:
                wrong.append(f"gateway.{name}:{line}")
    assert wrong == []


def _lines_of_late_imports(path: Path) -> list[int]:
    functions = (
        node
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    found = {
        node.lineno
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    return sorted(found)


def _commented_lines(path: Path) -> set[int]:
    with path.open("rb") as source:
        return {
            t.start[0] for t in tokenize.tokenize(source.readline) if t.type == tokenize.COMMENT
        }


def test_no_module_has_a_name_that_says_nothing() -> None:
    nothing = {"utils", "util", "helpers", "common", "manager", "misc", "base"}
    assert sorted(n for n in MODULES if n.rpartition(".")[2] in nothing) == []
