"""A fake Triton that serves text models, below the OpenAI API on it."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Sequence
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2, service_pb2

from gateway.core.deadline import Deadline
from gateway.core.operations.spec import OperationSpec
from gateway.core.reply import Frame, GrpcMessage, JsonBody, ReplyStream, ServerEvent
from gateway.core.types import (
    DocumentCall,
    InferenceRequest,
    JsonDocument,
    ServedModel,
    Tensor,
    TensorCall,
    WireProtocol,
)
from gateway.endpoints.connectors.triton.openai import OpenAiOnTriton
from gateway.endpoints.connectors.triton.text_tensors import TextModel
from gateway.protocols.oip.datatypes import join
from tests.unit.grpc_rig import Frames

ID = "0a0b0c0d-0000-4000-8000-000000000001"
VLLM = """
max_batch_size: 0
input { name: "text_input" data_type: TYPE_STRING dims: 1 }
input { name: "stream" data_type: TYPE_BOOL dims: 1 optional: true }
input { name: "sampling_parameters" data_type: TYPE_STRING dims: 1 optional: true }
input { name: "exclude_input_in_output" data_type: TYPE_BOOL dims: 1 optional: true }
input { name: "return_finish_reason" data_type: TYPE_BOOL dims: 1 optional: true }
input { name: "return_num_input_tokens" data_type: TYPE_BOOL dims: 1 optional: true }
input { name: "return_num_output_tokens" data_type: TYPE_BOOL dims: 1 optional: true }
output { name: "text_output" data_type: TYPE_STRING dims: -1 }
output { name: "finish_reason" data_type: TYPE_STRING dims: -1 }
output { name: "num_input_tokens" data_type: TYPE_UINT32 dims: 1 }
output { name: "num_output_tokens" data_type: TYPE_UINT32 dims: -1 }
model_transaction_policy { decoupled: true }
"""
TRT_LLM = """
max_batch_size: 8
input { name: "text_input" data_type: TYPE_STRING dims: 1 }
input { name: "max_tokens" data_type: TYPE_INT32 dims: 1 }
input { name: "stop_words" data_type: TYPE_STRING dims: -1 optional: true }
input { name: "temperature" data_type: TYPE_FP32 dims: 1 optional: true }
input { name: "random_seed" data_type: TYPE_UINT64 dims: 1 optional: true }
input { name: "stream" data_type: TYPE_BOOL dims: 1 optional: true }
output { name: "text_output" data_type: TYPE_STRING dims: -1 }
"""
EMBEDDER = """
max_batch_size: 3
input { name: "text" data_type: TYPE_STRING dims: 1 }
output { name: "embedding" data_type: TYPE_FP32 dims: 2 }
"""
COUNTING = EMBEDDER + 'output { name: "num_input_tokens" data_type: TYPE_INT32 dims: 1 }'
USER = [{"role": "user", "content": "hi"}]


def config(text: str) -> Any:
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def model(text: str) -> TextModel:
    return TextModel.from_config(config(text))


def named(call: TensorCall) -> dict[str, Tensor]:
    return {tensor.name: tensor for tensor in call.inputs}


def text_response(text: str, reason: str = "", tokens: int | None = None) -> bytes:
    message = service_pb2.ModelInferResponse(model_name="m", model_version="1")

    def put(name: str, datatype: str, data: bytes) -> None:
        message.outputs.add(name=name, datatype=datatype, shape=[1])
        message.raw_output_contents.append(data)

    put("text_output", "BYTES", join([text.encode()]))
    if reason:
        put("finish_reason", "BYTES", join([reason.encode()]))
    if tokens is not None:
        put("num_input_tokens", "UINT32", struct.pack("<I", 3))
        put("num_output_tokens", "UINT32", struct.pack("<I", tokens))
    return bytes(message.SerializeToString())


class FakeServer:
    """Answers every tensor call with the next of its scripts."""

    def __init__(self, kind: str, *scripts: Sequence[bytes | Exception]) -> None:
        self._config = config(kind)
        self._scripts = list(scripts)
        self.calls: list[TensorCall] = []
        self.replies: list[Frames] = []
        self.asked = 0

    async def open(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        assert isinstance(request.payload, TensorCall)
        self.calls.append(request.payload)
        script = self._scripts.pop(0)

        async def frames() -> AsyncIterator[Frame]:
            for item in script:
                if isinstance(item, Exception):
                    raise item
                await asyncio.sleep(0)
                yield GrpcMessage(item)

        self.replies.append(Frames(frames()))
        return self.replies[-1]

    async def grpc(self, method: str, message: bytes, timeout_s: float) -> bytes:
        assert method == "ModelConfig"
        self.asked += 1
        return bytes(service_pb2.ModelConfigResponse(config=self._config).SerializeToString())

    async def ready(self) -> bool:
        return True

    async def aclose(self) -> None:
        pass


async def begin(
    server: FakeServer, operation: OperationSpec, document: JsonDocument, streamed: bool = False
) -> ReplyStream:
    request = InferenceRequest(
        id=ID,
        protocol=WireProtocol.OPENAI,
        tenant="t",
        model="called",
        payload=DocumentCall(operation, document, streamed),
        deadline=Deadline.after(5),
    )
    connector = OpenAiOnTriton(server, clock=lambda: 1.0, now=lambda: 1_700_000_000.0)
    return await connector.open(request, ServedModel("there"))


async def whole(server: FakeServer, operation: OperationSpec, document: JsonDocument) -> Any:
    (frame,) = [f async for f in await begin(server, operation, document)]
    assert isinstance(frame, JsonBody)
    return json.loads(frame.body)


async def events(server: FakeServer, operation: OperationSpec, document: JsonDocument) -> list[Any]:
    stream = await begin(server, operation, document, streamed=True)
    found = []
    async for frame in stream:
        assert isinstance(frame, ServerEvent)
        document = json.loads(frame.data)
        assert frame.event == document.get("type", "")
        found.append(document)
    await stream.aclose()
    assert all(r.closed.is_set() for r in server.replies)
    return found
