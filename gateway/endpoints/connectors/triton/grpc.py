"""The gRPC side of a Triton server.

Triton gets the remaining time twice: as `grpc-timeout`, and as its request parameter `timeout` in
microseconds. With a plain `dynamic_batching {}`, a sequence batcher or none, 2.51 takes the
parameter and does nothing with it, down to a single microsecond; where a model's queue policy
allows an override, a call that waits too long is refused instead of executed.
"""

from __future__ import annotations

from gateway.core.types import InferenceRequest, ServedModel, TensorCall
from gateway.endpoints.connectors.open_inference.grpc import GrpcTarget, OipGrpcClient
from gateway.protocols.oip.grpc import encode_request


def triton_grpc(target: GrpcTarget) -> OipGrpcClient:
    return OipGrpcClient(target, _encode)


def _encode(call: TensorCall, request: InferenceRequest, served: ServedModel) -> list[bytes]:
    # guard: D3.triton-timeout without timeout_us=max(1, int(request.deadline.remaining_s() *
    #   1000000.0))
    return encode_request(
        call,
        served.model,
        served.version or call.version,
        timeout_us=max(1, int(request.deadline.remaining_s() * 1e6)),
    )
