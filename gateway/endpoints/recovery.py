"""When a server is expected to be back, and the calls that wait for it, or for room in the cloud.

Calls that wait for a server which is about to be back have no other place, as restricted ones
mostly have none. A restart takes about a second, and a canary to a server that is up again much
less: waiting is better than a refusal, while it is likely to end in time and few enough wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from gateway.accounting.metrics import Metrics
from gateway.core.deadline import Clock
from gateway.core.types import InferenceRequest, Zone
from gateway.endpoints.cloud_capacity import Clouds
from gateway.endpoints.registry import EndpointRegistry
from gateway.endpoints.state import EndpointState, ModelState, unavailable_why

_SURE = 1.5  # times what is expected: then a restart has mostly ended
_RETRY_S = 2.0  # for what nobody knows
_RECHECK_S = 0.5  # what was expected to be back soon may not be any more


class Recovery:
    def __init__(
        self, registry: EndpointRegistry, clouds: Clouds, metrics: Metrics, clock: Clock
    ) -> None:
        self._registry = registry
        self._clouds = clouds
        self._metrics = metrics
        self._clock = clock
        self._waiting: dict[asyncio.Future[bool], str] = {}  # a model; in order

    @property
    def waiting(self) -> int:
        """Calls that wait for a server to be back."""
        return len(self._waiting)

    def back_in_s(self, model: str, zones: frozenset[Zone] | None = None) -> float | None:
        """When an on-prem server of this model is expected to be back, of all or of these zones;
        None: nobody knows."""
        some = self._onprem(model, zones)
        times_s = (_back_in_s(state, model_state) for state, model_state in some)
        return min((s for s in times_s if s is not None), default=None)

    def retry_after_s(self, model: str) -> float:
        return sure_s(self.back_in_s(model)) or _RETRY_S

    def worth_waiting(self, request: InferenceRequest) -> bool:
        """Whether an on-prem server that is out is likely to be back in time for the call."""
        health = self._registry.health
        back_in_s = self.back_in_s(request.model, request.zones)
        if back_in_s is None or self.waiting >= health.restart_waiting:
            return False
        if back_in_s > health.restart_wait_s:
            return False
        # guard: D5.recovery-time -> return True
        return request.deadline.allows(_SURE * back_in_s + self._call_s(request.model))

    async def back_in_time(self, request: InferenceRequest) -> bool:
        """Wait for an on-prem server that restarts, or for the canary of one that is up again,
        where that is likely to be in time."""
        if not self.worth_waiting(request):
            return False
        call_s = self._call_s(request.model)
        # guard: D1.recovery-wait -> most_s = 100000.0
        most_s = min(self._registry.health.restart_wait_s, request.deadline.remaining_s() - call_s)
        until_s, back = self._clock() + most_s, False
        model, zones = request.model, request.zones
        # guard: A1.expired-hope minus 3
        while not back and self._clock() < until_s and self.back_in_s(model, zones) is not None:
            left_s = until_s - self._clock()
            back = await self._wait(model, min(left_s, _RECHECK_S)) or any(
                not unavailable_why(*each) for each in self._onprem(model, zones)
            )  # in the step in which the wait ended
        self._metrics.recovery_waits.labels("back" if back else "late").inc()
        return back

    async def room_in_time(self, request: InferenceRequest, endpoints: Sequence[str]) -> bool:
        """Whether one of these in the cloud has room, or a server here is back, waited for if it
        is likely to be in time."""
        onprem = [*self._onprem(request.model, request.zones)]
        was_out = all(unavailable_why(*each) for each in onprem)

        def otherwise() -> bool:
            return was_out and any(not unavailable_why(*each) for each in onprem)

        opened = await self._clouds.room_in_time(request, endpoints, otherwise)
        self._metrics.cloud_waits.labels("room" if opened else "late").inc()
        return opened

    def notify(self, model: str, *, back: bool) -> None:
        """A server of the model is back, or nobody knows any more whether one will be."""
        for waiter, awaited in self._waiting.items():
            if awaited == model and not waiter.done():
                waiter.set_result(back)

    def still_out(self, model: str) -> None:
        """What could have brought a server back did not: calls that hoped for that alone wait no
        more."""
        if self.back_in_s(model) is None:
            self.notify(model, back=False)

    async def _wait(self, model: str, most_s: float) -> bool:
        """Until a server is back: True; for `most_s`, or until none is expected: False."""
        back: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[back] = model
        try:
            async with asyncio.timeout(max(0.0, most_s)):
                return await back
        except TimeoutError:
            return False
        finally:
            self._waiting.pop(back, None)

    def _onprem(
        self, model: str, zones: frozenset[Zone] | None
    ) -> Iterator[tuple[EndpointState, ModelState]]:
        for name in self._registry.catalog.find(model).endpoints:
            state = self._registry.states[name]
            zone = state.settings.zone
            if zone.onprem and (zones is None or zone in zones):
                yield state, state.model_states[model]

    def _call_s(self, model: str) -> float:
        """The usual time of a call where that is least."""
        names = self._registry.catalog.find(model).endpoints
        return min(self._registry.model_state(name, model).times.usual_s for name in names)


def sure_s(back_in_s: float | None) -> float | None:
    return None if back_in_s is None else max(1.0, _SURE * back_in_s)


def _back_in_s(state: EndpointState, model_state: ModelState) -> float | None:
    back_s = model_state.health.back_in_s(model_state.times.usual_s) if state.up else None
    return state.back_in_s() if back_s is None else back_s
