"""The Open Inference Protocol (KServe v2) over REST, as Triton 2.51 answers it.

Names of models are looked up in the catalog and never put into a path as they came. What would
change a server (its models, shared memory, logging, tracing) is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.core.errors import (
    GatewayError,
    InternalError,
    MalformedBody,
    ModelFailed,
    NotOffered,
    UnknownRoute,
    UnsupportedMedia,
    UpstreamFailed,
    UpstreamRefused,
)
from gateway.core.reply import (
    Frame,
    FrameSource,
    GrpcMessage,
    InferenceReply,
    OneFrame,
    RestBody,
    received,
)
from gateway.core.types import AT_ONCE_BYTES, InferenceRequest, TensorCall, WireProtocol
from gateway.protocols import strictjson
from gateway.protocols.http.exchange import AS_TAKEN_BYTES, HttpExchange
from gateway.protocols.oip import grpc, rest
from gateway.protocols.oip.known_heads import KnownHeads
from gateway.protocols.strictjson import JsonBounds
from gateway.server import Services, compression, intake
from gateway.server.http import Call, Front, RequestHead
from gateway.server.infer_path import infer_path
from gateway.server.intake import RequestContext
from gateway.server.kserve.generate import Generating
from gateway.server.kserve.inspection import Inspecting, checked_version, known
from gateway.server.routes import Answer, endpoint

_PROTOCOL = WireProtocol.KSERVE_REST
_JSON, _BINARY = "application/json", "application/octet-stream"
_MEDIA = frozenset({_JSON, _BINARY})
_HEADER_LENGTH = "inference-header-content-length"
_EVERY_METHOD = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def front(services: Services) -> Front:
    infers, generates = Inferring(services), Generating(services)

    def call(route: str) -> Call | None:
        return infers.call(route) or generates.call(route)

    return Front("/v2", _PROTOCOL.value, routes(services), error_response, call)


def routes(services: Services) -> list[Route]:
    inspecting = Inspecting(services)

    def route(path: str, answer: Answer, method: str = "GET") -> Route:
        return Route(path, endpoint(answer, services), methods=[method])

    def inspect(path: str, answer: Answer, method: str = "GET") -> list[Route]:
        return [
            route(f"/v2/models/{{model:path}}{version}{path}", answer, method)
            for version in ("/versions/{version}", "")
        ]

    return [
        route("/v2/health/live", inspecting.live),
        route("/v2/health/ready", inspecting.ready),
        route("/v2", inspecting.server),
        route("/v2/repository/index", inspecting.index, "POST"),
        route("/v2/models/stats", inspecting.all_stats),
        *_refused(services),
        *inspect("/ready", inspecting.model_ready),
        *inspect("/config", inspecting.config),
        *inspect("/stats", inspecting.stats),
        *inspect("", inspecting.model),
    ]


def error_response(error: GatewayError, arrival: RequestContext) -> Response:
    """A failure in Triton's shape; what a server or its model said, as it was written."""
    own = error.body if isinstance(error, UpstreamRefused | ModelFailed) else None
    body = own if own and _in_shape(own) else strictjson.dumps({"error": error.message})
    return Response(body, error.http_status, intake.error_headers(arrival, error), _JSON)


class Inferring:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._heads = KnownHeads()
        self._bounds = intake.json_bounds(services.limits)

    def call(self, path: str) -> Call | None:
        """`/v2/models/NAME[/versions/VERSION]/infer`."""
        parts = infer_path(path)
        if parts is None:
            return None
        model, version = parts
        return partial(
            _KserveRequestHead, self._services, self._heads, self._bounds, model, version
        )


class _KserveRequestHead(RequestHead):
    __slots__ = ("_bounds", "_header_length", "_heads", "_name", "_version")

    def __init__(
        self,
        services: Services,
        heads: KnownHeads,
        bounds: JsonBounds,
        name: str,
        version: str,
        exchange: HttpExchange,
    ) -> None:
        """Raises GatewayError."""
        super().__init__(exchange, services)
        self._heads, self._bounds = heads, bounds
        known(services, self.caller, name)
        self._name, self._version = name, checked_version(version)
        media = exchange.headers.get("content-type", _JSON)
        if media.partition(";")[0].strip().lower() not in _MEDIA:
            raise UnsupportedMedia(f"content-type: send {_JSON} or {_BINARY}")
        self._header_length = _header_length(exchange.headers.get(_HEADER_LENGTH))

    def build_request(
        self, body: bytes, arrival: RequestContext
    ) -> InferenceRequest | Awaitable[InferenceRequest]:
        length, depth = self._header_length, self.services.limits.max_json_depth
        if (length or len(body)) > AT_ONCE_BYTES:
            return self._parse_request(body, arrival, depth)
        call = self._heads.decode(body, length, depth, self._version, self._bounds)
        return self._request(call, arrival)

    async def _parse_request(
        self, body: bytes, arrival: RequestContext, depth: int
    ) -> InferenceRequest:
        call = await asyncio.to_thread(
            rest.decode_request, body, self._header_length, depth, self._version, self._bounds
        )
        return self._request(call, arrival)

    def _request(self, call: TensorCall, arrival: RequestContext) -> InferenceRequest:
        model = known(self.services, self.caller, self._name)
        return self.terms(WireProtocol.KSERVE_REST, model).request(arrival, call)

    def answer(
        self, exchange: HttpExchange, request: InferenceRequest, reply: InferenceReply
    ) -> Awaitable[None] | None:
        frames = reply.frames
        lines = intake.placement_lines(request.id, request.traceparent, reply.placement)
        if isinstance(frames, OneFrame):
            frame = frames.take()
            if isinstance(frame, RestBody) and "accept-encoding" not in self.headers:
                if len(frame.body) > AS_TAKEN_BYTES:
                    return _report_on_read(exchange, lines, frame, frame.body)
                exchange.reply(200, _lines(lines, frame, frame.body), frame.body)
                return None
            return self._forward_errors(exchange, request, lines, frame)
        return self._read_on(exchange, request, lines, frames)

    async def _read_on(
        self, exchange: HttpExchange, request: InferenceRequest, lines: str, frames: FrameSource
    ) -> None:
        await self._forward_errors(exchange, request, lines, await _only_frame(frames))

    async def _forward_errors(
        self, exchange: HttpExchange, request: InferenceRequest, lines: str, frame: Frame | None
    ) -> None:
        call = request.payload
        assert isinstance(call, TensorCall)
        answer = frame if isinstance(frame, RestBody) else await _rest_body(frame, call)
        content = answer.body
        if encoding := compression.chosen(self.headers.get("accept-encoding", "")):
            content = await compression.deflated(content, encoding)
            lines += f"content-encoding: {encoding}\r\n"
        await _report_on_read(exchange, lines, answer, content)


async def _report_on_read(
    exchange: HttpExchange, lines: str, answer: RestBody, content: bytes
) -> None:
    await exchange.reply_as_taken(200, _lines(lines, answer, content), content)


def _lines(lines: str, answer: RestBody, content: bytes) -> str:
    media, length = _JSON, answer.header_length
    if length is not None:
        media = f"{_BINARY}\r\n{_HEADER_LENGTH}: {length}"
    return f"content-type: {media}\r\ncontent-length: {len(content)}\r\n{lines}"


async def _only_frame(stream: FrameSource) -> Frame:
    frames = await received(stream)
    if not frames:
        raise UpstreamFailed("the endpoint gave no answer")
    if len(frames) > 1:
        raise NotOffered("HTTP end point doesn't support models with decoupled transaction policy")
    return frames[0]


async def _rest_body(frame: Frame | None, call: TensorCall) -> RestBody:
    if isinstance(frame, GrpcMessage):
        if len(frame.message) <= AT_ONCE_BYTES:
            return grpc.rest_from_grpc(frame, call)
        return await asyncio.to_thread(grpc.rest_from_grpc, frame, call)
    raise InternalError("an answer came in other frames than this protocol has")


def _header_length(value: str | None) -> int | None:
    if value is None:
        return None
    if not value.isascii() or not value.isdigit() or len(value) > 18:
        raise MalformedBody(f"{_HEADER_LENGTH}: must be a number of bytes")
    return int(value)


def _refused(services: Services) -> list[Route]:
    """Parts of Triton that this gateway leaves out, each with a refusal that says so."""

    def refuse(what: str, *paths: str) -> list[Route]:
        async def answer(request: Request, arrival: RequestContext) -> Response:
            raise UnknownRoute(
                f"Not Found: {what} is not offered by this gateway", reason=NotOffered.reason
            )

        refused = endpoint(answer, services)
        return [Route(path, refused, methods=_EVERY_METHOD) for path in paths]

    return [
        *refuse("model control", "/v2/repository/models/{rest:path}"),
        *refuse(
            "shared memory",
            "/v2/systemsharedmemory/{rest:path}",
            "/v2/cudasharedmemory/{rest:path}",
        ),
        *refuse("the server's logging", "/v2/logging"),
        *refuse("tracing", "/v2/trace/setting", "/v2/models/{rest:path}/trace/setting"),
    ]


def _in_shape(body: bytes) -> bool:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(document, dict) and isinstance(document.get("error"), str)
