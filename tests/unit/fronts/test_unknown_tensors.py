"""A tensor that its model does not have is refused on every front, before anything is sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.config.model_catalog import CatalogModel, TensorNames
from gateway.core.types import Endpoint, ServedModel, Zone
from gateway.server import Services
from gateway.server.http import App
from gateway.server.kserve import front as kserve
from tests.unit.fronts import http_rig
from tests.unit.grpc_rig import failure, infer_request, running_front, told

pytestmark = pytest.mark.anyio

SERVED = {"simple": ServedModel("simple")}
KNOWN = TensorNames(frozenset({"INPUT0", "INPUT1"}), frozenset({"OUTPUT0"}))
INPUT = {"name": "INPUT0", "datatype": "INT32", "shape": [1], "data": [1]}


def services(pipeline: Any, *, clear: bool = True, away: bool = True) -> Services:
    made = http_rig.services(pipeline)
    zone = Zone.CLOUD if away else Zone.ONPREM
    endpoints = {
        "gpu": Endpoint("gpu", Zone.ONPREM, "triton", SERVED),
        "other": Endpoint("other", zone, "kserve", SERVED),
    }
    model = CatalogModel("simple", "infer", ("gpu", "other"), tensors_clear=clear)
    made.catalog.models = {"simple": model}
    made.catalog.endpoints = endpoints
    made.catalog.learn_tensors("gpu", "simple", KNOWN)
    return made


async def posted(made: Services, document: Any) -> http_rig.Answer:
    async with http_rig.serving(App(made, [kserve.front(made)])) as port:
        body = json.dumps(document).encode()
        return await http_rig.ask(port, "POST", "/v2/models/simple/infer", body)


@pytest.mark.parametrize(
    ("document", "label"),
    [
        ({"inputs": [INPUT, {**INPUT, "name": "NOTE"}]}, "inputs[1] 'NOTE'"),
        ({"inputs": [{**INPUT, "name": "input0"}]}, "inputs[0] 'input0'"),
        ({"inputs": [INPUT], "outputs": [{"name": "OTHER"}]}, "outputs[0] 'OTHER'"),
    ],
)
async def test_rest(document: Any, label: str) -> None:
    pipeline = http_rig.Pipeline()
    answer = await posted(services(pipeline), document)
    assert (answer.status, answer.headers["x-spillway-reason"]) == (400, "unknown_tensor")
    assert answer.error.startswith(f"{label}: the model has no {label[:5].rstrip('s[')}")
    assert not pipeline.seen


async def test_a_name_that_may_be_content_is_not_repeated() -> None:
    document = {"inputs": [{**INPUT, "name": "4111111111111111"}]}
    answer = await posted(services(http_rig.Pipeline()), document)
    assert answer.status == 400
    assert b"4111" not in answer.body


async def test_grpc() -> None:
    pipeline = http_rig.Pipeline()
    message = infer_request("simple")
    message.inputs[1].name = "NOTE"
    async with running_front(made=services(pipeline)) as front:
        error = await failure(front.stub.ModelInfer(message))
        answers = [a async for a in front.stub.ModelStreamInfer(iter([message]))]
    assert error.code().name == "INVALID_ARGUMENT"
    assert told(error)["x-spillway-reason"] == "unknown_tensor"
    assert "inputs[1] 'NOTE'" in answers[0].error_message
    assert not pipeline.seen


@pytest.mark.parametrize(("clear", "away"), [(False, True), (True, False)])
async def test_what_cannot_leave_is_the_servers_to_judge(clear: bool, away: bool) -> None:
    pipeline = http_rig.Pipeline()
    answer = await posted(
        services(pipeline, clear=clear, away=away), {"inputs": [{**INPUT, "name": "NOTE"}]}
    )
    assert answer.status == 200


async def test_all_that_the_model_has_is_taken() -> None:
    document = {"inputs": [INPUT], "outputs": [{"name": "OUTPUT0"}]}
    assert (await posted(services(http_rig.Pipeline()), document)).status == 200
