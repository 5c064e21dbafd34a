"""Nothing that a shadow is made of knows a way to an endpoint (O4)."""

from __future__ import annotations

from tests.unit.test_architecture import IMPORTS, MODULES, top

DOORS = {"backends", "place", "fleet", "attempt", "dispatch", "watch", "app", "embedded", "cluster"}
"""What has a connector, or could get one."""


def reached(package: str) -> set[str]:
    """Every module that a package imports, however far."""
    found = {name for name in MODULES if top(name) == package}
    while more := {i.imported for i in IMPORTS if i.importer in found} - found:
        found |= more
    return found


def test_nothing_that_shadows_import_however_far_has_a_door() -> None:
    found = reached("shadows")
    assert {"groups", "routing.policy", "scheduling.scheduler"} <= found, "it looks at imports"
    assert sorted(name for name in found if top(name) in DOORS) == []


def test_who_sends_calls_would_be_found() -> None:
    assert {"backends", "place", "fleet"} <= {top(name) for name in reached("dispatch")}
