"""The numbers of the decision. The defaults served batches of milliseconds and of seconds alike."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    margin: float = 1.1  # a call stays if this many times its predicted wait fits into its budget
    restricted_budget: float = 0.95  # the part of its budget that a restricted call is planned with
    reserve: float = 0.7  # of the capacity that dearer arrivals took lately, kept for their like
    reserve_batches: float = 6.0  # how many full batches of time that average remembers
    batch_safety: float = 1.1  # a batch is cut if this many times its time breaks its tightest call
    smallest_batch: int = 3  # no batch is cut below it
    starved_share: float = 1 / 64  # of all places: to the oldest of those that were put off
    least_prospects: float = 0.2  # if fewer of those who were put off came back, others do not wait
    patience_s: float = 60.0  # who has more time than this is ordered as if it had this
    max_waiting: int = 4096

    def __post_init__(self) -> None:
        if self.margin < 1 or self.batch_safety < 1 or not 0 < self.restricted_budget <= 1:
            raise ValueError("margins are at least 1 and a part of a budget at most 1")
        if not (0 <= self.reserve < 1 and 0 <= self.starved_share < 1 and self.smallest_batch >= 1):
            raise ValueError("shares are below 1 and a batch has at least one call")
        if not 0 <= self.least_prospects <= 1:
            raise ValueError("prospects are a share")


DEFAULT = Tuning()
