"""Who may call, and what is tightened for them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from gateway.config.section import Count, Name, NotNegative, Positive, ProfileName, Score, Section
from gateway.types import Spill


class ScopeSettings(Section):
    """What a credential of any kind may do. Nothing in it can loosen."""

    models: tuple[str, ...] | None = None
    placement: Literal["onprem", "any"] = "any"
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


class TenantSettings(Section):
    """What is tightened for all keys of one tenant. Nothing in it can loosen."""

    placement: Literal["onprem", "any"] = "any"
    spill_budget_usd_per_day: NotNegative | None = Field(
        None, description="over any 24 hours; then its calls stay on the premises"
    )
    profile: ProfileName | None = Field(None, description="restricts its types too")
    restrict: tuple[str, ...] = Field((), description="more entity types that restrict")
    threshold: Score | None = Field(None, description="lower than classify.threshold")
    requests_per_minute: Positive | None = Field(None, description="of all its keys together")
    tokens_per_minute: Positive | None = Field(None, description="of all its keys together")
    max_concurrent: Count | None = Field(None, description="of all its keys together")
