"""The ways in which a provider refuses a call, each in both of its protocols' own shape.

ProviderError
  InvalidRequest   400
  WrongKey         401
  NotFound         404   model_not_found where a model is meant
  TooLarge         413
  RateLimited      429
  Failed           5xx
  Overloaded       503
"""

import math
from http import HTTPStatus
from typing import Any

import grpc
from starlette.responses import JSONResponse

from gateway.demo.cloud.settings import CloudSettings


class ProviderError(Exception):
    status = HTTPStatus.INTERNAL_SERVER_ERROR.value
    grpc_status = grpc.StatusCode.INTERNAL
    kind = "server_error"
    code: str | None = None

    def __init__(
        self, message: str, *, param: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.headers = headers or {}

    def as_openai(self) -> JSONResponse:
        detail: dict[str, Any] = {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        }
        return JSONResponse({"error": detail}, self.status, self.headers)

    def as_v2(self) -> JSONResponse:
        return JSONResponse({"error": self.message}, self.status, self.headers)


class InvalidRequest(ProviderError):
    status, kind = 400, "invalid_request_error"
    grpc_status = grpc.StatusCode.INVALID_ARGUMENT


class WrongKey(ProviderError):
    status, kind, code = 401, "invalid_request_error", "invalid_api_key"
    grpc_status = grpc.StatusCode.UNAUTHENTICATED


class UnknownResource(ProviderError):
    status, kind = 404, "invalid_request_error"
    grpc_status = grpc.StatusCode.NOT_FOUND


class UnservedModel(UnknownResource):
    code = "model_not_found"

    def __init__(self, model: str) -> None:
        # The wording is Triton's own, which its client's examples look for.
        super().__init__(f"Request for unknown model: '{model}' is not found", param="model")


class TooLarge(ProviderError):
    status, kind = 413, "invalid_request_error"
    grpc_status = grpc.StatusCode.RESOURCE_EXHAUSTED


class RateLimited(ProviderError):
    status, kind, code = 429, "requests", "rate_limit_exceeded"
    grpc_status = grpc.StatusCode.RESOURCE_EXHAUSTED

    def __init__(self, settings: CloudSettings) -> None:
        headers = {}
        if settings.retry_after_s is not None:
            headers["retry-after"] = str(math.ceil(settings.retry_after_s))
        if settings.retry_after_ms is not None:
            headers["retry-after-ms"] = f"{settings.retry_after_ms:g}"
        super().__init__("Rate limit reached. Please try again later.", headers=headers)


class Failed(ProviderError):
    def __init__(self, settings: CloudSettings) -> None:
        super().__init__("The server had an error while processing your request. Sorry about that!")
        self.status = settings.error_status


class Overloaded(ProviderError):
    status = 503
    grpc_status = grpc.StatusCode.UNAVAILABLE
