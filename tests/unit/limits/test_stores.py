"""What every `LimitStore` promises: limits are had once by all who share it (B6, O5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from gateway.config import LimitSettings
from gateway.core.errors import Draining, OverLimit, Saturated
from gateway.core.types import Quota
from gateway.pipeline.admission import Admission
from gateway.pipeline.rate_limits import RateLimits
from gateway.pipeline.rate_limits.store import LimitStore, MemoryLimitStore
from tests.unit.spill.clock import HandClock
from tests.unit.workers.rig import Machine, request

REQUESTS = Quota("key a", "key", "acme", requests_per_minute=6)
TOKENS = Quota("key t", "key", "acme", tokens_per_minute=1000)
CALLS = Quota("tenant acme", "tenant", "acme", concurrent=2)


@dataclass
class Sharers:
    """Who share one store, by number."""

    times: HandClock
    store: Callable[[int], LimitStore]

    def limits(self, number: int) -> RateLimits:
        return RateLimits(self.times, store=self.store(number))

    def admission(self, number: int, **limits: int) -> Admission:
        return Admission(LimitSettings(**limits), self.store(number))


@pytest.fixture(params=["memory", "workers"])
def sharers(request: pytest.FixtureRequest) -> Iterator[Sharers]:
    if request.param == "memory":
        times = HandClock()
        memory = MemoryLimitStore(times)
        yield Sharers(times, lambda number: memory)
        return
    machine = Machine()
    yield Sharers(machine.times, machine.limit_store)
    machine.close()


def test_requests_of_all_are_counted_together(sharers: Sharers) -> None:
    workers = [sharers.limits(n + 1) for n in range(3)]
    for at in range(6):
        workers[at % 3].enter(request("acme", REQUESTS)).settle(None, True)
    for limits in workers:
        with pytest.raises(OverLimit) as caught:
            limits.enter(request("acme", REQUESTS))
        assert caught.value.retry_after_s == pytest.approx(10.0)
        with pytest.raises(OverLimit):
            limits.check(request("acme", REQUESTS))
    sharers.times.now_s += 10.0
    workers[2].enter(request("acme", REQUESTS))
    with pytest.raises(OverLimit):
        workers[0].enter(request("acme", REQUESTS))


def test_calls_at_once_are_counted_together_and_given_back(sharers: Sharers) -> None:
    one, two = sharers.limits(1), sharers.limits(2)
    first, second = one.enter(request("acme", CALLS)), two.enter(request("acme", CALLS))
    with pytest.raises(OverLimit):
        one.enter(request("acme", CALLS))
    second.settle(None, True)
    second.settle(None, True)
    third = one.enter(request("acme", CALLS))
    with pytest.raises(OverLimit):
        two.enter(request("acme", CALLS))
    for share in (first, third):
        share.settle(None, True)
    for limits in (one, two):
        limits.enter(request("acme", CALLS))


def test_tokens_that_were_not_used_are_free_for_all(sharers: Sharers) -> None:
    one, two = sharers.limits(1), sharers.limits(2)
    shares = [one.enter(request("acme", TOKENS)) for _ in range(9)]
    with pytest.raises(OverLimit):
        two.enter(request("acme", TOKENS))
    for share in shares:
        share.settle(1, True)
    for _ in range(9):
        two.enter(request("acme", TOKENS))


def test_a_limit_that_changes_is_not_granted_twice(sharers: Sharers) -> None:
    one, two = sharers.limits(1), sharers.limits(2)
    for _ in range(6):
        one.enter(request("acme", REQUESTS))
    more = Quota("key a", "key", "acme", requests_per_minute=8)
    two.enter(request("acme", more))
    two.enter(request("acme", more))
    with pytest.raises(OverLimit):
        two.enter(request("acme", more))
    with pytest.raises(OverLimit):
        one.enter(request("acme", REQUESTS))


def test_admission_counts_everybody_and_each_tenant(sharers: Sharers) -> None:
    one = sharers.admission(1, max_concurrent=3, max_concurrent_per_tenant=2)
    two = sharers.admission(2, max_concurrent=3, max_concurrent_per_tenant=2)
    leave = one.enter(request("acme"))
    two.enter(request("acme"))
    with pytest.raises(Saturated) as caught:
        one.check(request("acme"))
    assert caught.value.reason == "tenant_saturated"
    two.enter(request("globex"))
    for each in (one, two):
        with pytest.raises(Saturated):
            each.enter(request("initech"))
    assert (one.inside, two.inside) == (1, 2)
    leave()
    two.enter(request("acme"))
    one.draining = True
    with pytest.raises(Draining):
        one.enter(request("initech"))
