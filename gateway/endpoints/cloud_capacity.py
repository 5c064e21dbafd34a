"""What the endpoints in the cloud take now, and the calls that wait for them.

How many calls an endpoint takes at once is learnt (`spill.AdaptiveLimit`); one that is back from an
outage starts slowly, and one whose breaker is half open takes a probe alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.accounting.spill import AdaptiveLimit, CloudLine, CloudPace
from gateway.config.model_catalog import Catalog
from gateway.core.deadline import Clock
from gateway.core.types import InferenceRequest
from gateway.endpoints.state import EndpointState, ModelState, unavailable_why

_RECHECK_S = 0.5  # for what tells nobody: a slow start that goes on, a server that is back

_NAME: Final = itemgetter(0)


class Clouds:
    def __init__(
        self,
        states: Mapping[str, EndpointState],
        model_state: Callable[[str, str], ModelState],
        clock: Clock,
        catalog: Catalog,
    ) -> None:
        self._states = states
        self._model_state = model_state
        self._clock = clock
        self.line = CloudLine()
        """Where calls of all versions of the settings wait."""
        self.siblings: Sequence[object] = ()
        """Versions whose calls have not ended."""
        self.elsewhere: Callable[[str], int] = lambda name: 0
        """Calls that these have with an endpoint, where its state is not this version's."""
        self._limits = {
            name: _limit(state, clock)
            for name, state in states.items()
            if not state.settings.zone.onprem
        }
        self._sharing = _sharing(states, self._limits, catalog)
        for name in self._limits:
            quota: Any = getattr(states[name].connector, "quota", None)
            if quota is not None:  # its answers say what is left of its provider's limits
                quota.exhausted = partial(self.close, name)

    def __contains__(self, name: str) -> bool:
        return name in self._limits

    @property
    def waiting(self) -> int:
        return len(self.line.waiting)

    def limit(self, name: str) -> AdaptiveLimit:
        return self._limits[name]

    def closed_s(self, name: str) -> float:
        """Seconds for which an endpoint takes nothing, as it said; 0 on the premises."""
        return self._limits[name].closed_s if name in self._limits else 0.0

    def close(self, name: str, wait_s: float) -> None:
        """The endpoint takes nothing for so long, nor do others with its credential and a model of
        it: they have one limit at the provider."""
        for other in self._sharing[name]:
            self._limits[other].close(wait_s)

    def refused(self, name: str, sent_s: float, retry_after_s: float | None) -> None:
        """It said that it takes no more, to a call that was sent then."""
        limit = self._limits[name]
        limit.refused(sent_s, self._states[name].in_flight, retry_after_s)
        self.close(name, limit.closed_s)

    def takes_another(self, name: str, model: str) -> bool:
        """Whether there is room, with what is there and what it can take."""
        state, limit = self._states[name], self._limits[name]
        slowly = state.model_states[model].health.slow_start.going
        if slowly or limit.closed_until_s or self.siblings:
            return limit.room(self._used(name, model))
        return state.in_flight < limit.limit

    def room(self, name: str, model: str) -> int:
        """How many calls it takes now."""
        return self._room(name, model, self._used(name, model))

    def capacity(self, name: str, model: str) -> int:
        """How many it would take now if it had none."""
        return self._room(name, model, 0)

    def _room(self, name: str, model: str, used: int) -> int:
        model_state = self._model_state(name, model)
        if unavailable_why(self._states[name], model_state):
            return 0
        if not model_state.breaker.closed:
            return 1  # the probe of a half-open breaker
        limit = self._limits[name]
        share = model_state.health.slow_start.share()
        return max(1, int((limit.limit - used) * share)) if limit.room(used) else 0

    def _used(self, name: str, model: str) -> int:
        share = self._model_state(name, model).health.slow_start.share()
        in_flight = self._in_flight(name)
        return in_flight if share == 1.0 else math.ceil(in_flight / share)

    def _in_flight(self, name: str) -> int:
        # guard: O2.cloud-carryover -> return self._states[name].in_flight
        return self._states[name].in_flight + self.elsewhere(name)

    def offer(self, name: str) -> None:
        """A place may have become free there: whoever has waited for it may take it."""
        if not self.line.waiting:
            return
        limit, in_flight = self._limits[name], self._in_flight(name)
        if limit.room(in_flight):
            self.line.offer(
                name, limit.limit - in_flight, lambda model: self.takes_another(name, model)
            )

    async def room_in_time(
        self, request: InferenceRequest, endpoints: Sequence[str], otherwise: Callable[[], bool]
    ) -> bool:
        """Wait until one of these, which are full, takes the call, or all of them are out, or it
        can go on `otherwise`: True, and it is decided on anew. False at once where it would be late
        behind those who wait already, and when its time is over."""
        names, model = frozenset(endpoints), request.model
        times = {name: self._model_state(name, model).times.usual_s for name in names}
        # guard: D5.cloud-wait -> latest_s = request.deadline.at_s
        latest_s = request.deadline.at_s - min(times.values(), default=math.inf)
        waits_s = (self._pace(n, times[n]).wait_s(self.line.ahead(n, latest_s)) for n in names)
        if self._clock() + min(waits_s, default=math.inf) > latest_s:  # guard: A1.cloud-queue-time
            return False
        with self.line.joined(model, names, latest_s) as waiter:
            while (left_s := latest_s - self._clock()) > 0.0:
                for name in names:
                    self.offer(name)
                await waiter.wait(min(left_s, self._quiet_s(names)))
                if waiter.offered or otherwise() or all(self._out(n, model) for n in names):
                    return True
        return False

    def _pace(self, name: str, call_s: float) -> CloudPace:
        limit = self._limits[name]
        return CloudPace(limit.limit, call_s, limit.closed_s)

    def _quiet_s(self, names: frozenset[str]) -> float:
        """For how long nothing is known to happen."""
        closed = (self._limits[name].closed_s for name in names)
        return min((s for s in closed if s > 0.0), default=_RECHECK_S)

    def _out(self, name: str, model: str) -> bool:
        return bool(unavailable_why(self._states[name], self._model_state(name, model)))


def _sharing(
    states: Mapping[str, EndpointState], places: Collection[str], catalog: Catalog
) -> dict[str, tuple[str, ...]]:
    """The places that have one limit at their provider, by each of them: those of one host, one
    credential and a model in common."""

    def account(name: str) -> tuple[object, ...]:
        its = states[name].settings
        if its.api_key is None and its.credential is None and not its.headers:
            return (name,)  # nothing says whose calls they are
        host = urlsplit(its.url or f"//{its.grpc}").netloc
        return host, its.api_key, its.credential, tuple(sorted(its.headers.items(), key=_NAME))

    def models(name: str) -> frozenset[str]:
        known = catalog.endpoints.get(name)
        return frozenset(s.model for s in known.models.values()) if known else frozenset()

    accounts = {name: (account(name), models(name)) for name in places}
    return {
        name: tuple(
            other
            for other, (theirs, served) in accounts.items()
            if other == name or (theirs == own and served & its)
        )
        for name, (own, its) in accounts.items()
    }


def _limit(state: EndpointState, clock: Clock) -> AdaptiveLimit:
    if state.room is None:
        state.room = AdaptiveLimit(state.settings.max_in_flight, clock)
    return state.room
