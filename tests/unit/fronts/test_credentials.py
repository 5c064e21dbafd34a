"""M5, B6: who calls, what it may and how much, over every front alike; tenants come from the
credential and from nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from gateway.auth import Callers
from gateway.config import KeySettings, TenantSettings
from gateway.core.reply import InferenceReply
from gateway.core.types import EVERYWHERE, ONPREM_ONLY, InferenceRequest, Zone
from gateway.server import Services
from tests.unit.callers.rig import Vault
from tests.unit.fronts import http_rig
from tests.unit.fronts.every_front import MODEL, answering, catalog, every_front
from tests.unit.grpc_rig import infer_request, running_front
from tests.unit.harness import HANGS, Rig, onprem, request

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]

FRONTS = {"v2", "chat", "chat-streamed", "grpc", "grpc-stream"}


def key(secret: str, tenant: str, **scope: Any) -> KeySettings:
    return KeySettings.model_validate({"key": SecretStr(secret), "tenant": tenant, **scope})


KEYS = {
    "a": key("first", "acme"),
    "b": key("second", "globex", placement="onprem", most_urgent_priority=5),
    "c": key("third", "acme", models=("other",)),
    "d": key("fourth", "initech", requests_per_minute=1),
}
TENANTS = {"initech": TenantSettings(placement="onprem")}


@dataclass
class Seen:
    calls: list[InferenceRequest] = field(default_factory=list)

    async def handle(self, request: InferenceRequest) -> InferenceReply:
        self.calls.append(request)
        return await answering(request)


def services(callers: Callers, seen: Seen) -> Services:
    made = http_rig.services(http_rig.Pipeline())
    return replace(made, handle=seen.handle, callers=callers, catalog=catalog())


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    headers: Mapping[str, str]
    status: str = "OK"
    tenant: str = ""
    zones: frozenset[Zone] = EVERYWHERE
    priority: int = 0


def bearing(secret: str, **headers: str) -> dict[str, str]:
    more = {k.replace("_", "-"): v for k, v in headers.items()}
    return {"authorization": f"Bearer {secret}", **more}


CASES = [
    Case("a key", bearing("first"), tenant="acme"),
    Case("another tenant's", bearing("second"), tenant="globex", zones=ONPREM_ONLY, priority=5),
    Case("none", {}, "UNAUTHENTICATED"),
    Case("unknown", bearing("firs"), "UNAUTHENTICATED"),
    Case("two in one", bearing("first second"), "UNAUTHENTICATED"),
    Case("another scheme", {"authorization": "Basic first"}, "UNAUTHENTICATED"),
    Case("as Azure's SDKs send it", {"api-key": "first"}, tenant="acme"),
    Case("as Anthropic's SDKs send it", {"x-api-key": "first"}, tenant="acme"),
    Case("beside another one", bearing("second", x_api_key="first"), tenant="globex",
         zones=ONPREM_ONLY, priority=5),
    Case("unknown in Azure's header", {"api-key": "firs"}, "UNAUTHENTICATED"),
    Case("empty in Azure's header", {"api-key": ""}, "UNAUTHENTICATED"),
    Case("beside an empty one", {"authorization": "", "api-key": "first"}, "UNAUTHENTICATED"),
    Case("in another header", {"x-key": "first", "x-authorization": "Bearer first"},
         "UNAUTHENTICATED"),
    Case("a tenant that it names itself", bearing("first", x_tenant="globex",
         x_forwarded_user="globex"), tenant="acme"),
    Case("a tenant in a header of ours", bearing("first", x_spillway_tenant="globex"),
         "INVALID_ARGUMENT"),
    Case("a floor that a header cannot lift", bearing("second", x_spillway_placement="cloud",
         x_spillway_spill="allow"), tenant="globex", zones=ONPREM_ONLY, priority=5),
    Case("nor that of its tenant", bearing("fourth", x_spillway_placement="any"),
         tenant="initech", zones=ONPREM_ONLY),
    Case("a model that it may not use", bearing("third"), "PERMISSION_DENIED"),
    Case("more urgent than it may", bearing("second", x_spillway_priority="0"), tenant="globex",
         zones=ONPREM_ONLY, priority=5),
    Case("less urgent than it may", bearing("second", x_spillway_priority="7"), tenant="globex",
         zones=ONPREM_ONLY, priority=7),
    Case("as urgent as it may", bearing("first", x_spillway_priority="0"), tenant="acme"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_every_front_knows_callers_alike(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    seen = Seen()
    refused: list[tuple[str, str]] = []
    callers = Callers(KEYS, tenants=TENANTS, on_refusal=lambda *told: refused.append(told))
    async with every_front(services(callers, seen)) as fronts:
        told = {name: await ask(case.headers) for name, ask in fronts.items()}
    assert set(told) == FRONTS
    if case.status in (
        "PERMISSION_DENIED",
        "INVALID_ARGUMENT",
    ):  # within a stream a refusal has words alone
        told["grpc-stream"] = replace(told["grpc-stream"], status=case.status)
    assert {name: t.status for name, t in told.items()} == dict.fromkeys(FRONTS, case.status)
    found = {(r.tenant, r.zones, r.priority) for r in seen.calls}
    expected = {(case.tenant, case.zones, case.priority)} if case.status == "OK" else set()
    assert found == expected
    for secret in ("first", "second", "third", "fourth", "firs"):
        assert f"Bearer {secret}" not in caplog.text
        assert all(secret not in t.words for t in told.values())
    if case.status == "UNAUTHENTICATED":
        assert {t.reason for t in told.values()} == {"unauthenticated"}
        assert {t.headers["www-authenticate"] for t in told.values()} == {"Bearer"}
        assert len({t.words for t in told.values()}) == 1
        assert len(refused) == len(FRONTS)


async def test_an_issued_key_is_known_and_refused_on_every_front(tmp_path: Path) -> None:
    vault, seen = Vault(tmp_path), Seen()
    issued = vault.create("acme")
    vault.issued.poll()
    async with every_front(services(vault.callers, seen)) as fronts:
        served = [await ask(bearing(issued)) for ask in fronts.values()]
        vault.store.revoke(issued[7:19], vault.times.wall_s)
        vault.issued.poll()
        refused = [await ask(bearing(issued)) for ask in fronts.values()]
        vault.times.pass_s(9)
        unchecked = [await ask(bearing(issued)) for ask in fronts.values()]
    assert {t.status for t in served} == {"OK"}
    assert {r.tenant for r in seen.calls} == {"acme"}
    assert {t.status for t in refused} == {"UNAUTHENTICATED"}
    assert {(t.status, t.reason) for t in unchecked} == {("UNAVAILABLE", "credential_unverifiable")}
    assert {t.headers["retry-after"] for t in unchecked} == {"2"}


async def test_a_key_that_is_revoked_ends_with_the_next_call_of_an_open_stream(
    tmp_path: Path,
) -> None:
    vault, seen = Vault(tmp_path), Seen()
    issued = vault.create("acme")
    vault.issued.poll()
    async with running_front(made=services(vault.callers, seen)) as front:
        stream = front.stub.ModelStreamInfer(metadata=tuple(bearing(issued).items()))
        await stream.write(infer_request(MODEL))
        assert not (await stream.read()).error_message
        vault.store.revoke(issued[7:19], vault.times.wall_s)
        vault.issued.poll()
        await stream.write(infer_request(MODEL))
        assert "not accepted" in (await stream.read()).error_message
        await stream.done_writing()
    assert len(seen.calls) == 1


async def test_every_front_refuses_what_is_over_a_limit_alike() -> None:
    callers = Callers({"a": key("first", "acme", requests_per_minute=1, max_concurrent=9)})
    (quota,) = callers.identify("Bearer first").quotas
    rig = Rig(onprem(HANGS))
    inside = asyncio.create_task(rig.call(replace(request("restricted", 60.0), quotas=(quota,))))
    for _ in range(50):
        await asyncio.sleep(0)
    made = http_rig.services(http_rig.Pipeline())
    made = replace(made, handle=rig.pipeline.handle, callers=callers, catalog=catalog())
    async with every_front(replace(made, clock=asyncio.get_running_loop().time)) as fronts:
        told = {name: await ask(bearing("first")) for name, ask in fronts.items()}
    inside.cancel()
    await asyncio.gather(inside, return_exceptions=True)
    rig.queues.close()
    words = told.pop("grpc-stream").words  # a stream goes on behind a call that was refused
    assert {t.words for t in told.values()} == {words}
    for each in told.values():
        assert (each.status, each.reason) == ("RESOURCE_EXHAUSTED", "requests_limit")
        assert 55 <= int(each.headers["retry-after"]) <= 61
        policy, left = each.headers["ratelimit-policy"], each.headers["ratelimit"]
        assert policy == '"key-requests";q=1;w=60, "key-concurrent";q=9;qu="concurrent-requests"'
        assert left.startswith('"key-requests";r=0;t=')


async def test_an_answer_carries_what_is_left_of_the_limits() -> None:
    limits = {"ratelimit-policy": '"key-requests";q=9;w=60', "ratelimit": '"key-requests";r=8;t=7'}

    async def handle(request: InferenceRequest) -> InferenceReply:
        reply = await answering(request)
        return replace(reply, placement=replace(reply.placement, limits=limits))

    made = replace(services(Callers({}), Seen()), handle=handle)
    async with every_front(made) as fronts:
        told = [await ask({}) for ask in fronts.values()]
    assert len(told) == len(FRONTS)
    for each in told:
        assert limits.items() <= each.headers.items()
