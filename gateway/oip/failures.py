"""What a server of the protocol says when it failed, where its status alone does not tell."""

from __future__ import annotations

from gateway.errors import ModelFailed, UpstreamFailed

GRAY = "is not healthy"
"""In Triton 2.51's words when a model's process has died. The server stays ready, and every
inference of the model fails until it is restarted."""


def of_model(
    words: str,
    *,
    grpc_status: str = "INTERNAL",
    body: bytes | None = None,
    response: bytes | None = None,
) -> UpstreamFailed:
    """The failure of a call that the server did take on."""
    if GRAY in words:
        return UpstreamFailed(words)
    return ModelFailed(words, grpc_status=grpc_status, body=body, response=response)
