"""What the tensors of a model are called and how they are shaped, for protocols whose calls name no
datatype. A server of the model says it; that is asked for again after a while."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

from gateway.core import ambient
from gateway.core.errors import GatewayError, UpstreamFailed
from gateway.endpoints.connectors import Inspector
from gateway.protocols.oip.datatypes import DATATYPES, Datatype
from gateway.server import Inspection
from gateway.server.kserve.inspection import ANSWER_S

_CACHE_S = 60.0
_MOST_CACHED = 4096  # models and versions; a version is the caller's choice


@dataclass(frozen=True, slots=True)
class TensorShape:
    """An input. A dimension of -1 may have any size; where there are batches, the first counts
    rows."""

    datatype: Datatype
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModelTensors:
    inputs: Mapping[str, TensorShape]
    decoupled: bool = False  # it gives any number of answers to a call


class ModelTensorsCache:
    def __init__(
        self, inspection: Inspection, clock: Callable[[], float] = ambient.monotonic_s
    ) -> None:
        self._inspection, self._clock = inspection, clock
        self._known: dict[tuple[str, str], tuple[float, ModelTensors]] = {}

    async def find(self, model: str, version: str) -> ModelTensors:
        """Of a model of the catalog. Raises NoEligibleEndpoint, UpstreamError."""
        key, now_s = (model, version), self._clock()
        known = self._known.get(key)
        if known is not None and now_s - known[0] < _CACHE_S:
            return known[1]
        inspector, there = self._inspection.model_inspector(model)
        path = f"/v2/models/{quote(there, safe='')}"
        if version:
            path += f"/versions/{version}"
        tensors = ModelTensors(
            _inputs(await _document(inspector, path)), await _decoupled(inspector, path)
        )
        if len(self._known) >= _MOST_CACHED:
            self._known.clear()
        self._known[key] = now_s, tensors
        return tensors


async def _document(inspector: Inspector, path: str) -> Mapping[str, Any]:
    try:
        document = orjson.loads((await inspector.rest(path, ANSWER_S)).body)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise UpstreamFailed("the endpoint's answer is not of the protocol")
    return document


async def _decoupled(inspector: Inspector, path: str) -> bool:
    """Servers without Triton's extension have no such models."""
    try:
        config = await _document(inspector, f"{path}/config")
    except GatewayError:
        return False
    policy = config.get("model_transaction_policy")
    return isinstance(policy, dict) and policy.get("decoupled") is True


def _inputs(metadata: Mapping[str, Any]) -> Mapping[str, TensorShape]:
    """Raises UpstreamFailed."""
    try:
        return {
            str(each["name"]): TensorShape(
                DATATYPES[each["datatype"]], tuple(int(size) for size in each["shape"])
            )
            for each in metadata["inputs"]
        }
    except (KeyError, TypeError, ValueError):
        raise UpstreamFailed("the model's metadata is not of the protocol") from None
