"""Around every HTTP call: count it, roll its fate, let it wait, refuse or spoil it, label it."""

import asyncio
import json
import uuid
import zlib
from collections.abc import Mapping
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.demo.cloud.conditions import Conditions, Fate, Refusal
from gateway.demo.cloud.errors import (
    Failed,
    InvalidRequest,
    ProviderError,
    RateLimited,
    TooLarge,
    WrongKey,
)
from gateway.demo.cloud.faults import AnswerCutShort, FaultySend
from gateway.demo.cloud.http_door import scope_connection
from gateway.demo.cloud.settings import OutageMode

LABEL = ("x-simulated-cloud", "1")
_MOST_BODY_BYTES = 64 * 1024 * 1024


class CallerLeft(Exception):
    """The connection closed before the request was complete."""


class Provider:
    """ASGI middleware. Faults and limits are for inference calls; the round trip is for all."""

    def __init__(self, app: ASGIApp, conditions: Conditions) -> None:
        self._app = app
        self._conditions = conditions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await _body(receive)
        except CallerLeft:
            return
        except TooLarge as error:
            await shaped(scope["path"], error)(scope, receive, self._labelled(send))
            return
        route = f"{scope['method']} {_route(scope['path'])}"
        with self._conditions.call(route, _model(scope["path"], body)) as fate:
            await self._meet(fate, scope, _replayed(body, receive), send)

    async def _meet(self, fate: Fate, scope: Scope, receive: Receive, send: Send) -> None:
        if fate.outage is OutageMode.HANG:
            await _until_the_caller_leaves(receive)
            return
        await asyncio.sleep(fate.round_trip_s)
        labelled = self._labelled(send)
        refused = self._refused(fate, scope)
        if refused is not None:
            await shaped(scope["path"], refused)(scope, receive, labelled)
            return
        outage = fate.outage if scope["method"] == "POST" else OutageMode.NONE
        faulty = FaultySend(labelled, self._conditions.settings, outage, scope_connection(scope))
        try:
            await self._app(scope, receive, faulty)
        except* AnswerCutShort:
            pass  # a streamed answer raises it inside Starlette's task group

    def _refused(self, fate: Fate, scope: Scope) -> ProviderError | None:
        settings = self._conditions.settings
        if settings.api_key is not None and not scope["path"].startswith("/v2/health"):
            given = Headers(scope=scope).get("authorization", "")
            if given != f"Bearer {settings.api_key}":
                return WrongKey("Incorrect API key provided.")
        if scope["method"] != "POST":
            return None
        if fate.refusal is Refusal.RATE_LIMITED:
            return RateLimited(settings)
        if fate.refusal is Refusal.FAILED:
            return Failed(settings)
        return None

    def _labelled(self, send: Send) -> Send:
        async def labelled(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers[LABEL[0]] = LABEL[1]
                headers["x-request-id"] = f"req_{uuid.uuid4().hex}"
                self._conditions.answers[str(message["status"])] += 1
            await send(message)

        return labelled


def shaped(path: str, error: ProviderError) -> JSONResponse:
    return error.as_openai() if path.startswith("/v1") else error.as_v2()


async def provider_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProviderError)
    return shaped(request.url.path, error)


async def no_such_route(request: Request, _: Exception) -> Response:
    error = InvalidRequest(f"Invalid URL ({request.method} {request.url.path})")
    error.status = HTTPStatus.NOT_FOUND.value
    return shaped(request.url.path, error)


async def wrong_method(request: Request, _: Exception) -> Response:
    error = InvalidRequest(f"Not allowed to {request.method} on {request.url.path}")
    error.status = HTTPStatus.METHOD_NOT_ALLOWED.value
    return shaped(request.url.path, error)


def decompressed(headers: Headers, body: bytes) -> bytes:
    coding = headers.get("content-encoding", "identity").lower()
    windows: Mapping[str, int] = {"gzip": 31, "deflate": 15}
    if coding == "identity":
        return body
    if coding not in windows:
        raise InvalidRequest(f"content-encoding '{coding}' is not supported")
    inflator = zlib.decompressobj(windows[coding])
    try:
        plain = inflator.decompress(body, _MOST_BODY_BYTES)
    except zlib.error as exc:
        raise InvalidRequest(f"the body is not {coding}") from exc
    if inflator.unconsumed_tail:
        raise TooLarge("the decompressed body is too large")
    return plain


async def _body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise CallerLeft
        body += message.get("body", b"")
        if len(body) > _MOST_BODY_BYTES:
            raise TooLarge("the body is too large")
        if not message.get("more_body", False):
            return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return waiting.pop() if waiting else await receive()

    return replayed


async def _until_the_caller_leaves(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _route(path: str) -> str:
    """The path without what a caller can choose in it."""
    parts = path.split("/")
    if parts[:3] == ["", "v2", "models"] and len(parts) > 3:
        parts[3] = "{model}"
        if len(parts) > 5 and parts[4] == "versions":
            parts[5] = "{version}"
    return "/".join(parts[:7])[:80]


def _model(path: str, body: bytes) -> str | None:
    parts = path.split("/")
    if parts[:3] == ["", "v2", "models"] and len(parts) > 3:
        return parts[3]
    if not path.startswith("/v1") or not body:
        return None
    try:
        document = json.loads(body)
    except ValueError:
        return None  # the handler says what is wrong with it
    model = document.get("model") if isinstance(document, dict) else None
    return model if isinstance(model, str) else None
