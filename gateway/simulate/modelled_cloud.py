"""The cloud as the gateway sees it, and as it is.

What the gateway knows of the cloud and does about it is its own parts on a virtual clock: the
adaptive limit, the breaker, slow start, service times and the budget of second tries. What the
cloud does is the weather. In between, `ModelledCloud` tells the outcome of each call as an attempt
would.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.core.deadline import Clock, Deadline
from gateway.core.errors import (
    DeadlineExceeded,
    GatewayError,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamSilent,
)
from gateway.core.types import InferenceRequest, TensorCall, WireProtocol
from gateway.endpoints.health.patience import give_up_s
from gateway.endpoints.versions.parts import EndpointParts
from gateway.pipeline.retries import RetryBudget
from gateway.simulate.site import SimulatedSite
from gateway.simulate.weather import Weather

_FAILS_IN_S: Final = 0.5  # of the way there and back: an error comes sooner than an answer


@dataclass(slots=True)
class Counts:
    """Of what became of the attempts in the cloud."""

    attempts: int = 0
    answered: int = 0
    failed: int = 0
    busy: int = 0  # refused with 429
    cut: int = 0  # by the deadline
    closed: int = 0  # decided to leave, and found the cloud closed
    returned: int = 0  # calls that came back to the queue
    ejections: int = 0


@dataclass(frozen=True, slots=True)
class Ending:
    """What will come of an attempt, seen from here."""

    after_s: float
    error: GatewayError | None
    epoch: int
    waiting: object  # as which its lane knows it
    sent_s: float


class ModelledCloud:
    def __init__(
        self, site: SimulatedSite, parts: EndpointParts, weather: Weather, clock: Clock
    ) -> None:
        if site.cloud is None:
            raise ValueError("there is no cloud endpoint")
        routing = site.settings.routing
        self.weather, self.clock = weather, clock
        self._registry, self._clouds, self._outcomes = parts.registry, parts.clouds, parts.outcomes
        self.counts = Counts()
        self.tries = routing.max_attempts
        self.retries = RetryBudget(clock, routing.retry_share, routing.retry_reserve)
        self._model, self._name = site.model, site.cloud
        self._endpoint = parts.registry.catalog.endpoints[site.cloud]
        self._model_state = parts.registry.model_state(site.cloud, site.model)
        self._request = _any_request(site.model, clock)
        self._there = 0  # calls that the cloud itself has

    def room(self) -> int:
        return self._clouds.room(self._name, self._model)

    @property
    def open(self) -> bool:
        """Whether a call that arrives now is allowed to leave at all, as its decision finds."""
        refused = self._registry.refuses(self._name, self._model)
        return not refused and self._clouds.takes_another(self._name, self._model)

    def worth_another(self, server: str, left_s: float) -> bool:
        """No attempt starts that cannot finish."""
        return left_s >= self._registry.model_state(server, self._model).times.usual_s

    def served_onprem(self, server: str, took_s: float) -> None:
        self._registry.model_state(server, self._model).times.observe(took_s)

    def send(self, takes_s: float, left_s: float) -> Ending | None:
        """None: it is closed after all. Else tell `ended` when the time has come."""
        if not self.open:
            self.counts.closed += 1
            return None
        now_s = self.clock()
        epoch = self._outcomes.started(self._endpoint, self._model)
        waiting = object()
        self._model_state.health.answers.claim(waiting, now_s)
        self.counts.attempts += 1
        after_s, error = self._fate(now_s, takes_s)
        self._there += 1
        left_s = max(0.0, left_s)
        given_up_s = give_up_s(self._model_state.times, self._registry.health, self._request)
        if min(after_s, given_up_s) >= left_s:
            after_s, error = left_s, DeadlineExceeded("the budget ran out")
        elif after_s >= given_up_s:
            after_s, error = given_up_s, UpstreamSilent("nothing came")
        return Ending(after_s, error, epoch, waiting, now_s)

    def _fate(self, now_s: float, takes_s: float) -> tuple[float, GatewayError | None]:
        weather, fails_s = self.weather, _FAILS_IN_S * takes_s
        outage = weather.outage(now_s)
        if outage is not None:
            return (float("inf"), None) if outage.hangs else (fails_s, UpstreamFailed("an outage"))
        if weather.limit is not None and self._there >= weather.limit:
            return fails_s, UpstreamBusy("too many calls", retry_after_s=weather.retry_after_s)
        takes_s *= weather.factor(now_s)
        struck = weather.outage(now_s + takes_s)
        if struck is None:
            return takes_s, None
        if struck.hangs:
            return float("inf"), None
        return max(struck.from_s - now_s, 0.0), UpstreamFailed("an outage")

    def ended(self, ending: Ending, took_s: float) -> None:
        """As an attempt tells of its end."""
        self._there -= 1
        error, outcomes, model = ending.error, self._outcomes, self._model
        if isinstance(error, DeadlineExceeded | UpstreamSilent):
            self._model_state.health.answers.gave_up(ending.waiting)
        else:
            self._model_state.health.answers.heard(ending.waiting)
        was_closed = self._model_state.breaker.closed
        if error is None:
            outcomes.succeeded(self._endpoint, self._request, ending.epoch, took_s)
            self.counts.answered += 1
        elif isinstance(error, DeadlineExceeded) and not outcomes.fairly_late(
            self._endpoint, model, ending.sent_s
        ):
            outcomes.abandoned(self._endpoint, model, ending.epoch)
        else:
            outcomes.failed(self._endpoint, model, ending.epoch, error, ending.sent_s)
        outcomes.ended(self._endpoint, model)
        self.counts.ejections += was_closed and not self._model_state.breaker.closed
        self._count(error)

    def _count(self, error: GatewayError | None) -> None:
        counts = self.counts
        counts.busy += isinstance(error, UpstreamBusy)
        counts.cut += isinstance(error, DeadlineExceeded)
        counts.failed += isinstance(error, UpstreamFailed | UpstreamSilent)


def _any_request(model: str, clock: Clock) -> InferenceRequest:
    """An outcome says of which model a call is; the simulated ones have no content."""
    return InferenceRequest(
        id="simulated",
        protocol=WireProtocol.KSERVE_GRPC,
        tenant="",
        model=model,
        payload=TensorCall(inputs=()),
        deadline=Deadline(0.0, clock),
    )
