"""The premises are down and the cloud is up: the gateway is ready, and says what is missing."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.live import LiveGateway, LoopThread, serving, settings, simulated_cloud, wait_until

CHAT = {"model": "scribe", "max_tokens": 2, "messages": [{"role": "user", "content": "Hi."}]}


@pytest.fixture(scope="module")
def house(
    loop_thread: LoopThread, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveGateway]:
    scratch = tmp_path_factory.mktemp("readiness")
    with socket.socket() as nobody, simulated_cloud(loop_thread) as cloud:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        document = settings(cloud, scratch, classify={"names": "off"})
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        document["endpoints"]["local"] = {"kind": "kserve", "zone": "onprem", "url": url}
        with serving(document, scratch) as gateway:
            wait_until(lambda: gateway.client.get("/readyz").status_code == 200, 15)
            yield gateway


def test_it_is_ready_on_every_front(house: LiveGateway) -> None:
    ready = house.client.get("/readyz")
    assert (ready.status_code, ready.json()) == (200, {"ready": True, "onprem_up": False})
    assert house.client.get("/v2/health/ready").status_code == 200
    assert house.client.get("/v2/models/scribe/ready").status_code == 200
    with grpc.insecure_channel(house.grpc_target) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert stub.ServerReady(service_pb2.ServerReadyRequest(), timeout=10).ready
        health = health_pb2_grpc.HealthStub(channel)
        overall = health.Check(health_pb2.HealthCheckRequest(), timeout=10)
        assert overall.status == health_pb2.HealthCheckResponse.SERVING


def test_that_restricted_calls_have_no_place_is_told_apart(house: LiveGateway) -> None:
    assert house.client.get("/readyz/onprem").status_code == 503
    status = house.client.get("/status").json()
    assert (status["ready"], status["onprem_up"]) == (True, False)
    metrics = house.client.get("/metrics").text.splitlines()
    assert {"spillway_ready 1.0", "spillway_onprem_up 0.0"} <= set(metrics)
    with grpc.insecure_channel(house.grpc_target) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        onprem = health_pb2.HealthCheckRequest(service="spillway.onprem")
        told = health.Check(onprem, timeout=10)
        assert told.status == health_pb2.HealthCheckResponse.NOT_SERVING


def test_clear_calls_are_served_and_restricted_ones_refused(house: LiveGateway) -> None:
    clear = house.client.post("/v1/chat/completions", json=CHAT)
    assert (clear.status_code, clear.headers["x-spillway-zone"]) == (200, "cloud")
    label = {"x-spillway-sensitivity": "restricted", "x-latency-budget-ms": "1000"}
    refused = house.client.post("/v1/chat/completions", json=CHAT, headers=label)
    assert refused.status_code == 503
    assert refused.headers["x-spillway-reason"] == "onprem_unavailable_restricted"
