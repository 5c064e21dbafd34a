"""Errors in the shape of the Messages API: `{"type": "error", "error": {"type", "message"}}`.

Its SDKs map a failure to an exception by its status, or within a stream by its type, and obey
`x-should-retry` as OpenAI's do.
"""

from __future__ import annotations

from typing import Final

import orjson

from gateway.core.errors import GatewayError, UpstreamRefused
from gateway.protocols import strictjson

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
    """The whole answer, or the data of an event. An endpoint's own words go to the caller."""
    usual = "invalid_request_error" if error.http_status < 500 else "api_error"
    words = {
        "type": _TYPES.get(error.http_status, usual),
        "message": _endpoints_words(error) or error.message,
    }
    return strictjson.dumps({"type": "error", "error": words, "request_id": call_id})


def _endpoints_words(error: GatewayError) -> str:
    """Of an endpoint's refusal, which its connector has put into OpenAI's shape."""
    if not isinstance(error, UpstreamRefused) or not error.body:
        return ""
    try:
        document = orjson.loads(error.body)
    except orjson.JSONDecodeError:
        return ""
    stated = document.get("error") if isinstance(document, dict) else None
    words = stated.get("message") if isinstance(stated, dict) else None
    return words if isinstance(words, str) else ""
