"""Questions asked by gRPC and answered by REST."""

from __future__ import annotations

import json

import pytest
from tritonclient.grpc import service_pb2 as pb

from gateway.errors import MalformedBody, NotOffered, UpstreamFailed
from gateway.oip import inspect
from gateway.types import RestBody

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
def test_each_question_has_its_path(method: str, message: object, path: str) -> None:
    assert inspect.path(method, message.SerializeToString()) == path  # type: ignore[attr-defined]


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
