"""ModelStreamInfer: one stream, many calls.

Each message is a call of its own through the pipeline. Calls run side by side, a bounded number of
them; beyond it the stream is not read. What keeps an order is what keeps one on Triton:

* calls of one sequence run strictly one after the other;
* calls that have a single response are answered in the order in which they came, whereas the
  responses of decoupled models go out as they come.

A call that fails says so in the stream, which goes on. One writer sends everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from tritonclient.grpc import service_pb2

from gateway.core.deferred_error import DeferredError, released
from gateway.core.errors import AnswersFull, GatewayError, ModelFailed
from gateway.core.held_bytes import UNCOUNTED_BYTES, AnswerShare
from gateway.core.reply import Frame, Handled, Placement
from gateway.core.types import InferenceRequest, TensorCall, WireProtocol
from gateway.protocols.oip.grpc import decode_request
from gateway.protocols.oip.stream_frames import StreamFrame
from gateway.server import Services, intake
from gateway.server.grpc.calls import (
    GrpcCallHead,
    answer_bytes,
    bounded,
    infer_request,
    parse,
    too_late,
    unexpected,
)

MAX_IN_FLIGHT = 64
_MAX_UNSENT = 16  # responses; a caller that does not read stops what produces them

_FINAL = "triton_final_response"
_Key = tuple[str, int | str]


@dataclass(eq=False, slots=True)
class _Call:
    """One message of the stream."""

    id: str
    earlier: tuple[asyncio.Event, ...]  # calls that came before and may have to answer before
    after: asyncio.Event | None  # the call before it in its sequence
    in_order: bool | None = None  # has a single response; None while nobody knows
    settled: asyncio.Event = field(default_factory=asyncio.Event)  # it holds nobody up any more
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    ordered_bytes: int = 0  # of responses that wait for its end, but for the last of them


class StreamSession:
    def __init__(self, services: Callable[[], Services], head: GrpcCallHead) -> None:
        """`services`: those in use, asked once for each message."""
        self._services = services
        self._head = head
        self._room = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._unsent: asyncio.Queue[_Unsent | None] = asyncio.Queue(_MAX_UNSENT)
        self._unsettled: dict[_Call, None] = {}  # in the order in which they came
        self._last_by_key: dict[_Key, asyncio.Event] = {}
        self._reading: asyncio.Task[None] | None = None
        self.placement: Placement | None = None  # of the last call
        self.drained = False

    async def run(self, messages: AsyncIterator[bytes]) -> None:
        """Until the caller has half-closed and everything in flight is answered. Cancelling it
        closes all of that."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._serve(messages))
            while (unsent := await self._unsent.get()) is not None:
                await self._head.context.write(unsent.wire)
                unsent.written.set()

    def drain(self) -> None:
        """Finish what is in flight and read no more."""
        self.drained = True
        if self._reading is not None:
            self._reading.cancel()

    async def _serve(self, messages: AsyncIterator[bytes]) -> None:
        """A task keeps what it fails by, whose traceback must have no frame of the group's: that
        has the task in turn."""
        failed: DeferredError | None = None
        try:
            await self._serve_all(messages)
        except asyncio.CancelledError as left:
            released(left)  # guard: A10.stream-reader -> raise
        except BaseExceptionGroup as broken:
            released(broken)  # guard: A10.group-frames
            failed = DeferredError(broken)
        self._reading = None
        if failed is not None:
            raise failed.again()

    async def _serve_all(self, messages: AsyncIterator[bytes]) -> None:
        async with asyncio.TaskGroup() as calls:
            self._reading = calls.create_task(self._read(messages, calls))
        await self._unsent.put(None)

    async def _read(self, messages: AsyncIterator[bytes], calls: asyncio.TaskGroup) -> None:
        with suppress(asyncio.CancelledError):  # as above
            await self._room.acquire()
            async for raw in messages:
                # guard: O2.stream-newest -> services = self.__dict__.setdefault('first',
                #   self._services())
                services = self._services()
                request, call = await self._accepted(services, raw)
                if request is not None:
                    calls.create_task(self._answer(services, request, call))
                    await self._room.acquire()

    async def _accepted(
        self, services: Services, raw: bytes
    ) -> tuple[InferenceRequest | None, _Call]:
        given = ""
        request = None
        failure: GatewayError | None = None
        try:
            message = await infer_request(raw)
            given = message.id
            request = self._request(services, message)
        except GatewayError as error:
            # guard: A10.unread-message error.with_traceback(None) -> error
            failure = error.with_traceback(None)  # or it would have this frame, which has it
        except Exception as exc:  # noqa: BLE001 - a front's: the caller must learn of it
            failure = unexpected(exc)
        call = self._enter(given, request)
        if failure is not None:
            await self._put_error(call, failure)
            self._leave(call)
        return request, call

    def _request(self, services: Services, message: object) -> InferenceRequest:
        payload = decode_request(message, streamed=True)
        # guard: B6.stream-key-check -> caller = self._caller if hasattr(self, '_caller') else
        #   setattr(self, '_caller', self._head.caller(services)) or self._caller
        caller = self._head.caller(services)  # for each call: a key may be revoked meanwhile
        return intake.build(
            services,
            intake.within(self._head.arrival, services),
            caller,
            self._head.headers,
            WireProtocol.KSERVE_GRPC,
            services.catalog.find(caller.named(message.model_name)),  # type: ignore[attr-defined]
            payload,
            self._head.remaining_s(),
        )

    def _enter(self, given: str, request: InferenceRequest | None) -> _Call:
        key = _sequence(request)
        call = _Call(
            given,
            earlier=tuple(other.settled for other in self._unsettled),
            after=None if key is None else self._last_by_key.get(key),
        )
        if key is not None:
            self._last_by_key[key] = call.ended
        self._unsettled[call] = None
        return call

    def _leave(self, call: _Call) -> None:
        self._settle(call)
        call.ended.set()

    def _settle(self, call: _Call) -> None:
        self._unsettled.pop(call, None)
        call.settled.set()

    async def _answer(self, services: Services, request: InferenceRequest, call: _Call) -> None:
        try:
            with services.held:
                if call.after is not None:
                    await call.after.wait()
                await self._infer(services, request, call)
        except GatewayError as error:
            await self._put_error(call, error)
        except TimeoutError:
            await self._put_error(call, too_late())
        except asyncio.CancelledError:
            # guard: A10.stream-call -> raise
            pass  # as above
        except Exception as exc:  # noqa: BLE001 - a front's: the other calls go on
            await self._put_error(call, unexpected(exc))
        finally:
            key = _sequence(request)
            if key is not None and self._last_by_key.get(key) is call.ended:
                del self._last_by_key[key]
            self._leave(call)
            self._room.release()
            if request.held is not None:
                request.held.close()

    async def _infer(self, services: Services, request: InferenceRequest, call: _Call) -> None:
        with bounded(request.deadline.remaining_s()):
            held: list[StreamFrame] = []

            async def put(frame: Frame) -> None:
                response = StreamFrame(await answer_bytes(frame))
                await self._put(call, response, held, request.held)

            reply = await services.handle(request)
            try:
                self.placement = reply.placement
                await reply.frames.deliver(Handled(put))
            except GatewayError:
                await self._send_held(call, held)
                raise
            finally:
                await asyncio.shield(reply.frames.aclose())  # guard: A3.grpc-stream-close
            await self._send_held(call, held)

    async def _put(
        self, call: _Call, frame: StreamFrame, held: list[StreamFrame], share: AnswerShare | None
    ) -> None:
        """Raises AnswersFull."""
        if call.in_order is None:
            call.in_order = _is_final(frame.response)
            if not call.in_order:
                self._settle(call)
        if call.in_order:  # while it waits for others, they may wait for its place at the server
            if held and share is not None:  # who gave the last one counts it
                call.ordered_bytes += len(held[-1].response)
                if not share.hold(call, call.ordered_bytes):  # guard: A9.ordered-answers
                    raise AnswersFull
            held.append(frame)  # guard: A8.ordered-answers -> await self._send(call, frame)
        else:
            await self._send(call, frame)

    async def _send_held(self, call: _Call, held: list[StreamFrame]) -> None:
        for frame in held:
            await self._send(call, frame)

    async def _put_error(self, call: _Call, error: GatewayError) -> None:
        call.in_order = call.in_order is not False
        self._services().on_error(WireProtocol.KSERVE_GRPC.value, error.reason)
        response = error.response if isinstance(error, ModelFailed) else None
        if response is None:
            response = service_pb2.ModelInferResponse(id=call.id).SerializeToString()
        # guard: A1.stream-refusal -> await self._send(call, StreamFrame(response, 'x'))
        await self._send(call, StreamFrame(response, error.message or error.reason))

    async def _send(self, call: _Call, frame: StreamFrame) -> None:
        if call.in_order:
            for other in call.earlier:
                await other.wait()
        unsent = _Unsent(frame.encode())
        await self._unsent.put(unsent)
        if len(unsent.wire) > UNCOUNTED_BYTES:  # its call counts it for as long
            await unsent.written.wait()


@dataclass(frozen=True, slots=True)
class _Unsent:
    """A response that waits for those before it to be written."""

    wire: bytes
    written: asyncio.Event = field(default_factory=asyncio.Event)


def _sequence(request: InferenceRequest | None) -> _Key | None:
    if request is None or not isinstance(request.payload, TensorCall):
        return None
    sequence = request.payload.sequence
    return None if sequence is None else (request.model, sequence)


def _is_final(response: bytes) -> bool:
    """Whether a call's first response is its only one. Servers without that parameter have no
    decoupled models."""
    message = parse(service_pb2.ModelInferResponse, response)
    return _FINAL not in message.parameters or bool(message.parameters[_FINAL].bool_param)
