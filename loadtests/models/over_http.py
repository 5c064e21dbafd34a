"""The requests of `gateway.models.profiling.load` over HTTP: tensors in binary, or OpenAI's
embeddings of the same texts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tritonclient.grpc import service_pb2

from gateway.core.types import TensorCall
from gateway.models.profiling.load import CannotMeasure, LoadTarget, connected
from gateway.protocols import strictjson
from gateway.protocols.oip import grpc, rest
from gateway.protocols.oip.datatypes import split
from loadtests.http import Client

Post = tuple[str, bytes, dict[str, str]]


class HttpTarget(LoadTarget):
    """A model at a server, whose counters its gRPC side tells."""

    def __init__(self, counters: LoadTarget, client: Client, model: str, openai: bool) -> None:
        self._client, self._model = client, model
        self._post = embeddings_post if openai else tensors_post
        self._posts: dict[bytes, Post] = {}
        self.executed = counters.executed  # type: ignore[method-assign]
        self._ask = self._answered

    async def _answered(self, request: bytes) -> None:
        post = self._posts.get(request)
        if post is None:
            post = self._posts[request] = self._post(self._model, request)
        answer = await self._client.post(*post)
        if answer.status != 200:
            raise CannotMeasure(f"{self._model}: the server answered {answer.status}")


def tensors_post(model: str, request: bytes) -> Post:
    """A `ModelInferRequest` over HTTP, in binary on both ways."""
    body, length = rest.encode_request(_call(request), binary_outputs=True)
    headers = {"inference-header-content-length": str(length)}
    return f"/v2/models/{model}/infer", body, headers


def embeddings_post(model: str, request: bytes) -> Post:
    (text,) = split(_call(request).inputs[0].data, 1)
    document = {"model": model, "input": text.decode(), "encoding_format": "base64"}
    return "/v1/embeddings", strictjson.dumps(document), {"content-type": "application/json"}


def _call(request: bytes) -> TensorCall:
    return grpc.decode_request(service_pb2.ModelInferRequest.FromString(request))


@asynccontextmanager
async def over_http(
    url: str, grpc_address: str, model: str, openai: bool
) -> AsyncIterator[LoadTarget]:
    async with connected(grpc_address, model, False) as counters, Client(url) as client:
        yield HttpTarget(counters, client, model, openai)
