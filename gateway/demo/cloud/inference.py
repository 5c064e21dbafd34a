"""Open Inference Protocol calls without their wire: find the model, check, run, count, wait."""

import json
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import numpy as np
from google.protobuf import json_format

from gateway.demo.cloud.completion import count_tokens
from gateway.demo.cloud.conditions import Conditions
from gateway.demo.cloud.errors import InvalidRequest, UnservedModel
from gateway.demo.cloud.models import ModelStore, SimulatedModel, check
from gateway.demo.cloud.tensors import Array

SERVER = {
    "name": "triton",  # what the clients' examples look for
    "version": "2.51.0",
    "extensions": ["binary_tensor_data", "model_configuration", "statistics"],
}
_VERSION = "1"
_DEFAULT_TOKENS = 64
_MOST_TOKENS = 2048


class Inference:
    def __init__(self, models: ModelStore, conditions: Conditions) -> None:
        self._models = models
        self._conditions = conditions

    async def model(self, name: str, version: str = "") -> SimulatedModel:
        if version not in ("", _VERSION):
            raise UnservedModel(name)
        return await self._models.get(name)

    async def infer(self, model: SimulatedModel, inputs: dict[str, Array]) -> dict[str, Array]:
        if model.decoupled:
            raise InvalidRequest(
                "this call doesn't support models with decoupled transaction policy"
            )
        outputs = await self._models.execute(model, inputs)
        self._conditions.charge(0, 0)
        await self._conditions.serve()
        return outputs

    async def stream(
        self, model: SimulatedModel, inputs: dict[str, Array]
    ) -> AsyncIterator[dict[str, Array]]:
        """The answers of a decoupled text model: all at once, or a piece each with `stream`."""
        check(model, inputs)
        prompt = _text(inputs, "text_input", "")
        limit, seed = _sampling(inputs, prompt)
        pieces = await self._models.generate(model, prompt, limit, seed)
        await self._conditions.serve()
        reason = "length" if len(pieces) >= limit else "stop"
        if _scalar(inputs, "stream", False):
            for piece in pieces:
                await self._conditions.next_token()
                yield _written(inputs, prompt, piece, 1, "")
            if _scalar(inputs, "return_finish_reason", False):
                yield _written(inputs, prompt, "", 0, reason)
        else:
            for _ in pieces:
                await self._conditions.next_token()
            yield _written(inputs, prompt, "".join(pieces), len(pieces), reason)
        self._conditions.charge(count_tokens(prompt), len(pieces))


def metadata(model: SimulatedModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "versions": [_VERSION],
        "platform": model.platform,
        "inputs": [
            {"name": spec.name, "datatype": spec.datatype, "shape": list(spec.shape)}
            for spec in model.inputs
        ],
        "outputs": [
            {"name": spec.name, "datatype": spec.datatype, "shape": list(spec.shape)}
            for spec in model.outputs
        ],
    }


def config(model: SimulatedModel) -> dict[str, Any]:
    shown: dict[str, Any] = json_format.MessageToDict(
        model.config, preserving_proto_field_name=True
    )
    for tensor in [*shown.get("input", []), *shown.get("output", [])]:
        tensor["dims"] = [int(size) for size in tensor["dims"]]  # protobuf's JSON quotes int64
    return shown


def _sampling(inputs: Mapping[str, Array], prompt: str) -> tuple[int, int]:
    try:
        given = json.loads(_text(inputs, "sampling_parameters", "{}") or "{}")
        limit = int(given.get("max_tokens") or _DEFAULT_TOKENS)
        seed = int(given.get("seed") or zlib.crc32(prompt.encode()))
    except (ValueError, TypeError, AttributeError):
        raise InvalidRequest("sampling_parameters must be a JSON object of numbers") from None
    limit = int(_scalar(inputs, "max_tokens", limit))
    if limit < 1:
        raise InvalidRequest("max_tokens must be at least 1")
    return min(limit, _MOST_TOKENS), seed


def _written(
    inputs: Mapping[str, Array], prompt: str, text: str, tokens: int, reason: str
) -> dict[str, Array]:
    outputs: dict[str, Array] = {"text_output": np.array([text.encode()], dtype=object)}
    extra: dict[str, Array] = {
        "finish_reason": np.array([reason.encode()], dtype=object),
        "num_input_tokens": np.array([len(prompt.split())], dtype=np.uint32),
        "num_output_tokens": np.array([tokens], dtype=np.uint32),
    }
    parameters = {
        name: array for name, array in extra.items() if _scalar(inputs, f"return_{name}", 0)
    }
    return outputs | parameters


def _scalar(inputs: Mapping[str, Array], name: str, default: Any) -> Any:
    array = inputs.get(name)
    return default if array is None or array.size == 0 else array.ravel()[0]


def _text(inputs: Mapping[str, Array], name: str, default: str) -> str:
    raw = _scalar(inputs, name, default)
    try:
        return raw.decode() if isinstance(raw, bytes) else str(raw)
    except UnicodeDecodeError:
        raise InvalidRequest(f"{name} must be UTF-8") from None
