"""What a server says of itself and its models is the same through the gateway (O6)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tritonclient.grpc import service_pb2

from tests.scenarios.both_ways import BothWays, Refusal

SAME = (
    "/v2/models/simple",
    "/v2/models/simple/versions/1",
    "/v2/models/simple/versions/9",
    "/v2/models/simple/config",
    "/v2/models/simple/versions/9/config",
    "/v2/models/simple/stats",
    "/v2/models/versioned",
    "/v2/models/versioned/versions/1/config",
    "/v2/models/versioned/stats",
    "/v2/models/versioned/versions/2/stats",
    "/v2/models/repeat_int32/config",
    "/v2/models/stats",
)


@pytest.mark.parametrize("path", SAME)
def test_a_question_over_rest_has_tritons_answer(ways: BothWays, path: str) -> None:
    direct, through = ways.direct.rest(path), ways.through.rest(path)
    assert through == direct


@pytest.mark.parametrize("question", [b"", b"{}", b'{"ready":true}', b'{"ready":false}'])
def test_the_index_over_rest_is_tritons(ways: BothWays, question: bytes) -> None:
    path = "/v2/repository/index"
    direct, through = (
        way.rest(path, question, method="POST") for way in (ways.direct, ways.through)
    )
    assert through == direct
    assert len(json.loads(direct.body)) == 14


HEALTH = "Triton leaves the body empty; KServe's client reads it"
NO_NAME = "names are the caller's text, and are not repeated"
LEFT_OUT = "extensions that the gateway does not offer are not announced"
OWN_ROUTES = "the gateway's own routes"

DIFFERENT: dict[str, tuple[int, bytes | None, str]] = {
    # path: (both statuses, how the gateway's body begins, why the bodies differ)
    "/v2/health/live": (200, b'{"live":true}', HEALTH),
    "/v2/health/ready": (200, b'{"ready":true}', HEALTH),
    "/v2/models/simple/ready": (200, b'{"name":"simple","ready":true}', HEALTH),
    "/v2/models/simple/versions/1/ready": (200, b'{"name":"simple","ready":true}', HEALTH),
    "/v2/models/simple/versions/9/ready": (400, b'{"error":"Model version not ready"', HEALTH),
    "/v2/models/nobody/ready": (400, b'{"error":"Model version not ready"}', HEALTH),
    "/v2": (200, b'{"name":"triton","version":"2.51.0","extensions":[', LEFT_OUT),
    "/v2/models/nobody": (404, b'{"error":"Request for unknown model', NO_NAME),
    "/v2/models/nobody/config": (404, b'{"error":"Request for unknown model', NO_NAME),
    "/v2/models/nobody/stats": (400, b'{"error":"requested model is not available"}', NO_NAME),
    "/v2/nothing": (404, b'{"error":"Not Found', OWN_ROUTES),
    "/v2/models": (404, b'{"error":"Not Found', OWN_ROUTES),
}


@pytest.mark.parametrize("path", DIFFERENT)
def test_what_the_gateway_says_otherwise_over_rest_is_known(ways: BothWays, path: str) -> None:
    status, begins, _why = DIFFERENT[path]
    direct, through = ways.direct.rest(path), ways.through.rest(path)
    assert (direct.status, through.status) == (status, status)
    assert through.body.startswith(begins or b"")
    assert through.body != direct.body or through.content_type != direct.content_type


def message(method: str, **fields: Any) -> Any:
    return getattr(service_pb2, f"{method}Request")(**fields)


OF_MODEL = ("ModelReady", "ModelMetadata", "ModelConfig", "ModelStatistics")
ASKED: list[tuple[str, dict[str, Any]]] = [
    ("ServerLive", {}),
    ("ServerReady", {}),
    ("ModelStatistics", {}),
    ("RepositoryIndex", {}),
    ("RepositoryIndex", {"ready": True}),
    ("ModelReady", {"name": "nobody"}),
    *(
        (method, {"name": name, "version": version})
        for method in OF_MODEL
        for name, version in (
            ("simple", ""),
            ("simple", "1"),
            ("simple", "9"),
            ("versioned", ""),
            ("versioned", "1"),
        )
    ),
]


@pytest.mark.parametrize(("method", "fields"), ASKED, ids=lambda value: str(value))
def test_a_question_over_grpc_has_tritons_answer(
    ways: BothWays, method: str, fields: dict[str, Any]
) -> None:
    question = message(method, **fields)
    assert ways.through.unary(question, method) == ways.direct.unary(question, method)


BAD = "INVALID_ARGUMENT"
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    # Both refuse with this status, each in words of its own.
    ("RepositoryIndex", {"repository_name": "x"}, "UNIMPLEMENTED"),
    ("ModelMetadata", {"name": "nobody"}, "NOT_FOUND"),
    ("ModelConfig", {"name": "nobody"}, "NOT_FOUND"),
    ("ModelStatistics", {"name": "nobody"}, BAD),
    *((method, {"name": "simple", "version": "x"}, BAD) for method in OF_MODEL),
]


@pytest.mark.parametrize(("method", "fields", "code"), REFUSED, ids=lambda value: str(value))
def test_a_question_that_triton_refuses_is_refused(
    ways: BothWays, method: str, fields: dict[str, Any], code: str
) -> None:
    question = message(method, **fields)
    for way in (ways.direct, ways.through):
        refusal = way.unary(question, method)
        assert isinstance(refusal, Refusal)
        assert refusal.code == code


def test_both_protocols_announce_the_same_and_nothing_that_is_not_offered(ways: BothWays) -> None:
    raw = ways.through.unary(message("ServerMetadata"), "ServerMetadata")
    assert isinstance(raw, bytes)
    found = service_pb2.ServerMetadataResponse.FromString(raw)
    over_rest = json.loads(ways.through.rest("/v2").body)
    assert (found.name, found.version) == (over_rest["name"], over_rest["version"])
    assert list(found.extensions) == over_rest["extensions"]
    direct = json.loads(ways.direct.rest("/v2").body)["extensions"]
    left_out = {
        "model_repository(unload_dependents)",
        "system_shared_memory",
        "cuda_shared_memory",
        "trace",
        "logging",
    }
    assert [e for e in direct if e not in left_out] == over_rest["extensions"]
