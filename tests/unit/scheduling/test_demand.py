"""How much of the capacity dearer arrivals take."""

from __future__ import annotations

import pytest

from gateway.scheduling.estimates.demand import Demand


def offered(demand: Demand, density: float, share: float, seconds: float = 10.0) -> int:
    """Calls of 10 ms that take this share of one server for so long."""
    density_class = demand.density_class(density)
    for at in range(int(seconds * 100)):
        demand.arrived(density_class, 0.01 * share, at / 100, memory_s=1.0)
    return density_class


def test_the_share_of_dearer_calls_is_what_they_ask_for() -> None:
    demand = Demand()
    dear = offered(demand, 100.0, 0.4)
    cheap = demand.density_class(10.0)
    assert demand.share_above(cheap, servers=1) == pytest.approx(0.4, rel=0.05)
    assert demand.share_above(cheap, servers=2) == pytest.approx(0.2, rel=0.05)
    assert demand.share_above(dear, servers=1) == 0.0


def overloaded() -> tuple[Demand, int, int]:
    """Dear calls take half of a server, cheap ones ask for all of it."""
    demand = Demand()
    dear, cheap = demand.density_class(100.0), demand.density_class(10.0)
    for at in range(1000):
        demand.arrived(dear, 0.005, at / 100, memory_s=1.0)
        demand.arrived(cheap, 0.01, at / 100, memory_s=1.0)
    return demand, dear, cheap


def test_a_call_waits_longer_by_what_dearer_ones_leave_of_the_capacity() -> None:
    demand, dear, cheap = overloaded()
    stretch = demand.stretch(1, reserve=0.8, margin=1.1, now_s=10.0, memory_s=1.0)
    assert stretch.few[cheap] == pytest.approx(1.1 / (1 - 0.8 * 0.5), rel=0.05)
    assert stretch.few[dear] == pytest.approx(1.1)
    assert stretch.many.tolist() == stretch.few


def test_nothing_is_reserved_while_there_is_enough_for_everybody() -> None:
    demand, _, cheap = overloaded()
    assert demand.stretch(2, 0.8, 1.0, 10.0, 1.0).few[cheap] == 1.0


def test_what_was_offered_fades() -> None:
    demand, _, cheap = overloaded()
    assert demand.stretch(1, 0.8, 1.0, 10.0, 1.0).few[cheap] > 1.5
    assert demand.stretch(1, 0.8, 1.0, 20.0, 1.0).few[cheap] == 1.0


def test_something_is_left_for_everybody() -> None:
    demand = Demand()
    offered(demand, 100.0, 50.0)
    cheap = demand.density_class(1.0)
    assert demand.stretch(1, 0.9, 1.0, 10.0, 1.0).few[cheap] <= 20.1


def test_classes_are_in_the_order_of_what_calls_are_worth() -> None:
    demand = Demand()
    densities = (2.0, 0.0, 1e-9, 1.0, 4.0, 10.0, 1e9)
    classes = dict(zip(densities, map(demand.density_class, densities), strict=True))
    assert sorted(densities, key=classes.__getitem__) == sorted(densities)
    assert classes[1.0] < classes[2.0] < classes[4.0] < classes[10.0]
