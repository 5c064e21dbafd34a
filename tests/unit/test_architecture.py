"""Imports point one way, and nobody reaches into a family past its front page.

The tables below are the whole rule. Whoever adds a part of the gateway gives it a layer.
"""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "gateway"

LAYERS: tuple[frozenset[str], ...] = tuple(
    map(
        frozenset,
        (
            {""},  # the package itself: its version
            {
                "ambient",
                "compiled",
                "config_error",
                "garbage",
                "kept",
                "lazily",
                "together",
                "values",
            },  # clocks, chance, the collector; values of every call
            {"aliases", "deadline", "held_bytes", "patience", "pieces", "tracing"},
            {"types"},
            {"errors", "tokens"},
            {"configfile", "coredumps", "http", "http2", "premises", "repository"},
            {"strictjson", "config", "logs"},
            {"oip", "tls", "catalog", "callers", "budget", "scheduling", "pricing"},
            {"ledger"},
            {
                "routing",
                "classify",
                "backends",
                "accounting",
                "group",
                "admission",
                "limits",
                "embedded",
                "breaker",
                "retries",
                "hedge",
                "spill",
            },
            {"health", "groups", "audit", "models"},
            {"place", "priors", "schedulers"},
            {"clouds", "row_trials", "shadows", "ways"},
            {"standing"},
            {"fleet", "pseudonyms", "status"},
            {"attempt", "watch", "census", "canaries", "tending", "scraping", "folding", "otlp"},
            {"dispatch", "cluster"},
            {"pipeline"},
            {"fronts"},
            {"console"},
            {"keeper", "listeners", "assembly", "reloading", "scanning"},
            {"workers"},
            {"site"},
            {"core"},
            {"app"},
            {"demo", "simulate", "imports", "top"},
            {"commands"},
            {"__main__"},
        ),
    )
)
"""From the bottom up. A part may import what stands below it, never beside or above it."""

MEMBERS: dict[str, dict[str, tuple[str, ...]]] = {
    "backends": {
        "triton": (
            "triton",
            "openai_on_triton",
            "openai_prompts",
            "openai_refusal",
            "openai_responses_shape",
            "openai_text_shape",
            "text_generation",
            "text_tensors",
        ),
        "kserve": ("kserve",),
        "openai": ("openai", "sse"),
    },
    "fronts": {
        "kserve": ("kserve",),
        "openai": ("openai",),
        "grpc": ("grpc",),
        "ops": ("ops",),
    },
}
"""The families whose members take each other's place, and what the names of each member's modules
begin with: the longest beginning wins. What is nobody's is shared, and may import no member."""

REGISTRY = "backends.kinds"  # names every member, which is its only task

ACROSS = {
    # `explain` reads a described call as the front of its path would.
    ("fronts.ops", "fronts.openai_documents"),
}

DOORS = {
    "backends": {"", "egress", "kinds", "wire"},
    "classify": {
        "",
        "classifier",
        "faded",
        "names",
        "names.card",
        "names.lexicon",
        "normalise",
        "spans",
        "taint",
    },
    "routing": {"estimate", "fit", "needs", "policy", "work"},
}
"""What the rest of the gateway may import of a family; commands may look deeper."""


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


def imports() -> Iterator[Import]:
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_bytes())):
            for imported in _named(node):
                yield Import(name, imported, getattr(node, "lineno", 0))


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


IMPORTS = tuple(imports())


def level(module: str) -> int:
    return next(at for at, layer in enumerate(LAYERS) if top(module) in layer)


def member_of(module: str) -> str | None:
    name = within(module)
    heads = [
        (len(head), member)
        for member, beginnings in MEMBERS.get(top(module), {}).items()
        for head in beginnings
        if name == head or name.startswith(f"{head}_")
    ]
    return max(heads)[1] if heads else None


def test_every_part_of_the_gateway_has_a_layer() -> None:
    placed = frozenset().union(*LAYERS)
    assert {top(name) for name in MODULES} == placed


def test_imports_point_one_way() -> None:
    wrong = [
        str(i)
        for i in IMPORTS
        if top(i.importer) != top(i.imported) and level(i.imported) >= level(i.importer)
    ]
    assert wrong == []


def test_no_two_modules_import_each_other() -> None:
    below: dict[str, set[str]] = {name: set() for name in MODULES}
    for i in IMPORTS:
        if i.imported != i.importer and i.imported in below:
            below[i.importer].add(i.imported)
    while free := {name for name, needs in below.items() if not needs & below.keys()}:
        below = {name: needs for name, needs in below.items() if name not in free}
    assert sorted(below) == [], "these are in an import cycle, or above one"


def test_members_of_a_family_do_not_import_each_other() -> None:
    wrong = [
        str(i)
        for i in IMPORTS
        if top(i.importer) == top(i.imported)
        and member_of(i.imported) not in (None, member_of(i.importer))
        and i.importer != REGISTRY
        and (i.importer, i.imported) not in ACROSS
    ]
    assert wrong == []


def test_every_exception_to_the_rule_is_still_needed() -> None:
    assert {(i.importer, i.imported) for i in IMPORTS} >= ACROSS


def test_families_are_used_through_their_doors() -> None:
    wrong = [
        str(i)
        for i in IMPORTS
        if top(i.imported) in DOORS
        and top(i.imported) != top(i.importer)
        and top(i.importer) not in ("commands", "demo")
        and within(i.imported) not in DOORS[top(i.imported)]
    ]
    assert wrong == []


def test_only_the_composition_root_makes_doors_to_endpoints() -> None:
    """Whoever could wrap a connector in a door of the wrong zone could send a call past both
    guards; the one who does it is the one who reads the zone from the settings."""
    makers = {"backends.egress", REGISTRY}
    assert {i.importer for i in IMPORTS if i.imported in makers} == {"site"}


def test_nothing_but_its_command_knows_the_demo() -> None:
    importers = {
        i.importer for i in IMPORTS if top(i.imported) == "demo" and top(i.importer) != "demo"
    }
    assert importers <= {"commands.demo"}


def test_the_simulated_cloud_shares_no_code_with_the_gateway() -> None:
    """What it recorded is evidence only if it reads the wire by itself."""
    cloud = [i for i in IMPORTS if i.importer.startswith("demo.cloud")]
    assert [str(i) for i in cloud if not i.imported.startswith("demo.cloud")] == []


@pytest.mark.parametrize(
    "module", ["deadline", "types", "errors", "routing", "scheduling", "budget"]
)
def test_the_pure_core_does_no_io(module: str) -> None:
    waits = {"asyncio", "socket", "httpx", "grpc", "logging", "os", "pathlib", "subprocess"}
    for name, path in MODULES.items():
        if top(name) == module:
            tree = ast.parse(path.read_bytes())
            found = {n.name for n in _imported_modules(tree)}
            assert not {top(n) for n in found} & waits, name


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
        for node in ast.walk(ast.parse(path.read_bytes()))
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
