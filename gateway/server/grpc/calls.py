"""What every method of the gRPC front does with a call: its head, its answer, its failure."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2

from gateway.auth import Caller
from gateway.config.model_catalog import CatalogModel
from gateway.core import timeouts
from gateway.core.errors import (
    DeadlineExceeded,
    GatewayError,
    InternalError,
    MalformedBody,
    RequestRejected,
    UpstreamFailed,
)
from gateway.core.reply import Frame, FrameSource, GrpcMessage, Placement, RestBody, received
from gateway.core.timeouts import Timeout
from gateway.core.types import AT_ONCE_BYTES, Sensitivity, WireProtocol, Zone
from gateway.protocols.http2.exchange import OK
from gateway.protocols.http2.hpack import Field, literal
from gateway.protocols.http2.sender import Fields
from gateway.protocols.oip.grpc import grpc_from_rest
from gateway.protocols.oip.grpc_bounds import check_request
from gateway.server import Services, intake
from gateway.server.grpc.context import Context
from gateway.server.intake import READING, WHERE, CallDefaults, RequestContext

_log = logging.getLogger("gateway.grpc")

LARGE_BYTES = 1 << 17
"""Of a message, whose reading gives way to other calls between its steps."""

GRACE_S = 0.025
"""What the pipeline gets to say by itself that a deadline has passed."""

_LATE = "Deadline Exceeded"
"""gRPC's own words, which clients look for: whose timer ends a call first is chance."""


Unary = Callable[["GrpcCallHead", bytes], Awaitable[bytes]]
Status = tuple[grpc.StatusCode, str, tuple[tuple[str, str], ...]]


class CallMetadata:
    """What the metadata of a call say, whatever its message. It is kept with the head that they
    came in: one that comes again on its connection is not looked into again, as long as the same
    services answer; who calls is asked each time where a key may be revoked or a token expire."""

    __slots__ = ("_defaults_caller", "_terms", "caller", "headers", "repeated", "services")

    def __init__(self, given: Sequence[tuple[str, str | bytes]], services: Services) -> None:
        self.services = services
        self.caller: Caller | None = None  # once it is known, and for as long as they are
        self.repeated = ""  # a header of ours that came twice
        self._terms: CallDefaults | None = None  # of the model that was asked for last
        self._defaults_caller: Caller | None = None
        self.headers: dict[str, str] = {}
        for name, value in given:
            if isinstance(value, bytes):
                if "spillway" in name:  # none of ours is binary, which has to be told
                    self.headers[name] = ""
                continue
            if name in self.headers and name.startswith(
                ("x-", "authorization", "api-key", "traceparent")
            ):
                self.repeated = name
            self.headers[name] = value

    def terms(self, caller: Caller, model: CatalogModel) -> CallDefaults:
        """Raises RequestRejected, Forbidden."""
        terms = self._terms
        # guard: B6.caller-terms minus 3
        # guard: B6.model-terms minus 2
        if terms is None or terms.model is not model or self._defaults_caller is not caller:
            grpc_protocol = WireProtocol.KSERVE_GRPC
            terms = CallDefaults(self.services, caller, self.headers, grpc_protocol, model)
            self._terms, self._defaults_caller = terms, caller
        return terms


class GrpcCallHead:
    """A call of which only the metadata has been read."""

    __slots__ = ("arrival", "context", "headers", "opening")

    def __init__(self, context: Context, services: Services) -> None:
        self.context = context
        self.opening = read_metadata(context, services)
        self.headers = self.opening.headers
        self.arrival = intake.arrive(self.headers, services)

    def caller(self, services: Services) -> Caller:
        """`services`: those of now, which a stream may outlive."""
        opening = self.opening
        # guard: B6.stream-settings minus 1
        if services is opening.services and opening.caller is not None:
            return opening.caller
        admitted: tuple[Services, Caller] | None = self.context.admitted()
        if admitted is not None and admitted[0] is services:  # guard: B6.late-message minus 2
            return admitted[1]
        return authenticate(opening, self.context, services)

    def remaining_s(self) -> float | None:
        """What is left of the caller's `grpc-timeout`, if it sent one."""
        left_s: float | None = self.context.time_remaining()
        return None if left_s is None or math.isinf(left_s) else left_s


def read_metadata(context: Context, services: Services) -> CallMetadata:
    """What is known of its head, as long as the same services answer."""
    opening: CallMetadata | None = context.head.known
    if opening is None or opening.services is not services:  # guard: B6.grpc-settings minus 2
        context.head.known = opening = CallMetadata(context.invocation_metadata(), services)
    return opening


def authenticate(opening: CallMetadata, context: Context, services: Services) -> Caller:
    """Raises Unauthenticated, Unverifiable, RequestRejected."""
    if opening.repeated:
        raise RequestRejected(f"{opening.repeated}: stands twice in the metadata; send it once")
    names = _peer_names(context) if services.callers.knows_certificates else ()
    caller = intake.identify(opening.headers, services, names)
    # guard: B6.grpc-key-check minus 2
    if services is opening.services and services.callers.lasting:
        opening.caller = caller
    return caller


def _peer_names(context: Context) -> tuple[str, ...]:
    """In the certificate that the connection was opened with."""
    shown = context.auth_context()
    names = (*shown.get("peer_uri", ()), *shown.get("peer_dns", ()))
    return tuple(name.decode("utf-8", "replace") for name in names)


def answered(services: Services, method: Unary) -> Callable[[bytes, Context], Awaitable[bytes]]:
    """The one place where the failure of a unary call becomes its status."""

    async def handle(raw: bytes, context: Context) -> bytes:
        head = GrpcCallHead(context, services)
        try:
            with services.held:
                return await method(head, raw)
        except GatewayError as error:
            status = error_status(head.arrival, error, services)
        except Exception as exc:  # noqa: BLE001 - a front's: the caller must get a status
            status = error_status(head.arrival, unexpected(exc), services)
        del raw  # the exception that abort raises keeps this frame until the garbage collector runs
        await context.abort(*status)
        raise AssertionError("abort raises")

    return handle


def unexpected(exc: Exception) -> InternalError:
    _log.error("a call failed in the gateway: %s", type(exc).__name__)  # its text may be content
    return InternalError("the gateway failed to serve this call")


def error_status(arrival: RequestContext, error: GatewayError, services: Services) -> Status:
    """What ends a call by `context.abort`."""
    services.on_error(WireProtocol.KSERVE_GRPC.value, error.reason)
    # guard: A1.grpc-refusal -> headers = ()
    headers = tuple(intake.error_headers(arrival, error).items())
    late = isinstance(error, DeadlineExceeded)
    words = f"{_LATE}: {error.message}" if late else error.message
    return grpc.StatusCode[error.grpc_status], words, headers


_placement_fields: dict[tuple[Zone, str, str, int, Sensitivity], tuple[Field, ...]] = {}
"""What many answers end with alike."""
_MOST_KNOWN = 4096
_OCTET = [chr(size) for size in range(0x7F)]  # the length of a field's value, as HPACK has it
_ID, _TRACE, _READ = (  # of fields that go into no table
    f"\x00{_OCTET[len(name)]}{name}" for name in ("x-request-id", "traceparent", READING)
)


def answered_by(arrival: RequestContext, placement: Placement) -> Fields:
    """The trailers of an answer: `placement_headers`, as they go over the wire."""
    # guard: S7.grpc-attempts -> key = (placement.zone, placement.endpoint, placement.reason, 0,
    #   placement.sensitivity)
    key = (
        placement.zone,
        placement.endpoint,
        placement.reason,
        placement.attempts,
        placement.sensitivity,
    )
    where = _placement_fields.get(key) or _add_placement(*key)
    request_id, trace = arrival.request_id, arrival.traceparent
    read = f"{placement.classify_s * 1000:.3f}"
    own = (
        f"{_ID}{_OCTET[len(request_id)]}{request_id}{_TRACE}{_OCTET[len(trace)]}{trace}"
        f"{_READ}{_OCTET[len(read)]}{read}"
    ).encode("ascii")
    if placement.pseudonymised or placement.limits or placement.data_class:
        for name, value in intake.extra_headers(placement).items():
            own += literal(name.encode(), value.encode("ascii", "replace"))
    return where, own


def _add_placement(
    zone: Zone, endpoint: str, reason: str, attempts: int, sensitivity: Sensitivity
) -> tuple[Field, ...]:
    if len(_placement_fields) >= _MOST_KNOWN:
        _placement_fields.clear()
    key = zone.name, endpoint, reason, str(attempts), sensitivity.word
    fields = [(n.encode(), v.encode("ascii", "replace")) for n, v in zip(WHERE, key, strict=True)]
    fields_ = _placement_fields[zone, endpoint, reason, attempts, sensitivity] = (*OK, *fields)
    return fields_


def parse(kind: Any, raw: bytes) -> Any:
    """A message without the fields that nobody here knows, which would travel on unseen."""
    try:
        message = kind.FromString(raw)
    except DecodeError:
        raise MalformedBody(f"the message is not a {kind.DESCRIPTOR.name}") from None
    message.DiscardUnknownFields()
    return message


async def infer_request(raw: bytes) -> Any:
    """A ModelInferRequest; reading a large one leaves others their turn. Raises MalformedBody,
    BodyTooLarge."""
    if len(raw) <= LARGE_BYTES:
        check_request(raw)
        return parse(service_pb2.ModelInferRequest, raw)
    check_request(raw)
    await asyncio.sleep(0)
    message = parse(service_pb2.ModelInferRequest, raw)
    await asyncio.sleep(0)
    return message


async def only_answer(frames: FrameSource) -> bytes:
    """The answer of a unary call, read to the end so that the call settles as served."""
    answers = await received(frames)
    if not answers:
        raise UpstreamFailed("the endpoint ended the call without an answer")
    return await answer_bytes(answers[0])


async def answer_bytes(frame: Frame | None) -> bytes:
    """A serialised ModelInferResponse, whatever protocol the endpoint spoke."""
    if isinstance(frame, GrpcMessage):
        return frame.message
    if isinstance(frame, RestBody):
        if len(frame.body) > AT_ONCE_BYTES:
            return (await asyncio.to_thread(grpc_from_rest, frame)).message
        return grpc_from_rest(frame).message
    raise InternalError("a frame of another protocol came as the answer to a gRPC call")


def bounded(remaining_s: float) -> Timeout:
    """No wait of a front outlives the deadline, even where the pipeline's own bound fails (D1)."""
    # guard: D1.pipeline-bound -> return timeouts.within(100000.0)
    return timeouts.within(max(0.0, remaining_s) + GRACE_S)


def too_late() -> DeadlineExceeded:
    return DeadlineExceeded("the latency budget passed before the answer was complete")
