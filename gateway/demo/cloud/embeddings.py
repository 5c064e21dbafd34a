"""`POST /v1/embeddings`: platform.openai.com/docs/api-reference/embeddings."""

import base64
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.demo.cloud.completion import count_tokens
from gateway.demo.cloud.conditions import Conditions
from gateway.demo.cloud.documents import document
from gateway.demo.cloud.errors import InvalidRequest, UnservedModel
from gateway.demo.cloud.models import ModelStore

_MOST_INPUTS = 2048


class Embeddings:
    def __init__(self, models: ModelStore, conditions: Conditions) -> None:
        self._models = models
        self._conditions = conditions

    async def __call__(self, request: Request) -> Response:
        body = await document(request)
        model = await self._models.get(body.need("model", str))
        if not model.embeds_text:
            raise UnservedModel(model.name)
        if body.fields.get("dimensions") is not None:
            raise InvalidRequest(
                "This model does not support specifying dimensions.", param="dimensions"
            )
        given = body.fields.get("input")
        texts = [given] if isinstance(given, str) else body.need("input", list)
        if not texts or not all(isinstance(text, str) and text for text in texts):
            raise InvalidRequest("'input' must be text or a list of texts.", param="input")
        if len(texts) > _MOST_INPUTS:
            raise InvalidRequest(f"'input' may hold {_MOST_INPUTS} texts.", param="input")
        encoding = body.get("encoding_format", str, "float")
        if encoding not in ("float", "base64"):
            raise InvalidRequest("'encoding_format' is float or base64.", param="encoding_format")
        rows = np.array([text.encode() for text in texts], dtype=object).reshape(-1, 1)
        vectors = (await self._models.execute(model, {model.inputs[0].name: rows}))["embedding"]
        tokens = sum(count_tokens(text) for text in texts)
        self._conditions.charge(tokens, 0)
        await self._conditions.serve()
        entries = [
            {"object": "embedding", "index": at, "embedding": _encoded(vector, encoding)}
            for at, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return JSONResponse(
            {"object": "list", "data": entries, "model": model.name, "usage": usage}
        )


def _encoded(vector: Any, encoding: str) -> str | list[float]:
    if encoding == "base64":
        return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()
    values: list[float] = np.asarray(vector, np.float32).tolist()
    return values
