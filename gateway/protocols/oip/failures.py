"""What a server of the protocol says when it failed, where its status alone does not tell."""

from __future__ import annotations

import re

from gateway.core.errors import ModelDead, ModelFailed, UpstreamFailed

_DEAD = re.compile(r"Stub process '[A-Za-z0-9_.-]{1,255}' is not healthy\.")
"""The whole of Triton 2.51's words when a model's process has died. The whole, since models quote
what they are sent: otherwise a caller could have the server restarted."""


def model_failure(
    words: str,
    *,
    grpc_status: str = "INTERNAL",
    body: bytes | None = None,
    response: bytes | None = None,
) -> UpstreamFailed:
    """The failure of a call that the server did take on."""
    if _DEAD.fullmatch(words):
        return ModelDead(words)
    return ModelFailed(words, grpc_status=grpc_status, body=body, response=response)
