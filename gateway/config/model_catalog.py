"""The models that callers can name. A name is looked up here and never put into a URL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypedDict

from gateway.config import EndpointSettings, Settings, token_encoding
from gateway.config.providers.prices import ModelPrice
from gateway.config.sections.models import FieldChanges, ServedBySettings
from gateway.config.token_encoding import TokenEncoding
from gateway.core.errors import UnknownModel
from gateway.core.types import Endpoint, ServedModel, endpoint_name


@dataclass(frozen=True, slots=True)
class CatalogModel:
    """One model: what its inputs are, and which endpoints may serve it."""

    name: str
    task: str  # of the operations that it serves
    endpoints: tuple[str, ...]
    text_inputs: frozenset[str] = frozenset()
    tensors_clear: bool = False  # the declared class of inputs that are not text
    declared: bool = True
    public: bool = False  # the operator's word: its calls hold nothing that has to stay
    latency_budget_s: float | None = None
    label: str | None = None  # the class that its calls are of at least
    pseudonymise: bool = False
    max_batch: int = 1
    inputs: frozenset[str] = frozenset()  # all of them, by the operator's word; empty: ask servers
    rows_independent: bool | None = None  # by the operator's word; None: it is tried
    token_encoding: TokenEncoding | None = None  # of ids that callers send in the place of text
    tenants_apart: bool = False  # no request has calls of two
    split: Mapping[str, float] = field(default_factory=dict)  # shares that other models serve
    sticky_by_tenant: bool = False  # else by conversation
    requests: FieldChanges | None = None  # what is changed in its documents before they are read
    canary: bool = False  # small inferences of our own may be sent; never where it is undeclared


@dataclass(frozen=True, slots=True)
class TensorNames:
    """What a model's tensors are called. `outputs` is None where nobody says it."""

    inputs: frozenset[str]
    outputs: frozenset[str] | None = None


@dataclass(slots=True)
class Catalog:
    """Declared models from the settings; undeclared ones of on-prem servers may join, always
    restricted (C6)."""

    models: dict[str, CatalogModel] = field(default_factory=dict)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    gpu_usd_per_hour: dict[str, float] = field(default_factory=dict)  # of each whole endpoint
    aliases: Mapping[str, str] = field(default_factory=dict)  # to names of `models`
    changed: Callable[[], None] = lambda: None
    """Called when it has got another model."""
    _names: dict[str, dict[str, TensorNames]] = field(default_factory=dict)  # model -> endpoint

    @classmethod
    def from_settings(cls, settings: Settings) -> Catalog:
        models = {
            name: CatalogModel(
                name=name,
                task=m.task,
                endpoints=tuple(place for place, _ in m.placed(name)),
                text_inputs=frozenset(m.text_inputs),
                tensors_clear=m.tensors == "clear",
                latency_budget_s=None if m.latency_budget_ms is None else m.latency_budget_ms / 1e3,
                public=m.public,
                label=m.label,
                pseudonymise=m.pseudonymise,
                max_batch=m.max_batch,
                rows_independent=m.rows_independent,
                tenants_apart=m.tenants_apart,
                canary=m.canary,
                split=m.split,
                sticky_by_tenant=m.sticky == "tenant",
                requests=m.requests,
                token_encoding=token_encoding.load(m.token_encoding) if m.token_encoding else None,
                inputs=frozenset((*m.inputs, *m.text_inputs)) if m.inputs else frozenset(),
            )
            for name, m in settings.models.items()
        }
        places = settings.places()
        endpoints = {
            name: Endpoint(name, e.zone, e.kind, _served(name, settings), _operations(e))
            for name, e in places.items()
        }
        prices = {name: _gpu_usd_per_hour(name, settings) for name in endpoints}
        return cls(models, endpoints, prices, settings.aliases())

    def find(self, name: str) -> CatalogModel:
        model = self.models.get(name) or self.models.get(self.aliases.get(name, ""))
        if model is None:
            raise UnknownModel(
                "Request for unknown model: the name is not in the catalog of this gateway"
            )
        return model

    def refuse_other_versions(self, model: CatalogModel, version: str) -> None:
        """Raises UnknownModel for a version that no endpoint of the model may serve."""
        places = (self.endpoints[n].models for n in model.endpoints if n in self.endpoints)
        served = [models[model.name] for models in places if model.name in models]
        if served and not any(s.grants(version) for s in served):
            raise UnknownModel(
                "Request for unknown model: the catalog of this gateway has it in another version"
            )

    def may_leave(self, model: CatalogModel) -> bool:
        """Whether an endpoint in the cloud may serve it."""
        endpoints = self.endpoints
        for name in model.endpoints:
            if name in endpoints and not endpoints[name].zone.onprem:
                return True
        return False

    def learn_tensors(self, endpoint: str, model: str, names: TensorNames) -> None:
        """What the server at an endpoint says of a model's tensors."""
        self._names.setdefault(model, {})[endpoint] = names

    def knows_tensors(self, endpoint: str, model: str) -> bool:
        return endpoint in self._names.get(model, {})

    def tensor_names(self, model: CatalogModel) -> TensorNames | None:
        """By the operator's word, else by what on-prem servers say, else by what any says. None:
        nobody has said it."""
        if model.inputs:
            return TensorNames(model.inputs)
        named = self._names.get(model.name)
        if not named:
            return None
        if len(named) == 1:
            return next(iter(named.values()))
        onprem = [n for e, n in named.items() if self.endpoints[e].zone.onprem]
        some = onprem or [*named.values()]
        inputs: frozenset[str] = frozenset().union(*[names.inputs for names in some])
        outputs: frozenset[str] | None = frozenset()
        for names in some:
            known = names.outputs
            outputs = None if known is None or outputs is None else outputs | known
        return TensorNames(inputs, outputs)

    def names(self) -> Iterable[str]:
        return self.models.keys()

    def add_undeclared(self, endpoint: str, names: Iterable[str]) -> None:
        """Serve what an on-prem server has and the settings do not name: there, restricted."""
        place = self.endpoints[endpoint]
        served = dict(place.models)
        for name in names:
            if name in self.aliases or (name in self.models and self.models[name].declared):
                continue
            if name not in self.models:
                self.models[name] = CatalogModel(name, "infer", (endpoint,), declared=False)
            elif endpoint not in self.models[name].endpoints:
                known = self.models[name]
                self.models[name] = CatalogModel(
                    name, "infer", (*known.endpoints, endpoint), declared=False
                )
            hour_usd = self.gpu_usd_per_hour.get(endpoint, 0.0)
            # guard: B2.unlisted-model without gpu_usd_per_hour=hour_usd
            served[name] = ServedModel(name, gpu_usd_per_hour=hour_usd)
        self.endpoints[endpoint] = replace(place, models=served)
        self.changed()  # guard: S11.catalog-change


def _gpu_usd_per_hour(place: str, settings: Settings) -> float:
    """Of the whole server, while it has calls."""
    costs, stated = settings.costs, settings.endpoints[endpoint_name(place)]
    each = costs.gpu_hour_usd if stated.gpu_usd_per_hour is None else stated.gpu_usd_per_hour
    return each * stated.gpus / costs.gpu_utilisation


def _operations(endpoint: EndpointSettings) -> frozenset[str] | None:
    return None if endpoint.provider is None else frozenset(endpoint.provider.operations)


def _served(place: str, settings: Settings) -> Mapping[str, ServedModel]:
    endpoint = settings.endpoints[endpoint_name(place)]
    cloud, provider = not endpoint.zone.onprem, endpoint.provider
    unknown = settings.costs.unknown_usd_per_1k_tokens
    return {
        name: ServedModel(
            model=s.model or name,
            version=s.version,
            versions={} if cloud else model.versions,
            substitute=bool(s.substitute),
            lacks=frozenset((*s.lacks, *(provider.lacks if provider else ()))),
            refuses=provider.refuses if provider else {},
            max_tokens=s.max_tokens,
            **_prices(s, settings.listed_price(name, s), unknown if cloud else 0.0),
            egress_usd_per_gb=endpoint.egress_usd_per_gb if cloud else 0.0,
            gpu_usd_per_hour=0.0 if s.priced or cloud else _gpu_usd_per_hour(place, settings),
        )
        for name, model in settings.models.items()
        for at, s in model.placed(name)
        if at == place
    }


class _Prices(TypedDict, total=False):
    """The prices of a `ServedModel`."""

    price_usd: float
    price_usd_per_1k_tokens: float
    price_usd_per_1k_input_tokens: float | None
    price_usd_per_1k_output_tokens: float | None
    price_usd_per_1k_cached_tokens: float | None
    price_usd_per_1k_cache_write_tokens: float | None
    assumed_usd_per_1k_tokens: float


def _prices(served: ServedBySettings, listed: ModelPrice | None, unknown_usd: float) -> _Prices:
    """What the settings state, else what the provider's list has, else `unknown_usd`."""
    if served.priced:
        return _Prices(
            price_usd=served.price_usd or 0.0,
            price_usd_per_1k_tokens=served.price_usd_per_1k_tokens or 0.0,
            price_usd_per_1k_input_tokens=served.price_usd_per_1k_input_tokens,
            price_usd_per_1k_output_tokens=served.price_usd_per_1k_output_tokens,
            price_usd_per_1k_cached_tokens=served.price_usd_per_1k_cached_tokens,
            price_usd_per_1k_cache_write_tokens=served.price_usd_per_1k_cache_write_tokens,
        )
    if listed is None:
        # guard: B2.unknown-price -> return {}
        return _Prices(assumed_usd_per_1k_tokens=unknown_usd)
    return _Prices(
        price_usd_per_1k_input_tokens=listed.input / 1000,
        price_usd_per_1k_output_tokens=listed.output / 1000,
        price_usd_per_1k_cached_tokens=_per_1k(listed.cached),
        price_usd_per_1k_cache_write_tokens=_per_1k(listed.cache_write),
    )


def _per_1k(per_million: float | None) -> float | None:
    return None if per_million is None else per_million / 1000
