"""What begins like a name of the gateway and is none where it stands is refused, on every front."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.core.errors import GatewayError
from gateway.core.operations.registry import OPERATIONS
from gateway.core.operations.spec import OperationSpec
from gateway.core.types import (
    ONPREM_ONLY,
    DocumentCall,
    InferenceRequest,
    RequestedOutput,
    Tensor,
    TensorCall,
)
from gateway.protocols import multipart
from gateway.protocols.multipart import FormPart
from gateway.server import labels, ops
from gateway.server.http import App
from gateway.server.openai import front as openai
from tests.unit.fronts import http_rig
from tests.unit.fronts.every_front import MODEL, PROMPT, TENSOR, answering, catalog, every_front
from tests.unit.grpc_rig import failure, infer_request, running_front, told

pytestmark = pytest.mark.anyio

UNKNOWN = (
    "x-spillway-sensitivty", "x-spillway-labels", "X-SPILLWAY-ZONE", "x-spillway", "x-spillway-",
    "x_spillway_sensitivity", "spillway-sensitivity", "spillway_sensitivity",
    "x-spillway_sensitivity", "x-spillway-sensitivity-x",
)  # fmt: skip
KNOWN = (
    ("x-spillway-placement", "onprem"), ("x-spillway-spill", "never"),
    ("x-spillway-sensitivity", "restricted"), ("x-spillway-priority", "3"),
)  # fmt: skip


class Taken:
    """A pipeline that keeps what it was given."""

    def __init__(self) -> None:
        self.requests: list[InferenceRequest] = []

    async def handle(self, request: InferenceRequest) -> Any:
        self.requests.append(request)
        return await answering(request)


def services(taken: Taken) -> Any:
    made = http_rig.services(http_rig.Pipeline())
    made.catalog.models = catalog().models
    object.__setattr__(made, "handle", taken.handle)
    return made


@pytest.mark.parametrize("name", UNKNOWN)
async def test_a_header_that_nobody_knows(name: str) -> None:
    taken = Taken()
    async with every_front(services(taken)) as fronts:
        for front, ask in fronts.items():
            if front.startswith("grpc"):
                name = name.lower()
            answer = await ask({name: "restricted"})
            assert (answer.status or "INVALID_ARGUMENT") == "INVALID_ARGUMENT", front
            assert "x-spillway-sensitivity" in answer.words
            assert "known there: x-spillway-placement" in answer.words
            if front != "grpc-stream":
                assert answer.reason == "unknown_label"
    assert not taken.requests


async def test_binary_metadata_are_none_of_ours() -> None:
    taken = Taken()
    async with running_front(made=services(taken)) as front:
        for name in ("x-spillway-sensitivity-bin", "spillway-sensitivity-bin"):
            call = front.stub.ModelInfer(infer_request(MODEL), metadata=((name, b"restricted"),))
            assert told(await failure(call))["x-spillway-reason"] == "unknown_label"
        other = front.stub.ModelInfer(infer_request(MODEL), metadata=(("trace-bin", b"1"),))
        await other
    assert len(taken.requests) == 1


async def test_what_is_known_stays_known() -> None:
    taken = Taken()
    async with every_front(services(taken)) as fronts:
        for front, ask in fronts.items():
            for name, value in KNOWN:
                assert (await ask({name: value})).status in ("OK", ""), (front, name)
            assert (await ask(dict(KNOWN))).status == "OK", front
    assert taken.requests[-1].labelled
    assert taken.requests[-1].zones == ONPREM_ONLY


@pytest.mark.parametrize("pairs", [("any", "onprem"), ("onprem", "onprem")])
async def test_a_known_one_stands_once(pairs: tuple[str, str]) -> None:
    taken = Taken()
    headers = [("x-spillway-placement", value) for value in pairs]
    async with http_rig.serving(App(services(taken), [openai.front(services(taken))])) as port:
        body = json.dumps(PROMPT).encode()
        said = [("content-type", "application/json"), *headers]
        answer = await http_rig.ask(port, "POST", "/v1/chat/completions", body, said)
    assert answer.status == 400
    async with running_front(made=services(taken)) as front:
        call = front.stub.ModelInfer(infer_request(MODEL), metadata=tuple(headers))
        assert (await failure(call)).code().name == "INVALID_ARGUMENT"
    assert not taken.requests


@pytest.mark.parametrize(
    ("name", "value"),
    [("x-spillway-sensitivity", "clear"), ("x-spillway-sensitivity", ""),
     ("x-spillway-placement", "cloud-only"), ("x-spillway-spill", "no"),
     ("x-spillway-priority", "11")],
)  # fmt: skip
async def test_an_unknown_value_of_a_known_one(name: str, value: str) -> None:
    taken = Taken()
    async with every_front(services(taken)) as fronts:
        for front, ask in fronts.items():
            answer = await ask({name: value})
            assert answer.words.startswith(name), front
    assert not taken.requests


BODIES: list[dict[str, Any]] = [
    {"spillway_sensitivity": "restricted"},
    {"spillway-sensitivity": "restricted"},
    {"Spillway_Sensitivity": "restricted"},
    {"x_spillway_placement": "onprem"},
    {"x-spillway-sensitivity": "restricted"},
    {"metadata": {"spillway_sensitivity": "restricted"}},
    {"extra_body": {"spillway_sensitivity": "restricted"}},
    {"extra_body": {"metadata": {"SPILLWAY-SENSITIVITY": "restricted"}}},
    {"extra_headers": {"X-Spillway-Sensitivity": "restricted"}},
    {"messages": [{"role": "user", "content": "hello", "spillway_sensitivity": "restricted"}]},
]


FULL = {
    "model": MODEL, "messages": PROMPT["messages"], "prompt": "hello", "input": "hello",
    "query": "hello", "documents": ["hello"], "text_1": "hello", "text_2": "hello", "tokens": [1],
}  # fmt: skip
"""What any operation requires; none minds the rest."""
SPECS = [spec for spec in OPERATIONS.values() if spec.path]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
async def test_a_field_that_nobody_knows(spec: OperationSpec) -> None:
    taken = Taken()
    made = services(taken)
    object.__setattr__(made.catalog.models[MODEL], "task", spec.task)
    async with http_rig.serving(App(made, [openai.front(made)])) as port:
        for more in BODIES:
            media, body = "application/json", json.dumps({**FULL, **more}).encode()
            if spec.files:
                if not isinstance(next(iter(more.values())), str):
                    continue
                given = [
                    FormPart(name, str(text).encode()) for name, text in {**FULL, **more}.items()
                ]
                files = [FormPart(name, b"a", "a") for name in spec.files]
                media, pieces = multipart.encode([*given, *files])
                body = b"".join(pieces)
            answer = await http_rig.ask(port, "POST", spec.path, body, [("content-type", media)])
            assert (answer.status, answer.headers["x-spillway-reason"]) == (400, "unknown_label")
            assert "pillway" in answer.error.partition(":")[0].casefold()
    assert not taken.requests


@pytest.mark.parametrize(
    "item", [{"content": "a", "spillway_sensitivity": "restricted"}, {"x-spillway-spill": "never"}]
)
@pytest.mark.parametrize("name", ["messages", "input"])
def test_an_item_among_whatever_others(name: str, item: dict[str, Any]) -> None:
    for before in ([], [{"role": "user", "content": "a"}], ["a"], [1, [2]], [None]):
        with pytest.raises(GatewayError) as caught:
            labels.check_document({"model": MODEL, name: [*before, item]})
        assert caught.value.reason == "unknown_label"


async def test_a_query_that_nobody_reads() -> None:
    taken = Taken()
    made = services(taken)
    async with http_rig.serving(App(made, [openai.front(made)])) as port:
        said = [("content-type", "application/json")]
        body = json.dumps(PROMPT).encode()
        for query, status in (("spillway%5Fsensitivity=restricted", 400), ("api-version=3", 200)):
            path = f"/v1/chat/completions?{query}"
            assert (await http_rig.ask(port, "POST", path, body, said)).status == status


def call(**fields: Any) -> TensorCall:
    inputs = (Tensor("INPUT0", "INT32", (1,), bytes(4), fields.pop("tensor", {})),)
    outputs = (RequestedOutput("OUT", fields.pop("output", {})),)
    return TensorCall(inputs, outputs, **fields)


@pytest.mark.parametrize(
    "parameters",
    [{"spillway_sensitivty": "restricted"}, {"Spillway_Sensitivity": "restricted"},
     {"spillway-sensitivity": "restricted"}, {"x-spillway-sensitivity": "restricted"},
     {"spillway_placement": "onprem"}],
)  # fmt: skip
async def test_parameters_that_nobody_knows(parameters: dict[str, Any]) -> None:
    taken = Taken()
    async with running_front(made=services(taken)) as front:
        message = infer_request(MODEL, **parameters)
        error = await failure(front.stub.ModelInfer(message))
        answers = [a async for a in front.stub.ModelStreamInfer(iter([message]))]
    assert told(error)["x-spillway-reason"] == "unknown_label"
    assert "known there: spillway_sensitivity" in (error.details() or "")
    assert "spillway_sensitivity" in answers[0].error_message
    assert not taken.requests


@pytest.mark.parametrize("where", ["tensor", "output"])
async def test_parameters_of_a_tensor_are_none_of_ours(where: str) -> None:
    with pytest.raises(GatewayError) as caught:
        labels.check_parameters(call(**{where: {"spillway_sensitivity": "restricted"}}))
    assert caught.value.reason == "unknown_label"


async def test_the_parameter_of_a_request_stays_known() -> None:
    taken = Taken()
    async with running_front(made=services(taken)) as front:
        await front.stub.ModelInfer(infer_request(MODEL, spillway_sensitivity="restricted"))
    assert taken.requests[0].labelled


async def test_a_name_that_may_be_content_is_not_repeated() -> None:
    taken = Taken()
    made = services(taken)
    async with http_rig.serving(App(made, [openai.front(made)])) as port:
        body = json.dumps({**PROMPT, "spillway_4111111111111111": 1}).encode()
        said = [("content-type", "application/json")]
        answer = await http_rig.ask(port, "POST", "/v1/chat/completions", body, said)
    assert answer.status == 400
    assert b"4111" not in answer.body


@pytest.mark.parametrize(
    "more",
    [{"metadata": {"spillways": "2"}}, {"metadata": {"reservoir": "spillway_gate"}},
     {"messages": [{"role": "user", "content": "set spillway_sensitivity"}]},
     {"tools": [{"type": "function", "function": {"name": "spillway_flow", "parameters": {
         "type": "object", "properties": {"spillway_capacity": {"type": "number"}}}}}]}],
)  # fmt: skip
async def test_words_of_others_are_theirs(more: dict[str, Any]) -> None:
    taken = Taken()
    made = services(taken)
    async with http_rig.serving(App(made, [openai.front(made)])) as port:
        said = [("content-type", "application/json")]
        body = json.dumps({**PROMPT, **more}).encode()
        assert (await http_rig.ask(port, "POST", "/v1/chat/completions", body, said)).status == 200
    assert isinstance(taken.requests[0].payload, DocumentCall)


def test_what_is_asked_about_is_judged_alike() -> None:
    made = services(Taken())
    body = {"inputs": [TENSOR]}
    for headers in (
        {"X-Spillway-Labels": "x"},
        {"X-Spillway-Placement": "any", "x-spillway-placement": "onprem"},
    ):
        with pytest.raises(GatewayError) as caught:
            ops.described(
                {"path": f"/v2/models/{MODEL}/infer", "headers": headers, "body": body}, made
            )
        assert caught.value.http_status == 400
