"""Refuses request heads that two parsers could read in two ways, before anything else sees them.

The server's parser (httptools) accepts two Host headers, and heads of any size. Behind this guard
each header that means something stands there once. `http_connection` bounds heads while they come
and keeps trailers out of them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.errors import (
    GatewayError,
    MalformedBody,
    MethodNotAllowed,
    RequestRejected,
    RouteNotFound,
)

MAX_HEAD_BYTES = 32 * 1024
MAX_HEADERS = 100
MAX_PATH_BYTES = 2048

Refuse = Callable[[GatewayError, Scope, Send], Awaitable[None]]

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OFFERED = ("GET", "HEAD", "POST")  # by any route at all
_REPEATABLE = frozenset(
    {b"accept", b"accept-encoding", b"accept-language", b"baggage", b"cache-control", b"cookie"}
    | {b"forwarded", b"pragma", b"tracestate", b"via", b"x-forwarded-for"}
)
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_HOST = re.compile(
    rb"(?:[A-Za-z0-9._~%!$&'()*+,;=-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?",
)
_PATH = re.compile(rb"/[\x21-\x7e]*")
_ODD = re.compile(r"[\x00-\x1f\x7f\\]|//|/\.{1,2}(?:/|$)")
_LENGTH = re.compile(rb"[0-9]{1,18}")


class HeadGuard:
    """Pure ASGI: HTTP passes if its head is sane, a lifespan always, nothing else."""

    def __init__(self, app: ASGIApp, refuse: Refuse) -> None:
        self._app = app
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                check(scope)
            except RequestRejected as error:
                await self._refuse(error, scope, _closing(send))
                return
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        await self._app(scope, receive, send)


def check(scope: Scope) -> None:
    """Raises RequestRejected; the message never repeats what it refuses."""
    headers: Sequence[tuple[bytes, bytes]] = scope["headers"]
    if scope["method"] not in _METHODS:
        raise MethodNotAllowed("this method is not offered", _OFFERED)
    _check_path(scope)
    if len(headers) > MAX_HEADERS:
        raise MalformedBody(
            f"the head has more than {MAX_HEADERS} headers", reason="head_too_large"
        )
    size = len(scope["query_string"])
    seen: set[bytes] = set()
    for name, value in headers:
        size += len(name) + len(value) + 4
        if not _NAME.fullmatch(name) or _CONTROL.search(value):
            raise MalformedBody("a header has a character that none may have", reason=_BAD)
        if name in seen and name not in _REPEATABLE:
            raise MalformedBody(f"{_told(name)}: must be sent once", reason=_BAD)
        seen.add(name)
    if size > MAX_HEAD_BYTES:
        raise MalformedBody(f"the head has over {MAX_HEAD_BYTES} bytes", reason="head_too_large")
    _check_framing(scope["http_version"], dict(headers))


_BAD = "malformed_head"


def _check_path(scope: Scope) -> None:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    if len(raw) > MAX_PATH_BYTES:
        raise RouteNotFound(f"the path has more than {MAX_PATH_BYTES} bytes")
    if not _PATH.fullmatch(raw) or _ODD.search(scope["path"]):
        raise RouteNotFound("the path has dot segments, empty segments or odd characters")


def _check_framing(version: str, headers: dict[bytes, bytes]) -> None:
    if version not in ("1.0", "1.1"):
        raise MalformedBody("the request must be of HTTP/1.1 or HTTP/1.0", reason=_BAD)
    if b"host" not in headers and version != "1.0":
        raise MalformedBody("host: is missing", reason=_BAD)
    if not _HOST.fullmatch(headers.get(b"host", b"")):
        raise MalformedBody("host: is not a host name or address", reason=_BAD)
    length = headers.get(b"content-length")
    if length is not None and not _LENGTH.fullmatch(length):
        raise MalformedBody("content-length: must be a number of bytes", reason=_BAD)
    coding = headers.get(b"transfer-encoding")
    if coding is None:
        return
    if length is not None:
        raise MalformedBody("content-length, transfer-encoding: send one of them", reason=_BAD)
    if coding.lower() != b"chunked" or version == "1.0":
        raise MalformedBody("transfer-encoding: only chunked is offered", reason=_BAD)


_KNOWN = re.compile(
    rb"host|authorization|content-[a-z]+|transfer-encoding|inference-header-content-length"
    rb"|x-request-id|traceparent|x-latency-budget-ms|x-spillway-[a-z]+"
)


def _told(name: bytes) -> str:
    return name.decode() if _KNOWN.fullmatch(name) else "a header"


def _closing(send: Send) -> Send:
    """Nothing more is read from a connection whose head was refused."""

    async def close(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        await send(message)

    return close
