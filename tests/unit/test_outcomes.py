"""What the end of an attempt teaches of its endpoint."""

from __future__ import annotations

import pytest

from gateway.core.errors import (
    ModelDead,
    ModelFailed,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamUnreachable,
)
from tests.unit.harness import (
    MODEL,
    Plan,
    Rig,
    onprem,
    request,
    state_of,
)

pytestmark = pytest.mark.leaping


@pytest.mark.parametrize(
    ("error", "ejects"),
    [
        (UpstreamFailed("it answered 500"), True),
        (UpstreamUnreachable("it cannot be connected to"), True),
        (UpstreamBusy("it answered 429"), False),
        (ModelFailed("the input has the wrong size"), False),
    ],
    ids=["5xx", "unreachable", "429", "the-models-own"],
)
async def test_only_what_is_the_endpoints_fault_ejects_it(error: Exception, ejects: bool) -> None:
    def fails() -> Exception:
        return error

    rig = Rig(onprem(Plan(error=fails)))
    for _ in range(9):
        await rig.call(request("restricted"))
    assert state_of(rig, "gpu").available is not ejects


async def test_a_server_whose_model_has_died_is_ejected_at_once_and_its_keeper_is_told() -> None:
    asked: list[tuple[str, str]] = []

    dead = Plan(error=lambda: ModelDead("its words"))
    rig = Rig(onprem(dead))
    rig.registry.states["gpu"].on_gray = lambda model, why: asked.append((model, why))
    await rig.call(request("restricted"))
    assert not state_of(rig, "gpu").available
    assert len(asked) == 1
    assert asked[0][0] == MODEL
    assert MODEL in asked[0][1]
