"""What a gRPC status, or an error within a stream, means for the call (BEHAVIOURS A5).

The endpoint's words go to the caller, whose client may look for them; they may repeat the caller's
own, so nothing else may record `message`: `reason` is what logs and records keep.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import grpc
from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2

from gateway.core.errors import (
    AnswersFull,
    DeadlineExceeded,
    Unconnected,
    UpstreamBusy,
    UpstreamError,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamUnreachable,
)
from gateway.endpoints.connectors.credential_mask import NO_CREDENTIALS, CredentialMask
from gateway.protocols.http2.message import GrpcStatusError, NoConnection, NoRoom
from gateway.protocols.oip.failures import model_failure
from gateway.protocols.oip.stream_frames import StreamFrame

_HTTP_STATUS = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.UNIMPLEMENTED: 400,  # such as ModelInfer of a decoupled model
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.ABORTED: 409,
}
_CREDENTIALS = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
_UNREACHABLE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
_TOO_LARGE = "larger than max"
_BROKEN_OFF = ("RST_STREAM", "Stream removed")  # gRPC's own words, with INTERNAL or UNKNOWN
# Triton's words where it has no room or no version to run, and a stream carries no status.
_NOT_NOW = ("no available versions", "maximum queue size", "is not ready", "is unavailable")
_NOT_CONNECTED = "failed to connect"  # gRPC's own words
_MOST_WORDS = 4096


RAISED = (GrpcStatusError, DecodeError)
"""What calls of gRPC raise, which becomes ours by one of these two."""


def ours(
    exc: Exception, mask: CredentialMask = NO_CREDENTIALS
) -> UpstreamError | DeadlineExceeded | AnswersFull:
    """To be raised `from None`: what was said may repeat the call's words."""
    if isinstance(exc, NoConnection):
        return Unconnected("no connection to the endpoint")
    if isinstance(exc, NoRoom):
        return AnswersFull()
    if isinstance(exc, GrpcStatusError):
        # guard: T5.grpc-words -> details = exc.details
        details = mask.masked_text(exc.details)
        return error_from_status(grpc.StatusCode[exc.code], details)
    return UpstreamFailed("the endpoint's answer is not of the protocol")


@contextmanager
def translated(mask: CredentialMask = NO_CREDENTIALS) -> Iterator[None]:
    try:
        yield
    except RAISED as exc:
        raise ours(exc, mask) from None


def error_from_status(code: grpc.StatusCode, details: str) -> UpstreamError | DeadlineExceeded:
    words = details[:_MOST_WORDS] or "the endpoint gave no reason"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineExceeded("the endpoint did not answer within the latency budget")
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        if _TOO_LARGE in details:
            return UpstreamRefused(words, http_status=413, grpc_status=code.name)
        return UpstreamBusy("the endpoint takes no more calls for now")
    if code is grpc.StatusCode.UNAVAILABLE and details.startswith(_NOT_CONNECTED):
        return Unconnected("no connection to the endpoint")
    if code in _UNREACHABLE or any(text in details for text in _BROKEN_OFF):
        return UpstreamUnreachable("the endpoint cannot be reached, or broke the call off")
    if code in _CREDENTIALS:
        return UpstreamFailed(
            f"the endpoint does not accept this gateway's credentials ({code.name})",
            reason="upstream_credentials",
            unserved=True,
            any_call=code is grpc.StatusCode.UNAUTHENTICATED,
        )
    if (http_status := _HTTP_STATUS.get(code)) is not None:
        return UpstreamRefused(words, http_status=http_status, grpc_status=code.name)
    return model_failure(words, grpc_status=code.name)


def in_stream(frame: StreamFrame, mask: CredentialMask = NO_CREDENTIALS) -> UpstreamError:
    """An error within a stream has words and no status. Triton names the model in it when the
    model failed, and only the request's id when the request was refused (seen on 2.51)."""
    # guard: T5.stream-words -> words = frame.error[:_MOST_WORDS]
    words = mask.masked_text(frame.error)[:_MOST_WORDS]
    if any(text in words for text in _NOT_NOW):
        return UpstreamUnreachable("the endpoint cannot run the model now")
    if words.startswith("Request for unknown model"):
        return UpstreamRefused(words, http_status=404, grpc_status="NOT_FOUND")
    if _names_model(frame.response):
        return model_failure(words, response=frame.response)
    return UpstreamRefused(words)


def _names_model(response: bytes) -> bool:
    try:
        return bool(service_pb2.ModelInferResponse.FromString(response).model_name)
    except DecodeError:
        return False
