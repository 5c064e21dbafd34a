"""What a probe may change of an endpoint."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.core.errors import (
    UpstreamUnreachable,
)
from gateway.endpoints.health.prober import Watch
from gateway.endpoints.state import EndpointState
from tests.unit.harness import (
    Rig,
    ScriptedConnector,
    now_s,
    onprem,
    state_of,
)

pytestmark = pytest.mark.leaping


async def learned_nothing(name: str, place: EndpointState) -> bool:
    return True


class Answers(ScriptedConnector):
    """Says what it is told to: True, False, an exception, or nothing for ever."""

    def __init__(self, *answers: bool | Exception | None) -> None:
        super().__init__()
        self.answers = list(answers)

    async def ready(self) -> bool:
        answer = self.answers.pop(0)
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)


@pytest.mark.parametrize(
    ("was_up", "answers", "up"),
    [
        (False, [True], True),
        (True, [True], True),
        (True, [False], False),
        (True, [UpstreamUnreachable("refused")], False),
        (True, [OSError("refused")], False),
        (True, [ValueError("a bug")], False),
        (True, [None, True], True),
        (True, [None, None], False),
        (False, [None], False),
    ],
)
async def test_a_refusal_counts_at_once_and_silence_when_it_comes_twice(
    was_up: bool, answers: list[bool | Exception | None], up: bool
) -> None:
    rig = Rig(replace(onprem(), connector=Answers(*answers)))
    place = rig.registry.states["gpu"]
    place.up = was_up
    start_s = now_s()
    await Watch(rig.registry.states, learned_nothing, rig.metrics).probe("gpu")
    assert place.up is up
    assert now_s() - start_s <= 2.0


async def test_a_health_probe_never_brings_back_what_fails_inferences() -> None:
    rig = Rig(replace(onprem(), connector=Answers(*[True] * 9)))
    rig.eject("gpu")
    for _ in range(5):
        await Watch(rig.registry.states, learned_nothing, rig.metrics).probe("gpu")
    assert not state_of(rig, "gpu").available


async def test_a_server_that_answers_nonsense_when_it_comes_up_does_not_end_the_watch() -> None:
    async def nonsense(name: str, place: EndpointState) -> bool:
        raise ValueError("not a message of the protocol")

    rig = Rig(replace(onprem(), connector=Answers(*[True] * 9)))
    rig.registry.states["gpu"].up = False
    watching = asyncio.create_task(Watch(rig.registry.states, nonsense, rig.metrics).run())
    await asyncio.sleep(3.5)
    assert not watching.done()
    assert rig.registry.states["gpu"].up
    found = rig.metrics.registry.get_sample_value(
        "spillway_unexpected_errors_total", {"where": "learn"}
    )
    assert found == 1
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
