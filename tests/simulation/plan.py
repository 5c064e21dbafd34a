"""What one seed says of a world before it begins: its endpoints' weather and its callers.

Plans are values. What happens in the world follows from them and from nothing else.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import get_args

from gateway.config.sections.routing import PolicyName
from gateway.config.zones import named
from gateway.core.types import EVERYWHERE, ONPREM_ONLY, Zone

START_S = 1000.0
MODELS = ("m", "n")
LAB, EU, US = named("onprem-lab"), named("eu"), named("us")
FIVE_ZONES = frozenset({Zone.ONPREM, LAB, Zone.CLOUD, EU, US})
TENANTS = ("a", "b")


class Mood(enum.Enum):
    """How an endpoint treats calls for a while."""

    ANSWERS = "answers"
    SLOW = "slow"
    LATE = "late"  # a moment after the caller's deadline
    HANGS = "hangs"  # takes the call and says nothing
    STALLS = "stalls"  # begins to answer and says no more
    UNREACHABLE = "unreachable"
    FAILS = "fails"  # 500
    BUSY = "busy"  # 429
    REFUSES = "refuses"  # 4xx
    CUTS = "cuts"  # breaks the stream after some frames
    EMPTY = "empty"  # an answer without a frame
    MODEL_FAILS = "model_fails"
    MODEL_DEAD = "model_dead"
    BUG = "bug"  # in the connector


class Probe(enum.Enum):
    """What an endpoint says to whoever asks whether it is up."""

    YES = "yes"  # also where no call is answered: a lie
    NO = "no"  # also where every call is: another
    SILENT = "silent"
    BREAKS = "breaks"


class Secret(enum.Enum):
    """What a call holds, and when it is found."""

    NONE = "none"
    NUMBER = "number"  # at the first look
    NAME = "name"  # only at the door
    PERSONAL = "personal"  # of a class, at the first look
    INTERNAL = "internal"
    BOTH = "both"  # of the one class at the first look, and of the other at the door
    LATER = "later"  # of a class at the first look, and restricted at the door


CLASSES = {
    "clear": frozenset({Zone.CLOUD, EU, US}),
    "internal": frozenset({EU, US}),
    "personal": frozenset({EU}),
    "restricted": frozenset[Zone](),
}
"""Zones outside the premises that each admits."""
FIRST_CLASS = {
    Secret.NONE: "clear",
    Secret.NUMBER: "restricted",
    Secret.NAME: "clear",
    Secret.PERSONAL: "personal",
    Secret.INTERNAL: "internal",
    Secret.BOTH: "internal",
    Secret.LATER: "personal",
}
"""By what is found at the first look."""
CLASS = FIRST_CLASS | {
    Secret.NAME: "restricted",
    Secret.BOTH: "personal",
    Secret.LATER: "restricted",
}


class Look(enum.Enum):
    """How looking at a call goes."""

    WELL = "well"
    FAILS = "fails"  # the verdict is restricted, for want of one
    LATE = "late"  # so it is here, when the budget is used up
    OVERRUNS = "overruns"  # a scanner that does not know its own limit


@dataclass(frozen=True, slots=True)
class Spell:
    until_s: float
    mood: Mood
    probe: Probe


@dataclass(frozen=True, slots=True)
class EndpointPlan:
    name: str
    zone: Zone
    seed: int
    base_s: float
    expected_ms: float
    price_usd: float
    max_in_flight: int
    close_s: float
    restarts: bool  # is being restarted when it is down, and expected back
    spells: tuple[Spell, ...]


@dataclass(frozen=True, slots=True)
class CallPlan:
    number: int
    arrives_s: float  # after START_S
    model: str
    tenant: str
    budget_s: float
    streamed: bool
    tensors: bool
    stateful: bool
    explained: bool  # asks what would be done, and nothing is to be done
    zones: frozenset[Zone]
    priority: int
    secret: Secret
    first: Look
    door: Look
    look_s: float
    leaves_s: float | None  # after it arrived
    leaves_again_s: float  # after that: cancelled once more while it is ending
    leaves_after_frames: int | None
    reads_s: float  # between two frames
    masked: bool  # surrogates may leave in the place of what was found

    def may_go(self, zone: Zone, narrowed: bool) -> bool:
        """`narrowed`: by settings whose class `personal` admits no zone outside."""
        if zone not in self.zones or zone.onprem:
            return zone in self.zones
        name = CLASS[self.secret]
        admitted = zone in CLASSES[name] and not (narrowed and name == "personal")
        return admitted and not self.stateful

    def masked_may_go(self, zone: Zone) -> bool:
        return zone in self.zones and (zone.onprem or self.masked)

    def decided_within(self, narrowed: bool) -> frozenset[str]:
        """Zones outside that decisions may name, of which some go at the door."""
        name = FIRST_CLASS[self.secret]
        unknown = self.first in (Look.FAILS, Look.LATE)
        if unknown or (narrowed and name == "personal"):
            return frozenset()
        return frozenset(zone.name for zone in CLASSES[name])

    @property
    def begins_anew(self) -> bool:
        """It may turn out at the door that it has to stay."""
        return self.door is not Look.WELL or CLASS[self.secret] != FIRST_CLASS[self.secret]


@dataclass(frozen=True, slots=True)
class WorldPlan:
    seed: int
    probe_s: float
    endpoints: tuple[EndpointPlan, ...]
    calls: tuple[CallPlan, ...]
    max_attempts: int
    max_waiting: int
    max_batch: int
    instances: int
    one_by_one: bool  # calls end on their own
    policy: PolicyName
    max_concurrent: int
    max_per_tenant: int
    margin: float
    miss_penalty_usd: float
    spill: bool
    spill_budget_usd: float | None
    retry_reserve: float
    hedge: bool
    tended: bool  # by canaries
    block_unknown: bool
    drain_at_s: float | None
    drain_s: float
    reload_at_s: float | None  # another policy from here on, with the cloud closed or open
    unwritable: tuple[float, float] | None  # from, until: nothing can be recorded
    shadows: bool  # policies that are asked about every call, and change nothing


_RULES = tuple(name for name in get_args(PolicyName) if name != "best_set")
FAULTS = tuple(mood for mood in Mood if mood is not Mood.ANSWERS)


def planned(seed: int) -> WorldPlan:
    plan = _two_zones(seed)
    rng = Random(-1 - seed)
    return _five_zones(plan, rng) if rng.random() < 0.4 else plan


def _five_zones(plan: WorldPlan, rng: Random) -> WorldPlan:
    """The same with more places, and calls of four classes, some of which name zones."""
    named_zones = [EU, EU, US, LAB]
    further = [
        replace(rng.choice(plan.endpoints), name=f"{zone.name}{number}", zone=zone,
                seed=rng.getrandbits(32), restarts=False,
                price_usd=0.0 if zone.onprem else 0.001)
        for number, zone in enumerate(named_zones)
        if rng.random() < 0.7
    ]  # fmt: skip
    return replace(
        plan,
        endpoints=(*plan.endpoints, *further),
        calls=tuple([_of_a_class(call, rng) for call in plan.calls]),
    )


def _of_a_class(call: CallPlan, rng: Random) -> CallPlan:
    graded = (Secret.PERSONAL, Secret.INTERNAL, Secret.BOTH, Secret.LATER)
    zones = FIVE_ZONES
    if call.zones == ONPREM_ONLY:
        zones = frozenset({Zone.ONPREM, LAB})
    elif rng.random() < 0.2:
        zones = frozenset(zone for zone in sorted(zones, key=_name) if rng.random() < 0.6)
    secret = rng.choice(graded) if rng.random() < 0.5 else call.secret
    return replace(call, zones=zones, secret=secret)


def _name(zone: Zone) -> str:
    return zone.name


def _two_zones(seed: int) -> WorldPlan:
    rng = Random(seed)
    horizon_s = rng.choice((0.5, 2.0, 6.0))
    endpoints = _endpoints(rng, horizon_s)
    sometimes = rng.random
    return WorldPlan(
        seed=seed,
        probe_s=horizon_s / 12,
        endpoints=endpoints,
        calls=_calls(rng, horizon_s),
        max_attempts=rng.randint(1, 3),
        max_waiting=rng.choice((1, 3, 40)),
        max_batch=rng.choice((1, 1, 2, 4)),
        instances=rng.choice((1, 1, 2)),
        one_by_one=rng.random() < 0.2,
        policy="best_set" if rng.random() < 0.8 else rng.choice(_RULES),
        max_concurrent=rng.choice((4, 12, 1024)),
        max_per_tenant=rng.choice((3, 1024)),
        margin=rng.choice((1.0, 1.2, 3.0)),
        miss_penalty_usd=rng.choice((0.0, 0.05, 10.0)),
        spill=sometimes() < 0.9,
        spill_budget_usd=rng.choice((0.0, 0.0025, 0.0105)) if sometimes() < 0.2 else None,
        retry_reserve=rng.choice((0.0, 2.0, 32.0, 32.0)),
        hedge=sometimes() < 0.5,
        tended=sometimes() < 0.3,
        block_unknown=sometimes() < 0.1,
        drain_at_s=rng.uniform(0.0, horizon_s) if sometimes() < 0.2 else None,
        drain_s=rng.choice((0.0, 0.05, 0.5)),
        reload_at_s=rng.uniform(0.0, horizon_s) if sometimes() < 0.2 else None,
        unwritable=_unwritable(rng, horizon_s) if sometimes() < 0.05 else None,
        shadows=seed % 2 == 0,
    )


def _unwritable(rng: Random, horizon_s: float) -> tuple[float, float]:
    from_s = rng.uniform(0.0, horizon_s)
    return from_s, from_s + rng.choice((0.02, 0.5))


def _endpoints(rng: Random, horizon_s: float) -> tuple[EndpointPlan, ...]:
    made = [
        _endpoint(rng, f"{zone.name}{number}", zone, horizon_s)
        for zone, fewest, most in ((Zone.ONPREM, 1, 3), (Zone.CLOUD, 0, 2))
        for number in range(rng.randint(fewest, most))
    ]
    rng.shuffle(made)
    return tuple(made)


def _endpoint(rng: Random, name: str, zone: Zone, horizon_s: float) -> EndpointPlan:
    away = zone is Zone.CLOUD
    return EndpointPlan(
        name=name,
        zone=zone,
        seed=rng.getrandbits(32),
        base_s=rng.choice((0.0002, 0.002, 0.01, 0.05)),
        expected_ms=rng.choice((1.0, 20.0, 300.0)),
        # A price on the GPU makes the cloud the cheap place.
        price_usd=0.001 if away else rng.choice((0.0, 0.0, 5.0)),
        max_in_flight=rng.choice((1, 2, 5, 256)),
        close_s=rng.choice((0.0, 0.001, 0.02, 0.3)),
        restarts=not away and rng.random() < 0.3,
        spells=_spells(rng, horizon_s),
    )


def _spells(rng: Random, horizon_s: float) -> tuple[Spell, ...]:
    """It starts well more often than not, and fails and recovers from then on."""
    health, honesty = rng.choice((0.1, 0.5, 0.8, 1.0)), rng.choice((0.5, 0.9, 1.0))
    at_s, found = 0.0, []
    while at_s < horizon_s:
        at_s += rng.expovariate(4.0 / horizon_s)
        mood = Mood.ANSWERS if rng.random() < health else rng.choice(FAULTS)
        truth = Probe.NO if mood in (Mood.UNREACHABLE, Mood.HANGS) else Probe.YES
        lie = rng.choice(tuple(Probe))
        found.append(Spell(at_s, mood, truth if rng.random() < honesty else lie))
    return (*found, Spell(float("inf"), Mood.ANSWERS, Probe.YES))


def _calls(rng: Random, horizon_s: float) -> tuple[CallPlan, ...]:
    """Of one kind of caller, or of many kinds at once."""
    made: list[CallPlan] = []
    for _ in range(6 if rng.random() < 0.04 else 1):
        made += _of_one_kind(rng, horizon_s, len(made))
    return tuple(made)


def _of_one_kind(rng: Random, horizon_s: float, first: int) -> list[CallPlan]:
    """Some in bursts, at the same instant."""
    shared = _Mix(
        budgets_s=rng.choice(((0.02, 0.2), (0.3, 2.0), (0.0, 0.005, 0.05, 0.3, 2.0))),
        restricted=rng.choice((0.1, 0.4, 0.9)),
        at_the_door=rng.random(),
        leaving=rng.choice((0.0, 0.2, 0.7)),
        well=rng.choice((0.6, 0.95, 1.0)),
        look_s=rng.choice((0.0, 0.0, 0.001, 0.02)),
    )
    apart = rng.choice((0.1, 0.4, 0.4))  # of the calls come not in the same instant as the last
    at_s, made = 0.0, []
    for number in range(first, first + rng.randint(8, 32)):
        if rng.random() < apart:
            at_s += rng.expovariate(16.0 / horizon_s)
        made.append(_call(rng, number, at_s, shared))
    return made


@dataclass(frozen=True, slots=True)
class _Mix:
    budgets_s: Sequence[float]
    restricted: float
    at_the_door: float
    leaving: float
    well: float
    look_s: float


def _call(rng: Random, number: int, at_s: float, mix: _Mix) -> CallPlan:
    budget_s = rng.choice(mix.budgets_s)
    tensors = rng.random() < 0.2
    leaving = rng.random() < mix.leaving
    within_s = rng.choice((0.001, 0.02, budget_s))
    after_frames = leaving and rng.random() < 0.4
    return CallPlan(
        number=number,
        arrives_s=at_s,
        model=rng.choice(MODELS),
        tenant=rng.choice(TENANTS),
        budget_s=budget_s,
        streamed=rng.random() < 0.4,
        tensors=tensors,
        stateful=tensors and rng.random() < 0.3,
        explained=rng.random() < 0.04,
        zones=ONPREM_ONLY if rng.random() < 0.1 else EVERYWHERE,
        priority=rng.choice((0, 0, 0, 1, 2)),
        secret=_secret(rng, mix),
        first=_look(rng, mix),
        door=_look(rng, mix),
        look_s=mix.look_s,
        leaves_s=rng.uniform(0.0, within_s) if leaving and not after_frames else None,
        leaves_again_s=rng.choice((0.0, 0.0001, 0.01)),
        leaves_after_frames=rng.randint(0, 2) if after_frames else None,
        reads_s=rng.choice((0.0, 0.0, 0.003)),
        masked=not tensors and rng.random() < 0.15,
    )


def _secret(rng: Random, mix: _Mix) -> Secret:
    if rng.random() >= mix.restricted:
        return Secret.NONE
    return Secret.NAME if rng.random() < mix.at_the_door else Secret.NUMBER


def _look(rng: Random, mix: _Mix) -> Look:
    if rng.random() < mix.well:
        return Look.WELL
    return rng.choice((Look.FAILS, Look.LATE, Look.OVERRUNS))
