"""A call at a version of its model, where the calls are split among several.

A version that a server does not have is passed over, so a rollback loses no call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

from gateway.core.errors import UpstreamBusy, UpstreamError, UpstreamGivenUp, UpstreamRefused
from gateway.core.reply import ReplyStream
from gateway.core.types import InferenceRequest, ServedModel, TensorCall
from gateway.scheduling.routing.version_split import preferred_versions

Open = Callable[[InferenceRequest, ServedModel], Awaitable[ReplyStream]]
"""`Connector.open`."""

_UNKNOWN = 404  # what servers of the protocol refuse a version with that they do not have


async def open_split(
    open_stream: Open, request: InferenceRequest, served: ServedModel
) -> ReplyStream:
    """At its caller's version, or at another one that is there. Raises what that raises."""
    for one in _tries(request, served):
        try:
            return await open_stream(request, one)
        except UpstreamError as exc:
            if not (one.version and _lacks_version(exc, request)):
                raise
    raise AssertionError("unreachable")


def _lacks_version(exc: UpstreamError, request: InferenceRequest) -> bool:
    """Whether a server may say so of a version that it has not, or is about to drop: Triton answers
    404, and while it unloads one, 503. Part of a sequence is not sent twice."""
    if isinstance(exc, UpstreamRefused):
        return exc.http_status == _UNKNOWN  # guard: R5.missing-version -> return False
    call = request.payload
    sequence = isinstance(call, TensorCall) and call.sequence is not None
    stays_out = exc.any_call or isinstance(exc, UpstreamBusy | UpstreamGivenUp)
    # guard: R5.unloading-version -> return False
    return exc.transient and not stays_out and (exc.unserved or not sequence)


def _tries(request: InferenceRequest, served: ServedModel) -> Iterator[ServedModel]:
    """Last the server's choice. A caller that names a version has that one alone."""
    call = request.payload
    if not (isinstance(call, TensorCall) and call.version):  # guard: R5.named-version -> if True:
        for version in preferred_versions(served, request):
            yield replace(served, version=version)
    yield served
