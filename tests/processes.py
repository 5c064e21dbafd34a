"""How several processes share the suite (`pytest -n 2`): what stays together, and what comes when.

A file is run by one process, so that what its module starts is started once. Files that take long
come first, or one of them could be the last and alone.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

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
        "tests/scenarios/test_plain_values.py",
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

# More than a few seconds on a machine that does nothing else.
LONG: Final = (
    "tests/properties/",
    "tests/scenarios/",
    "tests/simulation/",
    "tests/unit/classify/names/test_names_records.py",
    "tests/unit/classify/names/test_names_weights.py",
    "tests/unit/classify/test_classify_classifier.py",
    "tests/unit/classify/test_classify_command.py",
    "tests/unit/classify/test_classify_pool.py",
    "tests/unit/classify/test_forms_matrix.py",
    "tests/unit/classify/test_gate_signs.py",
    "tests/unit/classify/test_names_presidio.py",
    "tests/unit/test_embedded_triton.py",
)

# Unit tests that `make quick` leaves out: they start processes, or take seconds of one.
NOT_QUICK: Final = tuple(f"tests/{name}" for name in (HERE / "not_quick.txt").read_text().split())

# Real servers on a machine that runs two other processes: what a slow moment costs these is told
# from what is broken by a second try. Each that was needed is in the closing line ("rerun").
TWICE: Final = ("tests/clients/", "tests/models/", "tests/scenarios/")
LAPS: Final = "from tests.laps import"  # what is held to milliseconds


def unit_of(test: str) -> str:
    """What is run by one process: files that share a server, or a file."""
    file = test.partition("::")[0]
    return next((name for name, files in TOGETHER.items() if file.startswith(files)), file)


def rank(test: str) -> int:
    """Lower is earlier. The order within a rank is drawn by lot."""
    unit = unit_of(test)
    return 0 if unit.startswith(LONG) or unit in TOGETHER else 1


@functools.cache
def tried_again(file: str) -> bool:
    """Whether a failure of this file's tests counts only if it comes once more."""
    source = ROOT / file
    return file.startswith(TWICE) or (source.is_file() and LAPS in source.read_text())


def is_quick(test: str) -> bool:
    """Of a file's or a test's path below the root: whether `make quick` runs it."""
    return test.startswith("tests/unit/") and not test.startswith(NOT_QUICK)


def shared_out(config: pytest.Config, log: Producer) -> Scheduling:
    from xdist.scheduler import LoadScopeScheduling  # not where one process runs them all

    class Units(LoadScopeScheduling):  # type: ignore[misc]  # of a package without types
        """Hands out units in the order of the collection."""

        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

    config.option.loadscopereorder = False  # by the number of tests
    return Units(config, log)
