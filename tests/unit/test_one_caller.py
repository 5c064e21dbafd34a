"""One caller, or one prompt, takes no endpoint from everybody (A6)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.core.errors import NoEligibleEndpoint, Unconnected, UpstreamFailed, UpstreamUnreachable
from gateway.core.operations.chat import CHAT
from gateway.core.types import DocumentCall, InferenceRequest, Tensor, TensorCall
from gateway.endpoints.connectors.openai.failures import error_from_status
from tests.unit.harness import (
    ANSWERS,
    MODEL,
    Ended,
    Plan,
    Rig,
    ScriptedConnector,
    Site,
    cloud,
    onprem,
    request,
)

pytestmark = pytest.mark.leaping


class Provoked(ScriptedConnector):
    """Fails the calls of some, and answers all others."""

    def __init__(self, error: Any, *tenants: str, prompt: str = "") -> None:
        super().__init__()
        self.error, self.tenants, self.prompt = error, set(tenants), prompt

    async def open(self, request: InferenceRequest, served: Any) -> Any:
        call = request.payload
        prompt = call.document.get("user") if isinstance(call, DocumentCall) else ""
        if request.tenant in self.tenants or (self.prompt and prompt == self.prompt):
            self.seen.append(request)
            await asyncio.sleep(0.01)
            raise self.error()
        return await super().open(request, served)


def provoked(site: Site, error: Any, *tenants: str, prompt: str = "") -> Site:
    return Site(
        site.name, site.zone, Provoked(error, *tenants, prompt=prompt), price_usd=site.price_usd
    )


def fails() -> UpstreamFailed:
    return UpstreamFailed("it answered 500")


def breaks() -> UpstreamUnreachable:
    return UpstreamUnreachable("it broke the connection", transient=False)


def says(text: str) -> DocumentCall:
    return DocumentCall(CHAT, {"messages": [], "user": text})


async def calls(rig: Rig, tenant: str, count: int, **more: Any) -> list[Ended]:
    return [await rig.call(request("clear", 5.0, tenant=tenant, **more)) for _ in range(count)]


@pytest.mark.parametrize("error", [fails, breaks], ids=["500", "reset"])
@pytest.mark.parametrize("others_first", [False, True])
@pytest.mark.parametrize("site", [cloud, onprem])
async def test_what_one_caller_provokes_is_out_for_that_caller_alone(
    site: Any, others_first: bool, error: Any
) -> None:
    rig = Rig(provoked(site(), error, "evil"))
    if others_first:
        await calls(rig, "good", 5)
    await calls(rig, "evil", 20)
    refused = (await calls(rig, "evil", 1))[0].error
    assert isinstance(refused, NoEligibleEndpoint), "as a breaker of its own"
    assert [e.error for e in await calls(rig, "good", 20)] == [None] * 20
    (name,) = rig.sites
    assert rig.registry.model_state(name, MODEL).breaker.closed
    assert rig.leftovers() == {}


async def test_a_caller_who_fails_half_of_all_calls_takes_it_from_nobody_else() -> None:
    rig = Rig(provoked(cloud(), fails, "evil"))
    for _ in range(40):
        await calls(rig, "evil", 3)
        assert (await calls(rig, "good", 1))[0].error is None


@pytest.mark.parametrize("error", [fails, breaks], ids=["500", "reset"])
async def test_one_prompt_takes_it_from_nobody_whoever_sends_it(error: Any) -> None:
    """Without keys all callers are one."""

    rig = Rig(provoked(cloud(), error, prompt="poison"))
    for _ in range(30):
        await calls(rig, "all", 1, payload=says("poison"))
    assert [e.error for e in await calls(rig, "all", 20)] == [None] * 20
    assert len(rig.cloud_seen) == 50


async def test_one_tensor_call_takes_it_from_nobody() -> None:
    rig = Rig(onprem(*[Plan(error=fails)] * 9, ANSWERS))
    tensors = TensorCall((Tensor("x", "INT32", (1,), bytes(4)),))
    for _ in range(9):
        await calls(rig, "t", 1, payload=tensors)
    assert (await calls(rig, "t", 1))[0].error is None


async def test_failures_that_several_callers_meet_take_it_out_for_all() -> None:
    rig = Rig(cloud(Plan(error=fails)))
    for tenant in ("a", "a", "b"):
        await calls(rig, tenant, 1)
    assert not rig.registry.model_state("cloud", MODEL).breaker.closed
    assert isinstance((await calls(rig, "c", 1))[0].error, NoEligibleEndpoint)
    assert len(rig.cloud_seen) == 3


async def test_a_probe_that_one_caller_spoils_keeps_it_from_nobody() -> None:
    rig = Rig(cloud(*[Plan(error=fails)] * 3, Plan(error=fails), ANSWERS))
    for tenant in ("a", "a", "b"):
        await calls(rig, tenant, 1)
    await asyncio.sleep(2.1)
    await calls(rig, "evil", 1)
    assert (await calls(rig, "c", 1))[0].error is None
    assert rig.registry.model_state("cloud", MODEL).breaker.closed


async def test_a_connection_that_cannot_be_made_is_nobodys_call() -> None:
    rig = Rig(cloud(Plan(error=lambda: Unconnected("connect error", transient=False))))
    for _ in range(3):
        await calls(rig, "all", 1, payload=says("the same"))
    assert not rig.registry.model_state("cloud", MODEL).breaker.closed


@pytest.mark.parametrize("status", [400, 403, 404, 409, 413, 422])
async def test_a_refusal_of_the_endpoints_own_ejects_nothing(status: int) -> None:
    refusal = Plan(error=lambda: error_from_status(status, {}, b'{"error": {"message": "policy"}}'))
    rig = Rig(cloud(*[refusal] * 30, ANSWERS))
    for tenant in "abcdef":
        ended = await calls(rig, tenant, 5)
        assert {e.reason for e in ended} == {"upstream_refused"}
    assert (await calls(rig, "g", 1))[0].error is None


async def test_it_comes_back_for_the_caller_by_one_call() -> None:
    rig = Rig(cloud(*[Plan(error=fails)] * 3, Plan(open_s=0.5), *[ANSWERS] * 9))
    await calls(rig, "t", 3)
    seen = len(rig.cloud_seen)
    await calls(rig, "t", 3)
    assert len(rig.cloud_seen) == seen, "it is out"
    await asyncio.sleep(2.1)
    ended = await asyncio.gather(*(rig.call(request(tenant="t")) for _ in range(5)))
    assert sum(e.error is None for e in ended) == 1, "the probe"
    assert [e.error for e in await calls(rig, "t", 5)] == [None] * 5
    assert rig.registry.model_state("cloud", MODEL).suspects.suspended == 0


@pytest.mark.parametrize("tenants", [("one",), ("one", "other")])
async def test_where_a_canary_judges_it_is_asked(tenants: tuple[str, ...]) -> None:
    rig = Rig(onprem(Plan(error=fails)))
    model_state = rig.registry.model_state("gpu", MODEL)
    model_state.health.prove()
    for count in range(4):
        await calls(rig, tenants[count % len(tenants)], 1)
    if len(tenants) == 1:
        assert model_state.breaker.closed
        assert model_state.health.doubt(model_state.times).value == "model_fails"
    else:
        assert not model_state.breaker.closed


async def test_who_failed_long_ago_is_forgotten() -> None:
    rig = Rig(cloud(*[Plan(error=fails)] * 3, ANSWERS))
    await calls(rig, "t", 3)
    suspects = rig.registry.model_state("cloud", MODEL).suspects
    assert suspects.suspended == 1
    await asyncio.sleep(601.0)
    await calls(rig, "another", 1)
    assert not suspects
    assert suspects.suspended == 0
