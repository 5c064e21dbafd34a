"""How several processes share the suite (`pytest -n 2`): what stays together, and what comes when.

A file is run by one process, so that what its module starts is started once. Files that take long
come first, or one of them could be the last and alone. What holds the gateway to milliseconds
(tests/laps.py), which a neighbour could cost, comes last, when the other processes have ended.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling
    from xdist.workermanage import WorkerController

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent

# What these begin with shares what a session starts or makes: once, if one process has them all.
TOGETHER: Final = {
    "the session's gateway": (
        "tests/clients/",
        "tests/scenarios/test_bad_input.py",
        "tests/scenarios/test_budget_headers.py",
        "tests/scenarios/test_error_answers.py",
        "tests/scenarios/test_inspection.py",
        "tests/scenarios/test_lifecycle.py",
        "tests/scenarios/test_providers.py",
        "tests/scenarios/test_smuggling.py",
        "tests/scenarios/test_top.py",
        "tests/sight/",
        "tests/unit/test_docs.py",
        "tests/unit/test_folding.py",
    ),
    "a Triton, directly and through a gateway": (
        "tests/scenarios/test_fidelity",
        "tests/scenarios/test_grpc_surface.py",
        "tests/scenarios/test_triton_clients.py",
        "tests/scenarios/test_triton_examples.py",
    ),
    "a Triton with every model": ("tests/models/",),
    "registries": ("tests/unit/models/registry/",),
    "the databases of Presidio's patterns": (
        "tests/unit/classify/test_patterns_equivalence.py",
        "tests/unit/classify/test_patterns_shortcuts.py",
    ),
    "the source as it is parsed": (
        "tests/unit/shadows/test_doors.py",
        "tests/unit/test_architecture.py",
    ),
}

# More than ten seconds on a machine that does nothing else.
LONG: Final = frozenset(
    {
        "tests/scenarios/test_audit.py",
        "tests/scenarios/test_cluster.py",
        "tests/scenarios/test_demo.py",
        "tests/scenarios/test_healing.py",
        "tests/scenarios/test_names_on_triton.py",
        "tests/scenarios/test_no_content.py",
        "tests/scenarios/test_pseudonyms.py",
        "tests/scenarios/test_reload.py",
        "tests/scenarios/test_scan_failures.py",
        "tests/scenarios/test_tutorials.py",
        "tests/scenarios/test_workers.py",
        "tests/unit/classify/test_classify_classifier.py",
        "tests/unit/classify/test_classify_pool.py",
        "tests/unit/classify/test_forms_matrix.py",
        "tests/unit/classify/test_names_presidio.py",
        "tests/unit/test_embedded_triton.py",
    }
)

ALONE: Final = "what is held to milliseconds"
_PAUSE_S: Final = 0.5

# Unit tests that `make quick` leaves out: they start processes, or take seconds of one.
NOT_QUICK: Final = tuple(f"tests/{name}" for name in (HERE / "not_quick.txt").read_text().split())

# Real servers on a machine that runs two other processes: what a slow moment costs these is told
# from what is broken by a second try. Each that was needed is in the closing line ("rerun").
TWICE: Final = ("tests/clients/", "tests/models/", "tests/scenarios/")


@functools.cache
def timed(file: str) -> frozenset[str]:
    """The tests of a file that take laps too short for a neighbour's pause."""
    source = (ROOT / file).read_text() if (ROOT / file).is_file() else ""
    if "from tests.laps import" not in source:
        return frozenset()
    return frozenset(
        function.name
        for function in ast.parse(source).body
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        if any(map(_is_short, ast.walk(function)))
    )


def _is_short(node: ast.AST) -> bool:
    match node:
        case ast.Call(ast.Name("within"), [ast.Constant(float(bound_s)), *_]):
            return bound_s < _PAUSE_S
    return False


def unit_of(test: str) -> str:
    """What is run by one process: files that share a server, a file, or all that takes laps."""
    file, _, name = test.partition("::")
    if name.partition("[")[0] in timed(file):
        return ALONE
    return next((name for name, files in TOGETHER.items() if file.startswith(files)), file)


def rank(test: str) -> int:
    """Lower is earlier. The order within a rank is drawn by lot."""
    unit = unit_of(test)
    return 2 if unit == ALONE else 0 if unit in LONG or unit in TOGETHER else 1


def tried_again(test: str) -> bool:
    """Whether a failure of this test counts only if it fails once more."""
    return test.startswith(TWICE) or unit_of(test) == ALONE


def is_quick(test: str) -> bool:
    """Of a file's or a test's path below the root: whether `make quick` runs it."""
    return test.startswith("tests/unit/") and not test.startswith(NOT_QUICK)


def shared_out(config: pytest.Config, log: Producer) -> Scheduling:
    from xdist.scheduler import LoadScopeScheduling  # not where one process runs them all

    class Units(LoadScopeScheduling):  # type: ignore[misc]  # of a package without types
        """Hands out units in the order of the collection, and the last to the process left over."""

        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

        def _assign_work_unit(self, node: WorkerController) -> None:
            if next(iter(self.workqueue)) == ALONE:
                if node is not next(one for one in self.nodes if not one.shutting_down):
                    node.shutdown()
                    return
                if len(self.nodes) > 1:
                    return  # `remove_node` comes back to it
            super()._assign_work_unit(node)

        def remove_node(self, node: WorkerController) -> str | None:
            crashed: str | None = super().remove_node(node)
            for left in self.nodes:
                self._reschedule(left)
            return crashed

    config.option.loadscopereorder = False  # by the number of tests
    return Units(config, log)
