"""The models that callers can name. A name is looked up here and never put into a URL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gateway.config import Settings
from gateway.errors import UnknownModel
from gateway.types import Endpoint, ServedModel, Zone


@dataclass(frozen=True, slots=True)
class CatalogModel:
    """One model: what its inputs are, and which endpoints may serve it."""

    name: str
    task: str  # infer | embeddings | generate
    endpoints: tuple[str, ...]
    text_inputs: frozenset[str] = frozenset()
    tensors_clear: bool = False  # the declared class of inputs that are not text
    declared: bool = True
    public: bool = False  # the operator's word: its calls hold nothing that has to stay
    latency_budget_s: float | None = None
    pseudonymise: bool = False
    max_batch: int = 1
    canary: bool = False  # small inferences of our own may be sent; never where it is undeclared


@dataclass(slots=True)
class Catalog:
    """Declared models from the settings; undeclared ones of on-prem servers may join, always
    restricted (C6)."""

    models: dict[str, CatalogModel] = field(default_factory=dict)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    gpu_usd_per_hour: dict[str, float] = field(default_factory=dict)  # of each whole endpoint
    changes: int = 0  # since it was made

    @classmethod
    def of(cls, settings: Settings) -> Catalog:
        models = {
            name: CatalogModel(
                name=name,
                task=m.task,
                endpoints=tuple(s.endpoint for s in m.served_by),
                text_inputs=frozenset(m.text_inputs),
                tensors_clear=m.tensors == "clear",
                latency_budget_s=None if m.latency_budget_ms is None else m.latency_budget_ms / 1e3,
                public=m.public,
                pseudonymise=m.pseudonymise,
                max_batch=m.max_batch,
                canary=m.canary,
            )
            for name, m in settings.models.items()
        }
        endpoints = {
            name: Endpoint(name, e.zone, e.kind, _served(name, settings))
            for name, e in settings.endpoints.items()
        }
        prices = {name: _gpu_usd_per_hour(name, settings) for name in endpoints}
        return cls(models, endpoints, prices)

    def find(self, name: str) -> CatalogModel:
        found = self.models.get(name)
        if found is None:
            raise UnknownModel(
                "Request for unknown model: the name is not in the catalog of this gateway"
            )
        return found

    def refuse_other_versions(self, model: CatalogModel, version: str) -> None:
        """Raises UnknownModel for a version that no endpoint of the model may serve."""
        places = (self.endpoints[n].models for n in model.endpoints if n in self.endpoints)
        served = [models[model.name] for models in places if model.name in models]
        if served and not any(s.grants(version) for s in served):
            raise UnknownModel(
                "Request for unknown model: the catalog of this gateway has it in another version"
            )

    def names(self) -> Iterable[str]:
        return self.models.keys()

    def add_undeclared(self, endpoint: str, names: Iterable[str]) -> None:
        """Serve what an on-prem server has and the settings do not name: there, restricted."""
        place = self.endpoints[endpoint]
        served = dict(place.models)
        self.changes += 1
        for name in names:
            if name in self.models and self.models[name].declared:
                continue
            if name not in self.models:
                self.models[name] = CatalogModel(name, "infer", (endpoint,), declared=False)
            elif endpoint not in self.models[name].endpoints:
                known = self.models[name]
                self.models[name] = CatalogModel(
                    name, "infer", (*known.endpoints, endpoint), declared=False
                )
            hour_usd = self.gpu_usd_per_hour.get(endpoint, 0.0)
            served[name] = ServedModel(name, gpu_usd_per_hour=hour_usd)
        self.endpoints[endpoint] = Endpoint(place.name, place.zone, place.kind, served)


def _gpu_usd_per_hour(endpoint: str, settings: Settings) -> float:
    """Of the whole server, while it has calls."""
    costs, stated = settings.costs, settings.endpoints[endpoint]
    each = costs.gpu_hour_usd if stated.gpu_usd_per_hour is None else stated.gpu_usd_per_hour
    return each * stated.gpus / costs.gpu_utilisation


def _served(endpoint: str, settings: Settings) -> Mapping[str, ServedModel]:
    away = settings.endpoints[endpoint].zone is Zone.CLOUD
    unknown = settings.costs.unknown_usd_per_1k_tokens
    return {
        name: ServedModel(
            model=s.model or name,
            version=s.version,
            substitute=bool(s.substitute),
            price_usd=s.price_usd or 0.0,
            price_usd_per_1k_tokens=s.price_usd_per_1k_tokens or 0.0,
            price_usd_per_1k_input_tokens=s.price_usd_per_1k_input_tokens,
            price_usd_per_1k_output_tokens=s.price_usd_per_1k_output_tokens,
            price_usd_per_1k_cached_tokens=s.price_usd_per_1k_cached_tokens,
            assumed_usd_per_1k_tokens=0.0 if s.priced or not away else unknown,
            egress_usd_per_gb=settings.endpoints[endpoint].egress_usd_per_gb if away else 0.0,
            gpu_usd_per_hour=0.0 if s.priced or away else _gpu_usd_per_hour(endpoint, settings),
        )
        for name, model in settings.models.items()
        for s in model.served_by
        if s.endpoint == endpoint
    }
