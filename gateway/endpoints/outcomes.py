"""What the ends of attempts and canaries teach of the endpoints: health, times, room, costs."""

from __future__ import annotations

import logging
import math

from gateway.accounting.metrics import Metrics
from gateway.core.deadline import Clock
from gateway.core.errors import (
    DeadlineExceeded,
    GatewayError,
    ModelDead,
    ModelFailed,
    UpstreamBusy,
    UpstreamError,
    UpstreamFailed,
    UpstreamGivenUp,
    UpstreamSilent,
)
from gateway.core.types import Endpoint, InferenceRequest
from gateway.endpoints.cloud_capacity import Clouds
from gateway.endpoints.recovery import Recovery
from gateway.endpoints.registry import EndpointRegistry
from gateway.endpoints.state import ModelState
from gateway.scheduling.queues import ModelQueues

log = logging.getLogger(__name__)

_FAIR, _FAIR_CLOUD = 4.0, 2.0  # times the 95th percentile of the answers' times
_SPREADS = 4.0  # from the median to the slowest answers


class Outcomes:
    def __init__(
        self,
        registry: EndpointRegistry,
        queues: ModelQueues,
        clouds: Clouds,
        recovery: Recovery,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._states = registry.states
        self._queues = queues
        self._clouds = clouds
        self._recovery = recovery
        self._metrics = metrics
        self._clock = clock

    # Of attempts

    def started(self, endpoint: Endpoint, model: str, tenant: str = "") -> int:
        """Returns the epoch with which the call's end must be told."""
        state = self._states[endpoint.name]
        model_state = state.model_states[model]
        model_state.in_flight += 1
        state.in_flight += 1
        if not model_state.steady:
            model_state.suspects.starts(tenant)
            model_state.breaker.starts(self._registry.health.response_floor_ms / 1000)
        return model_state.breaker.epoch

    def ended(self, endpoint: Endpoint, model: str) -> None:
        state = self._states[endpoint.name]
        state.model_states[model].in_flight -= 1
        state.in_flight -= 1
        if self._clouds.line.waiting and endpoint.name in self._clouds:
            self._clouds.offer(endpoint.name)

    def succeeded(
        self, endpoint: Endpoint, request: InferenceRequest, epoch: int, took_s: float
    ) -> None:
        name, model = endpoint.name, request.model
        state = self._states[name]
        model_state = state.model_states[model]
        breaker, times, limit = model_state.breaker, model_state.times, state.room
        steady, was_out = model_state.steady, breaker.open_until_s
        breaker.succeeded(epoch)
        if not steady:
            if was_out and breaker.closed:  # the probe of a half-open breaker
                self.returned(name, model)
            model_state.suspects.succeeded(request.tenant)
        model_state.health.doubts.served(took_s, times)
        times.observe(took_s)
        if limit is not None:  # in the cloud
            limit.in_time += 1.0
            if 2 * state.in_flight >= limit.limit:  # fewer prove nothing
                limit.answered(state.in_flight)
            self._queues.calls.cloud_answered(name, request, took_s)

    def abandoned(self, endpoint: Endpoint, model: str, epoch: int, tenant: str = "") -> None:
        model_state = self._registry.model_state(endpoint.name, model)
        if model_state.suspects:
            model_state.suspects.abandoned(tenant)
        breaker = model_state.breaker
        breaker.abandoned(epoch)
        if not breaker.closed and breaker.admits():  # the next call may be the probe
            self._recovery.notify(model, back=True)

    def failed(
        self, endpoint: Endpoint, model: str, epoch: int, error: GatewayError, sent_s: float,
        request: InferenceRequest | None = None,
    ) -> None:  # fmt: skip
        """Count a failure that is the endpoint's; its 429 is not, nor is a model's failure on one
        call, nor what `request` alone may have provoked: whoever sends nonsense three times must
        not take the model from everybody."""
        name = endpoint.name
        state = self._states[name]
        model_state = state.model_states[model]
        self._limit_cloud(name, error, sent_s)
        if isinstance(error, ModelFailed):  # a canary will tell whose fault it is
            model_state.health.doubts.model_failed()
        gray = isinstance(error, ModelDead)
        silent = isinstance(error, UpstreamSilent) and model_state.health.answers.silent_since(
            sent_s
        )
        # guard: A6.connect-failure minus 3
        everybodys = gray or silent or (isinstance(error, UpstreamError) and error.any_call)
        if isinstance(error, UpstreamBusy | UpstreamGivenUp | ModelFailed):
            self.abandoned(endpoint, model, epoch, "" if request is None else request.tenant)
            return
        if not everybodys and request is not None:  # guard: A6.caller-failures
            if not self._several(name, model_state, request, sent_s):
                self.abandoned(endpoint, model, epoch)
                return
            model_state.suspects.forget()
            silent = True  # no more than that is needed
        if model_state.health.failed(epoch, at_once=gray or silent):
            self.ejected(name, model, error.reason)
        elif not model_state.breaker.closed:
            self._recovery.still_out(model)
        if gray and state.on_gray is not None:
            state.on_gray(endpoint.models[model].model, f"{model} fails every inference")

    def _several(
        self, name: str, model_state: ModelState, request: InferenceRequest, sent_s: float
    ) -> bool:
        """Whether several callers met such failures. Of one alone a canary finds out whose fault
        they are, where there is one; else the endpoint is out for that caller."""
        suspects, before = model_state.suspects, model_state.suspects.suspended
        half_open = not model_state.breaker.closed
        if model_state.health.proven and not half_open:
            model_state.health.doubts.model_failed()
            return suspects.met(request, sent_s)
        several = suspects.failed(request, sent_s, few=half_open)
        if suspects.suspended > before and not several:
            self._metrics.endpoint_ejections.labels(name).inc()
            log.warning(
                "%s: ejected for %s and the one caller who met failures", name, request.model
            )
        return several

    def _limit_cloud(self, name: str, error: GatewayError, sent_s: float) -> None:
        """How many calls an endpoint in the cloud takes, as its failures say."""
        if name not in self._clouds:
            return
        if isinstance(error, UpstreamBusy):
            self._clouds.refused(name, sent_s, error.retry_after_s)
        elif isinstance(error, DeadlineExceeded):
            self._clouds.limit(name).late(sent_s, self._states[name].in_flight)
        elif isinstance(error, UpstreamFailed) and error.retry_after_s:
            self._clouds.close(name, error.retry_after_s)

    def outlasted(self, endpoint: Endpoint, request: InferenceRequest, waited_s: float) -> None:
        """The call's budget ran out: an answer would have taken longer."""
        name = endpoint.name
        times = self._registry.model_state(name, request.model).times
        if waited_s > times.usual_s and name in self._clouds:
            self._queues.calls.cloud_answered(name, request, waited_s)
        times.outlasted(waited_s)

    def fairly_late(self, endpoint: Endpoint, model: str, sent_s: float) -> bool:
        """Whether a deadline that has passed says something of the endpoint: it left many times
        what its answers usually take, which is known, and on the premises nobody else was answered
        meanwhile: who is asked too much answers some. In the cloud, where no canary looks and
        budgets are rarely so long, twice that will do, or more than its slowest answers spread if
        nobody else was answered meanwhile either."""
        model_state = self._registry.model_state(endpoint.name, model)
        took_s, known_s = self._clock() - sent_s, model_state.times.known_s
        least = self._registry.health.least_sample
        slow_s = known_s(0.95, least)
        if endpoint.zone.onprem:
            return took_s >= _FAIR * slow_s and model_state.health.answers.silent_since(sent_s)
        usual_s, high_s = known_s(0.5, least), known_s(0.99, least)
        # guard: A6.deadline-evidence
        if high_s == math.inf or took_s < usual_s + _SPREADS * (high_s - usual_s):
            return False
        return took_s >= _FAIR_CLOUD * slow_s or model_state.health.answers.silent_since(sent_s)

    # Of attempts and canaries

    def ejected(self, name: str, model: str, why: str) -> None:
        self._metrics.endpoint_ejections.labels(name).inc()
        log.warning("%s: ejected for %s after %s", name, model, why)

    def returned(self, name: str, model: str) -> None:
        model_state = self._registry.model_state(name, model)
        model_state.suspects.forget()
        model_state.health.slow_start.begin()
        # guard: A6.slow-spell-end
        model_state.times.forget_over(model_state.health.doubts.slow_s(model_state.times.usual_s))
        if name in self._clouds:
            self._clouds.limit(name).restart()
            self._clouds.offer(name)
        self._metrics.endpoint_returns.labels(name).inc()
        log.info("%s: back for %s", name, model)
        self._recovery.notify(model, back=True)

    def became_slow(self, name: str, model: str) -> None:
        """Its clear calls go elsewhere where there is an elsewhere, those that wait included."""
        log.warning("%s: slow for %s; it is left to calls with no other place", name, model)
        self._queues.shun(model, name)
        # guard: A4.slow-model minus 3
        self._states[name].give_up_waiting(
            lambda w: w.model == model and not w.restricted and not w.begun
        )
