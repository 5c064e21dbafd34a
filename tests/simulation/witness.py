"""What must hold in every world, and who watches that it does.

Endpoints and callers tell the witness what they see; it asks the gateway nothing that the gateway
could get wrong. `after_step` is asked after every round of the loop, `when_quiet` at the end.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.accounting.ledger.database import Row, integer
from gateway.accounting.records import Durable, RecordUnwritable
from gateway.core.deadline import Clock
from gateway.core.errors import GatewayError, Shed
from gateway.core.reply import Placement
from gateway.core.types import Outcome, Zone, is_onprem
from tests.simulation.plan import START_S, CallPlan, EndpointPlan, WorldPlan

GRACE_S = 0.050  # after its deadline a call has ended (D1)
_RETRY_SHARE = 0.1  # second tries that each call earns
CLOSES_IN_S = 0.100  # after a caller has left, nothing runs for it upstream (A3)


@dataclass(frozen=True, slots=True)
class Violation:
    seed: int
    rule: str  # the behaviour's id
    what: str
    at_s: float

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.rule}: {self.what} (at {self.at_s:.6f} s)"


@dataclass(slots=True)
class CallStory:
    """What became of one call, as seen from outside."""

    plan: CallPlan
    deadline_s: float
    spill: bool  # what the policy said when it came
    narrowed: bool  # its settings admit less than those before
    cleared: frozenset[Zone] = frozenset()  # outside, by a look for everything
    opened: list[str] = field(default_factory=list)  # endpoints, in order
    unserved: list[str] = field(default_factory=list)  # endpoints that turned it away
    running: int = 0  # at endpoints, now
    bug_met: bool = False
    given_whole: set[str] = field(default_factory=set)  # by endpoints, to the end
    on_record: set[str] = field(default_factory=set)  # endpoints that it was sent to, durably
    lost: bool = False  # a record of it could not be kept
    mappings: int = 0  # of surrogates to originals, still known
    committed: bool = False  # the answer began
    placement: Placement | None = None
    frames: list[bytes] = field(default_factory=list)
    whole: bool = False  # the answer came to its end
    error: BaseException | None = None
    left_s: float | None = None
    ended_s: float | None = None
    intents: int = 0  # to send it to the cloud, that are durable
    settled: list[str] = field(default_factory=list)  # outcomes
    settled_s: float = math.inf


class Trace:
    """Everything that happened, in order; its digest is what a replay must meet."""

    def __init__(self, keep: bool = False) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self.lines: list[str] | None = [] if keep else None

    def add(self, at_s: float, *what: object) -> None:
        line = f"{at_s!r} {what!r}"
        self._hash.update(line.encode())
        if self.lines is not None:
            self.lines.append(line)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


class Witness:
    def __init__(self, plan: WorldPlan, trace: Trace, clock: Clock) -> None:
        self._plan = plan
        self._clock = clock
        self._trace = trace
        self._at_endpoint: Counter[tuple[str, str]] = Counter()
        self._spent_usd = 0.0
        self._attempts: dict[int, list[tuple[str, int]]] = {}  # as recorded: where, nano-dollars
        self._classes: dict[int, str | None] = {}
        self.calls: dict[int, CallStory] = {}
        self.violations: list[Violation] = []
        self.shadowed = 0  # what records told of shadows

    @property
    def before_dispatch(self) -> bool:
        """In two of three worlds."""
        return self._plan.seed % 3 > 0

    @property
    def now_s(self) -> float:
        return self._clock()

    def broken(self, rule: str, what: str) -> None:
        self.violations.append(Violation(self._plan.seed, rule, what, self.now_s))

    def decisions(self, *what: object) -> None:
        self._trace.add(self.now_s, *what)

    # What endpoints see

    def opened(self, endpoint: EndpointPlan, number: int, model: str, masked: bool) -> None:
        self.decisions("opened", endpoint.name, number, masked)
        story = self.calls[number]
        story.opened.append(endpoint.name)
        story.running += 1
        self._at_endpoint[endpoint.name, model] += 1
        self._allowed(endpoint, story, masked)
        self._within_limits(endpoint, model)
        who = f"call {number} at {endpoint.name}"
        if story.committed:
            self.broken("A4", f"{who}: another attempt after its answer had begun")
        if self.now_s > story.deadline_s:
            self.broken("D1", f"{who}: sent after its deadline")
        if story.ended_s is not None:
            self.broken("A3", f"{who}: sent after it had ended")
        if len(story.opened) > self._most_attempts():
            self.broken("A5", f"{who}: {len(story.opened)} attempts")

    def _most_attempts(self) -> int:
        """A call that turns out to be restricted at the door is decided on once more."""
        return 2 * self._plan.max_attempts - 1

    def _allowed(self, endpoint: EndpointPlan, story: CallStory, masked: bool) -> None:
        who = f"call {story.plan.number} at {endpoint.name}"
        if story.plan.explained:
            self.broken("O3", f"{who}: it was only to be explained")
        zone, plan = endpoint.zone, story.plan
        if not (plan.masked_may_go(zone) if masked else plan.may_go(zone, story.narrowed)):
            self.broken("M1", f"{who}: it may not go there ({plan.secret.value})")
        if zone.onprem:
            return
        if not (zone in story.cleared or masked):
            self.broken("M1", f"{who}: nobody has cleared it")
        if not story.spill:
            self.broken("S5", f"{who}: the cloud is closed")
        story.intents -= 1
        if self.before_dispatch and story.intents < 0:
            self.broken("B8", f"{who}: nothing on record says that it was to be sent")
        self._spent_usd += endpoint.price_usd
        budget_usd = self._plan.spill_budget_usd
        if budget_usd is not None and self._spent_usd > budget_usd + 1e-9:
            self.broken("S5", f"{who}: {self._spent_usd} USD spent of {budget_usd}")

    def _within_limits(self, endpoint: EndpointPlan, model: str) -> None:
        found, most = self._load(endpoint, model), self._limit(endpoint)
        if found > most:
            self.broken("S2", f"{endpoint.name}: {found} calls in flight, and {most} are allowed")

    def _load(self, endpoint: EndpointPlan, model: str) -> int:
        if endpoint.zone.onprem:
            return self._at_endpoint[endpoint.name, model]
        return sum(self._at_endpoint[name, m] for name, m in self._at_endpoint
                   if name == endpoint.name)  # fmt: skip

    def _limit(self, endpoint: EndpointPlan) -> int:
        if not endpoint.zone.onprem:
            return endpoint.max_in_flight
        batches = 2 * self._plan.instances
        overtaken = 2  # times the batches: of calls that were sent earlier and are not answered
        return min(overtaken * batches * self._plan.max_batch, endpoint.max_in_flight)

    def ran(self, endpoint: EndpointPlan, number: int, model: str, how: str) -> None:
        """Nothing runs for the call there any more."""
        self.decisions("ran", endpoint.name, number, how)
        story = self.calls[number]
        if how == "whole":
            story.given_whole.add(endpoint.name)
        if how == "unserved":
            story.unserved.append(endpoint.name)
            if not endpoint.zone.onprem:
                self._spent_usd -= endpoint.price_usd
        story.running -= 1
        self._at_endpoint[endpoint.name, model] -= 1
        if self._at_endpoint[endpoint.name, model] < 0:
            self.broken("A2", f"{endpoint.name}: fewer than no call in flight")

    # What the decision log is given

    def recorded(self, record: Mapping[str, Any]) -> None:
        number = int(record["id"])
        self.decisions("recorded", number, record["outcome"], record.get("end_reason"))
        self._zones_only_shrink(number, record["attempts"])
        if "sensitivity" in record:
            self._classes[number] = record["sensitivity"]
        if record.get("sensitivity") == "restricted":
            outside = self._beyond(number, record.get("zones", ()))
            if outside:
                self.broken("M2", f"call {number}: restricted, and decided on with {outside}")
        self._no_shadow_sends_away(number, record)
        if record["outcome"] == "sent":
            return
        story = self.calls[number]
        story.settled.append(record["outcome"])
        story.settled_s = self.now_s
        if len(story.settled) > 1:
            self.broken("A2", f"call {number}: settled as {story.settled}")
        self._attempts[number] = [  # the last word counts, where a call is recorded again
            (attempt["endpoint"], round(attempt["price_usd"] * 1e9))
            for attempt in record["attempts"]
        ]

    def _beyond(self, number: int, zones: Iterable[str]) -> list[str]:
        """Those of the zones that nothing admits the call to, as far as it was read at first."""
        story = self.calls[number]
        within = story.plan.decided_within(story.narrowed)
        return [zone for zone in zones if not is_onprem(zone) and zone not in within]

    def _no_shadow_sends_away(self, number: int, record: Mapping[str, Any]) -> None:
        shadows = record.get("shadows", {}).items()
        self.shadowed += len(shadows)
        for name, its in shadows:
            zone = its["zone"]
            restricted = self._classes[number] == "restricted" and zone not in (None, "refused")
            if restricted and self._beyond(number, [zone]):
                self.broken("O4", f"call {number}: restricted, and in {zone} for {name}")
            if its["reason"] == "shadow_failed":
                self.broken("O4", f"call {number}: {name} failed")

    def _zones_only_shrink(self, number: int, attempts: list[dict[str, Any]]) -> None:
        before: set[str] | None = None
        for attempt in attempts:
            zones = set(attempt["zones"])
            if before is not None and not zones <= before:
                self.broken("M2", f"call {number}: zones grew from {before} to {zones}")
            if attempt["zone"] not in zones:
                self.broken("M2", f"call {number}: tried outside of its zones {zones}")
            before = zones

    # What callers see

    def released(self, story: CallStory, placement: Placement) -> None:
        """Its answer begins."""
        story.committed, story.placement = True, placement
        self.decisions("released", story.plan.number, placement.endpoint, placement.reason)
        if placement.endpoint not in story.on_record:
            self.broken("B4", f"call {story.plan.number}: answered without its record")

    def ended(self, story: CallStory) -> None:
        plan, error = story.plan, story.error
        story.ended_s = self.now_s
        self.decisions("ended", plan.number, type(error).__name__, len(story.frames), story.whole)
        late_s = self.now_s - max(story.deadline_s, story.left_s or 0.0)
        if late_s > GRACE_S:
            self.broken("D1", f"call {plan.number} ended {late_s:.3f} s after its deadline")
        self._error_is_one_of_ours(story)
        self._answer_is_whole(story)

    def _error_is_one_of_ours(self, story: CallStory) -> None:
        error, number = story.error, story.plan.number
        if error is None or isinstance(error, GatewayError):
            if isinstance(error, Shed) and not (error.retry_after_s or 0.0) > 0.0:
                self.broken("A1", f"call {number}: {error.reason} without when to call again")
        elif story.plan.explained and isinstance(error, TimeoutError):
            return
        elif story.left_s is None and not story.bug_met:
            self.broken("A4", f"call {number}: raised {error!r}")

    def _answer_is_whole(self, story: CallStory) -> None:
        """No frame twice, none left out, none of another attempt, no end that was not one. A call
        that began on record may end while nothing can be written."""
        number = story.plan.number
        told = story.placement
        last = "nowhere" if told is None else told.endpoint
        due = [b"%d/%s/%d" % (number, last.encode(), n) for n in range(len(story.frames))]
        if story.frames != due:
            self.broken("A4", f"call {number}: given {story.frames} by {last}")
        if told is not None and told.endpoint not in story.opened:
            self.broken("S7", f"call {number}: placed at {last}, sent to {story.opened}")
        if story.whole and last not in story.given_whole:
            self.broken("A4", f"call {number}: broke off and ended as if it were whole")
        unwritten = story.lost and not story.settled
        if story.whole and story.settled != [Outcome.SERVED.value] and not unwritten:
            self.broken("A2", f"call {number}: answered, and settled as {story.settled}")

    def overdue(self, story: CallStory) -> None:
        """Asked once, a moment after its deadline, or after its caller has left."""
        if story.ended_s is None:
            self.broken("D1", f"call {story.plan.number} has not ended in time")
        if story.settled_s > self.now_s and not story.plan.explained:
            self.broken("A2", f"call {story.plan.number} is not settled in time")

    def still_running(self, story: CallStory) -> None:
        if story.running:
            self.broken("A3", f"call {story.plan.number} runs on where nobody waits for it")

    def quiet(self) -> None:
        """Asked when no call is left."""
        for story in self.calls.values():
            self.still_running(story)
            if story.mappings:
                self.broken("A2", f"call {story.plan.number}: its surrogates are still known")
            if not (story.settled or story.lost or story.plan.explained):
                self.broken("A2", f"call {story.plan.number} was never settled")
        self._few_second_tries()

    def kept(self, ledger: list[Row]) -> None:
        """All of it: for each call at each endpoint its attempts, what they cost and the time of
        the server."""
        kept = {(str(row[0]), str(row[1])): (row[2], row[3]) for row in ledger}
        due: dict[tuple[str, str], tuple[int, int]] = {}
        for number, attempts in self._attempts.items():
            for endpoint_name, nano_usd in attempts:
                count, sum_ = due.get((str(number), endpoint_name), (0, 0))
                due[str(number), endpoint_name] = count + 1, sum_ + nano_usd
        for key in sorted({*kept, *due}):
            recorded = int(key[0]) in self._attempts or self._plan.unwritable is None
            if recorded and kept.get(key) != due.get(key):
                self.broken("B3", f"call {key}: the ledger has {kept.get(key)} of {due.get(key)}")
        for endpoint in self._plan.endpoints:
            of_it = [row for row in ledger if row[1] == endpoint.name]
            if not endpoint.zone.onprem:
                self._is_charged(endpoint, sum(integer(row[3]) for row in of_it))
            elif (used_s := sum(integer(row[4]) for row in of_it) / 1e9) > self._busy_s(endpoint):
                self.broken("B2", f"{endpoint.name}: {used_s} s are charged")

    def _is_charged(self, endpoint: EndpointPlan, kept: int) -> None:
        served = sum(
            story.opened.count(endpoint.name) - story.unserved.count(endpoint.name)
            for story in self.calls.values()
        )
        if kept != served * round(endpoint.price_usd * 1e9):
            self.broken("B3", f"{endpoint.name}: {served} calls count, and the ledger has {kept}")

    def _busy_s(self, endpoint: EndpointPlan) -> float:
        """At most, with rounding: since the world began."""
        return self.now_s - START_S + 1e-6

    def _few_second_tries(self) -> None:
        """A tenth of the calls earn one, beside the reserve; what turns out at the door to be
        restricted begins anew."""
        stories = self.calls.values()
        anew = sum(story.plan.begins_anew for story in stories)
        earned = self._plan.retry_reserve + _RETRY_SHARE * (len(stories) + anew)
        tries = sum(max(0, len(story.opened) - 1) for story in stories)
        if tries > earned + anew:
            self.broken("A5", f"{tries} second tries of {len(stories)} calls: {earned} + {anew}")


class WitnessedLog:
    """The audit, which may be unwritable for a while. In every second world a record takes a moment
    to be durable; in the others it is so at once."""

    def __init__(
        self, witness: Witness, unwritable: tuple[float, float] | None, takes_s: float
    ) -> None:
        self._witness = witness
        self._unwritable = unwritable or (math.inf, math.inf)
        self._takes_s = takes_s

    def check(self) -> None:
        """That it is unwritable is found out when a record comes, not before."""

    def append(self, record: Mapping[str, Any]) -> Durable | None:
        """That an attempt is about to be sent."""
        attempt = record if record["kind"] == "intent" else record["attempts"][-1]
        number = int(record["id"])
        if record["kind"] == "call":
            self._witness.recorded(record)
        if not self._takes_s:
            if (failed := self._kept(number, attempt)) is not None:
                raise failed
            return None
        loop = asyncio.get_running_loop()
        durable: Durable = loop.create_future()
        loop.call_later(self._takes_s, self._durable, durable, number, attempt)
        return durable

    def note(self, record: Mapping[str, Any]) -> None:
        story, failed = self._witness.calls[int(record["id"])], self._failure()
        if failed is not None:
            story.lost = True
            story.settled_s = min(story.settled_s, self._witness.now_s)
            raise failed
        self._witness.recorded(record)

    def _durable(self, durable: Durable, number: int, attempt: Mapping[str, Any]) -> None:
        failed = self._kept(number, attempt)
        if not durable.done():
            durable.set_result(failed)

    def _kept(self, number: int, attempt: Mapping[str, Any]) -> RecordUnwritable | None:
        story, failed = self._witness.calls[number], self._failure()
        if failed is None:
            story.on_record.add(attempt["endpoint"])
            story.intents += not is_onprem(attempt["zone"])
        return failed

    def _failure(self) -> RecordUnwritable | None:
        from_s, until_s = self._unwritable
        if from_s <= self._witness.now_s - START_S < until_s:
            return RecordUnwritable("the audit cannot be written")
        return None
