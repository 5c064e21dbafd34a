"""Failures over the hop: what the owner met is raised again by the gateway that forwarded."""

from __future__ import annotations

import base64
import re
from typing import Any

from gateway.core.errors import (
    AnswersFull,
    DeadlineExceeded,
    DeadlineUnmeetable,
    GatewayError,
    ModelDead,
    ModelFailed,
    Saturated,
    Unconnected,
    UpstreamBusy,
    UpstreamError,
    UpstreamFailed,
    UpstreamGivenUp,
    UpstreamRefused,
    UpstreamSilent,
    UpstreamUnreachable,
)

_FACTS = ("transient", "unserved", "any_call")
_CODE = re.compile(r"[a-z][a-z_]{2,39}")
_PLAIN: dict[str, type[GatewayError]] = {
    kind.__name__: kind
    for kind in (
        AnswersFull,
        DeadlineExceeded,
        DeadlineUnmeetable,
        ModelDead,
        Saturated,
        Unconnected,
        UpstreamBusy,
        UpstreamFailed,
        UpstreamGivenUp,
        UpstreamSilent,
        UpstreamUnreachable,
    )
}
"""What a queue and one try on the premises can end with, and is made of nothing but words."""


def packed(error: GatewayError) -> dict[str, Any]:
    document: dict[str, Any] = {
        "kind": _kind(error),
        "message": error.message,
        "reason": error.reason,
        "retry_after_s": error.retry_after_s,
    }
    if isinstance(error, UpstreamError):
        document |= {name: getattr(error, name) for name in _FACTS}
    if isinstance(error, UpstreamRefused | ModelFailed):
        document |= {"grpc": error.grpc_status, "body": _text(error.body)}
    if isinstance(error, UpstreamRefused):
        document["http"] = error.http_status
    if isinstance(error, ModelFailed):
        document["response"] = _text(error.response)
    return document


def raised(document: dict[str, Any]) -> GatewayError:
    """The error to raise. What nobody knows here is a failure of the endpoint."""
    try:
        return _raised(document)
    except (KeyError, TypeError, ValueError):
        return UpstreamFailed("the owner of the server met what it could not tell")


def _raised(document: dict[str, Any]) -> GatewayError:
    kind, message = document.get("kind"), str(document.get("message", ""))
    if kind == UpstreamRefused.__name__:
        return UpstreamRefused(
            message,
            http_status=int(document["http"]),
            grpc_status=str(document["grpc"]),
            body=_bytes(document["body"]),
        )
    if kind == ModelFailed.__name__:
        return ModelFailed(
            message,
            grpc_status=str(document["grpc"]),
            body=_bytes(document["body"]),
            response=_bytes(document["response"]),
        )
    known = _PLAIN.get(str(kind))
    if known is None:
        return UpstreamFailed("the owner of the server met what it could not tell")
    again_s = document.get("retry_after_s")
    error = known(
        message,
        reason=code(document["reason"], known.reason),
        retry_after_s=None if again_s is None else float(again_s),
    )
    if isinstance(error, UpstreamError):
        for name in _FACTS:
            if isinstance(fact := document.get(name), bool):
                setattr(error, name, fact)
    return error


def code(field: object, instead: str) -> str:
    """A reason code as the peer told it: they are labels of metrics, and never hold content."""
    return field if isinstance(field, str) and _CODE.fullmatch(field) else instead


def _kind(error: GatewayError) -> str:
    for kind in type(error).__mro__:
        if kind in (UpstreamRefused, ModelFailed) or kind.__name__ in _PLAIN:
            return kind.__name__
    return (UpstreamFailed if isinstance(error, UpstreamError) else GatewayError).__name__


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
