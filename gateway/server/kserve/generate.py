"""Triton's generate extension: `/v2/models/NAME/generate` and `generate_stream`.

A call is an object of values by the names of inputs, here or within `parameters`; what is no input
is a parameter of the request. It becomes a call of tensors, by the metadata of the model, so that
any server of the protocol answers it, read and placed as all of them are. The answer has the
outputs by their names: one object, or an event for each of the model's answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

from gateway.core.errors import GatewayError, InternalError, MalformedBody, NotOffered
from gateway.core.reply import Frame, FrameSource, Handled, InferenceReply, Receiver
from gateway.core.types import AT_ONCE_BYTES, InferenceRequest, Tensor, TensorCall, WireProtocol
from gateway.protocols import strictjson
from gateway.protocols.http import ClientLeft
from gateway.protocols.http.exchange import HttpExchange
from gateway.protocols.oip import rest
from gateway.protocols.oip.datatypes import label
from gateway.protocols.strictjson import JsonBounds
from gateway.server import Services, intake
from gateway.server.http import Call, RequestHead
from gateway.server.infer_path import infer_path
from gateway.server.intake import RequestContext
from gateway.server.kserve import tensor_values
from gateway.server.kserve.inspection import checked_version, known
from gateway.server.kserve.json_body import check_json
from gateway.server.kserve.model_tensors import ModelTensors, ModelTensorsCache

_log = logging.getLogger(__name__)

_WHOLE, _STREAMED = "/generate", "/generate_stream"
_FINAL = "triton_final_response"
_EVENTS = (
    "content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
    "x-accel-buffering: no\r\n"
)


class Generating:
    def __init__(self, services: Services) -> None:
        self._services, self._tensors = services, ModelTensorsCache(services.inspection)
        self._bounds = intake.json_bounds(services.limits)

    def call(self, route: str) -> Call | None:
        """`/v2/models/NAME[/versions/VERSION]/generate`, or `generate_stream`."""
        for suffix in (_WHOLE, _STREAMED):
            if (parts := infer_path(route, suffix)) is not None:
                return lambda exchange: _GenerateHead(
                    self._services, self._tensors, self._bounds, *parts, suffix, exchange
                )
        return None


class _GenerateHead(RequestHead):
    __slots__ = ("_bounds", "_name", "_streamed", "_tensors", "_version")

    def __init__(
        self,
        services: Services,
        tensors: ModelTensorsCache,
        bounds: JsonBounds,
        name: str,
        version: str,
        suffix: str,
        exchange: HttpExchange,
    ) -> None:
        """Raises GatewayError."""
        super().__init__(exchange, services)
        self._tensors, self._bounds = tensors, bounds
        known(services, self.caller, name)
        self._name, self._version = name, checked_version(version)
        self._streamed = suffix == _STREAMED
        check_json(exchange)

    def build_request(self, body: bytes, arrival: RequestContext) -> Awaitable[InferenceRequest]:
        return self._build(body, arrival)

    async def _build(self, body: bytes, arrival: RequestContext) -> InferenceRequest:
        model = known(self.services, self.caller, self._name)
        tensors = await self._tensors.find(model.name, self._version)
        if len(body) > AT_ONCE_BYTES:
            call = await asyncio.to_thread(self._call, body, tensors)
        else:
            call = self._call(body, tensors)
        return self.terms(WireProtocol.KSERVE_REST, model).request(arrival, call)

    def _call(self, body: bytes, tensors: ModelTensors) -> TensorCall:
        depth = self.services.limits.max_json_depth
        document = strictjson.load_object(body, depth, self._bounds)
        call = read_call(document, tensors)
        streamed = self._streamed or tensors.decoupled
        return replace(call, version=self._version, streamed=streamed)

    def answer(
        self, exchange: HttpExchange, request: InferenceRequest, reply: InferenceReply
    ) -> Awaitable[None]:
        lines = intake.placement_lines(request.id, request.traceparent, reply.placement)
        call = request.payload
        assert isinstance(call, TensorCall)
        if self._streamed:
            return exchange.stream(200, lines + _EVENTS, GeneratedEvents(reply.frames, call.id))
        return _answer_whole(exchange, lines, reply.frames, call.id)


def read_call(document: dict[str, Any], tensors: ModelTensors) -> TensorCall:
    """Raises MalformedBody, NotOffered, BodyTooLarge."""
    call_id = document.pop("id", "")
    if not isinstance(call_id, str):
        raise MalformedBody("id: must be a string")
    more = document.pop("parameters", {})
    if not isinstance(more, dict):
        raise MalformedBody("parameters: must be an object")
    if not more.keys().isdisjoint(document):  # guard: S17.generate-names
        raise MalformedBody("parameters: has a name that stands beside it, too")
    inputs: list[Tensor] = []
    parameters: dict[str, Any] = {}
    for name, value in (*document.items(), *more.items()):
        shape = tensors.inputs.get(name)
        if shape is None:
            parameters[name] = value
        elif isinstance(value, list) and any(isinstance(each, list) for each in value):
            raise MalformedBody(f"{label('input', 0, name)}: must be a value or a list of values")
        else:
            inputs.append(tensor_values.tensor(name, value, shape, 1))
    return TensorCall(
        tuple(inputs), parameters=rest.parameters(parameters, "the request"), id=call_id
    )


def written(frame: Frame, call_id: str) -> bytes:
    """One answer of a model as an object of values; nothing for one without outputs."""
    reply = tensor_values.reply(frame)
    if not reply.outputs:
        return b""
    document: dict[str, Any] = {"id": call_id} if call_id else {}
    document |= {name: value for name, value in reply.parameters.items() if name != _FINAL}
    document |= {"model_name": reply.model, "model_version": reply.version}
    fields = [strictjson.dumps(document)[1:-1]]
    for output in reply.outputs:
        text, count = tensor_values.json_text(output)
        value = text.removeprefix(b"[").removesuffix(b"]") if count == 1 else text
        fields.append(b"%b:%b" % (strictjson.dumps(output.name), value))
    return b"{%b}" % b",".join(fields)


async def _written(frame: Frame, call_id: str) -> bytes:
    if tensor_values.size(frame) > AT_ONCE_BYTES:
        return await asyncio.to_thread(written, frame, call_id)
    return written(frame, call_id)


async def _answer_whole(
    exchange: HttpExchange, lines: str, frames: FrameSource, call_id: str
) -> None:
    answers: list[bytes] = []

    async def put(frame: Frame) -> None:
        if answer := await _written(frame, call_id):
            answers.append(answer)
        if len(answers) > 1:
            raise NotOffered(
                "generate expects the model to give one answer; use generate_stream for this model"
            )

    try:
        await frames.deliver(Handled(put))
    finally:
        await asyncio.shield(frames.aclose())
    if not answers:
        raise NotOffered("generate expects the model to give one answer, and it gave none")
    body = answers[0]
    head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n{lines}"
    await exchange.reply_as_taken(200, head, body)


class GeneratedEvents:
    """An event for each answer. What breaks them off is an event of its own, as Triton's."""

    def __init__(self, frames: FrameSource, call_id: str) -> None:
        self._frames, self._call_id = frames, call_id

    async def deliver(self, receiver: Receiver[bytes]) -> None:
        async def put(frame: Frame) -> None:
            answer = await _written(frame, self._call_id)
            if answer and not receiver.put(_event(answer)):
                await receiver.room()

        try:
            await self._frames.deliver(Handled(put))
        except GatewayError as error:
            receiver.put(_event(strictjson.dumps({"error": error.message})))
        except ClientLeft:
            raise
        except Exception as exc:  # noqa: BLE001 - a front's: the caller must learn of the cut
            _log.error("an event stream failed: %s", type(exc).__name__)  # its text may be content
            failure = InternalError("the gateway failed while it streamed")
            receiver.put(_event(strictjson.dumps({"error": failure.message})))

    async def aclose(self) -> None:
        await self._frames.aclose()


def _event(data: bytes) -> bytes:
    return b"data: %b\n\n" % data
