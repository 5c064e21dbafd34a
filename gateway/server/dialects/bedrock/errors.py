"""Errors in AWS's shape: `{"message"}`, and the exception's name in `x-amzn-errortype`."""

from __future__ import annotations

from typing import Final

from gateway.core.errors import GatewayError
from gateway.protocols import strictjson
from gateway.server.dialects.failures import words

_TYPES: Final = {
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
    504: "ModelTimeoutException",
}
_IN_STREAMS: Final = {
    429: "throttlingException",
    502: "modelStreamErrorException",
    503: "serviceUnavailableException",
    504: "modelStreamErrorException",
}


def error_type(error: GatewayError) -> str:
    usual = "ValidationException" if error.http_status < 500 else "InternalServerException"
    return _TYPES.get(error.http_status, usual)


def error_body(error: GatewayError) -> bytes:
    return strictjson.dumps({"message": words(error)})


def exception(error: GatewayError) -> tuple[str, bytes]:
    """The kind and the body of one within a stream."""
    usual = "validationException" if error.http_status < 500 else "internalServerException"
    return _IN_STREAMS.get(error.http_status, usual), error_body(error)
