"""`POST /model/NAME/converse` and `/converse-stream`: a chat in Amazon Bedrock's words.

A key comes as a bearer token (`AWS_BEARER_TOKEN_BEDROCK` at the caller). A signed request is
refused: to check its signature the gateway would have to keep the callers' secret keys.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.responses import Response

from gateway.core.errors import GatewayError, Unauthenticated
from gateway.core.types import DocumentCall, InferenceRequest, JsonDocument, WireProtocol
from gateway.protocols.aws.event_writer import MEDIA
from gateway.protocols.http.exchange import HttpExchange
from gateway.protocols.http.head import name_in
from gateway.protocols.strictjson import JsonBounds
from gateway.server import Services, intake
from gateway.server.dialects.bedrock import requests
from gateway.server.dialects.bedrock.answers import converse
from gateway.server.dialects.bedrock.errors import error_body, error_type
from gateway.server.dialects.bedrock.events import ConverseWriter
from gateway.server.dialects.head import JSON, TranslatedBody, TranslatedRequestHead
from gateway.server.dialects.stream import StreamWriter
from gateway.server.http import Call, Front
from gateway.server.intake import RequestContext

_PREFIX: Final = "/model"
_PROTOCOL: Final = WireProtocol.BEDROCK
_SIGNED: Final = "AWS4-"
_STREAM_LINES: Final = f"content-type: {MEDIA}\r\ncache-control: no-cache\r\n"


def front(services: Services) -> Front:
    bounds = intake.json_bounds(services.limits)

    def call(route: str) -> Call | None:
        named = _named(route)
        return None if named is None else partial(_ConverseRequestHead, services, bounds, *named)

    return Front(_PREFIX, _PROTOCOL.value, [], error_response, call)


def _named(route: str) -> tuple[str, bool] | None:
    """The model of a path, and whether it is a stream's; None: it is another's."""
    if not route.startswith(f"{_PREFIX}/"):
        return None
    name, _, operation = route.removeprefix(f"{_PREFIX}/").rpartition("/")
    if not name or operation not in ("converse", "converse-stream"):
        return None
    return name_in(name), operation != "converse"


def described(path: str, body: JsonDocument) -> TranslatedBody | None:
    """What a body on a path means; None: the path is another's. Raises InvalidField."""
    named = _named(path)
    return None if named is None else TranslatedBody(*requests.chat(body, *named))


def error_response(error: GatewayError, arrival: RequestContext) -> Response:
    """A failure in AWS's shape, with what its SDKs read from the headers."""
    headers = intake.error_headers(arrival, error)
    headers["x-amzn-errortype"] = error_type(error)
    headers["x-amzn-requestid"] = arrival.request_id
    return Response(error_body(error), error.http_status, headers, JSON)


class _ConverseRequestHead(TranslatedRequestHead):
    __slots__ = ("_name", "_streamed")

    def __init__(
        self,
        services: Services,
        bounds: JsonBounds,
        name: str,
        streamed: bool,
        exchange: HttpExchange,
    ) -> None:
        """Raises Unauthenticated, Unverifiable, UnsupportedMedia."""
        # guard: S19.signed-call -> if False:
        if exchange.headers.get("authorization", "").startswith(_SIGNED):
            raise Unauthenticated(
                "authorization: a signed request cannot be checked here; send the key as a bearer "
                "token (AWS_BEARER_TOKEN_BEDROCK)"
            )
        super().__init__(services, bounds, _PROTOCOL, exchange, _STREAM_LINES)
        self._name, self._streamed = name, streamed

    def translated(self, body: JsonDocument) -> TranslatedBody:
        return TranslatedBody(*requests.chat(body, self._name, self._streamed))

    def whole(self, body: bytes, request: InferenceRequest, call: DocumentCall) -> bytes:
        return converse(body, call.document.get("stop") or (), self._latency_ms(request))

    def writer(self, request: InferenceRequest, call: DocumentCall) -> StreamWriter:
        latency_ms = partial(self._latency_ms, request)
        return ConverseWriter(call.document.get("stop") or (), latency_ms)

    def lines(self, request: InferenceRequest) -> str:
        return f"x-amzn-requestid: {request.id}\r\n"

    def _latency_ms(self, request: InferenceRequest) -> int:
        return round((self.services.clock() - request.received_s) * 1000)
