"""Who calls: from the credential alone, never from a header that the caller may choose."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gateway.config import KeySettings, TenantSettings
from gateway.errors import Unauthenticated
from gateway.types import EVERYWHERE, NOT_TIGHTENED, ONPREM_ONLY, Spill, Tightening, Zone


@dataclass(frozen=True, slots=True)
class Caller:
    """What a credential allows."""

    tenant: str
    models: frozenset[str] | None = None  # None: every model
    zones: frozenset[Zone] = EVERYWHERE
    latency_budget_s: float | None = None
    tightening: Tightening = NOT_TIGHTENED
    pseudonymise: bool = False

    def may_use(self, model: str) -> bool:
        return self.models is None or model in self.models


ANYONE = Caller(tenant="anonymous")


Same = Callable[[bytes, bytes], bool]
"""Compares in a time that does not tell how much of it matched."""


class Callers:
    """The configured keys, kept as SHA-256 digests and compared in constant time."""

    def __init__(
        self,
        keys: Mapping[str, KeySettings],
        same: Same = hmac.compare_digest,
        tenants: Mapping[str, TenantSettings] | None = None,
    ) -> None:
        self._same = same
        self._keys = tuple(
            (_digest(k.key.get_secret_value().strip()), _caller(k, (tenants or {}).get(k.tenant)))
            for k in keys.values()
        )

    def tightenings(self) -> frozenset[Tightening]:
        """All that any of them adds to what restricts: each must be looked for in its calls."""
        return frozenset(caller.tightening for _, caller in self._keys)

    def identify(self, authorization: str) -> Caller:
        """The caller of an `authorization` header (`Bearer <key>`); raises Unauthenticated."""
        if not self._keys:
            return ANYONE
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise Unauthenticated("authorization: send your key as 'Bearer <key>'")
        digest = _digest(token)
        found: Caller | None = None
        for known, caller in self._keys:  # all of them, so that time tells nothing
            if self._same(known, digest):
                found = caller
        if found is None:
            raise Unauthenticated("authorization: this key is not known")
        return found


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _caller(key: KeySettings, tenant: TenantSettings | None) -> Caller:
    stays = key.placement == "onprem" or key.spill is Spill.NEVER
    added = _added(key)
    if tenant is not None:
        stays = stays or tenant.placement == "onprem"
        added |= _added(tenant)
    return Caller(
        tenant=key.tenant,
        models=None if key.models is None else frozenset(key.models),
        zones=ONPREM_ONLY if stays else EVERYWHERE,
        latency_budget_s=None if key.latency_budget_ms is None else key.latency_budget_ms / 1000,
        tightening=added,
        pseudonymise=key.pseudonymise,
    )


def _added(settings: KeySettings | TenantSettings) -> Tightening:
    return Tightening(
        profile=settings.profile,
        types=frozenset(settings.restrict),
        threshold=1.0 if settings.threshold is None else settings.threshold,
    )
