"""Nothing that a shadow is made of knows a way to an endpoint (O4)."""

from __future__ import annotations

from tests.unit.test_architecture import MODULES, below, imports

DOORS = (
    "endpoints.connectors",
    "endpoints.state",
    "endpoints.registry",
    "endpoints.outcomes",
    "endpoints.versions",
    "endpoints.triton",
    "endpoints.health.prober",
    "pipeline.attempt",
    "pipeline.dispatcher",
    "app",
    "cluster",
)
"""What has a connector, or could get one."""


def reached(package: str) -> set[str]:
    """Every module that a package imports, however far."""
    found = {name for name in MODULES if below(package, name) is not None}
    while more := {i.imported for i in imports() if i.importer in found} - found:
        found |= more
    return found


def test_nothing_that_shadows_import_however_far_has_a_door() -> None:
    found = reached("pipeline.shadow")
    assert {"scheduling.queues", "scheduling.routing.policy", "scheduling.scheduler"} <= found, (
        "it looks at imports"
    )
    through = [name for name in found if any(below(d, name) is not None for d in DOORS)]
    assert sorted(through) == []


def test_who_sends_calls_would_be_found() -> None:
    doors = {"endpoints.connectors", "endpoints.state", "endpoints.registry"}
    assert doors <= reached("pipeline.dispatcher")
