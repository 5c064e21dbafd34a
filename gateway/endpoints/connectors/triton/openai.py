"""OpenAI calls served by a Triton model.

A wrapper around Triton's own connector: calls of tensors pass through, documents become tensor
calls of the same request, with its deadline, and their answers become documents or events.
Several choices, prompts, or batches of texts are several calls to the server.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from tritonclient.grpc import service_pb2

from gateway.core import ambient
from gateway.core.deadline import Clock
from gateway.core.errors import UpstreamFailed, UpstreamRefused
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.operations.responses import RESPONSES
from gateway.core.reply import (
    Frame,
    GrpcMessage,
    JsonBody,
    OneFrame,
    Receiver,
    ReplyStream,
    ServerEvent,
    deliver_each,
)
from gateway.core.types import DocumentCall, InferenceRequest, ServedModel, TensorCall
from gateway.endpoints.connectors import Connector
from gateway.endpoints.connectors.open_inference.grpc import read_message
from gateway.endpoints.connectors.triton.embedding import EmbeddingRequest, embedding_refusal
from gateway.endpoints.connectors.triton.openai_prompts import PromptRequest, ask
from gateway.endpoints.connectors.triton.openai_refusal import refused
from gateway.endpoints.connectors.triton.openai_responses_shape import ResponsesWriter
from gateway.endpoints.connectors.triton.openai_text_shape import (
    AnswerMetadata,
    AnswerWriter,
    ChoicesWriter,
)
from gateway.endpoints.connectors.triton.text_generation import (
    GeneratedText,
    Generation,
    Generations,
)
from gateway.endpoints.connectors.triton.text_tensors import EmbeddedTexts, TextModel

_INSPECT_S = 5.0
_CONFIG_CACHE_S = 60.0
_BATCH_WITHOUT_LIMIT = 1


class TensorServer(Connector, Protocol):
    """Serves tensors, and tells what its models take."""

    async def grpc(self, method: str, message: bytes, timeout_s: float) -> bytes: ...


class OpenAiOnTriton:
    """A `Connector`."""

    def __init__(
        self,
        server: TensorServer,
        *,
        clock: Clock = ambient.monotonic_s,
        now: Callable[[], float] = ambient.wall_s,
    ) -> None:
        self._server = server
        self._clock = clock
        self._now = now
        self._models: dict[tuple[str, str], tuple[float, TextModel]] = {}

    async def open(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        call = request.payload
        if isinstance(call, TensorCall):
            return await self._server.open(request, served)
        try:
            if call.operation is EMBEDDINGS:
                return await self._embed(call, request, served)
            return await self._generate(call, request, served)
        except UpstreamRefused:
            self._models.pop((served.model, served.version), None)  # it may have changed
            raise

    async def ready(self) -> bool:
        return await self._server.ready()

    async def aclose(self) -> None:
        await self._server.aclose()

    async def _embed(
        self, call: DocumentCall, request: InferenceRequest, served: ServedModel
    ) -> OneFrame:
        wanted = EmbeddingRequest.from_document(call.document)
        model = await self._model(request, served)
        if not model.embeds:
            raise refused("model", "this model does not turn text into a vector")
        size = model.max_batch or _BATCH_WITHOUT_LIMIT
        parts: list[EmbeddedTexts] = []
        for at in range(0, len(wanted.texts), size):
            texts = wanted.texts[at : at + size]
            tensors = model.embedding_call(texts, wanted.truncation)
            try:
                message = await self._only(request, served, tensors)
            except UpstreamRefused as exc:
                raise embedding_refusal(exc, at) from None
            parts.append(model.embedded(message, len(texts)))
        return wanted.answer(request.model, parts)

    async def _only(
        self, request: InferenceRequest, served: ServedModel, call: TensorCall
    ) -> GrpcMessage:
        stream = await self._server.open(replace(request, payload=call), served)
        try:
            async for frame in stream:
                if isinstance(frame, GrpcMessage):
                    return frame
        finally:
            await stream.aclose()
        raise UpstreamFailed("the model ended the call without an answer")

    async def _generate(
        self, call: DocumentCall, request: InferenceRequest, served: ServedModel
    ) -> ReplyStream:
        prompt_request = ask(call.operation, call.document)
        model = await self._model(request, served)
        if not model.generates:
            raise refused("model", "this model does not write text")
        writer = _writer(call, prompt_request, request, int(self._now()))
        generations = await self._begin(prompt_request, model, request, served, call.streamed)
        if call.streamed:
            return TextEvents(generations, writer)
        return await _whole(generations, writer)

    async def _begin(
        self,
        prompt_request: PromptRequest,
        model: TextModel,
        request: InferenceRequest,
        served: ServedModel,
        streamed: bool,
    ) -> Generations:
        begun: list[Generation] = []
        try:
            for prompt in prompt_request.prompts:
                for choice in range(prompt_request.n):
                    seed = prompt_request.sampling.seed
                    sampling = replace(
                        prompt_request.sampling, seed=None if seed is None else seed + choice
                    )
                    call = model.generation_call(prompt, sampling, streamed)
                    frames = await self._server.open(replace(request, payload=call), served)
                    repeated = None if model.excludes_prompt else prompt
                    begun.append(Generation(frames, sampling.stops, sampling.max_tokens, repeated))
        except BaseException:  # to release those that have begun
            await Generations(begun).aclose()
            raise
        return Generations(begun)

    async def _model(self, request: InferenceRequest, served: ServedModel) -> TextModel:
        key = (served.model, served.version)
        read_s, known = self._models.get(key, (0.0, None))
        if known is not None and self._clock() - read_s < _CONFIG_CACHE_S:
            return known
        message = service_pb2.ModelConfigRequest(name=served.model, version=served.version)
        raw = await self._server.grpc(
            "ModelConfig",
            message.SerializeToString(),
            max(0.001, min(_INSPECT_S, request.deadline.remaining_s())),
        )
        model = TextModel.from_config(read_message(service_pb2.ModelConfigResponse, raw).config)
        self._models[key] = (self._clock(), model)
        return model


class TextEvents:
    """A streamed answer, its first event not before the model's first word, so that another
    endpoint can still be tried (A4)."""

    def __init__(self, generations: Generations, writer: AnswerWriter) -> None:
        self._generations = generations
        self._writer = writer
        self._events: deque[ServerEvent] = deque()
        self._ended = False

    @property
    def total_tokens(self) -> int | None:
        return _total_tokens(self._generations.texts)

    def __aiter__(self) -> TextEvents:
        return self

    async def __anext__(self) -> ServerEvent:
        try:
            while not self._events:
                if self._ended:
                    raise StopAsyncIteration
                await self._read()
        except BaseException:  # to release the calls upstream, whatever ends the stream
            await self.aclose()
            raise
        return self._events.popleft()

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        await deliver_each(self, receiver)

    async def aclose(self) -> None:
        self._ended = True
        self._events.clear()
        await self._generations.aclose()

    async def _read(self) -> None:
        try:
            self._events.extend(self._writer.delta(await anext(self._generations)))
        except StopAsyncIteration:
            self._ended = True
            self._events.extend(self._writer.last(self._generations.texts))


async def _whole(generations: Generations, writer: AnswerWriter) -> OneFrame:
    written: list[list[str]] = [[] for _ in generations.texts]
    try:
        async for delta in generations:
            written[delta.index].append(delta.text)
    finally:
        await generations.aclose()
    body = writer.whole(["".join(pieces) for pieces in written], generations.texts)
    return OneFrame(JsonBody(body), _total_tokens(generations.texts))


def _writer(
    call: DocumentCall, prompt_request: PromptRequest, request: InferenceRequest, created_s: int
) -> AnswerWriter:
    answer = AnswerMetadata(
        id="".join(filter(str.isalnum, request.id)),
        created_s=created_s,
        model=request.model,
        document=call.document,
        prompts=prompt_request.prompts if prompt_request.echo else (),
        n=prompt_request.n,
        include_usage=prompt_request.include_usage or call.translation is not None,
    )
    if call.operation is RESPONSES:
        return ResponsesWriter(answer)
    return ChoicesWriter(answer, call.operation)


def _total_tokens(texts: tuple[GeneratedText, ...]) -> int | None:
    return sum(text.input_tokens + text.output_tokens for text in texts) or None
