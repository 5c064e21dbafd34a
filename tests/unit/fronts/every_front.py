"""One gateway's fronts on real sockets, each asked for the same thing: REST, OpenAI, its event
streams, gRPC and a gRPC stream."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc.aio

from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.reply import GrpcMessage, InferenceReply, JsonBody, ServerEvent
from gateway.core.types import InferenceRequest, WireProtocol
from gateway.server import Services
from gateway.server.http import App
from gateway.server.kserve import front as kserve
from gateway.server.openai import front as openai
from tests.unit.fronts import http_rig
from tests.unit.grpc_rig import infer_request, infer_response, running_front, told

MODEL = "m"
TENSOR = {"name": "INPUT0", "datatype": "INT32", "shape": [1], "data": [1]}
PROMPT = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}

STATUS = {
    200: "OK", 400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED",
    429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE",
}  # fmt: skip
"""The gRPC status that says the same."""


@dataclass(frozen=True, slots=True)
class Told:
    status: str  # in gRPC's words
    headers: Mapping[str, str]
    words: str = ""

    @property
    def reason(self) -> str:
        return self.headers.get("x-spillway-reason", "")


Ask = Callable[[Mapping[str, str]], Awaitable[Told]]


async def answering(request: InferenceRequest) -> InferenceReply:
    """A pipeline that answers every call in the protocol that it came in."""
    if request.protocol is WireProtocol.KSERVE_GRPC:
        answer = GrpcMessage(infer_response("1", model=MODEL).SerializeToString())
        return InferenceReply(http_rig.PLACEMENT, http_rig.Frames([answer]))
    if request.protocol is WireProtocol.KSERVE_REST:
        return InferenceReply(http_rig.PLACEMENT, http_rig.Frames([http_rig.ANSWER]))
    frame = ServerEvent(b"[DONE]") if request.streamed else JsonBody(b"{}")
    return InferenceReply(http_rig.PLACEMENT, http_rig.Frames([frame]))


def catalog() -> Catalog:
    return Catalog({MODEL: CatalogModel(MODEL, "generate", ("gpu",))})


@asynccontextmanager
async def every_front(services: Services) -> AsyncIterator[dict[str, Ask]]:
    app = App(services, [openai.front(services), kserve.front(services)])
    async with http_rig.serving(app) as port, running_front(made=services) as front:
        chat = "/v1/chat/completions"

        def http(path: str, body: object) -> Ask:
            async def ask(headers: Mapping[str, str]) -> Told:
                said = [("content-type", "application/json"), *headers.items()]
                answer = await http_rig.ask(port, "POST", path, json.dumps(body).encode(), said)
                words = "" if answer.status == 200 else answer.error
                return Told(STATUS[answer.status], answer.headers, words)

            return ask

        async def unary(headers: Mapping[str, str]) -> Told:
            call = front.stub.ModelInfer(infer_request(MODEL), metadata=tuple(headers.items()))
            try:
                await call
            except grpc.aio.AioRpcError as error:
                return _told(error)
            return Told("OK", dict(await call.trailing_metadata()))

        async def stream(headers: Mapping[str, str]) -> Told:
            told = await stream_once(headers)
            while told.status == "INTERNAL" and "from Core" in told.words:
                told = await stream_once(headers)  # it was refused while the client was writing
            return told

        async def stream_once(headers: Mapping[str, str]) -> Told:
            call = front.stub.ModelStreamInfer(_one(), metadata=tuple(headers.items()))
            try:
                answers = [a async for a in call]
            except grpc.aio.AioRpcError as error:
                return _told(error)
            words = answers[0].error_message
            return Told("" if words else "OK", dict(await call.trailing_metadata()), words)

        yield {
            "v2": http(f"/v2/models/{MODEL}/infer", {"inputs": [TENSOR]}),
            "chat": http(chat, PROMPT),
            "chat-streamed": http(chat, {**PROMPT, "stream": True}),
            "grpc": unary,
            "grpc-stream": stream,
        }


async def _one() -> AsyncIterator[Any]:
    yield infer_request(MODEL)


def _told(error: grpc.aio.AioRpcError) -> Told:
    headers = told(error)
    return Told(error.code().name, headers, error.details() or "")
