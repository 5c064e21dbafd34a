"""A call that a text model cannot honour, told in the shape of the OpenAI API."""

from __future__ import annotations

from gateway.core.errors import UpstreamRefused
from gateway.protocols import strictjson


def refused(param: str, why: str, code: str = "not_offered") -> UpstreamRefused:
    """400. `param` is the key that stands in the way; never what it held."""
    message = f"{param}: {why}"
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return UpstreamRefused(message, body=strictjson.dumps({"error": error}))
