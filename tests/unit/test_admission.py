"""A1, O7: who may enter is told at once, and who has left makes room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.config import LimitSettings
from gateway.core.errors import Draining, Saturated
from gateway.core.types import InferenceRequest
from gateway.pipeline.admission import Admission
from gateway.pipeline.rate_limits.store import MemoryLimitStore
from tests.unit.harness import request, run


def call(tenant: str) -> InferenceRequest:
    async def made() -> InferenceRequest:
        return replace(request(), tenant=tenant)

    return run(made())


def limits(everybody: int = 9, tenant: int = 9) -> Admission:
    return Admission(LimitSettings(max_concurrent=everybody, max_concurrent_per_tenant=tenant))


def test_as_many_enter_as_there_is_room_for() -> None:
    admission = limits(everybody=3)
    leave = [admission.enter(call(str(i))) for i in range(3)]
    with pytest.raises(Saturated) as caught:
        admission.enter(call("4"))
    assert (caught.value.reason, caught.value.http_status) == ("saturated", 429)
    assert caught.value.grpc_status == "RESOURCE_EXHAUSTED"
    assert caught.value.retry_after_s
    assert admission.inside == 3
    leave[0]()
    admission.enter(call("5"))


def test_one_tenant_cannot_take_the_room_of_the_others() -> None:
    admission = limits(tenant=2)
    leave = [admission.enter(call("greedy")) for _ in range(2)]
    with pytest.raises(Saturated) as caught:
        admission.enter(call("greedy"))
    assert caught.value.reason == "tenant_saturated"
    assert caught.value.retry_after_s
    admission.enter(call("other"))
    leave[1]()
    admission.enter(call("greedy"))


def test_when_all_have_left_nothing_is_remembered_of_them() -> None:
    admission = limits()
    for leave in [admission.enter(call(f"tenant-{i}")) for i in range(9)]:
        leave()
    assert admission.inside == 0
    assert isinstance(admission._store, MemoryLimitStore)
    assert not admission._store._by_tenant


def test_a_stopping_gateway_lets_nobody_in_and_everybody_out() -> None:
    admission = limits()
    leave = admission.enter(call("t"))
    admission.draining = True
    with pytest.raises(Draining) as caught:
        admission.enter(call("t"))
    assert (caught.value.http_status, caught.value.grpc_status) == (503, "UNAVAILABLE")
    assert caught.value.retry_after_s
    leave()
    assert admission.inside == 0
