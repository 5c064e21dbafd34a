"""A real Triton that joins calls: a model whose rows influence each other has them one by one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from gateway.protocols.oip.datatypes import join
from tests import live
from tests.live import LiveGateway

pytest.importorskip("pytriton", reason="the embedded Triton needs Python 3.11 or 3.12")

COUPLED = ("softmax", "cumulative", "first", "counted")
INDEPENDENT = ("linear", "texts")
CODE = Path(__file__).parent / "joining" / "model.py"
CALLERS = 12


def config(name: str, kind: str, batching: str, datatype: str, more: str = "") -> str:
    return f"""\
name: "{name}"
backend: "python"
max_batch_size: 8
input [ {{ name: "x", data_type: TYPE_{datatype}, dims: [ 3 ] }} ]
output [ {{ name: "y", data_type: TYPE_FP32, dims: [ 3 ] }} ]
instance_group [ {{ kind: KIND_CPU, count: 1 }} ]
parameters {{ key: "kind" value: {{ string_value: "{kind}" }} }}
{batching}
{more}
"""


def repository(at: Path) -> Path:
    joined = "dynamic_batching { }"
    made = {name: config(name, name, joined, "FP32") for name in COUPLED}
    made["linear"] = config("linear", "linear", joined, "FP32")
    made["texts"] = config("texts", "texts", joined, "STRING")
    made["word"] = config("word", "softmax", joined, "FP32")
    made["denied"] = config("denied", "linear", joined, "FP32")
    made["single"] = config("single", "softmax", "", "FP32")
    made["undeclared"] = config("undeclared", "linear", joined, "FP32")
    for name, text in made.items():
        (at / name / "1").mkdir(parents=True)
        (at / name / "config.pbtxt").write_text(text)
        shutil.copyfile(CODE, at / name / "1" / "model.py")
    return at


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    scratch = tmp_path_factory.mktemp("rows")
    document = live.settings(None, scratch, undeclared_models="onprem")
    document["endpoints"]["local"]["repository"] = str(repository(scratch / "models"))
    served: dict[str, Any] = {"served_by": [{"endpoint": "local"}], "max_batch": 8}
    names = (*COUPLED, *INDEPENDENT, "word", "denied", "single")
    document["models"] = {name: dict(served) for name in names}
    document["models"]["texts"]["text_inputs"] = ["x"]
    document["models"]["word"]["rows_independent"] = True
    document["models"]["denied"]["canary"] = False
    with live.serving(document, scratch) as serving:
        yield serving


def answer(gateway: LiveGateway, model: str, row: list[Any]) -> list[float]:
    kind = "FP32" if isinstance(row[0], float) else "BYTES"
    body = {"inputs": [{"name": "x", "datatype": kind, "shape": [1, 3], "data": row}]}
    answered = httpx.post(
        f"{gateway.http_url}/v2/models/{model}/infer", json=body,
        timeout=60, trust_env=False, verify=False,
        headers={"x-latency-budget-ms": "50000"},
    )  # fmt: skip
    assert answered.status_code == 200, answered.text
    found: list[float] = answered.json()["outputs"][0]["data"]
    return found


def statistics(gateway: LiveGateway, model: str) -> tuple[int, int]:
    """Rows and executions since the server started."""
    told = gateway.client.get(f"/v2/models/{model}/stats").json()["model_stats"][0]
    return int(told["inference_count"]), int(told["execution_count"])


def together(gateway: LiveGateway, model: str) -> tuple[list[list[float]], float]:
    """The answers to one row of a caller among others of many more, and the mean batch of all."""
    mine = [0.3, -1.0, 2.0]
    others = np.random.default_rng(4).normal(0, 2, (CALLERS, 3)).tolist()
    before = statistics(gateway, model)
    rows = [row for other in others for row in (mine, other)]
    with ThreadPoolExecutor(len(rows)) as callers:
        answers = list(callers.map(lambda row: answer(gateway, model, row), rows))
    after = statistics(gateway, model)
    mean = (after[0] - before[0]) / (after[1] - before[1])
    return answers[::2], mean


@pytest.mark.parametrize("model", COUPLED)
def test_a_row_has_one_answer_whoever_calls_beside_it(gateway: LiveGateway, model: str) -> None:
    alone = answer(gateway, model, [0.3, -1.0, 2.0])
    answers, mean = together(gateway, model)
    assert mean == 1.0
    assert all(found == alone for found in answers)


def test_without_the_trial_it_has_many(gateway: LiveGateway) -> None:
    """The same model where the settings say that its rows are independent: what was seen before."""
    answers, mean = together(gateway, "word")
    assert mean > 1.0
    assert len({tuple(found) for found in answers}) > 1


def test_calls_to_a_model_whose_rows_are_independent_are_joined(gateway: LiveGateway) -> None:
    answers, mean = together(gateway, "linear")
    assert mean > 1.0
    assert len({tuple(found) for found in answers}) == 1


def test_an_operator_sees_which_models_are_unbatched_and_why(gateway: LiveGateway) -> None:
    (local,) = gateway.client.get("/status").json()["endpoints"]
    unbatched = local["unbatched"]
    assert unbatched.keys() == {*COUPLED, "denied", "undeclared"}
    for model in COUPLED:
        assert unbatched[model].startswith("coupled: output y is not the same"), model
    assert unbatched["denied"].endswith("may be sent: canary: false")
    assert unbatched["undeclared"].endswith("may be sent: the settings do not name it")
    log = gateway.log_path.read_text()
    assert "one call at a time goes to softmax, which the server would join into batches" in log
    assert "its rows are coupled: output " in log
    metrics = gateway.metrics()
    for model, why in (("softmax", "coupled"), ("denied", "untried")):
        labels = f'endpoint="local",model="{model}",why="{why}"'
        assert f"spillway_model_unbatched{{{labels}}} 1.0" in metrics


@pytest.mark.parametrize("model", ["single", "denied", "undeclared"])
def test_what_is_not_joined_or_not_tried_is_served(gateway: LiveGateway, model: str) -> None:
    answers, mean = together(gateway, model)
    assert mean == 1.0
    assert len({tuple(found) for found in answers}) == 1


def test_texts_are_tried_with_strings_of_the_gateways_own(gateway: LiveGateway) -> None:
    rows = [["one", "two words", "x" * at] for at in range(16)]
    before = statistics(gateway, "texts")
    with ThreadPoolExecutor(len(rows)) as callers:
        answers = list(callers.map(lambda row: answer(gateway, "texts", row), rows))
    after = statistics(gateway, "texts")
    assert [found[2] for found in answers] == list(range(16))
    assert after[1] - before[1] < after[0] - before[0]


def requests(gateway: LiveGateway, model: str) -> int:
    """That the server has answered, whatever the rows of each."""
    told = gateway.client.get(f"/v2/models/{model}/stats").json()["model_stats"][0]
    return int(told["inference_stats"]["success"]["count"])


def over_grpc(gateway: LiveGateway, model: str, rows: list[list[Any]], call_id: str) -> list[bytes]:
    """The answer to each row of one call, in the bytes of its numbers."""
    kind, data = raw(rows)
    message = service_pb2.ModelInferRequest(model_name=model, id=call_id)
    message.inputs.add(name="x", datatype=kind, shape=[len(rows), 3])
    message.raw_input_contents.append(data)
    with grpc.insecure_channel(gateway.grpc_target) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        reply = stub.ModelInfer(message, timeout=50)
    assert (reply.id, list(reply.outputs[0].shape)) == (call_id, [len(rows), 3])
    return divided(reply.raw_output_contents[0])


def over_http(gateway: LiveGateway, model: str, rows: list[list[Any]], call_id: str) -> list[bytes]:
    """The same in binary."""
    kind, data = raw(rows)
    given: dict[str, Any] = {"name": "x", "datatype": kind, "shape": [len(rows), 3]}
    given["parameters"] = {"binary_data_size": len(data)}
    head = {"id": call_id, "inputs": [given], "parameters": {"binary_data_output": True}}
    text = json.dumps(head).encode()
    answered = httpx.post(
        f"{gateway.http_url}/v2/models/{model}/infer", content=text + data, timeout=60,
        trust_env=False, verify=False,
        headers={
            "x-latency-budget-ms": "50000",
            "inference-header-content-length": str(len(text)),
        },
    )  # fmt: skip
    assert answered.status_code == 200, answered.text
    length = int(answered.headers["inference-header-content-length"])
    reply = json.loads(answered.content[:length])
    assert (reply["id"], reply["outputs"][0]["shape"]) == (call_id, [len(rows), 3])
    return divided(answered.content[length:])


def raw(rows: list[list[Any]]) -> tuple[str, bytes]:
    if isinstance(rows[0][0], str):
        return "BYTES", join([text.encode() for row in rows for text in row])
    return "FP32", np.array(rows, np.float32).tobytes()


def divided(data: bytes) -> list[bytes]:
    return [data[at : at + 12] for at in range(0, len(data), 12)]


@pytest.mark.parametrize("model", INDEPENDENT)
def test_answers_are_equal_to_the_bit_whoever_calls_beside_them_and_how(
    gateway: LiveGateway, model: str
) -> None:
    """Calls of one to three rows over gRPC, and over HTTP in JSON and in binary, at once."""
    numbers = np.random.default_rng(5).normal(0, 2, (24, 3)).astype(np.float32)
    rows: list[list[Any]] = [
        [str(value) * 2 for value in row] if model == "texts" else [float(v) for v in row]
        for row in numbers
    ]
    alone = {str(row): over_grpc(gateway, model, [row], "alone")[0] for row in rows}
    before = requests(gateway, model)

    def caller(number: int) -> int:
        for at in range(number, number + 16):
            first = at % 24
            own = [rows[(first + more) % 24] for more in range(1 + number % 3)]
            if number % 3 == 2 and model == "linear":
                given = np.array(answer(gateway, model, own[0]), np.float32)
                found = [given.tobytes()]
            else:
                over = (over_grpc, over_http)[number % 2]
                found = over(gateway, model, own, f"{number}-{at}")
            assert found == [alone[str(row)] for row in own[: len(found)]]
        return 16

    with ThreadPoolExecutor(2 * CALLERS) as callers:
        calls = sum(callers.map(caller, range(2 * CALLERS)))
    assert requests(gateway, model) - before < calls
