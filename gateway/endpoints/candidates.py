"""The endpoints that may serve a model, each with what of it stays the same from call to call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gateway.config.model_catalog import Catalog
from gateway.core.types import ONPREM, DocumentCall, Endpoint, InferenceRequest, ServedModel
from gateway.endpoints.state import EndpointState, ModelState
from gateway.scheduling.routing.fit import able, requested_version
from gateway.scheduling.routing.needs import limited, needs

_EXPECTED_TOKENS: Final = 500  # of a generation, until its answer says; only ranks endpoints


class Candidate:
    """One of them."""

    __slots__ = ("endpoint", "model_state", "name", "onprem", "price_usd", "served", "state")

    def __init__(
        self, endpoint: Endpoint, model: str, state: EndpointState, model_state: ModelState
    ) -> None:
        self.endpoint, self.name = endpoint, endpoint.name
        self.served = endpoint.models[model]
        self.state, self.model_state = state, model_state
        self.onprem = endpoint.zone is ONPREM
        self.price_usd = price_usd(self.served, None)


class _ModelCandidates:
    """Those of one model, and the servers that its calls queue for."""

    __slots__ = (
        "_groups",
        "_limited",
        "all",
        "cheapest_cloud",
        "cloud_names",
        "prices_usd",
        "revision",
    )  # fmt: skip

    def __init__(self, candidates: tuple[Candidate, ...], revision: int) -> None:
        self.all, self.revision = candidates, revision
        self.cloud_names = tuple(candidate.name for candidate in candidates if not candidate.onprem)
        self.prices_usd = {candidate.name: candidate.price_usd for candidate in candidates}
        clouds = [candidate for candidate in candidates if not candidate.onprem]
        cheapest = min(clouds, key=lambda candidate: candidate.price_usd, default=None)
        self.cheapest_cloud = None if cheapest is None else cheapest.served
        self._limited = any(
            limited(candidate.endpoint, candidate.served) for candidate in candidates
        )
        self._groups: dict[bool, tuple[str, ...]] = {}  # by whether the call is a document

    def serves_alike(self, request: InferenceRequest) -> bool:
        """Whether the call needs nothing that some of its endpoints lack."""
        call = request.payload
        if not self._limited or not isinstance(call, DocumentCall):
            return True
        return next(needs(call), None) is None

    def server_group(self, request: InferenceRequest) -> tuple[str, ...]:
        documents = isinstance(request.payload, DocumentCall)
        if not documents and requested_version(request):  # a caller's choice: nothing is kept by it
            return self._able(request)
        if not self.serves_alike(request):
            return self._able(request)
        group = self._groups.get(documents)
        if group is None:
            group = self._groups[documents] = self._able(request)
        return group

    def _able(self, request: InferenceRequest) -> tuple[str, ...]:
        onprem = (candidate.endpoint for candidate in self.all if candidate.onprem)
        return tuple(endpoint.name for endpoint in able(request, onprem))


class CandidateIndex:
    def __init__(
        self,
        catalog: Catalog,
        states: Mapping[str, EndpointState],
        model_state: Callable[[str, str], ModelState],
    ) -> None:
        self._catalog, self._states, self._model_state = catalog, states, model_state
        self._by_model: dict[str, _ModelCandidates] = {}

    def for_model(self, model: str) -> _ModelCandidates:
        """As the catalog has them now. Raises UnknownModel."""
        entry = self._by_model.get(model)
        if entry is not None and entry.revision == self._catalog.changes:
            return entry
        known, endpoints = self._catalog.find(model), self._catalog.endpoints
        candidates = [
            Candidate(endpoints[name], model, self._states[name], self._model_state(name, model))
            for name in known.endpoints
        ]
        made = self._by_model[model] = _ModelCandidates(tuple(candidates), self._catalog.changes)
        return made

    def server_group(self, request: InferenceRequest) -> tuple[str, ...]:
        """The on-prem servers that may serve the call, up or not: those it queues for."""
        return self.for_model(request.model).server_group(request)


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
