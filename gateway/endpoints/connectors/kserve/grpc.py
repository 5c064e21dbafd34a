"""Any Open Inference Protocol (KServe v2) service over gRPC, without what only Triton knows."""

from __future__ import annotations

from gateway.core.types import InferenceRequest, ServedModel, TensorCall
from gateway.endpoints.connectors.open_inference.grpc import GrpcTarget, OipGrpcClient
from gateway.protocols.oip.grpc import encode_request

_TRITON_ONLY = ("timeout", "priority")
"""Request parameters that are the gateway's own business here: it keeps the deadline and the
queue. `sequence_*` goes on, since a service that keeps sequences knows them."""


def kserve_grpc(target: GrpcTarget) -> OipGrpcClient:
    return OipGrpcClient(target, _encode)


def _encode(call: TensorCall, request: InferenceRequest, served: ServedModel) -> list[bytes]:
    return encode_request(call, served.model, served.version or call.version, without=_TRITON_ONLY)
