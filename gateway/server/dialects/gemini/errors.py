"""Errors in the shape of Google's APIs, a `google.rpc.Status`: `{"error": {"code", "message",
"status"}}`. Its SDK maps a failure to an exception by its code."""

from __future__ import annotations

from typing import Final

from gateway.core.errors import GatewayError
from gateway.protocols import strictjson
from gateway.server.dialects.failures import words

_STATUSES: Final = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    504: "DEADLINE_EXCEEDED",
}


def error_body(error: GatewayError) -> bytes:
    """The whole answer, or one within a stream."""
    code = error.http_status
    usual = "INVALID_ARGUMENT" if code < 500 else "UNAVAILABLE"
    stated = {"code": code, "message": words(error), "status": _STATUSES.get(code, usual)}
    return strictjson.dumps({"error": stated})
