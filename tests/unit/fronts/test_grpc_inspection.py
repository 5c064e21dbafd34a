"""The gRPC front's other methods: inspection, health, reflection, and what is refused."""

from __future__ import annotations

import asyncio

import grpc
import grpc.aio
import pytest
import tritonclient.grpc.aio as tritongrpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from gateway.server.grpc.front import ONPREM_SERVICE
from tests.unit.grpc_rig import FakeInspection, Pipeline, failure, infer_request, key, running_front

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]

AUTHORIZED = (("authorization", "Bearer secret"),)


CONTROL = [
    m.name
    for m in service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods
    if m.name.startswith(("RepositoryModel", "System", "Cuda", "Trace", "Log"))
]


@pytest.mark.parametrize("method", CONTROL)
async def test_what_controls_a_server_is_refused_in_clear_words(method: str) -> None:
    async with running_front() as run:
        call = run.channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
        found = await failure(call(b""))
    assert found.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "not offered" in (found.details() or "")


def test_those_are_all_of_them() -> None:
    assert len(CONTROL) == 10


async def test_unknown_methods_are_not_proxied() -> None:
    async with running_front() as run:
        for path in ("/inference.GRPCInferenceService/Nope", "/other.Service/ModelInfer"):
            found = await failure(run.channel.unary_unary(path)(b""))
            assert found.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_keys_guard_everything_but_health() -> None:
    pipeline = Pipeline()
    inspection = FakeInspection()
    inspection.inspector.answers["ServerMetadata"] = service_pb2.ServerMetadataResponse(
        name="triton"
    )
    async with running_front(
        pipeline.handle, keys={"k": key(models=("simple",))}, inspection=inspection
    ) as run:
        stub = run.stub
        assert (await stub.ServerLive(service_pb2.ServerLiveRequest())).live
        assert (await stub.ServerReady(service_pb2.ServerReadyRequest())).ready
        guarded = {
            "ModelInfer": infer_request(),
            "ModelReady": service_pb2.ModelReadyRequest(name="simple"),
            "ServerMetadata": service_pb2.ServerMetadataRequest(),
            "ModelMetadata": service_pb2.ModelMetadataRequest(name="simple"),
            "ModelConfig": service_pb2.ModelConfigRequest(name="simple"),
            "ModelStatistics": service_pb2.ModelStatisticsRequest(),
            "RepositoryIndex": service_pb2.RepositoryIndexRequest(),
        }
        for method, message in guarded.items():
            found = await failure(getattr(stub, method)(message))
            assert found.code() is grpc.StatusCode.UNAUTHENTICATED, method
        stream = stub.ModelStreamInfer()
        found = await failure(stream.read())
        assert found.code() is grpc.StatusCode.UNAUTHENTICATED
        await stub.ModelInfer(infer_request(), metadata=AUTHORIZED)
        await stub.ServerMetadata(guarded["ServerMetadata"], metadata=AUTHORIZED)
        found = await failure(stub.ModelInfer(infer_request("repeat"), metadata=AUTHORIZED))
        assert found.code() is grpc.StatusCode.PERMISSION_DENIED
        other = service_pb2.ModelConfigRequest(name="repeat")
        found = await failure(stub.ModelConfig(other, metadata=AUTHORIZED))
        assert found.code() is grpc.StatusCode.PERMISSION_DENIED
        index = await stub.RepositoryIndex(guarded["RepositoryIndex"], metadata=AUTHORIZED)
        assert [m.name for m in index.models] == ["simple"]
    assert len(pipeline.seen) == 1


async def test_metadata_comes_from_the_server_under_its_own_name() -> None:
    inspection = FakeInspection(names={"simple": "there"})
    answers = inspection.inspector.answers
    answers["ModelMetadata"] = service_pb2.ModelMetadataResponse(name="there", platform="python")
    answers["ModelConfig"] = service_pb2.ModelConfigResponse()
    answers["ModelStatistics"] = service_pb2.ModelStatisticsResponse()
    for name in ("simple", "hidden"):
        answers["ModelStatistics"].model_stats.add(name=name)
    answers["ServerMetadata"] = service_pb2.ServerMetadataResponse(
        name="triton",
        version="2.51.0",
        extensions=["sequence", "system_shared_memory", "model_repository", "trace", "logging"],
    )
    async with running_front(inspection=inspection) as run:
        async with tritongrpc.InferenceServerClient(run.target) as client:
            assert (await client.get_model_metadata("simple", "1")).platform == "python"
            await client.get_model_config("simple")
            metadata = await client.get_server_metadata()
            stats = await client.get_inference_statistics()
            index = await client.get_model_repository_index()
            assert await client.is_model_ready("simple")
            assert not await client.is_model_ready("nope")
            with pytest.raises(InferenceServerException, match="Request for unknown model"):
                await client.get_model_metadata("nope")
        found = await failure(
            run.stub.ModelConfig(service_pb2.ModelConfigRequest(name="simple", version="a"))
        )
        assert found.code() is grpc.StatusCode.INVALID_ARGUMENT
    asked = service_pb2.ModelMetadataRequest.FromString(inspection.inspector.asked[0][1])
    assert (asked.name, asked.version) == ("there", "1")
    assert metadata.name == "triton"
    assert list(metadata.extensions) == ["sequence", "model_repository"]
    assert [s.name for s in stats.model_stats] == ["simple"]
    assert [m.name for m in index.models] == ["repeat", "seq", "simple"]


async def test_health_follows_readiness() -> None:
    async with running_front() as run:
        stub = health_pb2_grpc.HealthStub(run.channel)
        for ready, status in ((True, "SERVING"), (False, "NOT_SERVING")):
            run.inspection.is_ready = ready
            for service in ("", "inference.GRPCInferenceService"):
                found = await stub.Check(health_pb2.HealthCheckRequest(service=service))
                assert health_pb2.HealthCheckResponse.ServingStatus.Name(found.status) == status
        run.inspection.is_ready, run.inspection.onprem = True, False
        for service, status in (("", "SERVING"), (ONPREM_SERVICE, "NOT_SERVING")):
            found = await stub.Check(health_pb2.HealthCheckRequest(service=service))
            assert health_pb2.HealthCheckResponse.ServingStatus.Name(found.status) == status
        run.inspection.is_ready = False
        watch = stub.Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        run.inspection.is_ready = True
        found = await asyncio.wait_for(watch.read(), 2)
        assert found.status == health_pb2.HealthCheckResponse.SERVING
        other = health_pb2.HealthCheckRequest(service="other")
        assert (await failure(stub.Check(other))).code() is grpc.StatusCode.NOT_FOUND
        await asyncio.wait_for(run.front.drain(600), 60)  # which those who watch do not hold up
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert await watch.code() is grpc.StatusCode.OK


async def test_reflection_lists_the_services() -> None:
    async with running_front() as run:
        stub = reflection_pb2_grpc.ServerReflectionStub(run.channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        call = stub.ServerReflectionInfo(iter([request]))
        found = await call.read()
        call.cancel()
    names = {s.name for s in found.list_services_response.service}
    assert "inference.GRPCInferenceService" in names
    assert "grpc.health.v1.Health" in names
