"""Questions asked by gRPC and answered by REST, and the other way about."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from google.protobuf.message import Message
from tritonclient.grpc import service_pb2 as pb

from gateway.core.errors import MalformedBody, NotOffered, UpstreamFailed
from gateway.core.reply import RestBody
from gateway.protocols.oip import inspect

A = "/v2/models/a"


@pytest.mark.parametrize(
    ("method", "message", "path"),
    [
        ("ServerLive", pb.ServerLiveRequest(), "/v2/health/live"),
        ("ServerMetadata", pb.ServerMetadataRequest(), "/v2"),
        (
            "ModelReady",
            pb.ModelReadyRequest(name="a", version="2"),
            "/v2/models/a/versions/2/ready",
        ),
        ("ModelMetadata", pb.ModelMetadataRequest(name="a/../b"), "/v2/models/a%2F..%2Fb"),
        ("ModelConfig", pb.ModelConfigRequest(name="a"), f"{A}/config"),
        ("ModelStatistics", pb.ModelStatisticsRequest(), "/v2/models/stats"),
    ],
)
def test_each_question_has_its_path(method: str, message: Message, path: str) -> None:
    assert inspect.path(method, message.SerializeToString()) == path


def test_answers_become_messages() -> None:
    metadata = {
        "name": "m",
        "versions": ["1"],
        "platform": "p",
        "inputs": [{"name": "I", "datatype": "INT32", "shape": [-1, 16]}],
        "outputs": [],
        "unknown": 1,
    }
    message = inspect.message("ModelMetadata", RestBody(json.dumps(metadata).encode()))
    assert list(pb.ModelMetadataResponse.FromString(message).inputs[0].shape) == [-1, 16]
    config = RestBody(b'{"name":"m","max_batch_size":8,"input":[{"name":"I","dims":[16]}]}')
    message = inspect.message("ModelConfig", config)
    assert pb.ModelConfigResponse.FromString(message).config.max_batch_size == 8
    message = inspect.message("ModelReady", RestBody(b""))
    assert pb.ModelReadyResponse.FromString(message).ready


def test_other_methods_and_nonsense_are_refused() -> None:
    with pytest.raises(NotOffered):
        inspect.path("RepositoryModelLoad", b"")
    with pytest.raises(MalformedBody):
        inspect.path("ModelReady", b"\xff\xff")
    with pytest.raises(UpstreamFailed):
        inspect.message("ModelMetadata", RestBody(b"[]"))
    with pytest.raises(UpstreamFailed):
        inspect.message("ModelMetadata", RestBody(b"{"))


# Questions asked by REST and answered by gRPC


@pytest.mark.parametrize(
    ("path", "method", "message"),
    [
        ("/v2", "ServerMetadata", pb.ServerMetadataRequest()),
        ("/v2/health/live", "ServerLive", pb.ServerLiveRequest()),
        ("/v2/health/ready", "ServerReady", pb.ServerReadyRequest()),
        ("/v2/models/stats", "ModelStatistics", pb.ModelStatisticsRequest()),
        (A, "ModelMetadata", pb.ModelMetadataRequest(name="a")),
        (f"{A}/config", "ModelConfig", pb.ModelConfigRequest(name="a")),
        (f"{A}/stats", "ModelStatistics", pb.ModelStatisticsRequest(name="a")),
        (f"{A}/ready", "ModelReady", pb.ModelReadyRequest(name="a")),
        (f"{A}/versions/2", "ModelMetadata", pb.ModelMetadataRequest(name="a", version="2")),
        (
            f"{A}/versions/2/stats",
            "ModelStatistics",
            pb.ModelStatisticsRequest(name="a", version="2"),
        ),
        ("/v2/models/a%2F..%2Fb", "ModelMetadata", pb.ModelMetadataRequest(name="a/../b")),
        ("/v2/models/stats/config", "ModelConfig", pb.ModelConfigRequest(name="stats")),
        (
            "/v2/models/stats/versions/1/ready",
            "ModelReady",
            pb.ModelReadyRequest(name="stats", version="1"),
        ),
        ("/v2/models/config", "ModelMetadata", pb.ModelMetadataRequest(name="config")),
    ],
)
def test_each_path_asks_its_question(path: str, method: str, message: Message) -> None:
    assert inspect.question(path) == (method, message.SerializeToString())


@pytest.mark.parametrize("name", ["a", "a/b", "a b", "ä", "stats", "versions", "%2F", "1"])
@pytest.mark.parametrize("version", ["", "3"])
@pytest.mark.parametrize("what", ["", "/config", "/stats", "/ready"])
def test_a_question_comes_back_from_its_path(name: str, version: str, what: str) -> None:
    if (name, version, what) == ("stats", "", ""):
        return  # over REST that path asks for the statistics of every model
    at = f"/versions/{version}" if version else ""
    path = f"/v2/models/{quote(name, safe='')}{at}{what}"
    method, message = inspect.question(path)
    assert inspect.path(method, message) == path


def told(method: str, message: Message) -> Any:
    return json.loads(inspect.answer(method, message.SerializeToString()).body)


def test_whole_numbers_are_numbers_and_nothing_is_left_out() -> None:
    tensor = pb.ModelMetadataResponse.TensorMetadata(
        name="I", datatype="INT32", shape=[-1, 1 << 53]
    )
    assert told("ModelMetadata", pb.ModelMetadataResponse(name="m", inputs=[tensor])) == {
        "name": "m",
        "versions": [],
        "platform": "",
        "inputs": [{"name": "I", "datatype": "INT32", "shape": [-1, 1 << 53]}],
        "outputs": [],
    }


def test_statistics_tell_their_zeros_and_leave_out_what_is_absent() -> None:
    statistics = pb.ModelStatisticsResponse()
    model = statistics.model_stats.add(name="m", inference_count=(1 << 64) - 1)
    model.inference_stats.success.count = 2
    (found,) = told("ModelStatistics", statistics)["model_stats"]
    assert found["inference_count"] == (1 << 64) - 1
    assert found["execution_count"] == 0
    assert found["inference_stats"] == {"success": {"count": 2, "ns": 0}}
    assert found["batch_stats"] == []
    assert found["response_stats"] == {}


def test_a_config_tells_names_for_enums_and_maps_as_objects() -> None:
    config = pb.ModelConfigResponse()
    config.config.input.add(name="I", data_type="TYPE_INT32", dims=[16])
    config.config.parameters["k"].string_value = "v"
    config.config.dynamic_batching.SetInParent()
    found = told("ModelConfig", config)
    (tensor,) = found["input"]
    assert (tensor["data_type"], tensor["dims"], tensor["optional"]) == ("TYPE_INT32", [16], False)
    assert found["parameters"] == {"k": {"string_value": "v"}}
    assert found["max_batch_size"] == 0
    assert found["dynamic_batching"]["priority_levels"] == 0
    assert "sequence_batching" not in found


@pytest.mark.parametrize(
    ("method", "yes", "no"),
    [
        ("ServerLive", pb.ServerLiveResponse(live=True), pb.ServerLiveResponse()),
        ("ServerReady", pb.ServerReadyResponse(ready=True), pb.ServerReadyResponse()),
        ("ModelReady", pb.ModelReadyResponse(ready=True), pb.ModelReadyResponse()),
    ],
)
def test_health_answers_yes_or_fails(method: str, yes: Message, no: Message) -> None:
    assert inspect.answer(method, yes.SerializeToString()) == RestBody(b"")
    with pytest.raises(UpstreamFailed):
        inspect.answer(method, no.SerializeToString())


def test_an_answer_goes_over_and_back() -> None:
    metadata = pb.ModelMetadataResponse(name="m", versions=["1"], platform="python")
    raw = metadata.SerializeToString()
    assert inspect.message("ModelMetadata", inspect.answer("ModelMetadata", raw)) == raw
    config = pb.ModelConfigResponse()
    config.config.name = "m"
    raw = config.SerializeToString()
    assert inspect.message("ModelConfig", inspect.answer("ModelConfig", raw)) == raw


def test_an_answer_that_is_no_message_is_the_endpoints_failure() -> None:
    with pytest.raises(UpstreamFailed):
        inspect.answer("ModelMetadata", b"\xff\xff")
    with pytest.raises(NotOffered):
        inspect.answer("RepositoryIndex", b"")
