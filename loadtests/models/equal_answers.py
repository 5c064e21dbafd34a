"""Whether an input has one answer, whoever calls beside it.

    python -m loadtests.models.equal_answers              # 1,000 inputs of each model, three times
    python -m loadtests.models.equal_answers --only fraud_score --callers 64

A real Triton answers each input alone. Then `--callers` at once ask a gateway in front of it for
all of them, in other orders, over gRPC and HTTP in turns. `equal` is the share of answers that are
the same to the bit; `off` is how far the furthest is, relative to the largest value of its output.
On processors a batch may be added up in another order than a row alone.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
import numpy as np
import uvloop
from rich.console import Console
from rich.table import Table

from gateway.core.reply import GrpcMessage, RestBody
from gateway.core.types import Tensor
from gateway.endpoints.batch_rows.row_trials import decoded
from gateway.models import declaration
from gateway.models.profiling.samples import requests
from gateway.protocols.oip import rest_reply
from gateway.protocols.oip.grpc import decode_response
from loadtests.http import Client
from loadtests.models.batching import BATCHED, MODELS, settings, triton
from loadtests.models.over_http import tensors_post
from tests.live import serving

Outputs = tuple[Tensor, ...]


@dataclass(slots=True)
class Tally:
    answers: int = 0
    equal: int = 0
    furthest: float = 0.0

    def observe(self, outputs: Outputs, alone: Outputs) -> None:
        self.answers += 1
        self.equal += [t.data for t in outputs] == [t.data for t in alone]
        for one, other in zip(outputs, alone, strict=True):
            assert (one.name, one.shape) == (other.name, other.shape)
            if one.data != other.data:
                values, wanted = (np.asarray(decoded(t), np.float64) for t in (one, other))
                apart = float(np.abs(values - wanted).max() / max(np.abs(wanted).max(), 1e-30))
                self.furthest = max(self.furthest, apart)


async def _over_http(client: Client, model: str, message: bytes) -> Outputs:
    answer = await client.post(*tensors_post(model, message))
    assert answer.status == 200, answer.body[:300]
    length = int(answer.headers["inference-header-content-length"])
    return rest_reply.decode_response(RestBody(answer.body, length)).outputs


async def _over_grpc(infer: Callable[[bytes], Awaitable[bytes]], message: bytes) -> Outputs:
    return decode_response(GrpcMessage(await infer(message))).outputs


async def measure(model: str, args: argparse.Namespace, scratch: Path) -> Tally:
    tally = Tally()
    declared = declaration.load(MODELS / model / declaration.FILE)
    messages = requests(declared, 1, 12, args.inputs)
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(triton(scratch, apart=False))
        document = settings(server, scratch)
        document["endpoints"]["gpu"]["url"] = f"http://127.0.0.1:{server.ports.http}"
        entering = serving(document, scratch)
        gateway = await asyncio.to_thread(stack.enter_context, entering)
        infer = []
        for address in (f"127.0.0.1:{server.ports.grpc}", gateway.grpc_target):
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(address))
            method: Any = channel.unary_unary  # its stubs ask for serialisers
            infer.append(method("/inference.GRPCInferenceService/ModelInfer"))
        client = await stack.enter_async_context(Client(gateway.http_url))
        alone = [await _over_grpc(infer[0], message) for message in messages]
        order = [number for _ in range(args.times) for number in range(args.inputs)]
        random.Random(args.seed).shuffle(order)
        left = iter(order)

        async def caller(over: int) -> None:
            for number in left:
                message = messages[number]
                answered = (
                    _over_http(client, model, message)
                    if over % 2
                    else _over_grpc(infer[1], message)
                )
                tally.observe(await answered, alone[number])

        await asyncio.gather(*(caller(at) for at in range(args.callers)))
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[*BATCHED], choices=BATCHED)
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--callers", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    table = Table("model", "answers", "equal", "off")
    for model in args.only:
        with tempfile.TemporaryDirectory() as scratch:
            tally = uvloop.run(measure(model, args, Path(scratch)))
        equal = f"{tally.equal / tally.answers:.4f}"
        table.add_row(model, str(tally.answers), equal, f"{tally.furthest:.1e}")
    Console().print(table)


if __name__ == "__main__":
    main()
