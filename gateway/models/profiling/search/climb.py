"""A climb from the declared choice: one axis after the other, as long as one of them helps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gateway.models.profiling.search import ChoiceTrial, ServingChoice
from gateway.models.profiling.search.space import AXES, SearchSpace

GAIN = 1.05  # times the throughput of what it replaces: less is noise, and changes nothing

MOST_CONFIRMED = 2  # beside the declared choice

Try = Callable[[ServingChoice], Awaitable[ChoiceTrial]]


@dataclass(frozen=True, slots=True)
class ChoiceResult:
    declared: ChoiceTrial
    chosen: ChoiceTrial
    complete: bool  # all of the space was looked at in the time given

    @property
    def changes(self) -> bool:
        return self.chosen.choice != self.declared.choice

    def gain(self, limit_s: float | None) -> float | None:
        """Times the throughput of the declared choice; None where that is not within the limit."""
        before = self.declared.score(limit_s)
        return self.chosen.score(limit_s) / before if before > 0 else None


async def climb(
    space: SearchSpace,
    declared: ServingChoice,
    limit_s: float | None,
    tried: Try,
    again: Try,
    in_time: Callable[[], bool],
) -> ChoiceResult:
    """`tried` gives what is known of a choice or measures it; `again` measures once more, and gives
    the mean. What wins has been measured twice, as the declared choice has."""
    trials = {declared: await tried(declared)}
    best = trials[declared]
    complete = improved = True
    while improved and complete:
        improved = False
        for axis in AXES:
            for choice in space.along(axis, best.choice):
                if not in_time():
                    complete = False
                    break
                trials[choice] = await tried(choice)
                if _beats(trials[choice], best, limit_s):
                    best, improved = trials[choice], True
    if best.choice != declared:
        best = await _confirmed(trials, declared, limit_s, again)
    return ChoiceResult(trials[declared], best, complete)


async def _confirmed(
    trials: dict[ServingChoice, ChoiceTrial],
    declared: ServingChoice,
    limit_s: float | None,
    again: Try,
) -> ChoiceTrial:
    """The best that is so still when it is measured again: of many, the first was lucky."""
    twice = {declared: await again(declared)}
    for _ in range(MOST_CONFIRMED):
        trials |= twice
        top = max(trials.values(), key=lambda trial: trial.score(limit_s))
        if top.choice in twice:
            break
        twice[top.choice] = await again(top.choice)
    trials |= twice
    best = max(twice.values(), key=lambda trial: trial.score(limit_s))
    # guard: E6.confirmed-gain -> return best
    return best if _beats(best, twice[declared], limit_s) else twice[declared]


def _beats(trial: ChoiceTrial, best: ChoiceTrial, limit_s: float | None) -> bool:
    score, other = trial.score(limit_s), best.score(limit_s)
    if trial.failure:
        return False
    return score > other * GAIN if other > 0 else score > other
