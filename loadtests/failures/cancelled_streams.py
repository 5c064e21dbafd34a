"""How often the embedded Triton crashes when callers leave streamed calls.

    python -m loadtests.failures.cancelled_streams --seconds 30 --callers 4

Callers open `ModelStreamInfer` at the server itself, read the first of 60 responses that come 1 ms
apart, and cancel the call 0 to 30 ms later. Counted are the cancelled calls and the times that the
server ended by itself and was started again. Triton 2.51 has a race there (server#8034), which
2.57 does not have.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import struct
from dataclasses import asdict, dataclass
from pathlib import Path

import grpc
import grpc.aio
from tritonclient.grpc import service_pb2, service_pb2_grpc

from gateway.core import ambient
from gateway.endpoints.triton.server.options import TritonOptions
from gateway.endpoints.triton.server.server import TritonServer

_REPOSITORY = Path(__file__).parents[2] / "models"
_RESPONSES = 60
_LATEST_S = 0.03  # after the first response


@dataclass(slots=True)
class Cancellations:
    cancelled: int = 0
    unanswered: int = 0  # the server was not there
    crashes: int = 0


def _request() -> service_pb2.ModelInferRequest:
    message = service_pb2.ModelInferRequest(model_name="repeat_int32", id="r")
    for name, datatype, data in (
        ("IN", "INT32", struct.pack(f"<{_RESPONSES}i", *range(_RESPONSES))),
        ("DELAY", "UINT32", struct.pack(f"<{_RESPONSES}I", *[1] * _RESPONSES)),
        ("WAIT", "UINT32", bytes(4)),
    ):
        message.inputs.add(name=name, datatype=datatype, shape=[len(data) // 4])
        message.raw_input_contents.append(data)
    return message


async def _leave_streams(
    stub: service_pb2_grpc.GRPCInferenceServiceStub,
    end_s: float,
    chance: random.Random,
    counts: Cancellations,
) -> None:
    while ambient.monotonic_s() < end_s:
        call = stub.ModelStreamInfer()
        try:
            await call.write(_request())
            response = await call.read()
        except grpc.aio.AioRpcError:
            counts.unanswered += 1
            await asyncio.sleep(0.5)
            continue
        if response.error_message:
            raise SystemExit(f"Triton refuses the call: {response.error_message}")
        await asyncio.sleep(chance.uniform(0.0, _LATEST_S))
        call.cancel()
        counts.cancelled += 1


async def measure(seconds: float, callers: int, seed: int) -> Cancellations:
    options = TritonOptions(repositories=(_REPOSITORY,), models=("repeat_int32",))
    counts, chance = Cancellations(), random.Random(seed)
    async with (
        TritonServer(options) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.ports.grpc}") as channel,
    ):
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        end_s = ambient.monotonic_s() + seconds
        async with asyncio.TaskGroup() as group:
            for _ in range(callers):
                group.create_task(_leave_streams(stub, end_s, chance, counts))
        counts.crashes = server.restarts
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--callers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    counts = asyncio.run(measure(chosen.seconds, chosen.callers, chosen.seed))
    print(json.dumps(asdict(counts)))


if __name__ == "__main__":
    main()
