"""What a provider's failure means for the call (BEHAVIOURS A5), in a status or within an answer.

No message quotes the provider: its words may repeat the caller's. They reach the caller as the body
of `UpstreamRefused`, and go nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from gateway.core import ambient
from gateway.core.errors import UpstreamBusy, UpstreamError, UpstreamFailed, UpstreamRefused
from gateway.endpoints.connectors.openai.words import ProviderWords

_GRPC_STATUS = {
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    413: "RESOURCE_EXHAUSTED",
}
_LATER = (408, 409, 425)  # refusals of this moment, which the SDKs try again
_NEVER = (501, 505)  # of the 5xx: what the endpoint cannot do at all
_UNKNOWN = (502, 504)  # a proxy gave up waiting, and what stands behind it may have served the call
_AGAIN = {b"true": True, b"false": False}
_BUSY = {
    "rate_limit_exceeded",
    "rate_limit_error",
    "insufficient_quota",
    "overloaded_error",
    "RateLimitError",
}
_REFUSED = {"invalid_request_error", "content_filter", "content_policy_violation", "invalid_prompt"}
_LONGEST_WAIT_S = 86_400.0


def error_from_status(status: int, headers: Mapping[bytes, bytes], body: bytes) -> UpstreamError:
    wait_s, again = retry_after_s(headers), _AGAIN.get(headers.get(b"x-should-retry", b""))
    if status == 429:  # guard: A5.busy-status
        return UpstreamBusy(
            "the endpoint takes no more calls for now", retry_after_s=wait_s, transient=again
        )
    if status == 401 or (status == 403 and not body):
        return UpstreamFailed(
            f"the endpoint does not accept this gateway's credentials ({status})",
            reason="upstream_credentials",
            unserved=True,
            any_call=status == 401,
        )
    if 400 <= status < 500:
        refused = UpstreamRefused(
            f"the endpoint refused the call ({status})",
            http_status=status,
            grpc_status=_GRPC_STATUS.get(status, "INVALID_ARGUMENT"),
            body=body or None,
            retry_after_s=wait_s,
        )
        refused.may_retry = status in _LATER if again is None else again
        return refused
    if 300 <= status < 400:
        return UpstreamFailed(
            f"the endpoint answered with a redirect ({status}), never followed",
            unserved=True,
            any_call=True,
        )
    return UpstreamFailed(
        f"the endpoint answered with status {status}",
        retry_after_s=wait_s,
        transient=status not in _NEVER if again is None else again,
        unserved=status not in _UNKNOWN,
    )


def in_document(document: Mapping[str, Any], words: ProviderWords) -> UpstreamError | None:
    """The failure that a document of an answer with status 200 reports, if it does."""
    if document.get("type") in ("error", "response.failed"):
        error = document.get("error") or _inner(document) or document
    elif document.get("object") == "error":
        error = document.get("error") or document
    else:
        error = document.get("error")
    if not error:
        return None
    fields = error if isinstance(error, dict) else {}
    code = fields.get("code")
    kinds = {word for word in (code, fields.get("type")) if isinstance(word, str)}
    status = code if isinstance(code, int) else 0
    if status == 429 or kinds & _BUSY:
        return UpstreamBusy("the endpoint takes no more calls for now")
    if kinds & _REFUSED or (400 <= status < 500 and status != 401):
        return UpstreamRefused(
            "the endpoint refused the call within its answer",
            http_status=status or 400,
            body=words.within(error, status or 400),
        )
    return UpstreamFailed("the endpoint reported an error within its answer", transient=True)


def _inner(document: Mapping[str, Any]) -> Any:
    response = document.get("response")
    return response.get("error") if isinstance(response, dict) else None


def retry_after_s(headers: Mapping[bytes, bytes]) -> float | None:
    """Seconds to wait: `retry-after-ms`, else `retry-after` as seconds or as a date."""
    if (wait_s := _seconds(headers.get(b"retry-after-ms"), 1000)) is not None:
        return wait_s
    raw = headers.get(b"retry-after")
    if (wait_s := _seconds(raw, 1)) is not None or raw is None:
        return wait_s
    try:
        at = parsedate_to_datetime(raw.decode("latin-1"))
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return _sensible((at - datetime.fromtimestamp(ambient.wall_s(), UTC)).total_seconds())


def _seconds(raw: bytes | None, per_second: int) -> float | None:
    try:
        return None if raw is None else _sensible(float(raw) / per_second)
    except ValueError:
        return None


def _sensible(wait_s: float) -> float | None:
    return None if math.isnan(wait_s) else min(max(wait_s, 0.0), _LONGEST_WAIT_S)
