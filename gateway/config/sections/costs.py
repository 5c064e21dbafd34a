"""What a GPU costs, what an unknown price is taken for, and where the ledger is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, model_validator

from gateway.config.section import Contradiction, Count, NotNegative, Positive, Section

_HOURS_A_MONTH = 365.25 * 24 / 12
_Share = Annotated[float, Field(gt=0, le=1)]


class CostSettings(Section):
    """What the ledger reckons with where the providers' price lists say nothing."""

    gpu_usd_per_hour: NotNegative = Field(
        3.0, description="of one on-prem GPU, in use or not; by default what renting one costs"
    )
    gpu_purchase_usd: Positive | None = Field(
        None, description="what one was bought for; then its hour costs what this makes of it"
    )
    gpu_months: Positive = Field(36, description="for which one that was bought is used")
    gpu_running_usd_per_month: NotNegative = Field(
        0.0, description="power, cooling and space of one that was bought"
    )
    gpu_utilisation: _Share = Field(
        1.0, description="share of its time that a GPU is busy: what is used bears what is not"
    )
    unknown_usd_per_1k_tokens: Positive = Field(
        0.6, description="of a model in the cloud for which no price is stated"
    )

    @property
    def gpu_hour_usd(self) -> float:
        """Of one GPU, by the calendar."""
        if self.gpu_purchase_usd is None:
            return self.gpu_usd_per_hour
        month = self.gpu_purchase_usd / self.gpu_months + self.gpu_running_usd_per_month
        return month / _HOURS_A_MONTH

    @model_validator(mode="after")
    def _one_price(self) -> CostSettings:
        if self.gpu_purchase_usd is not None and "gpu_usd_per_hour" in self.model_fields_set:
            raise Contradiction(
                ("gpu_usd_per_hour",), "follows from gpu_purchase_usd; drop one of them"
            )
        return self


class LedgerSettings(Section):
    """Where it is kept what every attempt cost."""

    path: Path | None = Field(
        None, description="a file of SQLite; by default ledger.db beside audit.directory"
    )
    postgres: SecretStr | None = Field(
        None, description="connection string of a database that several gateways share"
    )
    lease_wait_ms: Positive = Field(
        50.0, description="how long a call that may leave waits for a part of a spill budget"
    )
    keep_days: Count = Field(400, description="for single entries; their sums by day stay")

    @model_validator(mode="after")
    def _one_place(self) -> LedgerSettings:
        if self.path is not None and self.postgres is not None:
            raise Contradiction(("path",), "there is postgres already; drop one of them")
        return self
