"""A canary fits its model, and has nothing in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2, service_pb2

from gateway.core.operations.chat import CHAT
from gateway.core.types import DocumentCall, TensorCall
from gateway.endpoints.health import canary
from gateway.protocols.oip.grpc import encode_request

MODELS = Path(__file__).parents[3] / "models"


def config(text: str) -> Any:
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def of(text: str) -> TensorCall:
    return canary.config_canary(config(text))


def test_free_dimensions_become_one_and_numbers_zero() -> None:
    (tensor,) = of(
        'max_batch_size: 8 input { name: "x" data_type: TYPE_FP32 dims: [-1, 3] }'
    ).inputs
    assert (tensor.datatype, tensor.shape, tensor.data) == ("FP32", (1, 1, 3), bytes(12))


def test_a_model_without_a_batch_dimension_gets_none() -> None:
    (tensor,) = of('input { name: "x" data_type: TYPE_INT64 dims: [2] }').inputs
    assert (tensor.shape, tensor.data) == ((2,), bytes(16))


def test_what_triton_reshapes_is_sent_as_callers_send_it() -> None:
    (tensor,) = of("""max_batch_size: 8 input {
        name: "x" data_type: TYPE_FP32 dims: [4] reshape { shape: [2, 2] } }""").inputs
    assert tensor.shape == (1, 4)


def test_texts_are_empty() -> None:
    (tensor,) = of('input { name: "x" data_type: TYPE_STRING dims: [2] }').inputs
    assert (tensor.datatype, tensor.data) == ("BYTES", bytes(8)), "two lengths of zero"


def test_what_is_optional_is_left_out() -> None:
    call = of('input { name: "x" data_type: TYPE_BOOL dims: [1] optional: true }')
    assert call.inputs == ()


def test_a_generation_is_of_one_token() -> None:
    (tensor,) = of('input { name: "max_tokens" data_type: TYPE_INT32 dims: [1] }').inputs
    assert int.from_bytes(tensor.data, "little") == 1
    call = canary.task_canary("generate")
    assert isinstance(call, DocumentCall)
    assert (call.operation, call.document["max_tokens"]) == (CHAT, 1)


def test_a_sequence_begins_and_ends_with_it() -> None:
    text = (MODELS / "simple_sequence" / "config.pbtxt").read_text()
    parameters = of(text).parameters
    assert parameters["sequence_start"] is parameters["sequence_end"] is True
    assert isinstance(parameters["sequence_id"], int)
    named = """sequence_batching { control_input {
        name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } } }"""
    assert isinstance(of(named).parameters["sequence_id"], str)


@pytest.mark.parametrize("path", sorted(MODELS.glob("*/config.pbtxt")), ids=lambda p: p.parent.name)
def test_every_model_that_ships_has_a_canary_that_can_be_sent(path: Path) -> None:
    found = config(path.read_text())
    call = canary.config_canary(found)
    assert b"".join(encode_request(call, found.name))
    assert {t.name for t in call.inputs} == {i.name for i in found.input if not i.optional}
    assert call.streamed is found.model_transaction_policy.decoupled


def test_metadata_alone_is_enough() -> None:
    metadata = service_pb2.ModelMetadataResponse(
        inputs=[
            service_pb2.ModelMetadataResponse.TensorMetadata(
                name="text", datatype="BYTES", shape=[-1, 1]
            )
        ]
    )
    (tensor,) = canary.metadata_canary(metadata).inputs
    assert (tensor.name, tensor.shape, tensor.data) == ("text", (1, 1), bytes(4))
