"""A card number, wherever it stands in a call, stays on the premises (C2, C3, C6).

The gateway of these tests has every reason to use the cloud: its on-prem endpoint costs five
dollars a call, the cloud a tenth of a cent. Each position is called twice. With harmless words the
call must reach the cloud, words and all; else "nothing leaked" would prove nothing. With a card
number in their place, not a byte of it may.
"""

from __future__ import annotations

import gzip
import json
import uuid
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import serialize_byte_tensor

from gateway.accounting.audit import alias_key
from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
from gateway.demo.cloud.process import SimulatedCloud
from tests.live import LiveGateway, LoopThread, serving, settings
from tests.scenarios import front_bodies
from tests.unit.classify.corpus import CARD, UNREADABLE, Body, Said, harmless, positions

ROUTES: dict[OperationSpec, tuple[str, dict[str, Any]]] = {
    CHAT: ("/v1/chat/completions", {"model": "scribe", "max_tokens": 4}),
    COMPLETIONS: ("/v1/completions", {"model": "scribe", "max_tokens": 4}),
    RESPONSES: ("/v1/responses", {"model": "scribe", "max_output_tokens": 16}),
    EMBEDDINGS: ("/v1/embeddings", {"model": "minilm"}),
}
INFER = "/v2/models/minilm/infer"


@pytest.fixture(scope="module")
def house(
    outside: SimulatedCloud, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveGateway]:
    scratch = tmp_path_factory.mktemp("positions")
    # Cards, wherever they stand: the words beside them are in no language of the names model, and
    # the calls share their first turns, which taint nothing here.
    classify = {"names": "off", "memory": {"taint_s": 0.001}}
    routing = {"policy": "static_split"}
    document = settings(outside, scratch, ["simple_string"], classify=classify, routing=routing)
    with serving(document, scratch) as gateway:
        yield gateway


@dataclass
class Rig:
    """One house and what the cloud beside it has seen."""

    house: LiveGateway
    cloud: SimulatedCloud = field(repr=False)
    loop: LoopThread = field(repr=False)
    _numbers: int = 0

    def harmless(self) -> Said:
        self._numbers += 1
        return harmless(self._numbers)

    def left(self, said: Said) -> bool:
        """Whether the cloud has these words, in any of the forms of a position."""
        words = said.text.split()
        needles = [said.text, said.escaped, str(said.number)]
        needles += [",".join(map(str, said.code_points))]
        needles += [" ".join(words[:2]), '","'.join(words), said.text.replace(" ", "")]
        return bool(self.loop.run(self.cloud.search(needles)))

    def record(self, told: dict[str, str]) -> dict[str, Any]:
        return self.house.record(told["x-request-id"])


@pytest.fixture(scope="module")
def rig(house: LiveGateway, outside: SimulatedCloud, loop_thread: LoopThread) -> Rig:
    return Rig(house, outside, loop_thread)


Call = Callable[[LiveGateway, Said], dict[str, str]]
"""Says something to a gateway; returns what the gateway told beside the answer."""


def stays(rig: Rig, call: Call) -> dict[str, Any]:
    """The record of the call with a card number, of which nothing may have left."""
    told = call(rig.house, CARD)
    record = rig.record(told)
    assert record["sensitivity"] == "restricted"
    assert record["zones"] in (["onprem"], [])
    assert [a for a in record["attempts"] if a["zone"] == "cloud"] == []
    assert told.get("x-spillway-zone", "onprem") == "onprem"
    assert told.get("x-spillway-sensitivity", "restricted") == "restricted"
    assert not rig.left(CARD)
    return record


def leaves(rig: Rig, call: Call) -> None:
    said = rig.harmless()
    told = call(rig.house, said)
    assert rig.record(told)["sensitivity"] == "clear"
    assert told.get("x-spillway-zone", "cloud") == "cloud"
    assert rig.left(said)


# The OpenAI routes


def post(gateway: LiveGateway, body: Body, **more: Any) -> httpx.Response:
    operation, document = body
    path, settled = ROUTES[operation]
    return gateway.client.post(path, json={**settled, **document, **more})


def of_position(name: str, **more: Any) -> Call:
    def call(gateway: LiveGateway, said: Said) -> dict[str, str]:
        return dict(post(gateway, positions(said)[name], **more).headers)

    return call


@pytest.mark.parametrize("position", positions(CARD))
def test_a_card_number_stays_wherever_it_stands_in_a_document(rig: Rig, position: str) -> None:
    call = of_position(position)
    leaves(rig, call)
    record = stays(rig, call)
    assert record["classify_reason"] == "entities"
    # what the text model on the premises cannot honour is refused, never sent elsewhere
    assert (record["reason"] or record["end_reason"]) in ("restricted", "capability")
    assert record["entities"]["CREDIT_CARD"] >= 1


@pytest.mark.parametrize("position", ["user text", "completions prompt", "responses input"])
def test_a_card_number_in_a_streamed_call_stays(rig: Rig, position: str) -> None:
    call = of_position(position, stream=True)
    leaves(rig, call)
    stays(rig, call)


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_cannot_be_read_stays(rig: Rig, case: str) -> None:
    body, what = UNREADABLE[case]
    told = post(rig.house, body).headers
    record = rig.house.record(told["x-request-id"])
    assert (record["sensitivity"], record["classify_reason"]) == (
        "restricted",
        f"unscannable:{what}",
    )
    assert record["zones"] in (["onprem"], [])
    assert told.get("x-spillway-zone", "onprem") == "onprem"


def test_text_over_the_cap_stays(rig: Rig) -> None:
    said = rig.harmless()
    text = f"{said.text} " + "word " * 300_000
    told = post(rig.house, (EMBEDDINGS, {"input": text})).headers
    assert rig.house.record(told["x-request-id"])["classify_reason"] == "over_cap"
    assert not rig.left(said)


# The same value in another dress (C4): the whole way in, from the bytes of the body

BODIES: dict[str, Callable[[Said], bytes]] = {
    "JSON escapes": lambda s: f'{{"model": "minilm", "input": "{s.escaped}"}}'.encode(),
    "escaped key": lambda s: (
        f'{{"model": "minilm", "\\u0069nput": "hi", "user": "{s.text}"}}'.encode()
    ),
    "plain": lambda s: json.dumps({"model": "minilm", "input": s.text}).encode(),
}


@pytest.mark.parametrize("dress", BODIES)
def test_escapes_of_the_body_hide_nothing(rig: Rig, dress: str) -> None:
    def call(gateway: LiveGateway, said: Said) -> dict[str, str]:
        headers = {"content-type": "application/json"}
        body = BODIES[dress](said)
        return dict(gateway.client.post("/v1/embeddings", content=body, headers=headers).headers)

    leaves(rig, call)
    stays(rig, call)


# Anthropic's messages

MARK = {"cache_control": {"type": "ephemeral"}}


def turn(*blocks: Any, role: str = "user") -> dict[str, Any]:
    return {"messages": [{"role": role, "content": list(blocks)}, {"role": "user", "content": "?"}]}


def words(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def called(**more: Any) -> dict[str, Any]:
    """A call of a tool and its result."""
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
    call |= {key: value for key, value in more.items() if key in call}
    result |= {key: value for key, value in more.items() if key not in call}
    return {
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [{**result, "tool_use_id": call["id"]}]},
        ]
    }


def offered(**more: Any) -> dict[str, Any]:
    return {"tools": [{"name": "f", "input_schema": {"type": "object"}, **more}]}


MESSAGE_BODIES: dict[str, Callable[[Said], dict[str, Any]]] = {
    "text": lambda s: {"messages": [{"role": "user", "content": s.text}]},
    "text block": lambda s: turn(words(s.text)),
    "marked block": lambda s: turn(words(s.text, **MARK)),
    "earlier turn": lambda s: turn(words(s.text), role="assistant"),
    "system": lambda s: {"system": s.text},
    "system block": lambda s: {"system": [words(s.text)]},
    "system turn": lambda s: turn(words(s.text), role="system"),
    "text document": lambda s: turn(
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": s.text},
        }
    ),
    "thought": lambda s: turn(
        {"type": "thinking", "thinking": s.text, "signature": "c2ln"}, words("x"), role="assistant"
    ),
    "tool input": lambda s: called(input={"a": {"b": [s.text]}}),
    "tool input key": lambda s: called(input={s.text: 1}),
    "tool input number": lambda s: called(input={"card": s.number}),
    "tool call id": lambda s: called(id=s.text),
    "tool result": lambda s: called(content=s.text),
    "tool result block": lambda s: called(content=[words(s.text)]),
    "tool error": lambda s: called(content=s.text, is_error=True),
    "tool description": lambda s: offered(description=s.text),
    "tool schema": lambda s: offered(
        input_schema={"type": "object", "properties": {"a": {"enum": [s.text]}}}
    ),
    "tool schema key": lambda s: offered(
        input_schema={"type": "object", "properties": {s.text: {}}}
    ),
    "stop sequence": lambda s: {"stop_sequences": [s.text]},
    "user id": lambda s: {"metadata": {"user_id": s.text}},
    "answer schema": lambda s: {
        "output_config": {
            "format": {"type": "json_schema", "schema": {"type": "object", "const": s.text}}
        }
    },
    "split over blocks": lambda s: turn(
        words(f"My card: {' '.join(s.text.split()[:2])}"), words(" ".join(s.text.split()[2:]))
    ),
}


def of_message(name: str) -> Call:
    def call(gateway: LiveGateway, said: Said) -> dict[str, str]:
        usual = {
            "model": "scribe",
            "max_tokens": 4,
            "messages": [{"role": "user", "content": "hi"}],
        }
        body = usual | MESSAGE_BODIES[name](said)
        return dict(gateway.client.post("/v1/messages", json=body).headers)

    return call


@pytest.mark.parametrize("position", MESSAGE_BODIES)
def test_a_card_number_stays_wherever_it_stands_in_a_message(rig: Rig, position: str) -> None:
    call = of_message(position)
    leaves(rig, call)
    record = stays(rig, call)
    assert record["classify_reason"] == "entities"
    assert (record["reason"] or record["end_reason"]) in ("restricted", "capability")


@pytest.mark.parametrize(
    ("front", "position"), [(f, p) for f in front_bodies.BODIES for p in front_bodies.BODIES[f]]
)
def test_a_card_number_stays_wherever_it_stands_in_another_api_s_call(
    rig: Rig, front: str, position: str
) -> None:
    def call(gateway: LiveGateway, said: Said) -> dict[str, str]:
        body = front_bodies.PLAIN[front] | front_bodies.BODIES[front][position](said)
        return dict(gateway.client.post(front_bodies.PATHS[front], json=body).headers)

    leaves(rig, call)
    record = stays(rig, call)
    assert record["classify_reason"] == "entities"
    assert (record["reason"] or record["end_reason"]) in ("restricted", "capability")


# Tensors over REST


def tensor(*texts: str, **more: Any) -> dict[str, Any]:
    return {
        "name": "text",
        "datatype": "BYTES",
        "shape": [len(texts), 1],
        "data": [[t] for t in texts],
        **more,
    }


TENSORS: dict[str, Callable[[Said], dict[str, Any]]] = {
    "element": lambda s: {"inputs": [tensor(s.text)]},
    "second element": lambda s: {"inputs": [tensor("hi", s.text)]},
    "id": lambda s: {"id": s.text, "inputs": [tensor("hi")]},
    "parameter": lambda s: {"parameters": {"note": s.text}, "inputs": [tensor("hi")]},
    "parameter name": lambda s: {"parameters": {s.text: True}, "inputs": [tensor("hi")]},
    "parameter number": lambda s: {"parameters": {"n": s.number}, "inputs": [tensor("hi")]},
    "input parameter": lambda s: {"inputs": [tensor("hi", parameters={"note": s.text})]},
    "output parameter": lambda s: {
        "inputs": [tensor("hi")],
        "outputs": [{"name": "embedding", "parameters": {"note": s.text}}],
    },
}


def of_tensors(name: str) -> Call:
    def call(gateway: LiveGateway, said: Said) -> dict[str, str]:
        return dict(gateway.client.post(INFER, json=TENSORS[name](said)).headers)

    return call


@pytest.mark.parametrize("position", TENSORS)
def test_a_card_number_stays_wherever_it_stands_in_a_tensor_call(rig: Rig, position: str) -> None:
    call = of_tensors(position)
    leaves(rig, call)
    record = stays(rig, call)
    assert record["classify_reason"] == "entities"


BY_NAMES: dict[str, tuple[str, Callable[[Said], dict[str, Any]]]] = {
    "generate": ("/v2/models/minilm/generate", lambda s: {"text": s.text}),
    "generate id": ("/v2/models/minilm/generate", lambda s: {"text": "hi", "id": s.text}),
    "generate parameter": (
        "/v2/models/minilm/generate", lambda s: {"text": "hi", "parameters": {"note": s.text}},
    ),
    "generate other name": ("/v2/models/minilm/generate", lambda s: {"text": "hi", s.text: True}),
    "generate_stream": (
        "/v2/models/minilm/generate_stream", lambda s: {"parameters": {"text": s.text}},
    ),
    "predict row": ("/v1/models/minilm:predict", lambda s: {"instances": ["hi", s.text]}),
    "predict named row": (
        "/v1/models/minilm:predict", lambda s: {"instances": [{"text": s.text}]},
    ),
    "predict inputs": ("/v1/models/minilm:predict", lambda s: {"inputs": {"text": [s.text]}}),
}  # fmt: skip


@pytest.mark.parametrize("position", BY_NAMES)
def test_a_card_number_stays_in_a_call_of_plain_values(rig: Rig, position: str) -> None:
    path, document = BY_NAMES[position]

    def call(gateway: LiveGateway, said: Said) -> dict[str, str]:
        return dict(gateway.client.post(path, json=document(said)).headers)

    leaves(rig, call)
    record = stays(rig, call)
    assert record["classify_reason"] == "entities"


UNKNOWN_NAMES: dict[str, Callable[[Said], dict[str, Any]]] = {
    "input name": lambda s: {"inputs": [tensor("hi", name=s.text)]},
    "output name": lambda s: {"inputs": [tensor("hi")], "outputs": [{"name": s.text}]},
}
"""No model has such tensors: the call is refused, whatever they say."""


@pytest.mark.parametrize("position", UNKNOWN_NAMES)
def test_a_card_number_in_the_name_of_a_tensor_stays(rig: Rig, position: str) -> None:
    for said in (CARD, rig.harmless()):
        answer = rig.house.client.post(INFER, json=UNKNOWN_NAMES[position](said))
        assert answer.status_code == 400
        assert answer.headers["x-spillway-reason"] == "unknown_tensor"
        assert not rig.left(said)


def in_binary(gateway: LiveGateway, said: Said) -> dict[str, str]:
    raw = serialize_byte_tensor(np.array([[said.text.encode()]], dtype=np.object_)).item()
    head = tensor("hi", parameters={"binary_data_size": len(raw)})
    del head["data"]
    text = json.dumps({"inputs": [head]}).encode()
    headers = {"inference-header-content-length": str(len(text))}
    return dict(gateway.client.post(INFER, content=text + raw, headers=headers).headers)


def compressed(coding: str) -> Call:
    def call(gateway: LiveGateway, said: Said) -> dict[str, str]:
        plain = json.dumps({"inputs": [tensor(said.text)]}).encode()
        body = gzip.compress(plain) if coding == "gzip" else zlib.compress(plain)
        headers = {"content-encoding": coding, "content-type": "application/json"}
        return dict(gateway.client.post(INFER, content=body, headers=headers).headers)

    return call


def in_path(gateway: LiveGateway, said: Said) -> dict[str, str]:
    path = f"/v2/models/minilm/versions/{said.number}/infer"
    return dict(gateway.client.post(path, json={"inputs": [tensor("hi")]}).headers)


@pytest.mark.parametrize(
    "call",
    [in_binary, compressed("gzip"), compressed("deflate"), in_path],
    ids=["binary", "gzip", "zlib", "path"],
)
def test_a_card_number_in_other_bytes_stays(rig: Rig, call: Call) -> None:
    leaves(rig, call)
    stays(rig, call)


# Tensors over gRPC

Message = Any


def with_raw(*texts: str) -> Message:
    given = grpcclient.InferInput("text", [len(texts), 1], "BYTES")
    given.set_data_from_numpy(np.array([[t.encode()] for t in texts], dtype=np.object_))
    message = service_pb2.ModelInferRequest(model_name="minilm")
    message.inputs.append(given._get_tensor())
    message.raw_input_contents.append(given._get_content())
    return message


def with_contents(*texts: str) -> Message:
    message = service_pb2.ModelInferRequest(model_name="minilm")
    given = message.inputs.add(name="text", datatype="BYTES", shape=[len(texts), 1])
    given.contents.bytes_contents.extend(t.encode() for t in texts)
    return message


def _with_id(said: Said) -> Message:
    message = with_raw("hi")
    message.id = said.text
    return message


def _with_version(said: Said) -> Message:
    message = with_raw("hi")
    message.model_version = str(said.number)
    return message


def _with_parameter(said: Said) -> Message:
    message = with_raw("hi")
    message.parameters["note"].string_param = said.text
    return message


def _with_number(said: Said) -> Message:
    message = with_raw("hi")
    message.parameters["n"].int64_param = said.number
    return message


def _with_parameter_name(said: Said) -> Message:
    message = with_raw("hi")
    message.parameters[said.text].bool_param = True
    return message


def _with_input_parameter(said: Said) -> Message:
    message = with_raw("hi")
    message.inputs[0].parameters["note"].string_param = said.text
    return message


def _with_output(said: Said) -> Message:
    message = with_raw("hi")
    message.outputs.add(name="embedding").parameters["note"].string_param = said.text
    return message


MESSAGES: dict[str, Callable[[Said], Message]] = {
    "raw contents": lambda s: with_raw(s.text),
    "second of the raw contents": lambda s: with_raw("hi", s.text),
    "typed contents": lambda s: with_contents(s.text),
    "second of the typed contents": lambda s: with_contents("hi", s.text),
    "id": _with_id,
    "version": _with_version,
    "parameter": _with_parameter,
    "parameter number": _with_number,
    "parameter name": _with_parameter_name,
    "input parameter": _with_input_parameter,
    "output parameter": _with_output,
}


def infer(gateway: LiveGateway, message: Message) -> dict[str, str]:
    with grpc.insecure_channel(gateway.grpc_target) as channel:
        call: Any = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer.future(
            message, timeout=20
        )
        call.exception()
        return dict(call.trailing_metadata())


@pytest.mark.parametrize("position", MESSAGES)
def test_a_card_number_stays_wherever_it_stands_in_a_grpc_call(rig: Rig, position: str) -> None:
    def call(gateway: LiveGateway, said: Said) -> dict[str, str]:
        return infer(gateway, MESSAGES[position](said))

    leaves(rig, call)
    record = stays(rig, call)
    assert record["classify_reason"] == "entities"


def test_a_card_number_in_a_grpc_stream_stays(rig: Rig) -> None:
    """A stream carries calls with an id of the caller's each; the records tell where they went."""

    def stream(said: Said) -> list[dict[str, Any]]:
        before = len(rig.house.records())
        with grpc.insecure_channel(rig.house.grpc_target) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            messages = [with_raw("hi"), with_raw(said.text)]
            answers = list(stub.ModelStreamInfer(iter(messages), timeout=20))
        assert [a.error_message for a in answers] == ["", ""]
        return [r for r in rig.house.records()[before:] if r["kind"] == "call"]

    said = rig.harmless()
    assert [r["sensitivity"] for r in stream(said)] == ["clear", "clear"]
    assert rig.left(said)
    records = stream(CARD)
    assert sorted(r["sensitivity"] for r in records) == ["clear", "restricted"]
    assert [r["zones"] for r in records if r["sensitivity"] == "restricted"] == [["onprem"]]
    assert not rig.left(CARD)


# The class of what is not declared text (C6)


def _numbers(model: str, *names: str) -> dict[str, Any]:
    shape = [1, 16] if model == "simple" else [1, 12]
    kind = "INT32" if model == "simple" else "FP32"
    data = [1] * shape[1]
    return {"inputs": [{"name": n, "datatype": kind, "shape": shape, "data": data} for n in names]}


@pytest.mark.parametrize(
    ("model", "body", "reason"),
    [
        ("simple", _numbers("simple", "INPUT0", "INPUT1"), "clear"),
        ("fraud_score", _numbers("fraud_score", "features"), "tensor_class"),
        ("simple_string", _numbers("simple_string", "INPUT0"), "undeclared_model"),
    ],
)
def test_other_tensors_have_the_class_of_their_model(
    rig: Rig, model: str, body: dict[str, Any], reason: str
) -> None:
    told = rig.house.client.post(f"/v2/models/{model}/infer", json=body).headers
    record = rig.house.record(told["x-request-id"])
    zone = "cloud" if reason == "clear" else "onprem"
    assert (record["classify_reason"], told.get("x-spillway-zone", zone)) == (reason, zone)
    assert {a["zone"] for a in record["attempts"]} == {zone}


def test_nothing_restricted_left_in_all_of_this(rig: Rig) -> None:
    records = [r for r in rig.house.records() if r.get("sensitivity") == "restricted"]
    assert all(a["zone"] == "onprem" for r in records for a in r["attempts"])
    assert not rig.left(CARD)


# What is not read does not leave


def _chat_with(gateway: LiveGateway, ids: dict[str, str]) -> dict[str, str]:
    document = {"model": "scribe", "max_tokens": 4, "messages": [{"role": "user", "content": "Hi"}]}
    return dict(gateway.client.post("/v1/chat/completions", json=document, headers=ids).headers)


def _rest_with(gateway: LiveGateway, ids: dict[str, str]) -> dict[str, str]:
    tensor = {"name": "text", "datatype": "BYTES", "shape": [1, 1], "data": ["Hi"]}
    return dict(gateway.client.post(INFER, json={"inputs": [tensor]}, headers=ids).headers)


def _grpc_with(gateway: LiveGateway, ids: dict[str, str]) -> dict[str, str]:
    given = grpcclient.InferInput("text", [1, 1], "BYTES")
    given.set_data_from_numpy(np.array([[b"Hi"]], dtype=np.object_))
    with grpcclient.InferenceServerClient(gateway.grpc_target) as client:
        client.infer("minilm", [given], headers=ids)
    return {"x-request-id": ids["x-request-id"], "x-spillway-zone": "cloud"}


@pytest.mark.parametrize("call", [_chat_with, _rest_with, _grpc_with])
def test_ids_that_the_caller_chose_do_not_leave(
    rig: Rig, call: Callable[[LiveGateway, dict[str, str]], dict[str, str]]
) -> None:
    asked, trace = str(uuid.uuid4()), uuid.uuid4().hex
    told = call(rig.house, {"x-request-id": asked, "traceparent": f"00-{trace}-{trace[:16]}-01"})
    record = rig.record(told)
    key = alias_key.known(rig.house.audit)
    assert key is not None
    written = key.call_alias(asked), key.trace_alias(trace)
    assert (told["x-spillway-zone"], record["id"], record["trace"]) == ("cloud", *written)
    recorded = rig.house.audited()
    assert not any(part.encode() in recorded for part in (asked, trace, trace[:16]))
    assert [a["zone"] for a in record["attempts"]] == ["cloud"]
    assert not rig.loop.run(rig.cloud.search([asked, asked.replace("-", ""), trace, trace[:16]]))
