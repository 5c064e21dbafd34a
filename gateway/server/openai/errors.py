"""Errors in the shape of the OpenAI API: `{"error": {"message", "type", "param", "code"}}`.

The SDKs map a failure to an exception by its status alone and obey `x-should-retry`.
"""

from __future__ import annotations

import orjson

from gateway.core.errors import (
    NOT_OFFERED,
    Forbidden,
    GatewayError,
    Incapable,
    InvalidField,
    Unauthenticated,
    UnknownModel,
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
