"""KServe's first protocol, which TensorFlow Serving has too: `/v1/models/NAME:predict`.

`instances` is a list of rows, each a value, or an object of values by the names of inputs; `inputs`
has whole tensors. Either becomes a call of tensors, by the metadata of the model, so that any
server of the Open Inference Protocol answers it, read and placed as all of them are. The answer has
`predictions`, or `outputs`. `:explain` is refused: no server explains over the other protocol.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from functools import partial
from typing import Any, NamedTuple

from starlette.responses import Response

from gateway.core.errors import (
    GatewayError,
    MalformedBody,
    NotOffered,
    UnknownRoute,
    UpstreamFailed,
    UpstreamRefused,
)
from gateway.core.reply import Frame, InferenceReply, received
from gateway.core.types import AT_ONCE_BYTES, InferenceRequest, Tensor, TensorCall, WireProtocol
from gateway.protocols import strictjson
from gateway.protocols.http.exchange import HttpExchange
from gateway.protocols.http.head import HttpHead, name_in
from gateway.protocols.oip.datatypes import label
from gateway.protocols.strictjson import JsonBounds
from gateway.server import Services, intake
from gateway.server.http import Call, Front, RequestHead
from gateway.server.intake import RequestContext
from gateway.server.kserve import tensor_values
from gateway.server.kserve.inspection import known
from gateway.server.kserve.json_body import JSON, check_json
from gateway.server.kserve.model_tensors import ModelTensors, ModelTensorsCache

_MODELS = "/v1/models/"
_PREDICT, _EXPLAIN = ":predict", ":explain"
_ROWS, _COLUMNS = "instances", "inputs"
_ANSWERS = {_ROWS: "predictions", _COLUMNS: "outputs"}


class PredictForm(NamedTuple):
    """How a call was written, by which its answer is."""

    key: str
    rows: int  # of `instances`


def front(services: Services) -> Front:
    tensors, bounds = (
        ModelTensorsCache(services.inspection),
        intake.json_bounds(services.limits),
    )

    def call(route: str) -> Call | None:
        if not _owns(route):
            return None
        name, _, verb = route.removeprefix(_MODELS).rpartition(":")
        explains = f":{verb}" == _EXPLAIN
        return partial(_PredictHead, services, tensors, bounds, name_in(name), explains)

    def owns(head: HttpHead) -> bool:
        return _owns(head.path)

    return Front(_MODELS, WireProtocol.KSERVE_REST.value, [], error_response, call, owns)


def _owns(path: str) -> bool:
    return path.startswith(_MODELS) and path.endswith((_PREDICT, _EXPLAIN))


def error_response(error: GatewayError, arrival: RequestContext) -> Response:
    body = error.body if isinstance(error, UpstreamRefused) else None
    return Response(
        body or strictjson.dumps({"error": error.message}),
        error.http_status,
        intake.error_headers(arrival, error),
        JSON,
    )


class _PredictHead(RequestHead):
    __slots__ = ("_bounds", "_form", "_name", "_tensors")
    _form: PredictForm  # of the call that is answered; a connection has one at a time

    def __init__(
        self,
        services: Services,
        tensors: ModelTensorsCache,
        bounds: JsonBounds,
        name: str,
        explains: bool,
        exchange: HttpExchange,
    ) -> None:
        """Raises GatewayError."""
        super().__init__(exchange, services)
        if explains:
            raise UnknownRoute(
                "Not Found: :explain is not offered by this gateway", reason=NotOffered.reason
            )
        self._tensors, self._bounds = tensors, bounds
        known(services, self.caller, name)
        self._name = name
        check_json(exchange)

    def build_request(self, body: bytes, arrival: RequestContext) -> Awaitable[InferenceRequest]:
        return self._build(body, arrival)

    async def _build(self, body: bytes, arrival: RequestContext) -> InferenceRequest:
        model = known(self.services, self.caller, self._name)
        tensors = await self._tensors.find(model.name, "")
        if len(body) > AT_ONCE_BYTES:
            call = await asyncio.to_thread(self._call, body, tensors)
        else:
            call = self._call(body, tensors)
        return self.terms(WireProtocol.KSERVE_REST, model).request(arrival, call)

    def _call(self, body: bytes, tensors: ModelTensors) -> TensorCall:
        depth = self.services.limits.max_json_depth
        document = strictjson.load_object(body, depth, self._bounds)
        call, self._form = read_call(document, tensors)
        return call

    def answer(
        self, exchange: HttpExchange, request: InferenceRequest, reply: InferenceReply
    ) -> Awaitable[None]:
        lines = intake.placement_lines(request.id, request.traceparent, reply.placement)
        return _answer(exchange, lines, reply, self._form)


async def _answer(
    exchange: HttpExchange, lines: str, reply: InferenceReply, form: PredictForm
) -> None:
    frames = await received(reply.frames)
    if len(frames) != 1:
        raise UpstreamFailed("the endpoint gave no answer, or several")
    if tensor_values.size(frames[0]) > AT_ONCE_BYTES:
        body = await asyncio.to_thread(written, frames[0], form)
    else:
        body = written(frames[0], form)
    head = f"content-type: {JSON}\r\ncontent-length: {len(body)}\r\n{lines}"
    await exchange.reply_as_taken(200, head, body)


def read_call(document: dict[str, Any], tensors: ModelTensors) -> tuple[TensorCall, PredictForm]:
    """Raises MalformedBody, BodyTooLarge."""
    key = next(iter(document), "")
    if key not in _ANSWERS or len(document) > 1:  # guard: S17.predict-fields
        raise MalformedBody("the body must have instances, or inputs, and nothing else")
    given = document[key]
    if key == _COLUMNS:
        values = given if isinstance(given, dict) else _for_one(given, tensors)
        rows = 0
    else:
        if not isinstance(given, list) or not given:
            raise MalformedBody("instances: must be a list with at least one row")
        values, rows = _columns(given, tensors), len(given)
    unknown = [name for name in values if name not in tensors.inputs]
    if unknown:
        raise MalformedBody(
            f"{label('input', 0, unknown[0])}: the model has no input of this name; "
            f"it has {', '.join(sorted(tensors.inputs))}"
        )
    made = [
        tensor_values.tensor(name, value, tensors.inputs[name], rows or None)
        for name, value in values.items()
    ]
    return TensorCall(tuple(made)), PredictForm(key, rows)


def _for_one(value: Any, tensors: ModelTensors) -> dict[str, Any]:
    if len(tensors.inputs) != 1:
        raise MalformedBody(
            "the model has several inputs; name each, as in "
            f"{{{', '.join(sorted(tensors.inputs))}}}"
        )
    return {next(iter(tensors.inputs)): value}


def _columns(rows: list[Any], tensors: ModelTensors) -> dict[str, Any]:
    if not isinstance(rows[0], dict):
        if any(isinstance(row, dict) for row in rows):
            raise MalformedBody("instances: either all rows are objects, or none is")
        return _for_one(rows, tensors)
    for at, row in enumerate(rows):
        if not isinstance(row, dict) or row.keys() != rows[0].keys():
            raise MalformedBody(f"instances[{at}]: must name the same inputs as the first row")
    return {name: [row[name] for row in rows] for name in rows[0]}


def written(frame: Frame, form: PredictForm) -> bytes:
    """Raises UpstreamFailed, NotOffered."""
    outputs = {each.name: _value(each, form) for each in tensor_values.reply(frame).outputs}
    if not outputs:
        raise UpstreamFailed("the endpoint's answer has no outputs")
    answer: Any = outputs
    if len(outputs) == 1:
        (answer,) = outputs.values()
    elif form.key == _ROWS:
        rows = zip(*outputs.values(), strict=True)
        answer = [dict(zip(outputs, row, strict=True)) for row in rows]
    return json.dumps({_ANSWERS[form.key]: answer}, separators=(",", ":")).encode()


def _value(output: Tensor, form: PredictForm) -> Any:
    value = tensor_values.nested(output)
    if form.key == _COLUMNS or output.shape[:1] == (form.rows,):
        return value
    if form.rows == 1:  # a model without batches
        return [value]
    raise UpstreamFailed("the model gave another number of rows than it got")
