"""Servers that are not there: how fast they are, and that they teach nobody."""

from __future__ import annotations

import copy

import pytest

from gateway.pipeline.shadow.servers import Borrowed, BorrowedGpu, LiveGpu, VirtualServer
from gateway.pipeline.shadow.timeline import Timeline
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.factory import ROUND_TRIP_S


def learnt(fixed_s: float, per_work_s: float) -> BatchModel:
    model = BatchModel(fixed_s, per_work_s)
    for n in range(64):
        work = 1.0 + n % 8
        model.observe(work, fixed_s + per_work_s * work)
    return model


def test_a_batch_takes_what_the_live_ones_take() -> None:
    live = learnt(0.02, 0.005)
    server = VirtualServer(Borrowed(live), 1)
    assert server.ends_s(4.0, 10.0) == pytest.approx(10.0 + ROUND_TRIP_S + 0.04, rel=1e-3)


def test_batches_go_one_after_the_other_in_each_instance() -> None:
    server = VirtualServer(Borrowed(learnt(0.02, 0.005)), 2)
    ends_s = [server.ends_s(4.0, 0.0) - ROUND_TRIP_S for _ in range(4)]
    assert ends_s == pytest.approx([0.04, 0.04, 0.08, 0.08], rel=0.01)


def test_a_live_server_that_is_slow_now_is_slow_here_too() -> None:
    live = learnt(0.02, 0.005)
    server = VirtualServer(Borrowed(live), 1)
    live.observe(4.0, 0.08)  # twice as long as was expected
    assert server.ends_s(4.0, 0.0) == pytest.approx(0.08, rel=0.1)
    assert server.ends_s(4.0, 9.0) - 9.0 == pytest.approx(0.04, rel=0.1)  # as the one before was


def test_one_answer_that_hung_does_not_stop_the_world() -> None:
    live = learnt(0.02, 0.005)
    server = VirtualServer(Borrowed(live), 1)
    live.observe(4.0, 60.0)
    assert server.ends_s(4.0, 0.0) < 2.0


def test_what_is_borrowed_is_renewed_and_never_taught() -> None:
    live = learnt(0.02, 0.005)
    borrowed = Borrowed(live)
    borrowed.observe(1.0, 100.0)
    borrowed.adopt(BatchModel(5.0, 5.0))
    assert (borrowed.fixed_s, live.batches) == (live.fixed_s, 64)
    for _ in range(64):
        live.observe(4.0, 0.4)
    assert borrowed.fixed_s < live.fixed_s
    borrowed.renew()
    assert (borrowed.fixed_s, borrowed.per_work_s) == (live.fixed_s, live.per_work_s)


def test_models_take_turns_where_the_live_ones_do() -> None:
    taking: set[str] = set()
    gpu = BorrowedGpu(live=LiveGpu("gpu", taking.__contains__))
    gpu.join()
    gpu.join()
    for _ in range(100):
        gpu.observe(0, learnt(0.02, 0.005), 4.0, 0.4, 0.4)
    told = [(gpu.turns, gpu.one_at_a_time)]
    taking.add("gpu")
    told.append((gpu.turns, gpu.one_at_a_time))
    assert told == [(False, False), (True, True)]


def test_whoever_asks_what_would_happen_copies_no_gateway() -> None:
    live = LiveGpu("gpu", lambda server: True)
    assert copy.deepcopy(BorrowedGpu(live=live)).live is live
    model = Borrowed(BatchModel(0.02, 0.005))
    assert copy.deepcopy(model) is model


def test_things_happen_in_the_order_of_their_times() -> None:
    happened: list[tuple[str, float]] = []
    time = Timeline()
    time.at(3.0, lambda at_s: happened.append(("third", at_s)))
    time.at(1.0, lambda at_s: happened.append(("first", at_s)))
    time.at(1.0, lambda at_s: time.at(0.5, lambda at_s: happened.append(("late", at_s))))
    assert time.run(2.0, lambda: False)
    assert happened == [("first", 1.0), ("late", 1.0)]
    assert time.now_s == 2.0


def test_what_takes_too_long_is_gone_on_with_later() -> None:
    happened: list[float] = []
    time = Timeline()
    for at in range(5):
        time.at(float(at), happened.append)
    assert not time.run(9.0, lambda: len(happened) >= 2)
    assert time.now_s == 1.0
    assert time.run(9.0, lambda: False)
    assert happened == [0.0, 1.0, 2.0, 3.0, 4.0]
