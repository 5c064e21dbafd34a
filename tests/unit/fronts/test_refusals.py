"""One policy on every front: what a full, broken or stopping gateway refuses it refuses alike, over
real sockets, with the same reason and the same time to come back (A1)."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tritonclient.grpc import service_pb2

from gateway.config import LimitSettings, QueueSettings
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.server import Services
from gateway.server.http import App
from gateway.server.kserve import front as kserve
from gateway.server.openai import front as openai
from tests.unit.fronts import http_rig
from tests.unit.grpc_rig import failure, infer_request, running_front, told
from tests.unit.harness import ANSWERS, HANGS, MODEL, Rig, Setup, cloud, onprem, request

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]

BUDGET_MS = "300"
TENSOR = {"name": "INPUT0", "datatype": "INT32", "shape": [1], "data": [1]}
PROMPT = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}


@dataclass(frozen=True, slots=True)
class Told:
    """What a caller learns of its refusal."""

    status: int | str
    words: str
    reason: str
    retry_after: str
    retry_after_ms: str


# The states that a gateway can be in


@dataclass(frozen=True, slots=True)
class Case:
    kind: str  # of the call that comes
    http: int
    grpc: str
    reason: str
    setup: Setup
    inside: int = 0  # calls that are there already, and hang
    slow: bool = False  # many times slower than the call can wait, as its server has just shown
    change: Callable[[Rig], None] = lambda rig: None


def is_down(rig: Rig) -> None:
    for name in rig.sites:
        rig.registry.states[name].went_down()


async def is_known_to_be_slow(rig: Rig) -> None:
    batches = rig.queues.queue(MODEL, ("gpu",)).scheduling.servers.model("gpu")
    for _ in range(20):
        batches.observe(1.0, 5.0)
    await rig.call(request("restricted", 60.0))  # what was told long ago would prove nothing


def is_stopping(rig: Rig) -> None:
    rig.admission.draining = True


BUSY = Setup()
ONE_CALL = Setup(limits=LimitSettings(max_concurrent=1))
ONE_OF_A_TENANT = Setup(limits=LimitSettings(max_concurrent_per_tenant=1))
ONE_WAITS = Setup(queue=QueueSettings(max_waiting=1, lead_ms=0))
RESTRICTED = "onprem_unavailable_restricted"
GONE = "no_eligible_endpoint"
LATE = "deadline_unmeetable"

CASES = [
    Case("clear", 429, "RESOURCE_EXHAUSTED", "saturated", ONE_CALL, inside=1),
    Case("clear", 429, "RESOURCE_EXHAUSTED", "tenant_saturated", ONE_OF_A_TENANT, inside=1),
    Case("stays", 429, "RESOURCE_EXHAUSTED", "queue_full", ONE_WAITS, inside=2),
    Case("restricted", 429, "RESOURCE_EXHAUSTED", "queue_full", ONE_WAITS, inside=2),
    Case("restricted", 503, "RESOURCE_EXHAUSTED", LATE, BUSY, slow=True),
    Case("restricted", 503, "UNAVAILABLE", RESTRICTED, BUSY, change=is_down),
    Case("clear", 503, "UNAVAILABLE", GONE, BUSY, change=is_down),
    Case("clear", 503, "UNAVAILABLE", "draining", BUSY, change=is_stopping),
]


@asynccontextmanager
async def gateway(case: Case) -> AsyncIterator[Rig]:
    """In its state, with the calls that make it so."""
    gpu = onprem(*[ANSWERS] * case.slow, HANGS)
    rig = Rig(*([gpu] if case.kind == "stays" else [gpu, cloud()]), setup=case.setup)
    rig.registry.model_state("gpu", MODEL)
    if case.slow:
        await is_known_to_be_slow(rig)
    inside = [
        asyncio.create_task(rig.call(request("restricted", 60.0, tenant="anonymous")))
        for _ in range(case.inside)
    ]
    for _ in range(50):  # steps, until they are where they hang
        await asyncio.sleep(0)
    assert rig.admission.inside == case.inside
    case.change(rig)
    try:
        yield rig
    finally:
        for call in inside:
            call.cancel()
        await asyncio.gather(*inside, return_exceptions=True)
        rig.queues.close()


# The fronts


Ask = Callable[[Case, Rig], Awaitable[Told]]
_ids = itertools.count()


def services(case: Case, rig: Rig) -> Services:
    catalog = Catalog({MODEL: CatalogModel(MODEL, "generate", ("gpu",))})
    made = http_rig.services(http_rig.Pipeline())
    return replace(
        made,
        handle=rig.pipeline.handle,
        catalog=catalog,
        new_id=lambda: f"{case.kind}-{next(_ids)}",
        clock=asyncio.get_running_loop().time,
    )


async def over_http(case: Case, rig: Rig, path: str, body: object) -> Told:
    ours = services(case, rig)
    app = App(ours, [openai.front(ours), kserve.front(ours)])
    headers = [("content-type", "application/json"), ("x-latency-budget-ms", BUDGET_MS)]
    async with http_rig.serving(app) as port:
        answer = await http_rig.ask(port, "POST", path, json.dumps(body).encode(), headers)
    tell = answer.headers
    assert tell["content-type"] == "application/json", "before the stream, where one was asked for"
    return Told(
        answer.status, answer.error, tell["x-spillway-reason"],
        tell["retry-after"], tell["retry-after-ms"],
    )  # fmt: skip


async def v2(case: Case, rig: Rig) -> Told:
    return await over_http(case, rig, f"/v2/models/{MODEL}/infer", {"inputs": [TENSOR]})


async def chat(case: Case, rig: Rig) -> Told:
    return await over_http(case, rig, "/v1/chat/completions", PROMPT)


async def chat_streamed(case: Case, rig: Rig) -> Told:
    return await over_http(case, rig, "/v1/chat/completions", {**PROMPT, "stream": True})


METADATA = (("x-latency-budget-ms", BUDGET_MS),)


async def grpc_unary(case: Case, rig: Rig) -> Told:
    ours = services(case, rig)
    async with running_front(made=ours) as front:
        error = await failure(front.stub.ModelInfer(infer_request(MODEL), metadata=METADATA))
    tell = told(error)
    return Told(
        error.code().name, error.details() or "", tell["x-spillway-reason"],
        tell["retry-after"], tell["retry-after-ms"],
    )  # fmt: skip


async def grpc_streamed(case: Case, rig: Rig) -> str:
    """A stream goes on behind a call that was refused: there are words alone."""
    ours = services(case, rig)

    async def one() -> AsyncIterator[Any]:
        yield infer_request(MODEL)

    async with running_front(made=ours) as front:
        answers = [a async for a in front.stub.ModelStreamInfer(one(), metadata=METADATA)]
    (answer,) = answers
    assert isinstance(answer, service_pb2.ModelStreamInferResponse)
    return str(answer.error_message)


HTTP_FRONTS: list[Ask] = [v2, chat, chat_streamed]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.reason)
async def test_every_front_refuses_alike(case: Case) -> None:
    async with gateway(case) as rig:
        seen = {name: list(site.connector.seen) for name, site in rig.sites.items()}
        over = [await front(case, rig) for front in HTTP_FRONTS]
        unary = await grpc_unary(case, rig)
        streamed = await grpc_streamed(case, rig)
        assert {name: site.connector.seen for name, site in rig.sites.items()} == seen
    assert {(t.status, t.reason) for t in over} == {(case.http, case.reason)}
    assert (unary.status, unary.reason) == (case.grpc, case.reason)
    assert {t.words for t in (*over, unary)} == {streamed}
    for each in (*over, unary):
        assert int(each.retry_after) >= 1
        assert int(each.retry_after_ms) >= 1
