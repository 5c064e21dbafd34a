"""Services that infer over HTTP, by the Open Inference Protocol, as JSON and as raw tensors.

    locust -f loadtests/scenarios/oip_users.py --host http://127.0.0.1:8080

MODEL, TENSOR (an FP32 input), SHAPE (1,16) and API_KEY are of the environment.
"""

from __future__ import annotations

import json
import math
import os
import random
import struct

from locust import FastHttpUser, constant_throughput, task

MODEL = os.environ.get("MODEL", "echo")
TENSOR = os.environ.get("TENSOR", "INPUT")
SHAPE = [int(size) for size in os.environ.get("SHAPE", "1,16").split(",")]
HEADERS = {"authorization": f"Bearer {os.environ['API_KEY']}"} if "API_KEY" in os.environ else {}


def numbers() -> list[float]:
    return [random.random() for _ in range(math.prod(SHAPE))]


class Inferring(FastHttpUser):
    wait_time = constant_throughput(5)  # calls a second of each user, where answers are that quick

    @task(1)
    def infer_json(self) -> None:
        tensor = {"name": TENSOR, "datatype": "FP32", "shape": SHAPE, "data": numbers()}
        with self.client.post(
            f"/v2/models/{MODEL}/infer",
            json={"inputs": [tensor]},
            headers=HEADERS,
            name="infer, JSON",
            catch_response=True,
        ) as answer:
            if answer.status_code == 200 and "outputs" not in answer.text:
                answer.failure("an answer without outputs")

    @task(3)
    def infer_binary(self) -> None:
        raw = struct.pack(f"<{math.prod(SHAPE)}f", *numbers())
        size = {"binary_data_size": len(raw)}
        tensor = {"name": TENSOR, "datatype": "FP32", "shape": SHAPE, "parameters": size}
        head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
        told = {
            "content-type": "application/octet-stream",
            "inference-header-content-length": str(len(head)),
        }
        with self.client.post(
            f"/v2/models/{MODEL}/infer",
            data=head + raw,
            headers={**HEADERS, **told},
            name="infer, binary",
            catch_response=True,
        ) as answer:
            said = {name.lower() for name in answer.headers or {}}
            if answer.status_code == 200 and "inference-header-content-length" not in said:
                answer.failure("the answer holds no raw tensors")
