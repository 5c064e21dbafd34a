"""Who may call, and what is tightened for them."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from gateway.config import external_addresses
from gateway.config.section import (
    Contradiction,
    Count,
    Name,
    NotNegative,
    Positive,
    ProfileName,
    Score,
    Section,
)


class Spill(enum.Enum):
    """What a caller or a key says of the cloud; `NEVER` wins (BEHAVIOURS M5, S6)."""

    ALLOW = "allow"
    NEVER = "never"


class ScopeSettings(Section):
    """What a credential of any kind may do. Nothing in it can loosen."""

    models: tuple[str, ...] | None = None
    model_map: dict[str, str] = Field(
        {}, description="names that it calls models by → the models that it gets"
    )
    placement: Literal["onprem", "any"] = "any"
    zones: tuple[str, ...] | None = Field(None, description="its calls go to these alone")
    label: str | None = Field(
        None, description="the class that its calls are of at least; or restricted"
    )
    spill: Spill = Spill.ALLOW
    latency_budget_ms: Positive | None = None
    profile: ProfileName | None = Field(None, description="restricts its types too")
    restrict: tuple[str, ...] = Field((), description="more entity types that restrict")
    threshold: Score | None = Field(None, description="lower than classify.threshold")
    most_urgent_priority: int = Field(
        0, ge=0, le=9, description="calls that ask for a more urgent one have this one"
    )
    requests_per_minute: Positive | None = None
    tokens_per_minute: Positive | None = Field(None, description="of documents, in and out")
    max_concurrent: Count | None = None


class KeySettings(ScopeSettings):
    """One caller. Its credential is given by reference, never in the file."""

    key: SecretStr
    tenant: Name
    pseudonymise: bool = Field(
        False, description="its calls may leave with surrogates, where their model allows it too"
    )
    mask_answers: bool = Field(
        False, description="it does not see what restricts in answers; takes classify.answers"
    )


class CertificateSettings(ScopeSettings):
    """A caller that shows a certificate of `listen.tls.client_ca_file`."""

    san: str = Field(min_length=1, description="a URI (SPIFFE) or DNS name in it, letter by letter")
    tenant: Name


Algorithm = Literal[
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
]
"""Public keys only: who can verify a symmetric signature can make one."""


class IssuerSettings(ScopeSettings):
    """An OIDC issuer whose tokens are credentials. What it says under the keys of a scope holds for
    all of them; limits for each tenant."""

    issuer: str = Field(min_length=1, description="the claim `iss`, letter by letter")
    audience: tuple[str, ...] = Field(
        min_length=1, description="the claim `aud` must have one of these"
    )
    jwks_url: str = Field(description="where its public keys are, e.g. https://.../jwks.json")
    algorithms: tuple[Algorithm, ...] = Field(
        min_length=1, description="what it signs with; nothing else is accepted"
    )
    ca_file: Path | None = Field(None, description="PEM; trusted for jwks_url, and nobody else")
    tenant_claim: str = Field("tenant", description="the claim that names the tenant")
    tenants: tuple[Name, ...] | None = Field(None, description="those that it may name")
    scope_claim: str = "scope"
    models_by_scope: dict[str, tuple[str, ...]] | None = Field(
        None, description="scope of a token → models that it may use; no other ones then"
    )
    leeway_s: NotNegative = Field(30.0, description="how far clocks may differ")
    refresh_s: Positive = Field(300.0, description="between two fetches of its keys")
    refetch_s: Positive = Field(
        10.0, description="before a token with an unknown key causes another fetch"
    )
    stale_s: Positive = Field(
        3600.0, description="how long its keys count while it does not answer"
    )

    @model_validator(mode="after")
    def _fetched_safely(self) -> IssuerSettings:
        parts = urlsplit(self.jwks_url)
        host = parts.hostname or ""
        plain = parts.scheme == "http" and external_addresses.is_loopback(host)
        if not host or not (parts.scheme == "https" or plain) or parts.username or parts.password:
            raise Contradiction(("jwks_url",), "must be https://host/path, without a user name")
        if self.stale_s < self.refresh_s:
            raise Contradiction(("stale_s",), "is under refresh_s: its keys would lapse each time")
        return self


class TenantSettings(Section):
    """What is tightened for all keys of one tenant. Nothing in it can loosen."""

    placement: Literal["onprem", "any"] = "any"
    zones: tuple[str, ...] | None = Field(None, description="its calls go to these alone")
    label: str | None = Field(
        None, description="the class that its calls are of at least; or restricted"
    )
    spill_budget_usd_per_day: NotNegative | None = Field(
        None, description="over any 24 hours; then its calls stay on the premises"
    )
    spill_budget_usd_per_month: NotNegative | None = Field(
        None, description="in a calendar month (UTC)"
    )
    spill_budget_usd_total: NotNegative | None = Field(None, description="ever; raise it to go on")
    profile: ProfileName | None = Field(None, description="restricts its types too")
    restrict: tuple[str, ...] = Field((), description="more entity types that restrict")
    threshold: Score | None = Field(None, description="lower than classify.threshold")
    requests_per_minute: Positive | None = Field(None, description="of all its keys together")
    tokens_per_minute: Positive | None = Field(None, description="of all its keys together")
    max_concurrent: Count | None = Field(None, description="of all its keys together")
