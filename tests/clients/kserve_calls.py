"""Calls of KServe's InferenceClient, in a process of their own.

KServe and tritonclient both register the symbols of `inference.GRPCInferenceService`, and protobuf
takes them once per process. Prints one JSON object: what each call gave.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import numpy as np
from kserve import (
    InferenceGRPCClient,
    InferenceRESTClient,
    InferInput,
    InferRequest,
    InferResponse,
    RESTConfig,
)

FIRST = np.arange(16, dtype=np.int32).reshape(1, 16)
SECOND = np.full((1, 16), 3, np.int32)


def request(binary: bool) -> InferRequest:
    inputs = []
    for name, values in (("INPUT0", FIRST), ("INPUT1", SECOND)):
        tensor = InferInput(name, list(values.shape), "INT32")
        tensor.set_data_from_numpy(values, binary_data=binary)
        inputs.append(tensor)
    return InferRequest(model_name="simple", infer_inputs=inputs)


def outputs(answer: InferResponse) -> dict[str, list[int]]:
    return {o.name: o.as_numpy().ravel().tolist() for o in answer.outputs}


async def rest(url: str) -> dict[str, Any]:
    client = InferenceRESTClient(RESTConfig(protocol="v2", retries=0, timeout=10))
    try:
        given: dict[str, Any] = {
            "live": await client.is_server_live(url),
            "ready": await client.is_server_ready(url),
            "model_ready": await client.is_model_ready(url, "simple"),
        }
        for kind in ("json", "binary"):
            answer = await client.infer(url, request(kind == "binary"), model_name="simple")
            given[kind] = outputs(answer)
        try:
            await client.infer(url, request(False), model_name="nonesuch")
        except Exception as exc:  # noqa: BLE001 - whatever the client raises is what we report
            given["unknown"] = str(exc)
        given |= await first_protocol(url)
        return given
    finally:
        await client.close()


async def first_protocol(url: str) -> dict[str, Any]:
    client = InferenceRESTClient(RESTConfig(protocol="v1", retries=0, timeout=10))
    try:
        row = {"INPUT0": FIRST[0].tolist(), "INPUT1": SECOND[0].tolist()}
        answer = await client.infer(url, {"instances": [row, row]}, model_name="simple")
        given = {
            "predictions": answer["predictions"],
            "first_ready": await client.is_model_ready(url, "simple"),
        }
        try:
            await client.explain(url, "simple", {"instances": [row]})
        except Exception as exc:  # noqa: BLE001 - whatever the client raises is what we report
            given["explained"] = str(exc)
        return given
    finally:
        await client.close()


async def grpc(target: str) -> dict[str, Any]:
    async with InferenceGRPCClient(target, retries=0, timeout=10) as client:
        given: dict[str, Any] = {
            "live": await client.is_server_live(),
            "ready": await client.is_server_ready(),
            "model_ready": await client.is_model_ready("simple"),
        }
        for kind in ("json", "binary"):
            given[kind] = outputs(await client.infer(request(kind == "binary")))
        unknown = request(False)
        unknown.model_name = "nonesuch"
        try:
            await client.infer(unknown)
        except Exception as exc:  # noqa: BLE001 - whatever the client raises is what we report
            given["unknown"] = str(exc)
        return given


if __name__ == "__main__":
    calls = {"rest": rest, "grpc": grpc}[sys.argv[1]]
    print(json.dumps(asyncio.run(calls(sys.argv[2]))))
