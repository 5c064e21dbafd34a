"""Who may enter now: calls in the gateway are counted, all together and by tenant (A1, O7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from gateway.config import LimitSettings
from gateway.errors import Draining, Saturated
from gateway.types import InferenceRequest

_RETRY_S = 1.0


class Admission:
    """Counts in plain integers on one event loop; `enter` never waits."""

    def __init__(self, limits: LimitSettings) -> None:
        self._limits = limits
        self._by_tenant: Counter[str] = Counter()
        self.inside = 0
        self.draining = False

    def enter(self, request: InferenceRequest) -> Callable[[], None]:
        """The way to leave again. Raises Draining or Saturated at once."""
        if self.draining:
            raise Draining("this gateway is stopping; call again", retry_after_s=_RETRY_S)
        if self.inside >= self._limits.max_concurrent:
            raise Saturated("too many calls at once in this gateway", retry_after_s=_RETRY_S)
        tenant = request.tenant
        if self._by_tenant[tenant] >= self._limits.max_concurrent_per_tenant:
            raise Saturated(
                "too many calls at once of this tenant",
                reason="tenant_saturated",
                retry_after_s=_RETRY_S,
            )
        self.inside += 1
        self._by_tenant[tenant] += 1

        def leave() -> None:
            self.inside -= 1
            self._by_tenant[tenant] -= 1
            if not self._by_tenant[tenant]:
                del self._by_tenant[tenant]

        return leave
