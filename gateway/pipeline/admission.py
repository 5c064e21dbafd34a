"""Who may enter now: calls in the gateway are counted, all together and by tenant (A1, O7)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gateway.config import LimitSettings
from gateway.core.errors import Draining, Saturated
from gateway.core.types import InferenceRequest

_RETRY_S = 1.0


class Admission:
    """Counts in plain integers on one event loop; `enter` never waits."""

    def __init__(self, limits: LimitSettings) -> None:
        self.limits = limits  # others, once settings are reloaded: who is inside stays counted
        self._by_tenant: dict[str, int] = {}
        self.inside = 0
        self.draining = False

    def check(self, request: InferenceRequest) -> None:
        """Raises Draining or Saturated if it could not enter now."""
        if self.draining:  # guard: A1.stopping
            raise Draining("this gateway is stopping; call again", retry_after_s=_RETRY_S)
        if self.inside >= self.limits.max_concurrent:  # guard: A1.gateway-limit
            raise Saturated("too many calls at once in this gateway", retry_after_s=_RETRY_S)
        # guard: A1.tenant-limit
        if self._by_tenant.get(request.tenant, 0) >= self.limits.max_concurrent_per_tenant:
            raise Saturated(
                "too many calls at once of this tenant",
                reason="tenant_saturated",
                retry_after_s=_RETRY_S,
            )

    def enter(self, request: InferenceRequest) -> Callable[[], None]:
        """The way to leave again. Raises what `check` does, at once."""
        tenant, by_tenant, limits = request.tenant, self._by_tenant, self.limits
        inside = by_tenant.get(tenant, 0)
        if (
            self.draining
            or self.inside >= limits.max_concurrent
            or inside >= limits.max_concurrent_per_tenant
        ):
            self.check(request)
        self.inside += 1
        by_tenant[tenant] = inside + 1
        return partial(self._leave, tenant)

    def _leave(self, tenant: str) -> None:
        self.inside -= 1  # guard: A2.admission-release
        left = self._by_tenant[tenant] - 1
        if left:
            self._by_tenant[tenant] = left
        else:
            del self._by_tenant[tenant]
