"""The names model on the other side of a door: rows go over, logits come back, checked.

One `RemoteModel` belongs to one call and lives as long as it. It blocks the thread that reads, and
never for longer than the call has.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from concurrent.futures import CancelledError, Future
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gateway.classify import ScanFailed, ScanLate
from gateway.classify.names.model.labels import LABELS
from gateway.core import ambient
from gateway.core.deadline import Deadline
from gateway.core.errors import DeadlineExceeded, GatewayError
from gateway.core.reply import (
    Frame,
    GrpcMessage,
    ReplyStream,
    RestBody,
)
from gateway.core.types import (
    ONPREM_ONLY,
    InferenceRequest,
    RequestedOutput,
    ServedModel,
    Tensor,
    TensorCall,
    WireProtocol,
)
from gateway.protocols.oip import grpc, rest_reply
from gateway.protocols.oip.reply import TensorReply

INPUT, OUTPUT = "rows", "logits"
MOST_WINDOWS = 32  # of one request; the model's largest batch is 64
_GRACE_S = 0.5  # past the deadline, for the loop to say that it passed

Rows = npt.NDArray[np.int32]
Logits = npt.NDArray[np.float32]


class Door(Protocol):
    """The way to an endpoint of zone onprem."""

    def infer(self, request: InferenceRequest, served: ServedModel) -> Awaitable[ReplyStream]: ...


class RemoteModel:
    """A `TaggerModel`. Raises ScanLate, or ScanFailed for all else that an endpoint can do."""

    def __init__(
        self, door: Door, served: ServedModel, deadline: Deadline, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._door = door
        self._served = served
        self._deadline = deadline
        self._loop = loop
        self._pending: list[Future[Logits]] = []
        self._left = False

    def __call__(self, rows: Rows) -> Logits:
        parts = [rows[at : at + MOST_WINDOWS] for at in range(0, len(rows), MOST_WINDOWS)]
        pending = [asyncio.run_coroutine_threadsafe(self._ask(part), self._loop) for part in parts]
        self._pending += pending
        if self._left:  # only now: whoever leaves sees either the flag obeyed or the futures
            self.leave()
        try:
            waits_s = max(0.0, self._deadline.remaining_s()) + _GRACE_S
            return np.concatenate([one.result(waits_s) for one in pending])
        except CancelledError:
            raise ScanFailed("the call has left") from None
        except TimeoutError:
            raise ScanLate("the endpoint took too long") from None
        finally:
            for one in pending:
                one.cancel()

    def go_on(self) -> None:
        if self._deadline.passed():
            raise ScanLate("the names were not read in time")

    def leave(self) -> None:
        """Nobody waits for it any more: the server is told, and the thread goes free."""
        self._left = True
        for one in self._pending:
            one.cancel()

    async def _ask(self, rows: Rows) -> Logits:
        request = InferenceRequest(
            id=ambient.new_id(),
            protocol=WireProtocol.KSERVE_GRPC,
            tenant="",
            model=self._served.model,
            payload=TensorCall(
                (Tensor(INPUT, "INT32", rows.shape, np.ascontiguousarray(rows, "<i4").tobytes()),),
                (RequestedOutput(OUTPUT),),
            ),
            deadline=self._deadline,
            zones=ONPREM_ONLY,
        )
        try:
            async with asyncio.timeout(max(0.0, self._deadline.remaining_s())):
                reply = decoded(await self._first_frame(request))
        except (TimeoutError, DeadlineExceeded):
            raise ScanLate("the endpoint took too long") from None
        except GatewayError as exc:
            raise ScanFailed(exc.reason) from None  # its message may be the server's own words
        except ScanFailed:
            raise
        except Exception as exc:  # noqa: BLE001 - whatever goes wrong there, the call stays (C1)
            raise ScanFailed(type(exc).__name__) from None
        return read_logits(reply, (len(rows), rows.shape[1], len(LABELS)))

    async def _first_frame(self, request: InferenceRequest) -> Frame:
        frames = await self._door.infer(request, self._served)
        async with contextlib.aclosing(frames):
            async for frame in frames:
                return frame
        raise ScanFailed("the endpoint did not answer")


def decoded(frame: Frame) -> TensorReply:
    if isinstance(frame, GrpcMessage):
        return grpc.decode_response(frame)
    if isinstance(frame, RestBody):
        return rest_reply.decode_response(frame)
    raise ScanFailed("the endpoint answered with something that is no tensor")


def read_logits(reply: TensorReply, shape: tuple[int, int, int]) -> Logits:
    """Of exactly the rows that were asked for, and numbers; else what came is no answer."""
    for tensor in reply.outputs:
        if tensor.name == OUTPUT and tensor.datatype == "FP32" and tensor.shape == shape:
            logits: Logits = np.frombuffer(tensor.data, "<f4").reshape(shape)
            if np.isfinite(logits).all():
                return logits
    raise ScanFailed("the endpoint's answer does not fit the question")
