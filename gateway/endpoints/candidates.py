"""The endpoints that may serve a model, and what holds of them until one of them changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gateway.config.model_catalog import Catalog
from gateway.core.operations.spec import OperationSpec
from gateway.core.structs import value
from gateway.core.types import (
    DocumentCall,
    Endpoint,
    InferenceRequest,
    ServedModel,
    Zone,
)
from gateway.endpoints.state import EndpointState, ModelState
from gateway.scheduling.queue import ModelQueue, QueueConditions
from gateway.scheduling.routing.fit import able
from gateway.scheduling.routing.needs import lacking, limited
from gateway.scheduling.routing.policy import Eligible, Policy

_EXPECTED_TOKENS: Final = 500  # of a generation, until its answer says; only ranks endpoints

Shape = tuple[OperationSpec, frozenset[Zone], frozenset[Zone]]
"""What a filter reads of a call that asks for nothing in particular: its operation, the zones that
its caller allows, and those outside the premises that its class admits."""


class Candidate:
    """One of them."""

    __slots__ = ("endpoint", "model_state", "name", "onprem", "price_usd", "served", "state")

    def __init__(
        self, endpoint: Endpoint, model: str, state: EndpointState, model_state: ModelState
    ) -> None:
        self.endpoint, self.name = endpoint, endpoint.name
        self.served = endpoint.models[model]
        self.state, self.model_state = state, model_state
        self.onprem = endpoint.zone.onprem
        self.price_usd = price_usd(self.served, None)


@value
class Plan:
    """Where calls of one shape may go for an epoch."""

    eligible: Eligible
    clouds: tuple[str, ...]  # those that are eligible
    queue: ModelQueue | None  # None: no on-prem server may serve such calls


class ModelEpoch:
    """The time in which nothing changes of a model's endpoints: neither the catalog nor who is up,
    drained, ejected, suspected, slow or new. What is made of that is made once and stands here; the
    first change ends the epoch. How busy endpoints are is not in it."""

    __slots__ = (
        "_groups",
        "_limited",
        "all",
        "cheapest_cloud",
        "cloud_names",
        "conditions",
        "over",
        "plans",
        "policy",
        "prices_usd",
        "steady",
    )

    def __init__(self, candidates: tuple[Candidate, ...]) -> None:
        self.all, self.over = candidates, False
        self.steady = all([candidate.model_state.steady for candidate in candidates])
        """Whether endpoints take or refuse calls whoever calls and whatever the time is."""
        clouds = [candidate for candidate in candidates if not candidate.onprem]
        self.cloud_names = tuple([candidate.name for candidate in clouds])
        self.prices_usd = {candidate.name: candidate.price_usd for candidate in candidates}
        cheapest = min(clouds, key=lambda candidate: candidate.price_usd, default=None)
        self.cheapest_cloud = None if cheapest is None else cheapest.served
        self.policy: Policy | None = None
        """Whose decisions are the plans."""
        self.plans: dict[Shape, Plan] = {}
        self.conditions: dict[tuple[str, ...], QueueConditions] = {}
        """Of a queue's servers, where they do not depend on the time; without the cloud's room."""
        self._limited = {
            (
                candidate.endpoint.kind,
                candidate.endpoint.operations,
                candidate.served.lacks,
                repr(candidate.served.refuses),
            ): candidate
            for candidate in candidates
            if limited(candidate.endpoint, candidate.served)
        }
        """One of those that serve the same calls alone."""
        self._groups: dict[OperationSpec, tuple[str, ...]] = {}

    def server_group(self, request: InferenceRequest) -> tuple[str, ...]:
        """See `CandidateIndex`."""
        if self.special(request):
            return self._able(request)
        operation = request.payload.operation
        group = self._groups.get(operation)
        if group is None:
            group = self._groups[operation] = self._able(request)
        return group

    def special(self, request: InferenceRequest) -> bool:
        """Whether what its body asks for decides where it may go. A version is a caller's choice:
        it keeps no reference."""
        payload = request.payload
        if isinstance(payload, DocumentCall):
            if payload.translation is not None and payload.translation.unsaid:
                return True  # guard: S13.epoch-unsaid
            for candidate in self._limited.values():  # guard: S10.epoch-needs
                if lacking(request, candidate.endpoint, candidate.served) is not None:
                    return True
            return False
        return bool(payload.version) or payload.sequence is not None

    def _able(self, request: InferenceRequest) -> tuple[str, ...]:
        onprem = (candidate.endpoint for candidate in self.all if candidate.onprem)
        return tuple([endpoint.name for endpoint in able(request, onprem)])


class CandidateIndex:
    def __init__(
        self,
        catalog: Catalog,
        states: Mapping[str, EndpointState],
        model_state: Callable[[str, str], ModelState],
    ) -> None:
        self._catalog, self._states, self._model_state = catalog, states, model_state
        self._epochs: dict[str, ModelEpoch] = {}
        catalog.changed = self.end_epochs

    def epoch(self, model: str) -> ModelEpoch:
        """The model's endpoints as they are now. Raises UnknownModel."""
        epoch = self._epochs.get(model)
        return self._begin(model) if epoch is None or epoch.over else epoch

    def server_group(self, request: InferenceRequest) -> tuple[str, ...]:
        """The on-prem servers that may serve the call, up or not: those it queues for."""
        return self.epoch(request.model).server_group(request)

    def _begin(self, model: str) -> ModelEpoch:
        known, endpoints = self._catalog.find(model), self._catalog.endpoints
        candidates = [
            Candidate(endpoints[name], model, self._states[name], self._model_state(name, model))
            for name in known.endpoints
        ]
        epoch = self._epochs[model] = ModelEpoch(tuple(candidates))
        for candidate in candidates:
            candidate.model_state.epochs[epoch] = None
        return epoch

    def end_epochs(self) -> None:
        """Something has changed that may concern every model."""
        for epoch in self._epochs.values():
            epoch.over = True
            for candidate in epoch.all:
                candidate.model_state.epochs.pop(epoch, None)
        self._epochs.clear()


def price_usd(served: ServedModel, total_tokens: int | None) -> float:
    """Price of one call in US dollars; an estimate until its tokens are known."""
    tokens = _EXPECTED_TOKENS if total_tokens is None else total_tokens
    given, written = served.price_usd_per_1k_input_tokens, served.price_usd_per_1k_output_tokens
    per_1k = served.price_usd_per_1k_tokens
    if given is not None or written is not None:  # half of each, which only ranks endpoints
        per_1k = (
            (per_1k if given is None else given) + (per_1k if written is None else written)
        ) / 2
    return served.price_usd + per_1k * tokens / 1000
