"""Who calls: from the credential alone, never from a header that the caller may choose."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gateway.config import KeySettings
from gateway.errors import Unauthenticated
from gateway.types import EVERYWHERE, ONPREM_ONLY, Spill, Zone


@dataclass(frozen=True, slots=True)
class Caller:
    """What a credential allows."""

    tenant: str
    models: frozenset[str] | None = None  # None: every model
    zones: frozenset[Zone] = EVERYWHERE
    latency_budget_s: float | None = None

    def may_use(self, model: str) -> bool:
        return self.models is None or model in self.models


ANYONE = Caller(tenant="anonymous")


Same = Callable[[bytes, bytes], bool]
"""Compares in a time that does not tell how much of it matched."""


class Callers:
    """The configured keys, kept as SHA-256 digests and compared in constant time."""

    def __init__(self, keys: Mapping[str, KeySettings], same: Same = hmac.compare_digest) -> None:
        self._same = same
        self._keys = tuple(
            (_digest(k.key.get_secret_value().strip()), _caller(k)) for k in keys.values()
        )

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


def _caller(key: KeySettings) -> Caller:
    stays = key.placement == "onprem" or key.spill is Spill.NEVER
    return Caller(
        tenant=key.tenant,
        models=None if key.models is None else frozenset(key.models),
        zones=ONPREM_ONLY if stays else EVERYWHERE,
        latency_budget_s=None if key.latency_budget_ms is None else key.latency_budget_ms / 1000,
    )
