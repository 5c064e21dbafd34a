"""Labels, conversations and sequences through the real gateway, on every front (C10, M5)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.grpc import service_pb2, service_pb2_grpc

from gateway.demo.cloud.process import SimulatedCloud
from tests.live import LiveGateway, LoopThread, serving, settings

CARD = "4111 1111 1111 1111"
CALM = "Summarise the water cycle in two sentences."
LABEL, PARAMETER = "x-spillway-sensitivity", "spillway_sensitivity"
RESTRICTED = {LABEL: "restricted"}
MARKER = "copper meadow"  # in texts that only their label restricts


@pytest.fixture(scope="module")
def house(
    outside: SimulatedCloud, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveGateway]:
    """Two tenants, one of them with a key that adds to what restricts; whatever may leave does.
    Names are not looked for: what they find is not the matter here."""
    scratch = tmp_path_factory.mktemp("conversations")
    keys: dict[str, Any] = {}
    for name, tenant in (("clinic", "clinic"), ("strict", "clinic"), ("bank", "bank")):
        (scratch / f"{name}.key").write_text(f"{name}-key\n")
        keys[name] = {"key": f"${{file:{scratch / name}.key}}", "tenant": tenant}
    keys["strict"] |= {"profile": "strict", "restrict": ["URL"]}
    classify = {"names": "off", "budget_ms": 20_000}
    document = settings(
        outside, scratch, ["simple_sequence"], ["minilm", "scribe"], keys=keys, classify=classify
    )
    document["routing"] = {"policy": "static_split"}
    document["models"]["simple_sequence"] = {
        "tensors": "clear",
        "served_by": [{"endpoint": "local"}, {"endpoint": "cloud-v2"}],
    }
    with serving(document, scratch) as gateway:
        yield gateway


def key(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}-key"}


def turn(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


def chat(
    gateway: LiveGateway, turns: list[dict[str, str]], caller: str = "clinic", **body: Any
) -> httpx.Response:
    headers = {**key(caller), **body.pop("headers", {})}
    document = {"model": "scribe", "max_tokens": 4, "messages": turns, **body}
    return gateway.client.post("/v1/chat/completions", json=document, headers=headers)


def verdict(gateway: LiveGateway, answer: httpx.Response) -> tuple[str, str]:
    """Why it was restricted, or clear, and where it went."""
    assert answer.status_code == 200, answer.text
    record = gateway.record(answer.headers["x-request-id"])
    return record["classify_reason"], answer.headers["x-spillway-zone"]


# Conversations


def test_a_restricted_conversation_stays_although_its_number_is_out_of_sight(
    house: LiveGateway, outside: SimulatedCloud, loop_thread: LoopThread
) -> None:
    turns = [turn("user", f"Which ward is it? {MARKER}")]
    first = chat(house, turns, metadata={"note": f"card {CARD}"})
    assert verdict(house, first) == ("entities", "onprem")
    answer = first.json()["choices"][0]["message"]["content"]
    turns += [turn("assistant", answer), turn("user", "And the room?")]
    assert verdict(house, chat(house, turns)) == ("tainted", "onprem")
    turns += [turn("assistant", "Seven."), turn("user", "Thank you.")]
    assert verdict(house, chat(house, turns)) == ("tainted", "onprem")
    streamed = chat(house, turns, stream=True)
    assert verdict(house, streamed) == ("tainted", "onprem")
    items = {"model": "scribe", "input": turns}
    responses = house.client.post("/v1/responses", json=items, headers=key("clinic"))
    assert verdict(house, responses) == ("tainted", "onprem")
    assert verdict(house, chat(house, turns, caller="strict")) == ("tainted", "onprem")
    assert not loop_thread.run(outside.search([CARD, MARKER]))


def test_another_tenant_s_identical_conversation_is_not_affected(house: LiveGateway) -> None:
    turns = [turn("user", "Who is on duty?")]
    assert chat(house, turns, user=CARD).headers["x-spillway-sensitivity"] == "restricted"
    turns += [turn("assistant", "Nobody."), turn("user", "Why?")]
    assert verdict(house, chat(house, turns, caller="bank")) == ("clear", "cloud")
    assert verdict(house, chat(house, turns)) == ("tainted", "onprem")


def test_a_turn_that_was_only_explained_taints_none_after_it(house: LiveGateway) -> None:
    turns = [turn("user", "Who is on leave?")]
    body = {"model": "scribe", "max_tokens": 4, "messages": turns, "user": CARD}
    asked = {"path": "/v1/chat/completions", "headers": key("clinic"), "body": body}
    told = house.client.post("/spillway/explain", json=asked, headers=key("clinic"))
    assert told.json()["sensitivity"] == "restricted"
    turns += [turn("assistant", "Nobody."), turn("user", "Since when?")]
    assert verdict(house, chat(house, turns)) == ("clear", "cloud")


def test_a_conversation_that_was_never_restricted_may_leave_at_every_turn(
    house: LiveGateway,
) -> None:
    turns = [turn("user", "What is rain?")]
    for _ in range(4):
        assert verdict(house, chat(house, turns)) == ("clear", "cloud")
        turns += [turn("assistant", "Water."), turn("user", "And then?")]


def test_a_field_beside_its_input_hides_no_conversation(
    house: LiveGateway, outside: SimulatedCloud, loop_thread: LoopThread
) -> None:
    turns = [turn("user", f"Which bed is it? {MARKER}")]

    def respond_to(given: Any, **more: Any) -> httpx.Response:
        document = {"model": "scribe", "input": given, **more}
        return house.client.post("/v1/responses", json=document, headers=key("clinic"))

    decoy = [turn("user", "Hello.")]
    first = respond_to(turns, metadata={"note": f"card {CARD}"})
    assert verdict(house, first) == ("entities", "onprem")
    turns += [turn("assistant", "Seven."), turn("user", "And the room?")]
    assert verdict(house, respond_to(json.dumps(turns))) == ("tainted", "onprem")
    assert verdict(house, respond_to(turns, messages=None)) == ("tainted", "onprem")
    # the text model on the premises takes none of these, and they have no other place
    for hiding in (
        respond_to(turns, messages=decoy),
        respond_to(turns, messages=[]),
        respond_to(decoy, history=turns),
        chat(house, decoy, input=turns),
    ):
        assert (hiding.status_code, hiding.headers["x-spillway-reason"]) == (400, "capability")
        record = house.record(hiding.headers["x-request-id"])
        assert (record["classify_reason"], record["attempts"]) == ("tainted", [])
    assert verdict(house, respond_to(decoy, messages=decoy)) == ("clear", "cloud")
    assert not loop_thread.run(outside.search([CARD, MARKER]))


@pytest.mark.parametrize(
    "headers", [{"x-spillway-placement": "onprem"}, {"x-spillway-spill": "never"}]
)
def test_a_wish_for_one_turn_s_place_says_nothing_about_the_next(
    house: LiveGateway, headers: dict[str, str]
) -> None:
    """It is about where one call goes, and the label about what it holds."""
    turns = [turn("user", f"What is hail? {headers}")]
    assert verdict(house, chat(house, turns, headers=headers)) == ("clear", "onprem")
    turns += [turn("assistant", "Ice."), turn("user", "And then?")]
    assert verdict(house, chat(house, turns)) == ("clear", "cloud")
    labelled = chat(house, turns, headers={**headers, **RESTRICTED})
    assert verdict(house, labelled) == ("labelled", "onprem")
    turns += [turn("assistant", "It melts."), turn("user", "And then?")]
    assert verdict(house, chat(house, turns)) == ("tainted", "onprem")


# Labels


def embed_rest(gateway: LiveGateway, headers: dict[str, str]) -> httpx.Response:
    tensor = {"name": "text", "datatype": "BYTES", "shape": [1, 1], "data": [f"{MARKER} a"]}
    return gateway.client.post(
        "/v2/models/minilm/infer", json={"inputs": [tensor]}, headers={**key("clinic"), **headers}
    )


def stream_chat(gateway: LiveGateway, headers: dict[str, str]) -> httpx.Response:
    return chat(gateway, [turn("user", f"{MARKER} b")], stream=True, headers=headers)


def whole_chat(gateway: LiveGateway, headers: dict[str, str]) -> httpx.Response:
    return chat(gateway, [turn("user", f"{MARKER} c")], headers=headers)


def respond(gateway: LiveGateway, headers: dict[str, str]) -> httpx.Response:
    document = {"model": "scribe", "input": f"{MARKER} d"}
    return gateway.client.post("/v1/responses", json=document, headers={**key("clinic"), **headers})


FRONTS: list[Callable[[LiveGateway, dict[str, str]], httpx.Response]] = [
    whole_chat,
    stream_chat,
    respond,
    embed_rest,
]


@pytest.mark.parametrize("call", FRONTS)
def test_a_labelled_call_stays_on_every_http_front(
    call: Callable[[LiveGateway, dict[str, str]], httpx.Response],
    house: LiveGateway,
    outside: SimulatedCloud,
    loop_thread: LoopThread,
) -> None:
    told = call(house, RESTRICTED)
    assert verdict(house, told) == ("labelled", "onprem")
    assert told.headers["x-spillway-sensitivity"] == "restricted"
    assert not loop_thread.run(outside.search([MARKER]))


@pytest.mark.parametrize("call", FRONTS)
@pytest.mark.parametrize("label", ["clear", "public", ""])
def test_any_other_label_is_refused_on_every_http_front(
    call: Callable[[LiveGateway, dict[str, str]], httpx.Response],
    label: str,
    house: LiveGateway,
) -> None:
    refused = call(house, {LABEL: label})
    assert refused.status_code == 400
    assert refused.headers["x-spillway-reason"] == "invalid_request"
    assert f"{LABEL}: can only be restricted" in refused.text


def test_a_labelled_conversation_stays_without_its_label(house: LiveGateway) -> None:
    turns = [turn("user", "What is the plan?")]
    assert verdict(house, chat(house, turns, headers=RESTRICTED)) == ("labelled", "onprem")
    turns += [turn("assistant", "A merger."), turn("user", "Translate that.")]
    assert verdict(house, chat(house, turns)) == ("tainted", "onprem")


def message(text: str = CALM, **parameters: str) -> Any:
    tensor = grpcclient.InferInput("text", [1, 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[text.encode()]], dtype=np.object_))
    request = service_pb2.ModelInferRequest(model_name="minilm")
    request.inputs.append(tensor._get_tensor())
    request.raw_input_contents.append(tensor._get_content())
    for name, value in parameters.items():
        request.parameters[name].string_param = value
    return request


def infer_grpc(
    gateway: LiveGateway, request: Any, *metadata: tuple[str, str]
) -> tuple[str, str, dict[str, str]]:
    """The status code, its details, and what the gateway told in trailing metadata."""
    said = (*key("clinic").items(), *metadata)
    with grpc.insecure_channel(gateway.grpc_target) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        call: Any = stub.ModelInfer.future(request, timeout=30, metadata=said)
        return call.code().name, call.details() or "", dict(call.trailing_metadata() or ())


def test_a_labelled_call_stays_on_grpc(house: LiveGateway) -> None:
    assert infer_grpc(house, message())[2]["x-spillway-zone"] == "cloud"
    for request, metadata in (
        (message(), [(LABEL, "restricted")]),
        (message(**{PARAMETER: "restricted"}), []),
    ):
        code, _, told = infer_grpc(house, request, *metadata)
        assert (code, told["x-spillway-zone"]) == ("OK", "onprem")
        assert house.record(told["x-request-id"])["classify_reason"] == "labelled"


@pytest.mark.parametrize("label", ["clear", "public"])
def test_any_other_label_is_refused_on_grpc(label: str, house: LiveGateway) -> None:
    for request, metadata, name in (
        (message(), [(LABEL, label)], LABEL),
        (message(**{PARAMETER: label}), [], f"parameter {PARAMETER}"),
    ):
        code, details, told = infer_grpc(house, request, *metadata)
        assert code == "INVALID_ARGUMENT"
        assert f"{name}: can only be restricted" in details
        assert told["x-spillway-reason"] == "invalid_request"


def test_one_call_of_a_stream_can_be_labelled(house: LiveGateway) -> None:
    before = len(house.records())
    requests = [message(), message(**{PARAMETER: "restricted"}), message(**{PARAMETER: "clear"})]
    with grpc.insecure_channel(house.grpc_target) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        said = tuple(key("clinic").items())
        answers = list(stub.ModelStreamInfer(iter(requests), timeout=30, metadata=said))
    assert [bool(a.error_message) for a in answers] == [False, False, True]
    assert "can only be restricted" in answers[2].error_message
    calls = [r for r in house.records()[before:] if r["kind"] == "call"]
    assert sorted(r["classify_reason"] for r in calls) == ["clear", "labelled"]


# Sequences


def step(gateway: LiveGateway, sequence: int, value: int, **parameters: Any) -> httpx.Response:
    tensor = {"name": "INPUT", "datatype": "INT32", "shape": [1, 1], "data": [value]}
    given = {"sequence_id": sequence, **parameters}
    return gateway.client.post(
        "/v2/models/simple_sequence/infer",
        json={"inputs": [tensor], "parameters": given},
        headers=key("clinic"),
    )


def test_the_rest_of_a_sequence_is_restricted_once_a_step_was(house: LiveGateway) -> None:
    told = [
        step(house, 41, 1, sequence_start=True),
        step(house, 41, 2, **{PARAMETER: "restricted"}),
        step(house, 41, 3),
        step(house, 41, 4, sequence_end=True),
        step(house, 42, 1, sequence_start=True, sequence_end=True),
    ]
    reasons = [verdict(house, answer) for answer in told]
    assert [reason for reason, _ in reasons] == ["clear", "labelled", "tainted", "tainted", "clear"]
    assert {zone for _, zone in reasons} == {"onprem"}
    assert {answer.headers["x-spillway-endpoint"] for answer in told} == {"local"}


# What a key adds


def test_a_key_s_own_types_restrict_its_calls_alone(house: LiveGateway) -> None:
    turns = [turn("user", "Summarise https://rivers.example/delta please.")]
    assert verdict(house, chat(house, turns)) == ("clear", "cloud")
    assert verdict(house, chat(house, turns, caller="strict")) == ("entities", "onprem")
    turns = [turn("user", "Summarise https://rivers.example/delta please."), turn("user", CARD)]
    assert verdict(house, chat(house, turns, caller="bank")) == ("entities", "onprem")


def test_no_record_shows_what_was_labelled_or_tainted_in_the_cloud(house: LiveGateway) -> None:
    turns = [turn("user", "Which form is it?")]
    chat(house, turns, headers=RESTRICTED)
    chat(house, [*turns, turn("assistant", "The blue one."), turn("user", "Why?")])
    stayed = [r for r in house.records() if r.get("classify_reason") in ("labelled", "tainted")]
    assert {r["classify_reason"] for r in stayed} == {"labelled", "tainted"}
    assert all(r["zones"] in (["onprem"], []) for r in stayed)
    assert not [a for r in stayed for a in r["attempts"] if a["zone"] == "cloud"]
    assert MARKER not in json.dumps(house.records())
