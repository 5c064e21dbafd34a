"""What it costs to decide on a call, to queue it and to end it: the same whatever else a gateway
has, and however many calls it has had. In bytecodes, since times differ from run to run.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from types import FrameType

import pytest

from loadtests.bench.decide import Costs, Row, Stage

_TURNS = 4  # of 32 calls each
_SAME = 1.03  # times: some calls draw anew what many share


class Counted:
    """Bytecodes of Python that run while it is the trace."""

    def __init__(self) -> None:
        self.bytecodes = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> Counted:
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            self.bytecodes += 1
        return self


async def warm(row: Row, calls: int) -> Stage:
    stage = Stage(row)
    await stage.warm()
    for _ in range(calls // 32):
        await stage.turn(Costs())
    return stage


def counted(row: Row, calls: int = 640) -> int:
    """For calls that come after so many."""
    with asyncio.Runner() as runner:
        stage = runner.run(warm(row, calls))
        counts = Counted()
        turns = [stage.turn(Costs()) for _ in range(_TURNS)]
        before = sys.gettrace()
        sys.settrace(counts)
        try:
            for turn in turns:
                driven(turn)
        finally:
            sys.settrace(before)
    return counts.bytecodes


def driven(turn: Coroutine[None, None, None]) -> None:
    """Nothing of it waits, so no loop has to run it."""
    with pytest.raises(StopIteration):
        turn.send(None)


@pytest.mark.parametrize(
    "more",
    [
        Row(models=1000),
        Row(models=1000, called=200),
        Row(tenants=10_000),
        Row(others=200),
        Row(slots=1024),
    ],
    ids=["1000-models", "200-of-them-called", "10000-tenants", "200-endpoints", "1024-places"],
)
def test_what_else_a_gateway_has_costs_a_call_nothing(more: Row) -> None:
    assert counted(more) <= _SAME * counted(Row())


def test_ten_thousand_calls_cost_the_next_no_more_than_a_few_hundred() -> None:
    assert counted(Row(), calls=10_000) <= _SAME * counted(Row())
