"""Where it is kept what calls use of the limits: in this process, or for all who share it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gateway.core.deadline import Clock
from gateway.core.types import Quota
from gateway.pipeline.rate_limits.holder import Holder, Holders


class LimitStore(Protocol):
    """What is used by all who share the store. Where nobody can say what the others have let in,
    whatever would let somebody in raises Saturated: a limit is never had twice."""

    def enter(self, tenant: str, most: int, tenant_most: int) -> tuple[int, int]:
        """How many calls are inside already: of everybody, and of the tenant. One more is, if both
        are below the most."""
        ...

    def inside(self, tenant: str) -> tuple[int, int]:
        """The same, and nobody enters."""
        ...

    def leave(self, tenant: str) -> None:
        """A call of the tenant has left."""
        ...

    def __enter__(self) -> object:
        """Nobody else takes of a quota until `__exit__`."""
        ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None: ...

    def holder(self, quota: Quota, now_s: float) -> Holder:
        """What is used of a quota, which may have changed; with the store held."""
        ...

    def keep(self, holder: Holder) -> None:
        """What was taken of it by a call that came in; with the store held."""
        ...

    def give_back(self, holders: Sequence[Holder], tokens: float) -> None:
        """A call has left, and gives so many tokens back to each."""
        ...


class MemoryLimitStore:
    """That of one process: plain numbers on one event loop, which nobody else can change."""

    def __init__(self, clock: Clock) -> None:
        self.holders = Holders()
        self.holder = self.holders.get
        self._clock = clock
        self._everybody = 0
        self._by_tenant: dict[str, int] = {}

    def enter(self, tenant: str, most: int, tenant_most: int) -> tuple[int, int]:
        everybody, own = self._everybody, self._by_tenant.get(tenant, 0)
        if everybody < most and own < tenant_most:
            self._everybody = everybody + 1
            self._by_tenant[tenant] = own + 1
        return everybody, own

    def inside(self, tenant: str) -> tuple[int, int]:
        return self._everybody, self._by_tenant.get(tenant, 0)

    def leave(self, tenant: str) -> None:
        self._everybody -= 1
        left = self._by_tenant[tenant] - 1
        if left:
            self._by_tenant[tenant] = left
        else:
            del self._by_tenant[tenant]

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        pass

    def keep(self, holder: Holder) -> None:
        """A holder is all that there is of it."""

    def give_back(self, holders: Sequence[Holder], tokens: float) -> None:
        now_s = self._clock()
        for holder in holders:
            holder.left(tokens, now_s)
