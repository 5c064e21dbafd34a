"""The gRPC side as a whole: what is served there, what is not, and how calls end early (C7, D3)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from tests.scenarios.both_ways import SERVICE, BothWays, both_ways
from tests.scenarios.waiting import Waits, ask

NOTICED_S = 0.1  # BEHAVIOURS D3
PATIENCE_S = 20.0


@pytest.fixture
def channel(ways: BothWays) -> Iterator[Any]:
    with grpc.insecure_channel(
        ways.through.grpc_target, options=(("grpc.enable_http_proxy", 0),)
    ) as found:
        yield found


def test_health_checks_as_kubernetes_makes_them(channel: Any) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    for service in ("", "inference.GRPCInferenceService"):
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE_S)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    watch = stub.Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S)
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
    watch.cancel()
    with pytest.raises(grpc.RpcError) as caught:
        stub.Check(health_pb2.HealthCheckRequest(service="other"), timeout=PATIENCE_S)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_a_client_that_knows_no_protocol_learns_it_by_reflection(channel: Any) -> None:
    """As grpcurl does: list the services, fetch a method's types, call it."""
    known = ProtoReflectionDescriptorDatabase(channel)
    assert {"inference.GRPCInferenceService", "grpc.health.v1.Health"} <= set(known.get_services())
    pool = descriptor_pool.DescriptorPool(known)
    service = pool.FindServiceByName("inference.GRPCInferenceService")
    method = service.methods_by_name["ModelReady"]
    question = message_factory.GetMessageClass(method.input_type)(name="simple")
    call = channel.unary_unary(
        f"/{service.full_name}/{method.name}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=message_factory.GetMessageClass(method.output_type).FromString,
    )
    assert call(question, timeout=PATIENCE_S).ready


def test_reflection_describes_the_whole_service(channel: Any) -> None:
    known = ProtoReflectionDescriptorDatabase(channel)
    pool = descriptor_pool.DescriptorPool(known)
    found = descriptor_pb2.ServiceDescriptorProto()
    pool.FindServiceByName("inference.GRPCInferenceService").CopyToProto(found)
    told = {method.name for method in found.method}
    assert {"ModelInfer", "ModelStreamInfer", "ServerLive", "RepositoryIndex"} <= told


@pytest.mark.parametrize(
    "path",
    [
        "/inference.GRPCInferenceService/Nothing",
        "/inference.GRPCInferenceService/modelinfer",
        "/inference.GRPCInferenceService/ModelInfer/",
        "/inference.Other/ModelInfer",
        "/grpc.channelz.v1.Channelz/GetServers",
        "/",
    ],
)
def test_what_is_no_method_here_is_unimplemented(channel: Any, path: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(path)(b"", timeout=PATIENCE_S)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


CONTROL = [
    method.name
    for method in service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods
    if method.name.startswith(("RepositoryModel", "System", "Cuda", "Trace", "Log"))
]


@pytest.mark.parametrize("name", CONTROL)
def test_what_controls_triton_does_not_reach_it(channel: Any, name: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(SERVICE + name)(b"", timeout=PATIENCE_S)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "not offered by this gateway" in (caught.value.details() or "")


def started(channel: Any, kind: str, timeout: float = PATIENCE_S) -> Any:
    message = ask(0).SerializeToString()
    if kind == "unary":
        return channel.unary_unary(SERVICE + "ModelInfer").future(message, timeout=timeout)
    stream = channel.stream_stream(SERVICE + "ModelStreamInfer")
    return stream(iter([message]), timeout=timeout)


@pytest.mark.parametrize("kind", ["unary", "stream"])
def test_a_call_that_its_caller_cancels_is_cancelled_in_the_model(
    channel: Any, waits: Waits, kind: str
) -> None:
    before = waits.begun()
    call = started(channel, kind)
    waits.has_begun(before)
    cancelled_s = time.monotonic()
    call.cancel()
    assert waits.was_cancelled(cancelled_s) - cancelled_s < NOTICED_S


@pytest.mark.parametrize("kind", ["unary", "stream"])
def test_a_call_whose_deadline_passes_is_cancelled_in_the_model(
    channel: Any, waits: Waits, kind: str
) -> None:
    began_s = time.monotonic()
    call = started(channel, kind, timeout=0.5)
    try:
        told = call.result() if kind == "unary" else b"".join(call)
    except grpc.RpcError:  # the caller's own timer was first
        told = b"latency budget"
        assert call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert b"latency budget" in told
    assert waits.was_cancelled(began_s) - began_s < 0.5 + NOTICED_S


def test_a_latency_budget_in_metadata_cancels_the_model(channel: Any, waits: Waits) -> None:
    began_s = time.monotonic()
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(SERVICE + "ModelInfer")(
            ask(0).SerializeToString(),
            timeout=PATIENCE_S,
            metadata=(("x-latency-budget-ms", "300"),),
        )
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert waits.was_cancelled(began_s) - began_s < 0.3 + NOTICED_S


SECRET = "a-secret-of-some-length"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothWays]:
    """A gateway with a key, and with a version of its own choice behind two of its names."""
    scratch = tmp_path_factory.mktemp("guarded")
    secret = scratch / "key"
    secret.write_text(SECRET)
    keys = {"app": {"key": f"${{file:{secret}}}", "tenant": "app"}}
    models = {
        "pinned": {"served_by": [{"endpoint": "local", "model": "versioned", "version": "1"}]},
        "free": {"served_by": [{"endpoint": "local", "model": "versioned"}]},
    }
    with both_ways(scratch, keys=keys, models=models) as found:
        yield found


KEY = {"authorization": f"Bearer {SECRET}"}


def clients(guarded: BothWays) -> list[tuple[Any, Any]]:
    address = guarded.through.http_url.removeprefix("http://")
    return [
        (httpclient.InferenceServerClient(address), httpclient),
        (grpcclient.InferenceServerClient(guarded.through.grpc_target), grpcclient),
    ]


def version_that_answers(client: Any, kind: Any, model: str, version: str = "") -> int:
    tensor = kind.InferInput("INPUT", [1], "INT32")
    tensor.set_data_from_numpy(np.zeros(1, dtype=np.int32))
    result = client.infer(model, [tensor], model_version=version, headers={**KEY})
    return int(result.as_numpy("VERSION")[0])


def test_triton_clients_send_a_key_in_their_headers(guarded: BothWays) -> None:
    for client, kind in clients(guarded):
        assert version_that_answers(client, kind, "free") == 2
        for headers in ({}, {"authorization": "Bearer wrong"}):
            with pytest.raises(InferenceServerException) as refusal:
                client.get_model_config("free", headers=headers)
            assert refusal.value.status() in ("401", "StatusCode.UNAUTHENTICATED")
        client.close()


def test_a_version_that_the_settings_pin_is_the_only_one_to_be_had(guarded: BothWays) -> None:
    """The same over both protocols: neither is the caller's wish ignored, nor the operator's."""
    for client, kind in clients(guarded):
        assert version_that_answers(client, kind, "free") == 2
        assert version_that_answers(client, kind, "free", "1") == 1
        assert version_that_answers(client, kind, "pinned") == 1
        assert version_that_answers(client, kind, "pinned", "1") == 1
        with pytest.raises(InferenceServerException, match="Request for unknown model") as refusal:
            version_that_answers(client, kind, "pinned", "2")
        assert refusal.value.status() in ("404", "StatusCode.NOT_FOUND")
        assert client.is_model_ready("pinned", "1", headers={**KEY})
        assert not client.is_model_ready("pinned", "2", headers={**KEY})
        with pytest.raises(InferenceServerException, match="Request for unknown model"):
            client.get_model_metadata("pinned", "2", headers={**KEY})
        client.close()
