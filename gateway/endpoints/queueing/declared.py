"""What the settings say of how each endpoint executes a model."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.config.endpoint_kinds import KINDS
from gateway.config.model_catalog import Catalog
from gateway.endpoints.state import EndpointState
from gateway.scheduling.executions import Execution
from gateway.scheduling.queues import Prior


class DeclaredServers:
    def __init__(self, catalog: Catalog, states: Mapping[str, EndpointState]) -> None:
        self._catalog, self._states = catalog, states

    def expected_s(self, name: str) -> float:
        """The service time that the settings expect of an endpoint."""
        return self._states[name].settings.expected_ms / 1000

    def execution(self, model: str, name: str) -> Execution:
        """How an on-prem server executes a model's calls. Raises UnknownModel."""
        model_settings, settings = self._catalog.find(model), self._states[name].settings
        kind = KINDS[settings.kind]
        if kind.batches:
            return Execution(rows=max(1, settings.max_in_flight // 2), one_by_one=True)
        shares = kind.shares_gpu if settings.shares_gpu is None else settings.shares_gpu
        return Execution(model_settings.max_batch, 1, model_settings.task == "generate", shares)

    def measured(self, model: str, name: str) -> Prior | None:
        """What batches of a model took there, where somebody has measured them."""
        served = self._catalog.endpoints[name].models.get(model)
        return None if served is None else self._states[name].measured.get(served.model)
