"""One shadow: a policy, and the world that its decisions have made."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

from gateway.core.deadline import Clock
from gateway.core.errors import GatewayError
from gateway.core.types import Decision, EndpointSnapshot, Zone
from gateway.pipeline.rate_limits.bucket import Bucket
from gateway.pipeline.shadow import LearnedFigures
from gateway.pipeline.shadow.comparison import (
    FAILED,
    REFUSED,
    SKIPPED,
    DecisionInputs,
    ShadowedCall,
    ShadowPlacement,
    ShadowTally,
    served_onprem,
)
from gateway.pipeline.shadow.world import ShadowWorld
from gateway.scheduling.calls import QueuedCall, Refuse, Release, SpillNow
from gateway.scheduling.executions import Key
from gateway.scheduling.queue import QueueConditions, refusal
from gateway.scheduling.queued_calls import CloudCandidate, Weights
from gateway.scheduling.queues import NewScheduler
from gateway.scheduling.routing.policy import Policy, avoided
from gateway.scheduling.routing.work import CallSize

log = logging.getLogger(__name__)

_SLICE_S: Final = 0.001  # of the loop's time at once
_MINUTE_S: Final = 60.0
_RESUMED: Final = 0.5  # of a minute's share: what there is again when it goes on


@dataclass(frozen=True, slots=True)
class Facts:
    """What holds for every shadow that is asked about a call."""

    inputs: DecisionInputs
    key: Key
    size: CallSize
    around: QueueConditions
    capacity: Mapping[str, int]  # of each endpoint in the cloud


@dataclass(frozen=True, slots=True)
class Rules:
    """What a policy is."""

    policy: Policy
    weights: Weights
    new_scheduler: NewScheduler


class _Cloud(NamedTuple):
    """An endpoint outside the premises, and its price."""

    zone: Zone
    usd: float


@dataclass(frozen=True, slots=True)
class _Open:
    """A call that waits in its queue."""

    shadowed: ShadowedCall
    placing: ShadowPlacement
    key: Key
    call: QueuedCall
    clouds: Mapping[str, _Cloud]  # the endpoints that the decision leaves it, best first
    capacity: Mapping[str, int]


class Shadow:
    """No error of it is felt by any call, and no more of the loop's time is spent on it than its
    share: if that is used up, it forgets its world and is asked about nothing for a while."""

    def __init__(
        self, rules: Rules, figures: LearnedFigures, tally: ShadowTally, share: float, clock: Clock
    ) -> None:
        self.name = tally.name
        self.tally = tally
        self._rules = rules
        self._figures = figures
        self._clock = clock
        self._allowed = Bucket(share * _MINUTE_S, clock())
        self._paused = False
        self._reported_errors = False
        self._open: dict[int | str, _Open] = {}
        self._world = self._new_world()

    def _new_world(self) -> ShadowWorld:
        return ShadowWorld(self._figures, self._rules.new_scheduler, self._decided)

    @property
    def waiting(self) -> dict[str, int]:
        return self._world.waiting()

    # What the gateway asks

    def decide(self, shadowed: ShadowedCall, facts: Callable[[], Facts]) -> None:
        if not self._goes_on():
            shadowed.placings[self.name] = ShadowPlacement("", SKIPPED)
            self.tally.skips()
        elif not served_onprem(shadowed.placings[self.name]):
            self._safely(shadowed, lambda: self._decide(shadowed, facts()))

    def run(self) -> bool:
        """Catch up with the time. False: there is more to be done than should be done at once."""
        began_s = self._clock()
        return self._safely(
            None,
            lambda: self._world.time.run(began_s, lambda: self._clock() - began_s > _SLICE_S),
        )

    def foresee(self, facts: Callable[[], Facts]) -> ShadowPlacement:
        """What it would make of a call at once."""
        placing = ShadowPlacement("", SKIPPED if self._paused else FAILED)
        if not self._paused:
            self._safely(None, lambda: self._foresee(facts(), placing))
        return placing

    def forget(self, shadowed: ShadowedCall) -> None:
        """The call is not to be decided on any more."""
        mine = [o for o in self._open.values() if o.shadowed is shadowed]
        for one in mine:
            del self._open[one.call.id]
            now_s = max(self._clock(), self._world.time.now_s)
            self._safely(None, partial(self._world.withdraw, one.key, one.call, now_s))

    # How it decides

    def _decide(self, shadowed: ShadowedCall, facts: Facts) -> bool:
        inputs, placing = facts.inputs, shadowed.placings[self.name]
        if self._world.outdated:
            self._start_anew(SKIPPED)
        try:
            decision = self._policy_says(facts)
        except GatewayError as refused:
            self._place(shadowed, placing, REFUSED, refused.reason, 1.0)
            return True
        if not decision.attempts[0].zone.onprem:
            first, left_s = decision.attempts[0], inputs.request.deadline.remaining_s()
            tail = self._figures.calls.tail(first.name, inputs.request.model, facts.size.work)
            self._world.elsewhere.enters(first.name, inputs.at_s + tail.quantile_s(0.5))
            placing.usd = _prices(inputs.states)[first.name]
            self._place(shadowed, placing, first.zone.name, decision.reason, tail.late(left_s))
            return True
        placing.zone, placing.reason = decision.attempts[0].zone.name, decision.reason
        placing.onprem = True
        call, clouds = self._call(facts, decision)
        one = _Open(shadowed, placing, facts.key, call, clouds, facts.capacity)
        self._open[call.id] = one
        self._world.time.at(inputs.at_s, partial(self._enters, one, facts.around))
        return True

    def _enters(self, one: _Open, around: QueueConditions, now_s: float) -> None:
        if one.call.id in self._open:  # else it was forgotten meanwhile
            self._world.enter(one.key, one.call, around, one.capacity, now_s)

    def _foresee(self, facts: Facts, placing: ShadowPlacement) -> bool:
        try:
            decision = self._policy_says(facts)
        except GatewayError as refused:
            placing.zone, placing.reason = REFUSED, refused.reason
            return True
        zone, reason = decision.attempts[0].zone.name, decision.reason
        if decision.attempts[0].zone.onprem:
            call, clouds = self._call(facts, decision)
            now_s = max(self._clock(), self._world.time.now_s)
            action = self._world.would(facts.key, call, facts.around, facts.capacity, now_s)
            if isinstance(action, SpillNow):
                zone, reason = next(iter(clouds.values())).zone.name, action.why
            elif action is not None:
                zone, reason = REFUSED, _why(action)
        placing.zone, placing.reason = zone, reason
        return True

    def _policy_says(self, facts: Facts) -> Decision:
        """Over the live snapshot, but for what its own calls leave of the cloud."""
        inputs = facts.inputs
        room = self._world.elsewhere.room(facts.capacity, inputs.at_s)
        states = [_with_room(state, room) for state in inputs.states]
        return self._rules.policy.decide(inputs.request, inputs.classification, states)

    def _call(self, facts: Facts, decision: Decision) -> tuple[QueuedCall, dict[str, _Cloud]]:
        inputs = facts.inputs
        prices = _prices(inputs.states)
        clouds = {
            e.name: _Cloud(e.zone, prices[e.name]) for e in decision.attempts if not e.zone.onprem
        }
        call = self._figures.calls.weighed(
            inputs.request, facts.size, inputs.classification.stays,
            [CloudCandidate(name, its.usd) for name, its in clouds.items()], self._rules.weights,
            avoided(decision),
        )  # fmt: skip
        return call, clouds

    def _decided(
        self, action: Release | SpillNow | Refuse, call: QueuedCall, now_s: float, end_s: float
    ) -> None:
        """In its queues."""
        one = self._open.pop(call.id, None)
        if one is None:
            return
        placing, shadowed = one.placing, one.shadowed
        if isinstance(action, Release):
            missed = 1.0 if end_s > call.deadline_s else 0.0
            self._place(shadowed, placing, placing.zone, placing.reason, missed)
        elif isinstance(action, Refuse):
            placing.onprem = False
            self._place(shadowed, placing, REFUSED, _why(action), 1.0)
        else:
            assert call.cloud is not None
            zone = self._leaves(one, now_s)
            late = call.cloud.late(call.deadline_s - now_s)
            self._place(shadowed, placing, zone.name, action.why, late)

    def _leaves(self, one: _Open, now_s: float) -> Zone:
        """To the first of its clouds that takes it: the zone of that."""
        assert one.call.cloud is not None
        room = self._world.elsewhere.room(one.capacity, now_s)
        name = next((n for n in one.clouds if room[n]), next(iter(one.clouds)))
        self._world.elsewhere.enters(name, now_s + one.call.cloud.quantile_s(0.5))
        one.placing.onprem, one.placing.usd = False, one.clouds[name].usd
        return one.clouds[name].zone

    def _place(
        self,
        shadowed: ShadowedCall,
        placing: ShadowPlacement,
        zone: str,
        reason: str,
        missed: float,
    ) -> None:
        placing.zone, placing.reason, placing.missed = zone, reason, missed
        placing.final = True
        shadowed.knows(self.name)

    # What keeps it in its place

    def _safely(self, shadowed: ShadowedCall | None, work: Callable[[], bool | None]) -> bool:
        """Whatever it meets is its own affair; what it takes is counted."""
        began_s = self._clock()
        try:
            return work() is not False
        # guard: O4.shadow-error Exception -> ZeroDivisionError
        except Exception as exc:  # no call may be lost to a policy that is only tried
            self.tally.failed()
            if not self._reported_errors:
                self._reported_errors = True
                log.error("shadow %s failed; it begins anew", self.name, exc_info=exc)
            if shadowed is not None:
                shadowed.placings[self.name] = ShadowPlacement("", FAILED)
            self._start_anew(FAILED)
            return True
        finally:
            took_s = self._clock() - began_s
            self._allowed.take(took_s, self._clock())
            self.tally.took(took_s)

    def _goes_on(self) -> bool:
        level_s = self._allowed.level(self._clock())
        if self._paused:
            self._paused = level_s < _RESUMED * self._allowed.most
        elif level_s <= 0.0:  # guard: O4.time-share
            self._paused = True
            self._start_anew(SKIPPED)
        return not self._paused

    def _start_anew(self, why: str) -> None:
        """As if no call had come yet."""
        left, self._open = self._open, {}
        self._world = self._new_world()
        for one in left.values():
            one.placing.zone, one.placing.reason = "", why
            if why == SKIPPED:
                self.tally.skips()


def _prices(states: tuple[EndpointSnapshot, ...]) -> dict[str, float]:
    return {state.endpoint.name: state.price_usd for state in states}


def _with_room(state: EndpointSnapshot, room: Mapping[str, int]) -> EndpointSnapshot:
    free = room.get(state.endpoint.name, math.inf) > 0
    if state.endpoint.zone.onprem or state.room == free:
        return state
    return replace(state, room=free)


def _why(action: Refuse) -> str:
    refused = refusal(action)
    assert isinstance(refused, GatewayError)
    return refused.reason
