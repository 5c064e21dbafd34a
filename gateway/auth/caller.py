"""What a credential allows, wherever the credential came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gateway.config import ScopeSettings, TenantSettings
from gateway.config.sections.callers import Spill
from gateway.core.types import (
    EVERYWHERE,
    NOT_TIGHTENED,
    ONPREM_ONLY,
    Quota,
    Tightening,
    Zone,
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls and what it may; each part of it only ever tightens what the settings allow."""

    tenant: str
    models: frozenset[str] | None = None  # None: every model
    zones: frozenset[Zone] = EVERYWHERE  # of the built-in ones; without the cloud, no call leaves
    zone_names: frozenset[str] | None = None  # None: every zone
    labels: frozenset[str] = frozenset()  # classes that its calls are of at least
    latency_budget_s: float | None = None
    tightening: Tightening = NOT_TIGHTENED
    pseudonymise: bool = False
    most_urgent: int = 0  # the smallest priority that its calls can have
    quotas: tuple[Quota, ...] = ()
    name: str = ""  # of its credential; empty where nobody says who calls
    model_map: Mapping[str, str] = field(default_factory=dict)  # names of its own for models

    def named(self, model: str) -> str:
        """The model that it gets under this name."""
        return self.model_map.get(model, model)

    def may_use(self, model: str) -> bool:
        return self.models is None or model in self.models

    def within(self, other: Caller) -> Caller:
        """This caller, with whatever the other one may not taken from it as well."""
        budgets = [b for b in (self.latency_budget_s, other.latency_budget_s) if b is not None]
        return replace(
            self,
            models=_both(self.models, other.models),
            zones=self.zones & other.zones,
            zone_names=_both(self.zone_names, other.zone_names),
            labels=self.labels | other.labels,
            latency_budget_s=min(budgets, default=None),
            tightening=self.tightening | other.tightening,
            pseudonymise=self.pseudonymise and other.pseudonymise,
            most_urgent=max(self.most_urgent, other.most_urgent),
            quotas=(*self.quotas, *(q for q in other.quotas if q not in self.quotas)),
        )


ANYONE = Caller(tenant="anonymous")


def caller_from_scope(
    name: str, tenant: str, scope: ScopeSettings, floor: TenantSettings | None
) -> Caller:
    """The caller of a credential called `name`; the floor is its tenant's."""
    stays = scope.placement == "onprem" or scope.spill is Spill.NEVER  # guard: S6.key-zone minus 2
    added = _added(scope)
    zone_names, labels = _zone_names(scope), _labels(scope)
    quotas = [_quota(f"key {name}", "key", tenant, scope)]
    if floor is not None:
        stays = stays or floor.placement == "onprem"  # guard: S6.tenant-zone
        added |= _added(floor)
        zone_names = _both(zone_names, _zone_names(floor))  # guard: S6.tenant-zones
        labels |= _labels(floor)  # guard: M7.tenant-label
        quotas.append(_quota(f"tenant {tenant}", "tenant", tenant, floor))
    return Caller(
        tenant=tenant,
        models=None if scope.models is None else frozenset(scope.models),
        zones=ONPREM_ONLY if stays else EVERYWHERE,
        zone_names=zone_names,
        labels=labels,
        latency_budget_s=None if scope.latency_budget_ms is None else scope.latency_budget_ms / 1e3,
        tightening=added,
        most_urgent=scope.most_urgent_priority,
        quotas=tuple(q for q in quotas if q is not None),
        name=name,
        model_map=scope.model_map,
    )


def _zone_names(settings: ScopeSettings | TenantSettings) -> frozenset[str] | None:
    return None if settings.zones is None else frozenset(settings.zones)


def _labels(settings: ScopeSettings | TenantSettings) -> frozenset[str]:
    return frozenset() if settings.label is None else frozenset({settings.label})


def _added(settings: ScopeSettings | TenantSettings) -> Tightening:
    return NOT_TIGHTENED | Tightening(
        profile=settings.profile,
        types=frozenset(settings.restrict),
        threshold=1.0 if settings.threshold is None else settings.threshold,
    )


def _quota(
    holder: str, kind: str, tenant: str, settings: ScopeSettings | TenantSettings
) -> Quota | None:
    limits = settings.requests_per_minute, settings.tokens_per_minute, settings.max_concurrent
    return None if limits == (None, None, None) else Quota(holder, kind, tenant, *limits)


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other
