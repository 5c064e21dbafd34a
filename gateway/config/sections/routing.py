"""What a decision weighs: the queues in front of the on-prem models, and the policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, model_validator

from gateway.config.section import (
    AtLeastOne,
    Contradiction,
    Count,
    Name,
    NotNegative,
    Positive,
    Score,
    Section,
)

MOST_SHADOWS: Final = 4

PolicyName = Literal[
    "best_set",
    "onprem_only",
    "static_split",
    "least_latency",
    "queue_cap",
    "predicted_completion",
    "price_on_arrival",
    "provisioned_throughput",
    "priorities",
]


class QueueSettings(Section):
    """The gateway's own queue in front of each on-prem model."""

    max_waiting: Count = 512
    aging_s: Positive = Field(10.0, description="waiting this long lifts a call by one priority")
    lead_ms: NotNegative | None = Field(
        None, description="how long before the end of a batch the next is sent; measured by default"
    )


class ShadowSettings(Section):
    """What a shadow policy does otherwise than the live one: keys of `routing` and of `queue`. What
    it leaves out is as it is live."""

    policy: PolicyName | None = Field(None, description="as in routing")
    spill: bool | None = Field(None, description="as in routing")
    margin: AtLeastOne | None = Field(None, description="as in routing")
    miss_penalty_usd: NotNegative | None = Field(None, description="as in routing")
    restricted_factor: AtLeastOne | None = Field(None, description="as in routing")
    max_waiting: Count | None = Field(None, description="as in queue")
    aging_s: Positive | None = Field(None, description="as in queue")
    lead_ms: NotNegative | None = Field(
        None, description="as in queue; null: measured, whatever it is live"
    )

    def over(
        self, routing: RoutingSettings, queue: QueueSettings
    ) -> tuple[RoutingSettings, QueueSettings]:
        """The live settings with these in their place."""
        return (
            routing.model_copy(update=self._stated(RoutingSettings)),
            queue.model_copy(update=self._stated(QueueSettings)),
        )

    def _stated(self, section: type[Section]) -> dict[str, Any]:
        stated = {name: getattr(self, name) for name in self.model_fields_set}
        return {
            name: value
            for name, value in stated.items()
            if name in section.model_fields and (value is not None or name == "lead_ms")
        }


class RoutingSettings(Section):
    """What the decision weighs."""

    spill: bool = Field(True, description="false is the kill switch: nothing goes to the cloud")
    policy: PolicyName = Field(
        "best_set", description="a simple rule instead, as a baseline or a safe mode"
    )
    margin: AtLeastOne = Field(1.1, description="safety on predictions")
    miss_penalty_usd: NotNegative = Field(0.05, description="what a missed budget costs")
    restricted_factor: AtLeastOne = Field(
        10.0, description="times the penalty, for restricted calls: they have nowhere else to go"
    )
    max_attempts: Count = Field(3, description="tries of one call, at all endpoints together")
    spill_stop_file: Path | None = Field(
        None, description="while this file exists nothing goes to the cloud"
    )
    spill_budget_usd_per_day: NotNegative | None = Field(
        None, description="of all tenants, over any 24 hours; then nothing more goes to the cloud"
    )
    spill_budget_usd_per_month: NotNegative | None = Field(
        None, description="of all tenants, in a calendar month (UTC)"
    )
    spill_budget_usd_total: NotNegative | None = Field(
        None, description="of all tenants, ever; raise it to go on"
    )
    # guard: A7.default-off -> hedge: bool = Field(True, description='calls without effect are sent
    #   a second time when they are late')
    hedge: bool = Field(
        False, description="calls without effect are sent a second time when they are late"
    )
    retry_share: Score = Field(0.1, description="second tries that each call earns for all")
    retry_reserve: NotNegative = Field(32.0, description="second tries in hand")
    shadows: dict[Name, ShadowSettings] = Field(
        {}, description="policies that are asked about every call and decide none"
    )
    shadow_share: float = Field(
        0.1, gt=0, le=1, description="of the gateway's time, for all shadows together"
    )

    @property
    def closes_cloud(self) -> bool:
        """Whether these settings let no call leave, whatever else fails."""
        return not self.spill or self.policy == "onprem_only"  # guard: S5.onprem-policy minus 2

    @model_validator(mode="after")
    def _few_shadows(self) -> RoutingSettings:
        if len(self.shadows) > MOST_SHADOWS:  # guard: O4.shadow-limit
            raise Contradiction(
                ("shadows",),
                f"there are {len(self.shadows)}, and each is asked about every call; "
                f"keep {MOST_SHADOWS} at most",
            )
        return self
