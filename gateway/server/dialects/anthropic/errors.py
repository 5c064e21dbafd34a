"""Errors in the shape of the Messages API: `{"type": "error", "error": {"type", "message"}}`.

Its SDKs map a failure to an exception by its status, or within a stream by its type, and obey
`x-should-retry` as OpenAI's do.
"""

from __future__ import annotations

from typing import Final

from gateway.core.errors import GatewayError
from gateway.protocols import strictjson
from gateway.server.dialects.failures import words

_TYPES: Final = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def error_body(error: GatewayError, call_id: str) -> bytes:
    """The whole answer, or the data of an event."""
    usual = "invalid_request_error" if error.http_status < 500 else "api_error"
    stated = {
        "type": _TYPES.get(error.http_status, usual),
        "message": words(error),
    }
    return strictjson.dumps({"type": "error", "error": stated, "request_id": call_id})
