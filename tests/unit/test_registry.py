"""Which endpoints there are, what is drained, and when the gateway is ready."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.accounting.ledger.limits import BudgetLimits
from gateway.accounting.spill import SpillBudgets, SpillControl, SpillStop
from gateway.core.errors import (
    NoEligibleEndpoint,
)
from tests.unit.harness import (
    MODEL,
    Rig,
    Setup,
    cloud,
    now_s,
    onprem,
)

pytestmark = pytest.mark.leaping


async def test_an_endpoint_is_drained_with_its_further_places() -> None:
    rig = Rig(onprem(), onprem(name="gpu#m:2"), onprem(name="gpu2"), cloud())

    def drained() -> set[str]:
        return {name for name, place in rig.registry.states.items() if place.drained}

    rig.registry.drain("gpu", True)
    assert drained() == {"gpu", "gpu#m:2"}
    rig.registry.drain("gpu#m:2", False)
    assert drained() == {"gpu"}
    rig.registry.drain("gpu", False)
    assert drained() == set()


async def test_all_places_of_an_endpoint_are_on_its_gpus() -> None:
    rig = Rig(onprem(), onprem(name="gpu#m:2"), onprem(name="gpu2"))
    times = {name: place.gpu_time for name, place in rig.registry.states.items()}
    assert times["gpu"] is times["gpu#m:2"] is not times["gpu2"]


async def test_the_gateway_is_ready_while_any_call_has_a_place() -> None:
    rig = Rig(onprem(), onprem(name="gpu2"), cloud())

    def seen() -> tuple[bool, bool]:
        return rig.registry.ready(), rig.registry.onprem_up()

    rig.registry.states["gpu"].up = False
    assert seen() == (True, True)
    rig.registry.states["gpu2"].drained = True
    assert seen() == (True, False), "clear calls are served in the cloud"
    rig.registry.states["cloud"].up = False
    assert seen() == (False, False)
    rig.registry.states["gpu"].up = True
    assert seen() == (True, True)
    only_cloud = Rig(cloud())
    assert (only_cloud.registry.ready(), only_cloud.registry.onprem_up()) == (True, False)


@pytest.mark.parametrize("closed", ["settings", "file", "budget"])
async def test_a_cloud_that_is_closed_makes_nobody_ready(closed: str, tmp_path: Path) -> None:
    limits = BudgetLimits.usd(0.0) if closed == "budget" else BudgetLimits()
    file = tmp_path / "stop"
    if closed == "file":
        file.touch()
    spill = SpillControl(
        SpillStop(file, now_s), SpillBudgets(limits, {}, now_s), closed != "settings"
    )
    rig = Rig(onprem(), cloud(), setup=Setup(spill=spill))
    assert rig.registry.ready()
    rig.registry.states["gpu"].up = False
    assert not rig.registry.ready()
    assert not rig.registry.model_ready(MODEL)


async def test_without_a_server_to_ask_inspection_says_so() -> None:
    rig = Rig(onprem())
    for ask in (rig.registry.server_inspector, lambda: rig.registry.model_inspector(MODEL)):
        with pytest.raises(NoEligibleEndpoint) as caught:
            ask()
        assert caught.value.retry_after_s
