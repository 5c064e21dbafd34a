"""Services that infer over gRPC, by the Open Inference Protocol.

    locust -f loadtests/scenarios/grpc_users.py --host 127.0.0.1:8081

MODEL, TENSOR (an FP32 input), SHAPE (1,16) and API_KEY are of the environment. Locust needs
`tritonclient[grpc]` beside it; it brings the protocol's messages.
"""

from __future__ import annotations

import math
import os
import random
import struct
import time

import grpc
import grpc.experimental.gevent as grpc_gevent
from locust import User, constant_throughput, task
from tritonclient.grpc import service_pb2, service_pb2_grpc

grpc_gevent.init_gevent()

MODEL = os.environ.get("MODEL", "echo")
TENSOR = os.environ.get("TENSOR", "INPUT")
SHAPE = [int(size) for size in os.environ.get("SHAPE", "1,16").split(",")]
METADATA = [("authorization", f"Bearer {os.environ['API_KEY']}")] if "API_KEY" in os.environ else []
BUDGET_S = 10.0


class InferringByGrpc(User):
    wait_time = constant_throughput(5)

    def on_start(self) -> None:
        options = [("grpc.enable_http_proxy", 0)]
        self._channel = grpc.insecure_channel(self.host, options=options)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)

    def on_stop(self) -> None:
        self._channel.close()

    @task
    def infer(self) -> None:
        request = service_pb2.ModelInferRequest(model_name=MODEL)
        request.inputs.add(name=TENSOR, datatype="FP32").shape.extend(SHAPE)
        count = math.prod(SHAPE)
        request.raw_input_contents.append(
            struct.pack(f"<{count}f", *(random.random() for _ in range(count)))
        )
        began_s, failure, size = time.perf_counter(), None, 0
        try:
            answer = self._stub.ModelInfer(request, metadata=METADATA, timeout=BUDGET_S)
            size = answer.ByteSize()
        except grpc.RpcError as exc:
            failure = exc
        self.environment.events.request.fire(
            request_type="gRPC",
            name="ModelInfer",
            response_time=(time.perf_counter() - began_s) * 1e3,
            response_length=size,
            exception=failure,
        )
