"""Errors in the shape of the OpenAI API: `{"error": {"message", "type", "param", "code"}}`.

The SDKs map a failure to an exception by its status alone and obey `x-should-retry`. It says true
only where the same call may fare better soon: a shed call that knows when, a 429, a server that
drains, and a failure of the endpoint that may be over in a moment where the gateway has not made
all the tries that it may (`routing.max_attempts`). It says false for a caller's mistake; for a 502
behind all of those (a client's own would multiply them); for a passed deadline; and for a
restricted call whose premises are down without a known end, since two quick retries cannot mend
that.
"""

from __future__ import annotations

import orjson

from gateway.core.errors import (
    NOT_OFFERED,
    Draining,
    Forbidden,
    GatewayError,
    Incapable,
    InvalidField,
    Saturated,
    Shed,
    Unauthenticated,
    UnknownModel,
    UpstreamBusy,
    UpstreamRefused,
)
from gateway.core.types import JsonDocument
from gateway.protocols import strictjson


def error_document(error: GatewayError) -> JsonDocument:
    """The value of the key `error`."""
    return {
        "message": error.message,
        "type": _type(error),
        "param": _param(error),
        "code": _code(error),
    }


def error_body(error: GatewayError) -> bytes:
    """The whole answer. An OpenAI endpoint's own refusal goes to the caller as it wrote it."""
    if isinstance(error, UpstreamRefused) and error.body and in_openai_shape(error.body):
        return error.body
    return strictjson.dumps({"error": error_document(error)})


def in_openai_shape(body: bytes) -> bool:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return (
        isinstance(document, dict)
        and isinstance(error := document.get("error"), dict)
        and isinstance(error.get("message"), str)
    )


def should_retry(error: GatewayError) -> bool:
    if error.may_retry or isinstance(error, Saturated | UpstreamBusy | Draining):
        return True
    return isinstance(error, Shed) and error.retry_after_s is not None


def _type(error: GatewayError) -> str:
    if isinstance(error, Forbidden):
        return "permission_error"
    if error.http_status == 429:
        return "rate_limit_error"
    return "invalid_request_error" if error.http_status < 500 else "server_error"


def _param(error: GatewayError) -> str | None:
    if isinstance(error, InvalidField):
        return error.param
    if isinstance(error, Incapable):
        return error.field
    return "model" if isinstance(error, UnknownModel) else None


def _code(error: GatewayError) -> str:
    if isinstance(error, InvalidField):
        return error.code
    if isinstance(error, Incapable):
        return NOT_OFFERED
    if isinstance(error, Unauthenticated):
        return "invalid_api_key"
    if isinstance(error, UnknownModel):
        return "model_not_found"
    return "rate_limit_exceeded" if error.http_status == 429 else error.reason
