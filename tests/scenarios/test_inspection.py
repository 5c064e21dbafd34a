"""What a server says about itself, asked by gRPC where it has no REST, is what its REST says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from gateway.protocols.oip import inspect
from tests.live import LiveGateway

_SERVICE = "/inference.GRPCInferenceService/"


def by_grpc(gateway: LiveGateway, path: str) -> Any:
    method, message = inspect.question(path)
    with grpc.insecure_channel(gateway.grpc_target) as channel:
        ask: Callable[..., Any] = channel.unary_unary(_SERVICE + method, bytes, bytes)
        return json.loads(inspect.answer(method, ask(message, timeout=10)).body)


@pytest.mark.parametrize("model", ["simple", "minilm", "simple_sequence", "repeat_int32"])
@pytest.mark.parametrize("what", ["", "/config", "/stats", "/versions/1", "/versions/1/config"])
def test_a_models_answer_is_the_same_over_both(gateway: LiveGateway, model: str, what: str) -> None:
    path = f"/v2/models/{model}{what}"
    assert by_grpc(gateway, path) == gateway.client.get(path).json()


def test_the_servers_answer_is_the_same_over_both(gateway: LiveGateway) -> None:
    assert by_grpc(gateway, "/v2") == gateway.client.get("/v2").json()
