"""What a failure of a service of AWS means for the call.

By the exceptions of `bedrock-runtime` (2023-09-30) and `sagemaker-runtime` (2017-05-13) and the
common errors of both. Their names count, not their statuses: a throttled call may have 400.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

import orjson

from gateway.core import ambient
from gateway.core.errors import UpstreamError, UpstreamFailed
from gateway.endpoints.connectors.openai import failures
from gateway.endpoints.connectors.openai.words import ProviderWords
from gateway.endpoints.credentials import NoCredential

_STATUSES: Final[Mapping[str, int]] = {
    **dict.fromkeys(
        ("Throttling", "ModelNotReady", "ServiceQuotaExceeded", "TooManyRequests",
         "RequestLimitExceeded"),
        429,
    ),
    **dict.fromkeys(
        ("UnrecognizedClient", "ExpiredToken", "InvalidSignature", "IncompleteSignature",
         "MissingAuthenticationToken", "InvalidClientTokenId", "SignatureDoesNotMatch",
         "RequestExpired", "RequestTimeTooSkewed"),
        401,
    ),
    **dict.fromkeys(("AccessDenied", "NotAuthorized", "OptInRequired"), 403),
    **dict.fromkeys(("InternalServer", "InternalFailure", "InternalStreamFailure",
                     "InternalDependency"), 500),
    **dict.fromkeys(("Validation", "ValidationError"), 400),
    "ResourceNotFound": 404,
    "ServiceUnavailable": 503,
    "ModelTimeout": 504,
}  # fmt: skip
"""By the name of an error without its ending, the status that OpenAI's API has for it."""
_MODEL_ERRORS: Final = frozenset({"ModelError", "ModelStreamError"})
"""The model's own failure, whose status stands beside it."""
_CALL_FAULTS: Final = (400, 413, 422, 429)
_SKEW_S: Final = 240  # of the 300 for which a signature holds


def error_from_answer(
    status: int, headers: Mapping[bytes, bytes], body: bytes, words: ProviderWords
) -> UpstreamError:
    """Of an answer with another status than 200. A key that may not use a model is the gateway's
    fault, as one that is wrong."""
    document = _document(body)
    kind = headers.get(b"x-amzn-errortype", b"").decode("latin-1") or document.get("__type")
    name = _name(kind)
    status = _status(name, document, status)
    if status in (401, 403):
        why = name if name in _STATUSES else str(status)
        return UpstreamFailed(
            f"the endpoint does not accept this gateway's credentials ({why}{_skew(headers)})",
            reason=NoCredential.reason,
            unserved=True,
            any_call=status == 401,
        )
    inner = document.get("OriginalMessage")
    text = inner.encode() if isinstance(inner, str) and inner else body
    return failures.error_from_status(status, headers, words.message(text, status))


def error_in_stream(kind: str, body: bytes, words: ProviderWords) -> UpstreamError:
    """Of an exception within a stream of events."""
    document = _document(body)
    status = _status(_name(kind), document, 500)
    if status in (401, 403):
        return UpstreamFailed("the endpoint reported an error within its answer")
    message = document.get("message") or document.get("Message") or ""
    failure = failures.in_document(
        {"error": {"type": kind, "code": status, "message": message}}, words
    )
    assert failure is not None
    return failure


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    return document if isinstance(document, dict) else {}


def _name(kind: Any) -> str:
    """Of `namespace#NameException:address`, where the name alone always stands, as in the table."""
    name = kind.partition(":")[0].rpartition("#")[2] if isinstance(kind, str) else ""
    return (name[:1].upper() + name[1:]).removesuffix("Exception")


def _status(name: str, document: Mapping[str, Any], usual: int) -> int:
    if name in _MODEL_ERRORS:
        own = document.get("originalStatusCode", document.get("OriginalStatusCode"))
        return own if own in _CALL_FAULTS else 500
    return _STATUSES.get(name, usual)


def _skew(headers: Mapping[bytes, bytes]) -> str:
    """How far clocks are apart, where no signature is accepted for that."""
    try:
        then = parsedate_to_datetime(headers.get(b"date", b"").decode("latin-1"))
    except ValueError:
        return ""
    skew_s = int(then.timestamp() - ambient.wall_s())
    return f"; the clocks are {abs(skew_s)} s apart" if abs(skew_s) >= _SKEW_S else ""
