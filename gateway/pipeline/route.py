"""Where one call has been on its way, and where it may still go."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from gateway.core.errors import (
    AnswersFull,
    CloudFull,
    DeadlineExceeded,
    DeadlineUnmeetable,
    GatewayError,
    OwnerLost,
    Saturated,
    SpillClosed,
    UpstreamError,
    UpstreamRefused,
)
from gateway.core.types import (
    ONPREM,
    Classification,
    Decision,
    Endpoint,
    InferenceRequest,
    Zone,
)
from gateway.pipeline.attempt import AttemptLog, RunningAttempt
from gateway.pipeline.hedging import has_state
from gateway.scheduling.routing.policy import avoided, leaving

_MOST_LOSSES = 3  # of gateways that die while they forward one call


class ClearancePort(Protocol):
    """What is known of a call's data, and the door at which the rest is found out."""

    @property
    def classification(self) -> Classification: ...

    async def to_leave(self, zone: Zone) -> None:
        """Look for all that has not been looked for yet. Raises NotCleared if the zone, which is
        outside the premises, may not have the call after all."""
        ...


class NotCleared(Exception):
    """A call that was about to leave may not. It has to be decided on anew."""


class Route:
    """Where a call has been, and where it may still go."""

    last: GatewayError | None = None
    onprem = False
    _queue_zone = ONPREM  # of the first server that it may queue for
    sent = 0
    paid = False  # for a second try that has not begun
    losses = 0
    attempt: RunningAttempt | None = None
    avoid: frozenset[str] = frozenset()  # servers
    full: tuple[str, ...] = ()  # places in the cloud that had no room for it
    transient: tuple[tuple[Endpoint, UpstreamError], ...] = ()  # failures that may soon be over

    def __init__(
        self,
        request: InferenceRequest,
        clearance: ClearancePort,
        decision: Decision,
        log: AttemptLog,
    ) -> None:
        self.request, self.clearance, self.decision, self.log = request, clearance, decision, log
        self.clouds: deque[Endpoint] = deque()
        for endpoint in decision.attempts:
            if not endpoint.zone.onprem:
                self.clouds.append(endpoint)
            elif not self.onprem:
                self.onprem, self._queue_zone = True, endpoint.zone
        if decision.vetoes:
            self.avoid = avoided(decision)

    @property
    def zone(self) -> Zone | None:
        """Where it goes next; None: nowhere."""
        # guard: A5.endpoint-limit minus 1
        if self.sent >= self.decision.tries or not (self.onprem or self.clouds):
            return None
        if self.onprem and (not self.clouds or self.decision.attempts[0].zone.onprem):
            return self._queue_zone
        return self.clouds[0].zone

    @property
    def may_hedge(self) -> bool:
        """Whether one more may be tried beside one that is about to be sent the call."""
        # guard: A7.attempt-limit minus 2
        return bool(self.clouds) and self.sent + 2 <= self.decision.tries

    def goes_on(self, error: GatewayError) -> bool:
        """Whether it may go elsewhere after this."""
        if isinstance(error, OwnerLost):
            return self._again()
        if isinstance(error, DeadlineUnmeetable):
            self.onprem = False
            return self.last is not None
        # guard: A5.final-refusal UpstreamRefused | DeadlineExceeded -> DeadlineExceeded
        # guard: A9.no-failover -> if isinstance(error, UpstreamRefused | DeadlineExceeded):
        if isinstance(error, UpstreamRefused | DeadlineExceeded | AnswersFull):
            return False
        # guard: A5.failover UpstreamError | Saturated -> Saturated
        if not isinstance(error, UpstreamError | Saturated | SpillClosed):
            return False
        self._failed(error)
        return True

    def _again(self) -> bool:
        """The gateway died that had forwarded the call, which was no fault of the server: it goes
        there once more by the next owner. Not where a second time could count twice."""
        self.attempt = None
        self.losses += 1
        return not has_state(self.request) and self.losses <= _MOST_LOSSES

    def leaves(self, why: str) -> None:
        """Its queue sends it to the cloud. A call with no place there does not stand in the queue
        again."""
        self.onprem = self.onprem and bool(self.clouds)
        self.decision = self.log.decision = leaving(self.decision, why)

    def _failed(self, error: GatewayError) -> None:
        # guard: A10.route-traceback
        error.__traceback__ = None  # of frames that have this route: they would hold each other
        attempt, self.attempt, self.last = self.attempt, None, error
        if attempt is not None:
            self.sent += attempt.sent_s is not None
            if isinstance(error, CloudFull):
                # guard: A5.cloud-first-wait -> self.full = () if self.onprem else
                #   (attempt.endpoint.name,)
                self.full += (attempt.endpoint.name,)
            if attempt.endpoint.zone.onprem:
                self.avoid |= {attempt.endpoint.name}
            if isinstance(error, UpstreamError) and error.transient:
                self.transient += ((attempt.endpoint, error),)

    def resume(self, endpoint: Endpoint) -> None:
        """It may be tried again, having failed for the moment."""
        self.transient = tuple(t for t in self.transient if t[0].name != endpoint.name)
        if not endpoint.zone.onprem:
            self.clouds.append(endpoint)
        else:
            self.onprem, self._queue_zone = True, endpoint.zone
            self.avoid -= {endpoint.name}
