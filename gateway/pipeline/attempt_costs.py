"""What one attempt costs, by what came of its answer."""

from __future__ import annotations

from typing import Final

from gateway.accounting.pricing import tariff
from gateway.accounting.pricing.gputime import GpuTime
from gateway.core.types import (
    Cost,
    Frame,
    GrpcMessage,
    InferenceRequest,
    ReplyStream,
    ServedModel,
    ServerEvent,
    ServerEvents,
    Usage,
)

NOT_SENT: Final = Cost()
_FRAMED_BYTES: Final = len(ServerEvent(b"").framed())


class AnswerMeter:
    """How much has come of one answer."""

    __slots__ = ("_request", "_served", "frames", "gpu_mark", "received_bytes")

    def __init__(self, request: InferenceRequest, served: ServedModel) -> None:
        self._request, self._served = request, served
        self.frames = 0
        self.received_bytes = 0  # where they are paid for
        self.gpu_mark = 0.0  # of `GpuTime`, where the attempt has a share of it

    def add(self, frame: Frame | None) -> None:
        if frame is not None:
            self.frames += frame.count if type(frame) is ServerEvents else 1
            if self._served.egress_usd_per_gb:
                self.received_bytes += _length(frame)

    def cloud_cost(self, usage: Usage | None, unserved: bool) -> Cost:
        """`unserved`: the endpoint said that it served nothing, and counted no tokens."""
        if unserved:  # guard: B3.unserved-free
            return NOT_SENT
        return tariff.in_the_cloud(
            self._request, self._served, usage, self.frames, self.received_bytes
        )

    def onprem_cost(self, gpu: GpuTime, usage: Usage | None, cloud: ServedModel | None) -> Cost:
        """Beside what `cloud` would have charged for the same answer."""
        cost = tariff.on_the_premises(self._served, gpu.leaves_ns(self.gpu_mark), usage)
        if cloud is None:
            return cost
        return tariff.compared(cost, tariff.instead(self._request, cloud, usage, self.frames))

    def total_usage(self, stream: ReplyStream | None) -> Usage | None:
        """Of an answer that states all tokens in one number: they are taken for input or for
        output, whichever is dearer."""
        total = total_tokens(stream)
        if total is None:
            return None
        prices = tariff.tariff(self._served)
        return Usage(total, 0) if prices.given >= prices.written else Usage(0, total)


def counted_usage(stream: ReplyStream | None) -> Usage | None:
    """As the endpoint counted it."""
    usage = getattr(stream, "usage", None)
    return usage if type(usage) is Usage else None


def total_tokens(stream: ReplyStream | None) -> int | None:
    tokens = getattr(stream, "total_tokens", None)
    return tokens if isinstance(tokens, int) else None


def _length(frame: Frame) -> int:
    if isinstance(frame, ServerEvents):
        return len(frame.text) - frame.count * _FRAMED_BYTES
    if isinstance(frame, GrpcMessage):
        return len(frame.message)
    return len(frame.data) if isinstance(frame, ServerEvent) else len(frame.body)
