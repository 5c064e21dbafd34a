"""What canaries are made of, the model's metadata, and how they go out: by its endpoint's door."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2

from gateway.accounting.records import DecisionLog
from gateway.config.endpoint_kinds import KINDS
from gateway.config.model_catalog import Catalog
from gateway.core import ambient
from gateway.core.errors import NotOffered, UpstreamFailed
from gateway.core.reply import (
    ReplyStream,
)
from gateway.core.types import (
    Classification,
    Decision,
    InferenceRequest,
    Payload,
    Sensitivity,
    ServedModel,
)
from gateway.endpoints.connectors import Cleared
from gateway.endpoints.health import canary
from gateway.endpoints.state import EndpointState

_TIMEOUT_S = 2.0


class CanaryPayloads:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def __call__(self, name: str, state: EndpointState, model: str) -> Payload:
        """Raises a GatewayError where none can be made."""
        kind = KINDS[state.settings.kind]
        document = canary.task_canary(self._catalog.find(model).task)
        if document is not None and kind.serves(document.operation):
            return document
        served = self._catalog.endpoints[name].models[model]
        if state.inspector is None:
            raise NotOffered("this endpoint does not tell what its models take")
        if kind.extensions:
            config = service_pb2.ModelConfigRequest(name=served.model, version=served.version)
            raw = await state.inspector.grpc("ModelConfig", config.SerializeToString(), _TIMEOUT_S)
            return canary.config_canary(_parsed(service_pb2.ModelConfigResponse(), raw).config)
        metadata = service_pb2.ModelMetadataRequest(name=served.model, version=served.version)
        raw = await state.inspector.grpc("ModelMetadata", metadata.SerializeToString(), _TIMEOUT_S)
        return canary.metadata_canary(_parsed(service_pb2.ModelMetadataResponse(), raw))


def _parsed(message: Any, raw: bytes) -> Any:
    try:
        message.ParseFromString(raw)
    except DecodeError:
        raise UpstreamFailed("the server's words on a model are not of the protocol") from None
    return message


class CanaryDoors:
    """By the door of its zone. A canary holds nothing of any caller: it is clear by its making.
    One to the cloud is on record before it goes, as whatever leaves."""

    def __init__(self, log: DecisionLog) -> None:
        self._log = log

    async def infer(
        self, endpoint: str, state: EndpointState, request: InferenceRequest, served: ServedModel
    ) -> ReplyStream:
        if state.onprem is not None:
            return await state.onprem.infer(request, served)
        if state.cloud is None:
            raise UpstreamFailed("this endpoint has no door")
        zone = state.settings.zone
        alone = frozenset({zone})
        classification = Classification(
            request.id, Sensitivity.CLEAR, "canary", complete=True, admitted=alone
        )
        decision = Decision((), "canary", alone)
        cleared = Cleared(zone, replace(request, zones=alone), classification, decision)
        durable = self._log.append(
            {
                "kind": "canary",
                "time": round(ambient.wall_s(), 3),
                "id": request.id,
                "sent_as": cleared.sent_as,
                "endpoint": endpoint,
                "tenant": "",
                "model": request.model,
                "sensitivity": classification.sensitivity.value,
                "policy": "",
            }
        )
        if durable is not None and (failed := await durable) is not None:  # guard: B8.canary-record
            raise copy(failed)
        return await state.cloud.infer(cleared, served)
