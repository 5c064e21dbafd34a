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

ROOT: Final = Path(__file__).parent.parent

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
NOT_QUICK: Final = (
    "tests/unit/audit/test_writer.py",
    "tests/unit/backends/test_openai_connector.py",
    "tests/unit/backends/test_plain.py",
    "tests/unit/backends/test_triton_grpc_live.py",
    "tests/unit/backends/test_wire.py",
    "tests/unit/callers/test_tokens.py",
    "tests/unit/classify/",
    "tests/unit/cluster/test_forwarded_answers.py",
    "tests/unit/cluster/test_mtls.py",
    "tests/unit/console/test_page.py",
    "tests/unit/demo/test_cloud_bytelog.py",
    "tests/unit/demo/test_cloud_faults.py",
    "tests/unit/demo/test_cloud_openai.py",
    "tests/unit/demo/test_cloud_v2.py",
    "tests/unit/demo/test_demo_proof.py",
    "tests/unit/demo/test_preparation.py",
    "tests/unit/fronts/test_body_shares.py",
    "tests/unit/fronts/test_grpc_admission.py",
    "tests/unit/fronts/test_grpc_stream.py",
    "tests/unit/fronts/test_hosts.py",
    "tests/unit/fronts/test_http.py",
    "tests/unit/fronts/test_labels.py",
    "tests/unit/fronts/test_openai_front.py",
    "tests/unit/http/test_exchange.py",
    "tests/unit/http/test_plain.py",
    "tests/unit/http2/test_client.py",
    "tests/unit/http2/test_costs.py",
    "tests/unit/http2/test_server.py",
    "tests/unit/imports/test_litellm.py",
    "tests/unit/ledger/test_budgets.py",
    "tests/unit/ledger/test_frozen_postgres.py",
    "tests/unit/ledger/test_report.py",
    "tests/unit/ledger/test_store.py",
    "tests/unit/loadtests/test_echo.py",
    "tests/unit/loadtests/test_figures.py",
    "tests/unit/loadtests/test_fuzz.py",
    "tests/unit/loadtests/test_generator.py",
    "tests/unit/loadtests/test_gpu.py",
    "tests/unit/loadtests/test_gpu_bundle.py",
    "tests/unit/loadtests/test_growth.py",
    "tests/unit/loadtests/test_live.py",
    "tests/unit/loadtests/test_ready.py",
    "tests/unit/models/registry/test_canary.py",
    "tests/unit/models/registry/test_interrupted.py",
    "tests/unit/models/registry/test_pulling.py",
    "tests/unit/models/registry/test_registries.py",
    "tests/unit/models/registry/test_web.py",
    "tests/unit/models/test_build.py",
    "tests/unit/models/test_engines.py",
    "tests/unit/models/test_quantize.py",
    "tests/unit/models/test_verify.py",
    "tests/unit/otlp/test_collector.py",
    "tests/unit/pseudonyms/test_answers.py",
    "tests/unit/pseudonyms/test_json_text.py",
    "tests/unit/pseudonyms/test_pseudonymiser.py",
    "tests/unit/pseudonyms/test_reformatted.py",
    "tests/unit/pseudonyms/test_restoring.py",
    "tests/unit/scheduling/test_any_times.py",
    "tests/unit/scheduling/test_priorities.py",
    "tests/unit/shadows/test_shadows.py",
    "tests/unit/simulate/test_abroad.py",
    "tests/unit/simulate/test_simulate_command.py",
    "tests/unit/simulate/test_simulation.py",
    "tests/unit/simulate/test_site.py",
    "tests/unit/test_ambient.py",
    "tests/unit/test_architecture.py",
    "tests/unit/test_behaviours.py",
    "tests/unit/test_check_command.py",
    "tests/unit/test_compiled.py",
    "tests/unit/test_coredumps.py",
    "tests/unit/test_cuda_libraries.py",
    "tests/unit/test_cycles.py",
    "tests/unit/test_docs.py",
    "tests/unit/test_embedded_control.py",
    "tests/unit/test_embedded_triton.py",
    "tests/unit/test_folding.py",
    "tests/unit/test_garbage.py",
    "tests/unit/test_imports_at_start.py",
    "tests/unit/test_json_lines.py",
    "tests/unit/test_lazily.py",
    "tests/unit/test_left_by_calls.py",
    "tests/unit/test_packaging.py",
    "tests/unit/test_processes.py",
    "tests/unit/test_public_models.py",
    "tests/unit/test_reloading.py",
    "tests/unit/test_repository.py",
    "tests/unit/test_silent_streams.py",
    "tests/unit/test_site.py",
    "tests/unit/test_slower_server.py",
    "tests/unit/test_strictjson.py",
    "tests/unit/workers/test_counts.py",
    "tests/unit/workers/test_marks.py",
)

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
