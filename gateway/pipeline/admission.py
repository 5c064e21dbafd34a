"""Who may enter now: calls in the gateway are counted, all together and by tenant (A1, O7)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gateway.config import LimitSettings
from gateway.core import ambient
from gateway.core.errors import Draining, Saturated
from gateway.core.types import InferenceRequest
from gateway.pipeline.rate_limits.store import LimitStore, MemoryLimitStore

_RETRY_S = 1.0


class Admission:
    """`inside` is what this process has; what is refused over is what all who share the store
    have. `enter` never waits."""

    def __init__(self, limits: LimitSettings, store: LimitStore | None = None) -> None:
        self.limits = limits  # others, once settings are reloaded: who is inside stays counted
        self.inside = 0
        self.draining = False
        self._store = store or MemoryLimitStore(ambient.clock())

    def check(self, request: InferenceRequest) -> None:
        """Raises Draining or Saturated if it could not enter now."""
        self._refuse_draining()
        self._refuse_over(*self._store.inside(request.tenant))

    def enter(self, request: InferenceRequest) -> Callable[[], None]:
        """The way to leave again. Raises what `check` does, at once."""
        if self.draining:
            self._refuse_draining()
        tenant, limits = request.tenant, self.limits
        most, tenant_most = limits.max_concurrent, limits.max_concurrent_per_tenant
        everybody, own = self._store.enter(tenant, most, tenant_most)
        if everybody >= most or own >= tenant_most:
            self._refuse_over(everybody, own)
        self.inside += 1
        return partial(self._leave, tenant)

    def _refuse_draining(self) -> None:
        if self.draining:  # guard: A1.stopping
            raise Draining("this gateway is stopping; call again", retry_after_s=_RETRY_S)

    def _refuse_over(self, everybody: int, own: int) -> None:
        if everybody >= self.limits.max_concurrent:  # guard: A1.gateway-limit
            raise Saturated("too many calls at once in this gateway", retry_after_s=_RETRY_S)
        if own >= self.limits.max_concurrent_per_tenant:  # guard: A1.tenant-limit
            raise Saturated(
                "too many calls at once of this tenant",
                reason="tenant_saturated",
                retry_after_s=_RETRY_S,
            )

    def _leave(self, tenant: str) -> None:
        self.inside -= 1  # guard: A2.admission-release
        self._store.leave(tenant)
