"""What a decision weighs: the queues in front of the on-prem models, and the policy."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from gateway.config.section import AtLeastOne, Count, NotNegative, Positive, Score, Section

PolicyName = Literal[
    "best_set",
    "onprem_only",
    "static_split",
    "least_latency",
    "queue_cap",
    "predicted_completion",
    "price_on_arrival",
    "provisioned_throughput",
]


class QueueSettings(Section):
    """The gateway's own queue in front of each on-prem model."""

    max_waiting: Count = 512
    aging_s: Positive = Field(10.0, description="waiting this long lifts a call by one priority")
    lead_ms: NotNegative | None = Field(
        None, description="how long before the end of a batch the next is sent; measured by default"
    )


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
    max_attempts: Count = 2
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
    hedge: bool = Field(
        False, description="calls without effect are sent a second time when they are late"
    )
    retry_share: Score = Field(0.1, description="second tries that each call earns for all")
    retry_reserve: NotNegative = Field(32.0, description="second tries in hand")
