"""
Every failure that a caller can see.

* GatewayError
  + RequestRejected             400  INVALID_ARGUMENT    the caller's fault
    - MalformedBody             400  INVALID_ARGUMENT
    - InvalidBudget             400  INVALID_ARGUMENT
    - Unauthenticated           401  UNAUTHENTICATED
    - Forbidden                 403  PERMISSION_DENIED
      . AnswerWithheld          403  PERMISSION_DENIED   what its key may not see is in the answer
    - RouteNotFound             404  UNIMPLEMENTED
    - UnknownModel              404  NOT_FOUND
    - MethodNotAllowed          405  UNIMPLEMENTED
    - BodyTooLarge              413  RESOURCE_EXHAUSTED
    - UnsupportedMedia          415  INVALID_ARGUMENT
    - NotOffered                400  UNIMPLEMENTED       a part of the protocol that we refuse
    - Incapable                 400  UNIMPLEMENTED       no endpoint of the model can
  + Shed                             refused for want of room
    - Saturated                 429  RESOURCE_EXHAUSTED
      . OverLimit               429  RESOURCE_EXHAUSTED  more than its key or its tenant may use
      . BodiesFull              429  RESOURCE_EXHAUSTED  too many bytes of bodies are held
      . AnswersFull             429  RESOURCE_EXHAUSTED  too many bytes of answers are held
    - Unverifiable              503  UNAVAILABLE         nobody can say now who calls
    - DeadlineUnmeetable        503  RESOURCE_EXHAUSTED
    - NoEligibleEndpoint        503  UNAVAILABLE
    - OnpremUnavailable         503  UNAVAILABLE         restricted, and nowhere to go
    - Draining                  503  UNAVAILABLE
    - SpillClosed               503  UNAVAILABLE         the cloud is closed to this call
  + DeadlineExceeded            504  DEADLINE_EXCEEDED
  + UpstreamError                    what an endpoint did; failover looks at the class (A5)
    - UpstreamUnreachable       502  UNAVAILABLE         broken connection, broken stream
      . Unconnected             502  UNAVAILABLE         connect error
      . UpstreamGivenUp         502  UNAVAILABLE         known to be out: not tried, or no longer
        OwnerLost               502  UNAVAILABLE         the gateway that owns it died meanwhile
    - UpstreamSilent            504  UNAVAILABLE         no answer, though there was time
    - UpstreamBusy              429  RESOURCE_EXHAUSTED  its 429
    - UpstreamFailed            502  UNAVAILABLE         its 5xx, nonsense
      . ModelFailed             500  (its own)           the server is well, the model failed
    - UpstreamRefused           4xx  (its own)           its 4xx: no failover
  + InternalError               500  INTERNAL            a bug of ours
* EgressForbidden                    a bug, never a reply: a restricted call met the door out

Messages say what was wrong and how to mend it, with the offending key, never the payload.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gateway.core.types import Outcome


class GatewayError(Exception):
    """`reason` is the machine-readable code that callers, metrics and records share."""

    outcome = Outcome.FAILED
    http_status = 500
    grpc_status = "INTERNAL"  # a name of grpc.StatusCode
    reason = "internal"
    extra_headers: Mapping[str, str] = {}  # more headers of the answer
    may_retry = False  # the caller's own second try may fare better soon
    vetoes: tuple[tuple[str, str], ...] = ()  # of a decision that found no place: (endpoint, why)

    def __init__(
        self, message: str, *, reason: str | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_s = retry_after_s
        if reason is not None:
            self.reason = reason


class RequestRejected(GatewayError):
    outcome = Outcome.REJECTED
    http_status, grpc_status, reason = 400, "INVALID_ARGUMENT", "invalid_request"


class MalformedBody(RequestRejected):
    reason = "malformed_body"


class InvalidBudget(RequestRejected):
    reason = "invalid_latency_budget"


MISSING, WRONG_TYPE, WRONG_VALUE = "missing_required_parameter", "invalid_type", "invalid_value"
NOT_OFFERED = "not_offered"


class InvalidField(RequestRejected):
    """A key of the body that is missing or wrong. `param` names it, never what it held."""

    def __init__(self, param: str, message: str, code: str = WRONG_VALUE) -> None:
        super().__init__(f"{param}: {message}")
        self.param = param
        self.code = code


class Unauthenticated(RequestRejected):
    http_status, grpc_status, reason = 401, "UNAUTHENTICATED", "unauthenticated"


class Forbidden(RequestRejected):
    http_status, grpc_status, reason = 403, "PERMISSION_DENIED", "forbidden"


class AnswerWithheld(Forbidden):
    """The call was served. Its answer holds what its key may not see, or could not be read."""

    reason = "answer_withheld"


class UnknownRoute(RequestRejected):
    http_status, grpc_status, reason = 404, "UNIMPLEMENTED", "unknown_route"


class UnknownModel(RequestRejected):
    http_status, grpc_status, reason = 404, "NOT_FOUND", "unknown_model"


class MethodNotAllowed(RequestRejected):
    http_status, grpc_status, reason = 405, "UNIMPLEMENTED", "method_not_allowed"

    def __init__(self, message: str, allowed: Collection[str]) -> None:
        """`allowed` goes into the header that a 405 must have (RFC 9110, section 15.5.6)."""
        super().__init__(message)
        self.allowed = tuple(sorted(allowed))


class BodyTooLarge(RequestRejected):
    http_status, grpc_status, reason = 413, "RESOURCE_EXHAUSTED", "body_too_large"


class UnsupportedMedia(RequestRejected):
    http_status, reason = 415, "unsupported_media_type"


class NotOffered(RequestRejected):
    grpc_status, reason = "UNIMPLEMENTED", "not_offered"


class Incapable(RequestRejected):
    """No endpoint that the call may go to serves what it asks for. `field`: of its body, by which
    it asks for that."""

    grpc_status, reason, field = "UNIMPLEMENTED", "capability", "model"


class Shed(GatewayError):
    outcome = Outcome.SHED
    http_status, grpc_status, reason = 503, "RESOURCE_EXHAUSTED", "shed"


class Saturated(Shed):
    http_status, reason = 429, "saturated"


class CloudFull(Saturated):
    """Only the cloud could take the call, and has as many as it takes."""

    reason = "cloud_full"

    def __init__(
        self, message: str, endpoints: tuple[str, ...] = (), retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.endpoints = endpoints  # in the cloud, which are full
        self.sent = False  # whether a try of the call had gone out already


class OverLimit(Saturated):
    reason = "requests_limit"


class BodiesFull(Saturated):
    """The bytes of bodies that are held or being inflated for this caller, or for all of them, are
    as many as may be."""

    reason = "bodies_full"

    def __init__(
        self,
        message: str = "the gateway holds as many bytes of requests for this caller as it may; "
        "send again in a while",
    ) -> None:
        super().__init__(message, retry_after_s=1.0)


class AnswersFull(Saturated):
    """The bytes of endpoints' answers that are held for this caller, or for all of them, are as
    many as may be. No other endpoint is asked: its answer would have no more room."""

    reason = "answers_full"

    def __init__(
        self,
        message: str = "the gateway holds as many bytes of answers for this caller as it may; "
        "take those that have come, and call again",
        *,
        reason: str | None = None,
        retry_after_s: float | None = 1.0,
    ) -> None:
        super().__init__(message, reason=reason, retry_after_s=retry_after_s)


class OverTokenLimit(OverLimit):
    reason = "tokens_limit"


class OverConcurrency(OverLimit):
    reason = "concurrent_limit"


class Unverifiable(Shed):
    grpc_status, reason = "UNAVAILABLE", "credential_unverifiable"


class HookFailed(Shed):
    """A hook of the operator's gave no answer."""

    grpc_status, reason = "UNAVAILABLE", "hook_failed"


class DeadlineUnmeetable(Shed):
    reason = "deadline_unmeetable"


class NoEligibleEndpoint(Shed):
    grpc_status, reason = "UNAVAILABLE", "no_eligible_endpoint"


class OnpremUnavailable(Shed):
    sent = False  # whether a try of the call had gone out already
    grpc_status, reason = "UNAVAILABLE", "onprem_unavailable_restricted"


class Draining(Shed):
    grpc_status, reason = "UNAVAILABLE", "draining"


class SpillClosed(Shed):
    grpc_status, reason = "UNAVAILABLE", "spill_stopped"


class DeadlineExceeded(GatewayError):
    outcome = Outcome.EXPIRED
    http_status, grpc_status, reason = 504, "DEADLINE_EXCEEDED", "deadline_exceeded"


class UpstreamError(GatewayError):
    """`transient`: the same endpoint may serve the same call in a moment. `unserved`: it has
    served nothing of the call, and charges nothing. `any_call`: every call would have met it,
    whoever sent it and whatever it holds; a connection that cannot be made is all three."""

    http_status, grpc_status, reason = 502, "UNAVAILABLE", "upstream_failed"
    transient = False
    unserved = False
    any_call = False

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        retry_after_s: float | None = None,
        transient: bool | None = None,
        unserved: bool | None = None,
        any_call: bool | None = None,
    ) -> None:
        super().__init__(message, reason=reason, retry_after_s=retry_after_s)
        if transient is not None:
            self.transient = transient
        if unserved is not None:
            self.unserved = unserved
        if any_call is not None:
            self.any_call = any_call


class UpstreamUnreachable(UpstreamError):
    reason = "upstream_unreachable"
    transient = True


class Unconnected(UpstreamUnreachable):
    """No connection could be made: nothing was sent."""

    unserved = any_call = True


class UpstreamGivenUp(UpstreamUnreachable):
    """A try ended by the gateway, for what it has learned of the endpoint by other means."""

    transient = False


class OwnerLost(UpstreamGivenUp):
    """The gateway that had forwarded the call to the endpoint for us went away before the answer
    was whole. It says nothing of the endpoint."""

    reason = "owner_lost"


class UpstreamSilent(UpstreamError):
    """Nothing came for many times as long as its answers take."""

    http_status, reason = 504, "upstream_timeout"


class UpstreamBusy(UpstreamError):
    outcome = Outcome.SHED
    http_status, grpc_status, reason = 429, "RESOURCE_EXHAUSTED", "upstream_busy"
    transient = unserved = True


class UpstreamFailed(UpstreamError):
    pass


class ModelDead(UpstreamFailed):
    """The process that runs the model has died. The server stays ready, and every inference of the
    model fails until the server is restarted (Triton 2.51)."""


class ModelFailed(UpstreamFailed):
    """The model's own failure on this call, handed on with the server's status and words. Triton
    says INTERNAL even where a model refuses its input, so nobody can tell whose fault it was."""

    http_status, reason = 500, "model_failed"

    def __init__(
        self,
        message: str,
        *,
        grpc_status: str = "INTERNAL",
        body: bytes | None = None,
        response: bytes | None = None,
    ) -> None:
        super().__init__(message)
        self.grpc_status = grpc_status
        self.body = body  # as of UpstreamRefused
        self.response = response  # the ModelInferResponse beside the words within a stream


class UpstreamRefused(UpstreamError):
    """The endpoint's own refusal of the call, handed on with its status and words."""

    outcome = Outcome.REJECTED
    reason = "upstream_refused"
    unserved = True

    def __init__(
        self,
        message: str,
        *,
        http_status: int = 400,
        grpc_status: str = "INVALID_ARGUMENT",
        body: bytes | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.http_status, self.grpc_status = http_status, grpc_status
        self.body = body  # the answer as the endpoint wrote it, for a caller of that protocol


class InternalError(GatewayError):
    pass


class EgressForbidden(RuntimeError):
    """A restricted call reached the one door out of the premises."""


def should_retry(error: GatewayError) -> bool:
    """Whether the same call may fare better soon: a shed call that knows when, a 429, a server that
    drains, and a failure of the endpoint that may be over in a moment where the gateway has not
    made all the tries that it may (`routing.max_attempts`). Not after a caller's mistake; a 502
    behind all of those, which a client's own would multiply; a passed deadline; and a restricted
    call whose premises are down without a known end, which two quick retries cannot mend."""
    if error.may_retry or isinstance(error, Saturated | UpstreamBusy | Draining):
        return True
    return isinstance(error, Shed) and error.retry_after_s is not None
