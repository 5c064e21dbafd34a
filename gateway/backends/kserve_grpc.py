"""Any Open Inference Protocol (KServe v2) service over gRPC, without what only Triton knows."""

from __future__ import annotations

from gateway.backends.oip_grpc import GrpcTarget, OipGrpcClient
from gateway.oip.grpc import encode_request
from gateway.types import InferenceRequest, ServedModel, TensorCall

_TRITON_ONLY = ("timeout", "priority")
"""Request parameters that are the gateway's own business here: it keeps the deadline and the
queue. `sequence_*` goes on, since a service that keeps sequences knows them."""


def kserve_grpc(target: GrpcTarget) -> OipGrpcClient:
    return OipGrpcClient(target, _encode)


def _encode(call: TensorCall, request: InferenceRequest, served: ServedModel) -> list[bytes]:
    return encode_request(call, served.model, served.version or call.version, without=_TRITON_ONLY)
