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
        self._counters, self._client, self._model = counters, client, model
        self._post = self._embeddings if openai else self._tensors
        self._posts: dict[bytes, Post] = {}
        self.executed = counters.executed  # type: ignore[method-assign]
        self._ask = self._answered

    async def _answered(self, request: bytes) -> None:
        post = self._posts.get(request)
        if post is None:
            message = service_pb2.ModelInferRequest.FromString(request)
            post = self._posts[request] = self._post(grpc.decode_request(message))
        answer = await self._client.post(*post)
        if answer.status != 200:
            raise CannotMeasure(f"{self._model}: the server answered {answer.status}")

    def _tensors(self, call: TensorCall) -> Post:
        body, length = rest.encode_request(call, binary_outputs=True)
        path = f"/v2/models/{self._model}/infer"
        return path, body, {"inference-header-content-length": str(length)}

    def _embeddings(self, call: TensorCall) -> Post:
        (text,) = split(call.inputs[0].data, 1)
        document = {"model": self._model, "input": text.decode(), "encoding_format": "base64"}
        body = strictjson.dumps(document)
        return "/v1/embeddings", body, {"content-type": "application/json"}


@asynccontextmanager
async def over_http(
    url: str, grpc_address: str, model: str, openai: bool
) -> AsyncIterator[LoadTarget]:
    async with connected(grpc_address, model, False) as counters, Client(url) as client:
        yield HttpTarget(counters, client, model, openai)
