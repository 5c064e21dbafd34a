"""Who waits is served later when batches are cut, and the plan knows it."""

from __future__ import annotations

import math
import random

import pytest

from gateway.scheduling.estimates.latency import Tail
from tests.unit.scheduling.calls import BATCH, FULL_S, clear
from tests.unit.scheduling.overload import overloaded


def far() -> Tail:
    """A cloud that mostly takes between 0.1 and 0.2 s."""
    tail, draw = Tail(0.15), random.Random(1)
    for _ in range(600):
        network_s = 0.09 * math.exp(0.3 * draw.gauss(0, 1))
        tail.observe(network_s + 0.06 * math.exp(0.4 * draw.gauss(0, 1)))
    return tail


@pytest.mark.parametrize("load", [1.2, 2.0, 3.0])
def test_calls_of_one_budget_do_not_lock_their_server_into_small_batches(load: float) -> None:
    """The oldest are dearest, since the cloud could not make them any more: batches are cut for
    them, which makes those behind them the next ones. Without the fill in the plan the mean batch
    is 4 and the server does 0.6 of what it can."""
    tail, calls = far(), 4000
    done = overloaded(load, lambda at_s: clear(0.2, at_s, penalty=5.0, tail=tail), calls)
    assert done.mean_batch > 0.6 * BATCH
    took_s = calls * FULL_S / BATCH / load
    assert done.in_time > 0.85 * took_s / FULL_S * BATCH
