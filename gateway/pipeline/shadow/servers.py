"""Servers that are not there: as fast as the live ones are found to be.

A batch takes what one of the last live batches took, scaled by the live model to the work in it:
the newest if there has been one since, else they are gone through again. So a host that is slow for
a while is slow here as well, and batches spread as they do there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.factory import ROUND_TRIP_S
from gateway.scheduling.servers.sharing import SharedGpu

_SHORTEST: Final = 0.25  # of what was predicted
_LONGEST: Final = 4.0


class Borrowed(BatchModel):
    """The figures of a live model. What happens in no server teaches nobody."""

    def __init__(self, live: BatchModel) -> None:
        super().__init__(live.fixed_s, live.per_work_s)
        self.live = live
        self.renew()

    def renew(self) -> None:
        live = self.live
        self.fixed_s, self.per_work_s = live.fixed_s, live.per_work_s

    @property
    def sigma_s(self) -> float:
        return self.live.sigma_s

    def observe(self, work: float, took_s: float) -> None:
        """Nothing."""  # guard: O4.serverless-calls -> self.live.observe(work, took_s)

    def adopt(self, other: BatchModel) -> None:
        """Nothing."""


class LiveGpu:
    """Tells of one whether its models take turns."""

    def __init__(self, server: str, takes_turns: Callable[[str], bool]) -> None:
        self._server, self._takes_turns = server, takes_turns

    @property
    def turns(self) -> bool:
        return self._takes_turns(self._server)

    def __deepcopy__(self, memo: object) -> LiveGpu:
        return self  # what is asked what would happen copies a scheduler, not the gateway


@dataclass(slots=True, kw_only=True)
class BorrowedGpu(SharedGpu):
    """Whose models take turns where those of the live one do."""

    live: LiveGpu

    @property
    def turns(self) -> bool:
        return self.live.turns

    @property
    def one_at_a_time(self) -> bool:
        return self.live.turns

    def observe(
        self, model: int, expected: BatchModel, work: float, took_s: float, contended_s: float
    ) -> None:
        """Nothing: batches that are nowhere hold up nobody."""


class VirtualServer:
    """Executes batches one after the other, in each of its instances."""

    def __init__(self, batches: Borrowed, instances: int) -> None:
        self.batches = batches
        self._free_s = [0.0] * instances
        self._observed = batches.live.batches
        self._back = 0

    def ends_s(self, work: float, now_s: float) -> float:
        """When a batch will be answered that is sent now."""
        at = min(range(len(self._free_s)), key=self._free_s.__getitem__)
        begins_s = max(now_s + ROUND_TRIP_S, self._free_s[at])
        # guard: O4.live-times -> end_s = begins_s
        end_s = begins_s + self.batches.predict_s(work) * self._off()
        self._free_s[at] = end_s
        return end_s

    def _off(self) -> float:
        live = self.batches.live
        if live.batches != self._observed:
            self._observed, self._back = live.batches, 0
        else:
            self._back += 1
        return min(max(live.off(self._back), _SHORTEST), _LONGEST)
