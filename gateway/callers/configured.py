"""The keys of the settings file, kept as digests."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import replace

from gateway import ambient
from gateway.callers.caller import Caller, of_scope
from gateway.callers.key_form import digest_of
from gateway.callers.refusal import NotAccepted
from gateway.config import KeySettings, TenantSettings

Same = Callable[[bytes, bytes], bool]
"""Compares in a time that does not tell how much of it matched."""

_NOBODY = bytes(32)


class ConfiguredKeys:
    """Found by a digest under a key of this process, which nobody outside can steer towards one
    that is there; then compared whole, in constant time, also where none was found."""

    def __init__(
        self,
        keys: Mapping[str, KeySettings],
        tenants: Mapping[str, TenantSettings],
        same: Same = hmac.compare_digest,
    ) -> None:
        self._same = same
        self._under = ambient.random_bytes(32)
        self._keys: dict[bytes, tuple[bytes, Caller]] = {}
        for name, key in keys.items():
            secret = key.key.get_secret_value().strip()
            caller = of_scope(name, key.tenant, key, tenants.get(key.tenant))
            caller = replace(caller, pseudonymise=key.pseudonymise)
            if secret:
                self._keys[self._place(secret)] = digest_of(secret), caller
        self.callers = tuple(caller for _, caller in self._keys.values())

    def find(self, token: str) -> Caller:
        """Raises NotAccepted."""
        known = self._keys.get(self._place(token))
        digest = _NOBODY if known is None else known[0]
        same = self._same(digest, digest_of(token))
        if known is None or not same:
            raise NotAccepted("unknown")
        return known[1]

    def _place(self, token: str) -> bytes:
        given = token.encode("utf-8", "surrogateescape")
        return hashlib.blake2b(given, key=self._under, digest_size=16).digest()
