"""Triton's generate extension: `/v2/models/NAME/generate` and `generate_stream`.

A call is an object of values by the names of inputs, here or within `parameters`; what is no input
is a parameter of the request. It becomes a call of tensors, by the metadata of the model, so that
any server of the protocol answers it, read and placed as all of them are. The answer has the
outputs by their names: one object, or an event for each of the model's answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

from gateway.core.errors import MalformedBody
from gateway.core.reply import InferenceReply
from gateway.core.types import AT_ONCE_BYTES, InferenceRequest, Tensor, TensorCall, WireProtocol
from gateway.protocols import strictjson
from gateway.protocols.http.exchange import HttpExchange
from gateway.protocols.oip import rest
from gateway.protocols.oip.datatypes import label
from gateway.protocols.strictjson import JsonBounds
from gateway.server import Services, intake
from gateway.server.http import Call, RequestHead
from gateway.server.infer_path import infer_path
from gateway.server.intake import RequestContext
from gateway.server.kserve import tensor_values
from gateway.server.kserve.generated import GeneratedEvents, answer_whole
from gateway.server.kserve.inspection import checked_version, known
from gateway.server.kserve.json_body import check_json
from gateway.server.kserve.model_tensors import ModelTensors, ModelTensorsCache

_WHOLE, _STREAMED = "/generate", "/generate_stream"
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
        return answer_whole(exchange, lines, reply.frames, call.id)


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
