"""The OpenAI API: models, chat and text completions, embeddings, responses.

Every call takes the same way: its head is read, its caller known, its body parsed strictly, and
what the gateway must know of it checked. The answer is the endpoint's own bytes, whole or event by
event. Nothing else of the API is offered: another route is a 404, never a proxied call (C7).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.config.model_catalog import CatalogModel
from gateway.core.errors import (
    GatewayError,
    InternalError,
    UnknownModel,
    UnsupportedMedia,
    should_retry,
)
from gateway.core.operations.chat import CHAT
from gateway.core.operations.registry import by_path
from gateway.core.operations.spec import OperationSpec
from gateway.core.operations.texts.rerank import RERANK
from gateway.core.reply import (
    FrameSource,
    InferenceReply,
    JsonBody,
    MediaReply,
    OneFrame,
    received,
)
from gateway.core.types import (
    AT_ONCE_BYTES,
    DocumentCall,
    InferenceRequest,
    JsonDocument,
    WireProtocol,
)
from gateway.protocols import multipart, strictjson
from gateway.protocols.http.exchange import AS_TAKEN_BYTES, HttpExchange
from gateway.protocols.http.head import HttpHead, name_in
from gateway.protocols.strictjson import JsonBounds
from gateway.server import Services, intake
from gateway.server.http import (
    EVENT_LINES,
    Call,
    Front,
    RequestHead,
    authenticate,
    request_exchange,
)
from gateway.server.intake import RequestContext
from gateway.server.openai import forms
from gateway.server.openai.deployment_path import PREFIX, azure_operation
from gateway.server.openai.documents import read
from gateway.server.openai.errors import error_body
from gateway.server.openai.events import EventBytes, MediaBytes
from gateway.server.openai.model_entries import has_documents, model_entry
from gateway.server.openai.ranked_texts import common_form, texts_answer
from gateway.server.routes import endpoint

_JSON = "application/json"


def front(services: Services) -> Front:
    bounds = intake.json_bounds(services.limits)
    calls: dict[str, Call] = {
        path: partial(_head_type(operation), services, bounds, operation)
        for path, operation in by_path().items()
    }

    def owns(head: HttpHead) -> bool:
        path = head.path
        return path == "/v1" or path.startswith("/v1/") or path in calls

    routes = _routes(services)
    return Front("/v1", WireProtocol.OPENAI.value, routes, error_response, calls.get, owns)


def azure_front(services: Services) -> Front:
    """The same operations under the paths that Azure OpenAI has for them."""
    bounds = intake.json_bounds(services.limits)
    operations = {path: spec for path, spec in by_path().items() if path.startswith("/v1/")}

    def call(route: str) -> Call | None:
        match = azure_operation(route, operations)
        if match is None:
            return None
        operation, deployment = match
        made = _head_type(operation)
        return partial(made, services, bounds, operation, deployment=deployment)

    return Front(PREFIX, WireProtocol.OPENAI.value, [], error_response, call)


def _routes(services: Services) -> list[Route]:
    ours = OpenAiFront(services)
    return [
        Route("/v1/models", endpoint(ours.models, services), methods=["GET"]),
        Route("/v1/models/{name:path}", endpoint(ours.model, services), methods=["GET"]),
    ]


def error_response(error: GatewayError, arrival: RequestContext) -> Response:
    """A failure in OpenAI's shape, with what its SDKs read from the headers."""
    headers = intake.error_headers(arrival, error)
    headers["x-should-retry"] = "true" if should_retry(error) else "false"
    return Response(error_body(error), error.http_status, headers, _JSON)


class OpenAiFront:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def models(self, request: Request, arrival: RequestContext) -> Response:
        caller = authenticate(request_exchange(request), self._services)
        catalog = self._services.catalog
        usable = [name for name in catalog.names() if caller.may_use(name)]
        names = [name for name in usable if has_documents(catalog.find(name))]
        others = [*catalog.aliases, *(n for n in caller.model_map if n not in catalog.models)]
        names += [
            name
            for name in dict.fromkeys(others)
            if has_documents(model := catalog.find(caller.named(name)))
            and caller.may_use(model.name)
        ]
        listed = [model_entry(name, self._services, caller) for name in names]
        # KServe's first protocol lists all of them, by a key of its own
        return _document_response({"object": "list", "data": listed, "models": usable}, arrival)

    async def model(self, request: Request, arrival: RequestContext) -> Response:
        caller = authenticate(request_exchange(request), self._services)
        name = name_in(request.path_params["name"])
        if not caller.may_use(self._services.catalog.find(caller.named(name)).name):
            raise UnknownModel("this API has no model of that name for this key")
        return _document_response(model_entry(name, self._services, caller), arrival)


class _OpenAiRequestHead(RequestHead):
    __slots__ = ("_bounds", "_deployment", "_operation")

    def __init__(
        self,
        services: Services,
        bounds: JsonBounds,
        operation: OperationSpec,
        exchange: HttpExchange,
        deployment: str = "",
    ) -> None:
        """`deployment`: the model that the path names. Raises Unauthenticated, Unverifiable,
        UnsupportedMedia."""
        super().__init__(exchange, services)
        self._operation, self._bounds, self._deployment = operation, bounds, deployment
        media = exchange.headers.get("content-type", "")
        if media.partition(";")[0].strip().lower() != _JSON and not operation.files:
            raise UnsupportedMedia(f"content-type: send the body as {_JSON}")

    def build_request(
        self, body: bytes, arrival: RequestContext
    ) -> InferenceRequest | Awaitable[InferenceRequest]:
        if len(body) > AT_ONCE_BYTES:
            return self._read_aside(body, arrival)
        return self._request(*self._read(body, 0), arrival)

    async def _read_aside(self, body: bytes, arrival: RequestContext) -> InferenceRequest:
        return self._request(*await asyncio.to_thread(self._read, body, len(body)), arrival)

    def _read(self, body: bytes, size: int) -> tuple[CatalogModel, DocumentCall]:
        services = self.services
        depth = services.limits.max_json_depth
        document, json_bytes = strictjson.sized_object(body, depth, self._bounds)
        return read(
            self._operation, document, services.catalog, size, json_bytes, self._deployment,
            self.caller,
        )  # fmt: skip

    def _request(
        self, model: CatalogModel, call: DocumentCall, arrival: RequestContext
    ) -> InferenceRequest:
        terms = self._terms
        if terms is None or terms.model is not model:
            terms = self.terms(WireProtocol.OPENAI, model)
        return terms.request(arrival, call)

    def answer(
        self, exchange: HttpExchange, request: InferenceRequest, reply: InferenceReply
    ) -> Awaitable[None] | None:
        frames, call = reply.frames, request.payload
        lines = intake.placement_lines(request.id, request.traceparent, reply.placement)
        if self._operation is CHAT and isinstance(call, DocumentCall):
            lines += self.translation_line(call, reply.placement)
        if call.streamed:
            return exchange.stream(200, lines + EVENT_LINES, EventBytes(frames, self._operation))
        frame = frames.take() if isinstance(frames, OneFrame) else None
        if not isinstance(frame, JsonBody):
            return _read_on(exchange, lines, frames)
        if len(frame.body) > AS_TAKEN_BYTES:
            return exchange.reply_as_taken(200, _whole(frame.body, lines), frame.body)
        exchange.reply(200, _whole(frame.body, lines), frame.body)
        return None


class _MediaRequestHead(_OpenAiRequestHead):
    """Of an operation whose calls or answers may be no JSON."""

    __slots__ = ("_boundary",)

    def __init__(
        self,
        services: Services,
        bounds: JsonBounds,
        operation: OperationSpec,
        exchange: HttpExchange,
        deployment: str = "",
    ) -> None:
        """Raises as of other operations."""
        super().__init__(services, bounds, operation, exchange, deployment)
        media = exchange.headers.get("content-type", "")
        self._boundary = multipart.boundary(media) if operation.files else b""

    def _read(self, body: bytes, size: int) -> tuple[CatalogModel, DocumentCall]:
        operation = self._operation
        if operation.files:
            document, files = forms.read(operation, body, self._boundary)
            catalog = self.services.catalog
            model, call = read(operation, document, catalog, size, 0, self._deployment, self.caller)
            call = replace(call, files=files)
        else:
            model, call = super()._read(body, size)
        if operation.answers_bytes is not None and operation.answers_bytes(call.document):
            call = replace(call, streamed=True)
        return model, call

    def answer(
        self, exchange: HttpExchange, request: InferenceRequest, reply: InferenceReply
    ) -> Awaitable[None] | None:
        if not isinstance(reply, MediaReply):
            return super().answer(exchange, request, reply)
        lines = intake.placement_lines(request.id, request.traceparent, reply.placement)
        lines += f"content-type: {reply.media_type}\r\n"
        return exchange.stream(200, lines, MediaBytes(reply.frames))


class _RerankRequestHead(_OpenAiRequestHead):
    """Of a call that may have the form of Text Embeddings Inference."""

    __slots__ = ("_returns",)
    _returns: bool | None  # texts, in the answer; None: the call has the usual form

    def _read(self, body: bytes, size: int) -> tuple[CatalogModel, DocumentCall]:
        services, self._returns = self.services, None
        depth = services.limits.max_json_depth
        document, json_bytes = strictjson.sized_object(body, depth, self._bounds)
        if "texts" in document and "documents" not in document:
            json_bytes = 0
            document, self._returns = common_form(document)
        catalog = services.catalog
        return read(
            self._operation, document, catalog, size, json_bytes, self._deployment, self.caller
        )

    def answer(
        self, exchange: HttpExchange, request: InferenceRequest, reply: InferenceReply
    ) -> Awaitable[None] | None:
        if self._returns is None:
            return super().answer(exchange, request, reply)
        lines = intake.placement_lines(request.id, request.traceparent, reply.placement)
        call = request.payload
        assert isinstance(call, DocumentCall)
        made = partial(texts_answer, texts=call.document["documents"], returns=self._returns)
        return _read_on(exchange, lines, reply.frames, made)


def _head_type(operation: OperationSpec) -> type[_OpenAiRequestHead]:
    if operation is RERANK:
        return _RerankRequestHead
    plain = not operation.files and operation.answers_bytes is None
    return _OpenAiRequestHead if plain else _MediaRequestHead


async def _read_on(
    exchange: HttpExchange,
    lines: str,
    frames: FrameSource,
    written: Callable[[bytes], bytes] = lambda body: body,
) -> None:
    answer = await received(frames)
    frame = answer[0] if len(answer) == 1 else None
    if not isinstance(frame, JsonBody):
        raise InternalError("an answer came in other frames than this protocol has")
    body = written(frame.body)
    await exchange.reply_as_taken(200, _whole(body, lines), body)


def _whole(body: bytes, lines: str) -> str:
    return f"content-type: {_JSON}\r\ncontent-length: {len(body)}\r\n{lines}"


def _document_response(document: JsonDocument, arrival: RequestContext) -> Response:
    headers = intake.placement_headers(arrival, None)
    return Response(strictjson.dumps(document), 200, headers, _JSON)
