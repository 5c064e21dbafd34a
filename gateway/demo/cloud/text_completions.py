"""`POST /v1/completions`: platform.openai.com/docs/api-reference/completions."""

import dataclasses
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.demo.cloud import sse
from gateway.demo.cloud.completion import (
    Choice,
    CompletionWriter,
    SamplingParameters,
    logprob,
    wanted,
)
from gateway.demo.cloud.conditions import Conditions
from gateway.demo.cloud.documents import JsonDocument, document
from gateway.demo.cloud.errors import InvalidRequest


@dataclasses.dataclass(frozen=True, slots=True)
class TextCompletionRequest:
    prompts: tuple[str, ...]
    wanted: SamplingParameters
    echo: bool
    logprobs: int | None
    include_usage: bool


class TextCompletions:
    def __init__(self, writer: CompletionWriter, conditions: Conditions) -> None:
        self._writer = writer
        self._conditions = conditions

    async def __call__(self, request: Request) -> Response:
        body = await document(request)
        completion = _parse_request(body)
        await self._writer.model(completion.wanted.model)
        choices: list[Choice] = []
        for prompt in completion.prompts:
            drawn = await self._writer.choices(prompt, completion.wanted)
            choices += [_echoed(prompt, choice) for choice in drawn] if completion.echo else drawn
        head = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": completion.wanted.model,
        }
        if body.get("stream", bool, False):
            await self._conditions.serve()
            return sse.response(self._events(head, completion, choices))
        usage = self._writer.usage("\n".join(completion.prompts), choices)
        await self._conditions.serve(usage.output_tokens)
        listed = [
            _choice(at, choice.pieces, choice.finish_reason, completion.logprobs)
            for at, choice in enumerate(choices)
        ]
        return JSONResponse(head | {"choices": listed, "usage": usage.as_completion()})

    async def _events(
        self, head: dict[str, Any], request: TextCompletionRequest, choices: list[Choice]
    ) -> AsyncIterator[bytes]:
        unknown = {"usage": None} if request.include_usage else {}
        for at, choice in enumerate(choices):
            for piece in choice.pieces:
                await self._conditions.next_token()
                part = _choice(at, [piece], None, request.logprobs)
                yield sse.data(head | {"choices": [part]} | unknown)
            last = _choice(at, [], choice.finish_reason, None)
            yield sse.data(head | {"choices": [last]} | unknown)
        usage = self._writer.usage("\n".join(request.prompts), choices)
        if request.include_usage:
            yield sse.data(head | {"choices": [], "usage": usage.as_completion()})
        yield sse.DONE


def _parse_request(body: JsonDocument) -> TextCompletionRequest:
    given = body.fields.get("prompt")
    prompts = [given] if isinstance(given, str) else body.need("prompt", list)
    if not prompts or not all(isinstance(prompt, str) for prompt in prompts):
        raise InvalidRequest("'prompt' must be a string or a list of strings.", param="prompt")
    options = JsonDocument(body.get("stream_options", dict, {}), "stream_options.")
    return TextCompletionRequest(
        prompts=tuple(prompts),
        wanted=wanted(body, "max_tokens"),
        echo=body.get("echo", bool, False),
        logprobs=body.get("logprobs", int),
        include_usage=options.get("include_usage", bool, False),
    )


def _echoed(prompt: str, choice: Choice) -> Choice:
    return Choice((prompt, *choice.pieces), choice.finish_reason)


def _choice(
    at: int, pieces: Sequence[str], finish_reason: str | None, logprobs: int | None
) -> dict[str, Any]:
    listed = None
    if logprobs is not None:
        listed = {
            "tokens": list(pieces),
            "token_logprobs": [logprob(piece) for piece in pieces],
            "top_logprobs": [{piece: logprob(piece)} for piece in pieces] if logprobs else None,
            "text_offset": [sum(map(len, pieces[:before])) for before in range(len(pieces))],
        }
    return {
        "text": "".join(pieces),
        "index": at,
        "logprobs": listed,
        "finish_reason": finish_reason,
    }
