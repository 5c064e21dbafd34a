"""What a Triton server is asked when it comes up: which models it has and how it batches them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tritonclient.grpc import service_pb2
from tritonclient.grpc.model_config_pb2 import ModelConfig

from gateway.backends import Inspector
from gateway.catalog import Catalog
from gateway.errors import GatewayError
from gateway.groups import Execution
from gateway.place import Place
from gateway.repository import CACHED, stalling_options
from gateway.types import Zone

log = logging.getLogger(__name__)
_TIMEOUT_S = 5.0


class ServerCensus:
    """Fills in what the settings leave open. Undeclared models join only from on-prem servers."""

    def __init__(
        self, catalog: Catalog, undeclared: bool, learnt: Callable[[str, str, Execution], None]
    ) -> None:
        """`learnt` is told, for an endpoint and a model, how that is executed there."""
        self._catalog = catalog
        self._undeclared = undeclared
        self._learnt = learnt

    async def __call__(self, name: str, place: Place) -> None:
        if place.inspector is None or place.settings.kind != "triton":
            return
        if self._undeclared and place.settings.zone is Zone.ONPREM:
            self._catalog.add_undeclared(name, await self._models(place.inspector))
        for model, served in self._catalog.endpoints[name].models.items():
            try:
                self._learnt(name, model, await self._execution(place.inspector, served.model))
            except GatewayError as exc:
                log.warning("%s: no config of %s: %s", name, model, exc.reason)

    async def _models(self, inspector: Inspector) -> list[str]:
        raw = await inspector.grpc(
            "RepositoryIndex",
            service_pb2.RepositoryIndexRequest(ready=True).SerializeToString(),
            _TIMEOUT_S,
        )
        index = service_pb2.RepositoryIndexResponse.FromString(raw)
        return [m.name for m in index.models]

    async def _execution(self, inspector: Inspector, model: str) -> Execution:
        raw = await inspector.grpc(
            "ModelConfig",
            service_pb2.ModelConfigRequest(name=model).SerializeToString(),
            _TIMEOUT_S,
        )
        config = service_pb2.ModelConfigResponse.FromString(raw).config
        if stalling := stalling_options(config.dynamic_batching):
            log.warning(
                "%s: its dynamic_batching has %s, with which Triton can stall (server#8870)",
                model, ", ".join(sorted(stalling)),
            )  # fmt: skip
        if config.response_cache.enable:
            log.warning("%s: its %s", model, CACHED)
        return _execution(config)


def _execution(config: ModelConfig) -> Execution:
    """Instances are counted for each device of a group, as Triton starts them."""
    instances = sum(max(1, g.count) * max(1, len(g.gpus)) for g in config.instance_group)
    return Execution(
        rows=max(1, config.max_batch_size),
        instances=max(1, instances),
        one_by_one=config.model_transaction_policy.decoupled,
    )
