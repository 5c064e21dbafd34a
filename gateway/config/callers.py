"""Who may call, and what is tightened for them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from gateway.config.section import Name, NotNegative, Positive, ProfileName, Score, Section
from gateway.types import Spill


class KeySettings(Section):
    """One caller. Its credential is given by reference, never in the file."""

    key: SecretStr
    tenant: Name
    models: tuple[str, ...] | None = None
    placement: Literal["onprem", "any"] = "any"
    spill: Spill = Spill.ALLOW
    latency_budget_ms: Positive | None = None
    pseudonymise: bool = Field(
        False, description="its calls may leave with surrogates, where their model allows it too"
    )
    profile: ProfileName | None = Field(None, description="restricts its types too")
    restrict: tuple[str, ...] = Field((), description="more entity types that restrict")
    threshold: Score | None = Field(None, description="lower than classify.threshold")


class TenantSettings(Section):
    """What is tightened for all keys of one tenant. Nothing in it can loosen."""

    placement: Literal["onprem", "any"] = "any"
    spill_budget_usd_per_day: NotNegative | None = Field(
        None, description="over any 24 hours; then its calls stay on the premises"
    )
    profile: ProfileName | None = Field(None, description="restricts its types too")
    restrict: tuple[str, ...] = Field((), description="more entity types that restrict")
    threshold: Score | None = Field(None, description="lower than classify.threshold")
