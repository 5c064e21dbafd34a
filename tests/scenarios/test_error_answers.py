"""Every error that a caller is told counts once, also when nothing of the call was read."""

from __future__ import annotations

from collections.abc import Callable

import grpc
import pytest
import tritonclient.grpc
from prometheus_client.parser import text_string_to_metric_families
from tritonclient.utils import InferenceServerException

from tests.live import LiveGateway


def counted(gateway: LiveGateway) -> dict[tuple[str, str], float]:
    return {
        (sample.labels["protocol"], sample.labels["reason"]): sample.value
        for family in text_string_to_metric_families(gateway.metrics())
        for sample in family.samples
        if sample.name == "spillway_error_answers_total"
    }


def _http(method: str, path: str, body: bytes = b"") -> Callable[[LiveGateway], None]:
    def call(gateway: LiveGateway) -> None:
        headers = {"content-type": "application/json"}
        answer = gateway.client.request(method, path, content=body, headers=headers)
        assert answer.status_code >= 400

    return call


def _grpc_model(gateway: LiveGateway) -> None:
    with tritonclient.grpc.InferenceServerClient(gateway.grpc_target) as client:
        tensor = tritonclient.grpc.InferInput("x", [0], "FP32")
        tensor._raw_content = b""
        with pytest.raises(InferenceServerException):
            client.infer("nowhere", [tensor])


def _grpc_control(gateway: LiveGateway) -> None:
    with (
        tritonclient.grpc.InferenceServerClient(gateway.grpc_target) as client,
        pytest.raises(InferenceServerException),
    ):
        client.unload_model("simple")


def _grpc_stream(gateway: LiveGateway) -> None:
    with grpc.insecure_channel(gateway.grpc_target) as channel:
        stream = channel.stream_stream(
            "/inference.GRPCInferenceService/ModelStreamInfer", bytes, bytes
        )
        assert list(stream(iter([b"\xff\xff"]), timeout=10))


CASES = {
    "v2 route": (_http("GET", "/v2/nowhere"), ("kserve-rest", "unknown_route")),
    "v2 body": (_http("POST", "/v2/models/simple/infer", b"{"), ("kserve-rest", "malformed_body")),
    "v1 model": (
        _http("POST", "/v1/chat/completions", b'{"model": "nowhere", "messages": []}'),
        ("openai", "unknown_model"),
    ),
    "v1 method": (_http("PUT", "/v1/models"), ("openai", "method_not_allowed")),
    "other path": (_http("GET", "/nowhere"), ("ops", "unknown_route")),
    "gRPC model": (_grpc_model, ("kserve-grpc", "unknown_model")),
    "gRPC control": (_grpc_control, ("kserve-grpc", "not_offered")),
    "gRPC stream": (_grpc_stream, ("kserve-grpc", "malformed_body")),
}


@pytest.mark.parametrize("case", CASES)
def test_an_error_counts_by_its_protocol_and_reason(gateway: LiveGateway, case: str) -> None:
    call, counter = CASES[case]
    before = counted(gateway)
    call(gateway)
    after = counted(gateway)
    assert after[counter] == before.pop(counter, 0) + 1
    del after[counter]
    assert after == before
