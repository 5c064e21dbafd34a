"""Ids that callers give, on every front: what is answered, what goes on, what is recorded."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from gateway.core.trace_context import UNTRACED
from gateway.core.types import InferenceRequest
from gateway.server import Services, intake
from tests.unit.fronts import http_rig
from tests.unit.fronts.every_front import MODEL, answering, catalog, every_front
from tests.unit.grpc_rig import infer_request, running_front

pytestmark = pytest.mark.anyio

CARD = "4111111111111111"
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
IDS = {
    "a card in a trace id": (CARD.zfill(32), SPAN),
    "a card before chance": (f"{CARD}a3ce929d0e0e4736", SPAN),
    "a card in a span id": (TRACE, CARD),
    "text in a trace id": (b"John Smith 12345".hex(), SPAN),
}


def services() -> tuple[Services, list[InferenceRequest]]:
    requests: list[InferenceRequest] = []

    async def handle(request: InferenceRequest) -> Any:
        requests.append(request)
        return await answering(request)

    made = http_rig.services(http_rig.Pipeline())
    made.catalog.models = catalog().models
    object.__setattr__(made, "handle", handle)
    return made, requests


async def test_a_trace_goes_on_and_its_alias_is_recorded() -> None:
    made, requests = services()
    asked = str(uuid.uuid4())
    headers = {"x-request-id": asked, "traceparent": f"00-{TRACE}-{SPAN}-01"}
    async with every_front(made) as fronts:
        for front, ask in fronts.items():
            answer = await ask(headers)
            request = requests[-1]
            assert answer.headers["traceparent"][3:35] == TRACE, front
            assert request.traceparent[3:35] == TRACE
            assert request.record_trace == made.aliases.trace_alias(TRACE)
            assert answer.headers["x-request-id"] == asked
            if front != "grpc-stream":  # whose calls have ids of their own
                assert request.record_id == made.aliases.call_alias(asked)


@pytest.mark.parametrize("case", IDS)
async def test_an_id_that_may_be_content_goes_nowhere(case: str) -> None:
    trace, span = IDS[case]
    made, requests = services()
    spans: list[tuple[str, str]] = []

    def new_trace(traceparent: str, caller_span: str, received_s: float) -> Any:
        spans.append((traceparent, caller_span))
        return UNTRACED

    object.__setattr__(made, "new_trace", new_trace)
    async with every_front(made) as fronts:
        for front, ask in fronts.items():
            answer = await ask({"traceparent": f"00-{trace}-{span}-01", "tracestate": "a=b"})
            request = requests[-1]
            assert request.record_trace == made.aliases.trace_alias(trace), front
            told = repr((answer.headers, spans, request.traceparent, request.record_trace))
            if span == CARD:
                assert spans[-1][1] != CARD
            else:
                assert trace not in told
                assert request.tracestate == ""


async def test_the_gateways_own_ids_are_recorded_as_they_are() -> None:
    made, requests = services()
    async with every_front(made) as fronts:
        for ask in fronts.values():
            answer = await ask({})
            assert requests[-1].record_trace == requests[-1].traceparent[3:35]
            assert requests[-1].record_trace == answer.headers["traceparent"][3:35]
            assert requests[-1].record_id == requests[-1].id


async def test_all_calls_of_a_stream_are_found_by_its_trace() -> None:
    made, requests = services()
    async with running_front(made=made) as front:
        messages = [infer_request(MODEL), infer_request(MODEL)]
        for trace in (TRACE, CARD.zfill(32)):
            metadata = (("traceparent", f"00-{trace}-{SPAN}-01"),)
            _ = [a async for a in front.stub.ModelStreamInfer(iter(messages), metadata=metadata)]
            traces = {request.record_trace for request in requests[-2:]}
            assert traces == {made.aliases.trace_alias(trace)}
    assert len({request.id for request in requests}) == 4


def test_a_uuid_that_is_a_number_is_not_recorded() -> None:
    made, _ = services()
    asked = str(uuid.UUID(CARD.zfill(32)))
    arrival = intake.arrive({"x-request-id": asked}, made)
    assert (arrival.request_id, arrival.recorded_id) == (asked, made.aliases.call_alias(asked))
