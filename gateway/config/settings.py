"""The whole file: its sections, and what must hold between them."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from gateway.config import external_addresses
from gateway.config.endpoint_kinds import KINDS
from gateway.config.providers.prices import ModelPrice
from gateway.config.section import Contradiction, Name, Section, known
from gateway.config.sections.audit import AuditSettings
from gateway.config.sections.callers import (
    CertificateSettings,
    IssuerSettings,
    KeySettings,
    ScopeSettings,
    TenantSettings,
)
from gateway.config.sections.classify import ClassifySettings, HookName, HookSettings
from gateway.config.sections.cluster import ClusterSettings
from gateway.config.sections.console import ConsoleSettings
from gateway.config.sections.costs import CostSettings, LedgerSettings
from gateway.config.sections.endpoints import EndpointSettings, TlsSettings
from gateway.config.sections.health import HealthSettings
from gateway.config.sections.listen import LimitSettings, ListenSettings
from gateway.config.sections.models import (
    ModelSettings,
    ServedBySettings,
    check_mirrors,
    check_served_by,
    check_splits,
)
from gateway.config.sections.registries import RegistrySettings
from gateway.config.sections.reload import ReloadSettings
from gateway.config.sections.routing import QueueSettings, RoutingSettings
from gateway.config.sections.telemetry import LogSettings, TelemetrySettings
from gateway.config.zones import ZoneName as ZoneName
from gateway.config.zones import contradictions
from gateway.config.zones.admission import DataClasses
from gateway.config.zones.sections import ZoneSettings
from gateway.core.ambient import wall_s
from gateway.core.types import STRICTNESS

ISSUED_PREFIX = "sk-spw-"
"""What every key that `spillway keys` issues begins with."""


class Settings(Section):
    listen: ListenSettings = ListenSettings()
    limits: LimitSettings = LimitSettings()
    classify: ClassifySettings = ClassifySettings()
    hooks: dict[HookName, HookSettings] = Field(
        {}, description="services of yours that judge calls, and can only tighten"
    )
    queue: QueueSettings = QueueSettings()
    routing: RoutingSettings = RoutingSettings()
    health: HealthSettings = HealthSettings()
    zones: dict[ZoneName, ZoneSettings] = Field({}, description="beside onprem and cloud")
    endpoints: dict[Name, EndpointSettings]
    tls: TlsSettings = TlsSettings()
    models: dict[Name, ModelSettings]
    undeclared_models: Literal["onprem", "refuse"] = Field(
        "onprem",
        description="models of the on-prem servers that the file does not name: "
        "served there, always restricted; or refused",
    )
    keys: dict[Name, KeySettings] = Field({})
    key_store: Path | None = Field(
        None, description="the file of the keys that `spillway keys` issues"
    )
    issuers: dict[Name, IssuerSettings] = Field({})
    certificates: dict[Name, CertificateSettings] = Field({})
    tenants: dict[Name, TenantSettings] = Field({})
    cluster: ClusterSettings | None = Field(
        None, description="other gateways that share the on-prem servers; absent: this one alone"
    )
    costs: CostSettings = CostSettings()
    ledger: LedgerSettings = LedgerSettings()
    audit: AuditSettings = AuditSettings()
    registries: dict[Name, RegistrySettings] = Field(
        {}, description="where `spillway models` finds versions of models"
    )
    console: ConsoleSettings = ConsoleSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    log: LogSettings = LogSettings()
    reload: ReloadSettings = ReloadSettings()

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        contradictions.check(
            self.zones, self.tls, self.endpoints, self.models, self.classify, self._scopes()
        )
        for name, model in self.models.items():
            check_served_by(name, model, self.endpoints)
        check_splits(self.models)
        check_mirrors(self.models, self.endpoints)
        self._check_keys()
        self._check_issuers()
        self._check_certificates()
        self._check_operators()
        self._check_tightening()
        self._check_budgets()
        self._check_names()
        if self.cluster is not None:
            self.cluster.check_owned(self.endpoints, self.models)
            if self.routing.shadows:  # guard: O4.no-cluster
                raise Contradiction(
                    ("routing", "shadows"),
                    "a shadow sees this gateway's calls alone, and with a cluster others send "
                    "theirs to the same servers; take out one of both",
                )
        self._check_aliases()
        self._check_workers()
        listen = self.listen
        if listen.http_port and listen.http_port == listen.grpc_port:
            raise Contradiction(("listen", "grpc_port"), "is the http_port too; give it its own")
        if self.anybody and "*" in listen.cors.origins:  # guard: S18.keyless-wildcard
            raise Contradiction(
                ("listen", "cors", "origins"),
                "any page could call without a key; name the origins, or configure keys",
            )
        # guard: M5.loopback-only
        if self.anybody and not listen.exposed and not external_addresses.is_loopback(listen.host):
            raise Contradiction(
                ("listen", "host"),
                f"{listen.host} is not loopback and no keys are configured; "
                "add keys or a key_store, or say listen.exposed: true",
            )
        return self

    def data_classes(self) -> DataClasses:
        return DataClasses.from_settings(self.zones, self.classify.classes)

    def places(self) -> dict[str, EndpointSettings]:
        """The endpoints, each followed by its further places (`ModelSettings.placed`)."""
        further: dict[str, list[str]] = {}
        for name, model in self.models.items():
            for place, served in model.placed(name):
                if place != served.endpoint:
                    further.setdefault(served.endpoint, []).append(place)
        return {
            place: its
            for name, its in self.endpoints.items()
            for place in (name, *further.get(name, ()))
        }

    def listed_price(self, model: str, served: ServedBySettings) -> ModelPrice | None:
        """Of a model in the cloud without a stated price, what its provider's list has today."""
        endpoint = self.endpoints[served.endpoint]
        table = None if endpoint.provider is None else endpoint.provider.prices
        if served.priced or table is None or endpoint.zone.onprem:
            return None
        return table.price(served.model or model, datetime.fromtimestamp(wall_s(), UTC).date())

    def aliases(self) -> dict[str, str]:
        """The model behind each alias."""
        return {alias: name for name, model in self.models.items() for alias in model.aliases}

    def _check_aliases(self) -> None:
        owners = dict.fromkeys(self.models, "")
        for name, model in self.models.items():
            for i, alias in enumerate(model.aliases):
                if alias in owners:
                    whose = (
                        f"an alias of models.{owners[alias]} too" if owners[alias] else "a model"
                    )
                    raise Contradiction(("models", name, "aliases", i), f"{alias!r} is {whose}")
                owners[alias] = name

    @property
    def anybody(self) -> bool:
        """Development mode: whoever reaches the ports may call."""
        known = self.keys or self.issuers or self.certificates
        return not known and self.key_store is None

    def _check_keys(self) -> None:
        owners: dict[str, str] = {}
        for name, key in self.keys.items():
            secret = key.key.get_secret_value()
            if self.key_store is not None and secret.startswith(ISSUED_PREFIX):
                raise Contradiction(
                    ("keys", name, "key"),
                    f"begins with {ISSUED_PREFIX} as issued keys do, so it would be looked for "
                    "in the key_store; take another one",
                )
            if secret in owners:
                raise Contradiction(
                    ("keys", name, "key"), f"is the key of keys.{owners[secret]} too"
                )
            owners[secret] = name
            for i, model in enumerate(key.models or ()):
                if self.undeclared_models == "refuse" and model not in self.models:
                    raise Contradiction(
                        ("keys", name, "models", i), f"no model {model!r}; {known(self.models)}"
                    )
            for name_there, model in key.model_map.items():
                if self.undeclared_models == "refuse" and model not in self.models:
                    raise Contradiction(
                        ("keys", name, "model_map", name_there),
                        f"no model {model!r}; {known(self.models)}",
                    )
            if key.mask_answers and self.classify.answers == "off":
                raise Contradiction(
                    ("keys", name, "mask_answers"),
                    "answers are not read; set classify.answers to report or restrict",
                )

    def _check_issuers(self) -> None:
        owners: dict[str, str] = {}
        for name, issuer in self.issuers.items():
            if issuer.issuer in owners:
                raise Contradiction(
                    ("issuers", name, "issuer"),
                    f"is that of issuers.{owners[issuer.issuer]} too; give them as one",
                )
            owners[issuer.issuer] = name

    def _check_certificates(self) -> None:
        tls = self.listen.tls
        if self.certificates and (tls is None or tls.client_ca_file is None):
            raise Contradiction(
                ("certificates",),
                "nobody is asked for one; give listen.tls.client_ca_file, whose "
                "certificates these are",
            )
        owners: dict[str, str] = {}
        for name, its in self.certificates.items():
            if its.san in owners:
                raise Contradiction(
                    ("certificates", name, "san"), f"is that of certificates.{owners[its.san]} too"
                )
            owners[its.san] = name

    def _check_operators(self) -> None:
        callers = {key.key.get_secret_value(): name for name, key in self.keys.items()}
        issued: dict[str, str] = {}
        for name, operator in self.console.operators.items():
            if operator.key is None:
                self._check_issued(name, operator.issued_key or "", issued)
                continue
            # guard: P2.separate-keys -> caller = None
            caller = callers.get(operator.key.get_secret_value())
            if caller is not None:
                raise Contradiction(
                    ("console", "operators", name, "key"),
                    f"is the key of keys.{caller} too: whoever calls would see every tenant",
                )

    def _check_issued(self, name: str, key: str, owners: dict[str, str]) -> None:
        where = ("console", "operators", name, "issued_key")
        if self.key_store is None:
            raise Contradiction(where, "there are no issued keys here; add a key_store")
        if key in owners:
            raise Contradiction(where, f"is that of console.operators.{owners[key]} too")
        owners[key] = name

    def _scopes(self) -> dict[tuple[str, str], ScopeSettings | TenantSettings]:
        return {
            **{("tenants", name): tenant for name, tenant in self.tenants.items()},
            **{("keys", name): key for name, key in self.keys.items()},
            **{("issuers", name): issuer for name, issuer in self.issuers.items()},
            **{("certificates", name): its for name, its in self.certificates.items()},
        }

    def _check_tightening(self) -> None:
        """A key or a tenant that asks for less than the gateway would not get it: say so."""
        named = self.key_store is None and not self.issuers
        tenants = {key.tenant for key in self.keys.values()}
        tenants |= {certificate.tenant for certificate in self.certificates.values()}
        for name in self.tenants if named else ():
            if name not in tenants:
                raise Contradiction(("tenants", name), "no key under keys is of this tenant")
        own = self.classify
        for where, its in self._scopes().items():
            if its.threshold is not None and its.threshold > own.threshold:
                raise Contradiction(
                    (*where, "threshold"),
                    f"is over classify.threshold ({own.threshold:g}); it can only tighten",
                )
            less = STRICTNESS[its.profile] < STRICTNESS[own.profile]
            if its.profile is not None and less and own.restrict is None:
                raise Contradiction(
                    (*where, "profile"),
                    f"restricts less than classify.profile, which is {own.profile};"
                    " it can only tighten",
                )

    def _check_budgets(self) -> None:
        most_ms = self.limits.max_latency_budget_ms
        stated: dict[tuple[str, ...], float | None] = {
            ("limits", "default_latency_budget_ms"): self.limits.default_latency_budget_ms,
            **{("models", n, "latency_budget_ms"): m.latency_budget_ms
               for n, m in self.models.items()},
            **{("keys", n, "latency_budget_ms"): k.latency_budget_ms
               for n, k in self.keys.items()},
            **{("issuers", n, "latency_budget_ms"): i.latency_budget_ms
               for n, i in self.issuers.items()},
            **{("certificates", n, "latency_budget_ms"): c.latency_budget_ms
               for n, c in self.certificates.items()},
        }  # fmt: skip
        for where, ms in stated.items():
            if ms is not None and ms > most_ms:
                raise Contradiction(where, f"is over limits.max_latency_budget_ms ({most_ms:g})")

    def _check_names(self) -> None:
        """The texts of all calls go there, before any of them is known to be clear."""
        name = self.classify.names.endpoint
        if name is None:
            return
        where = ("classify", "names", "endpoint")
        if name not in self.endpoints:
            raise Contradiction(where, f"no endpoint {name!r}; {known(self.endpoints)}")
        endpoint = self.endpoints[name]
        if not endpoint.zone.onprem:
            raise Contradiction(where, f"{name!r} is not in zone onprem; take one that is")
        kind = KINDS[endpoint.kind]
        if not kind.tensors:
            raise Contradiction(where, f"{name!r} speaks {kind.protocol} and cannot serve tensors")

    def _check_workers(self) -> None:
        if self.listen.workers == 1:
            return
        where = ("listen", "workers")
        if self.cluster is not None:
            raise Contradiction(
                where,
                "a gateway of a cluster is one process; take out one of both, or run several "
                "gateways on this machine",
            )
        if self.routing.shadows:
            raise Contradiction(
                ("routing", "shadows"),
                "a shadow sees one worker's calls alone, and listen.workers asks for several; "
                "take out one of both",
            )

    @property
    def has_budgets(self) -> bool:
        """Whether anybody's spending is limited."""
        some: list[RoutingSettings | TenantSettings] = [self.routing, *self.tenants.values()]
        return any(
            most is not None
            for its in some
            for most in (
                its.spill_budget_usd_per_day,
                its.spill_budget_usd_per_month,
                its.spill_budget_usd_total,
            )
        )

    @property
    def ledger_path(self) -> Path:
        """Of the file, where the ledger is one."""
        return self.ledger.path or self.audit.directory.with_name("ledger.db")

    def policy_hash(self) -> str:
        """Twelve hex digits that name these settings in records and in /status; no secrets."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)  # secrets dump as stars
        return hashlib.sha256(text.encode()).hexdigest()[:12]
