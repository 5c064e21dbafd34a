"""The keys of the settings file, kept as digests."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import blake2b

from gateway.auth.caller import Caller, caller_from_scope
from gateway.auth.refusal import NotAccepted
from gateway.config import KeySettings, TenantSettings
from gateway.core import ambient

Same = Callable[[bytes, bytes], bool]
"""Compares in a time that does not tell how much of it matched."""

_DIGEST_BYTES, _PLACE_BYTES = 32, 16
_NOBODY = bytes(_DIGEST_BYTES)


class ConfiguredKeys:
    """Kept as digests under a key of this process, which nobody outside can steer. Found by the
    first half of one, then compared whole, in constant time, also where none was found."""

    def __init__(
        self,
        keys: Mapping[str, KeySettings],
        tenants: Mapping[str, TenantSettings],
        same: Same = hmac.compare_digest,
    ) -> None:
        self._same = same
        self._under = ambient.random_bytes(32)
        self._keys: dict[bytes, tuple[bytes, Caller]] = {}  # by the place of a digest
        for name, key in keys.items():
            secret = key.key.get_secret_value().strip().encode("utf-8", "surrogateescape")
            caller = caller_from_scope(name, key.tenant, key, tenants.get(key.tenant))
            caller = replace(caller, pseudonymise=key.pseudonymise)
            if key.mask_answers:
                tightening = replace(caller.tightening, answers_masked=True)
                caller = replace(caller, tightening=tightening)
            if secret:
                digest = blake2b(secret, key=self._under, digest_size=_DIGEST_BYTES).digest()
                self._keys[digest[:_PLACE_BYTES]] = digest, caller
        self.callers = tuple(caller for _, caller in self._keys.values())

    def find(self, token: str) -> Caller:
        """Raises NotAccepted."""
        secret = token.encode("utf-8", "surrogateescape")
        given = blake2b(secret, key=self._under, digest_size=_DIGEST_BYTES).digest()
        known = self._keys.get(given[:_PLACE_BYTES])
        # guard: B6.constant-time -> same = known is not None and known[0] == given
        same = self._same(_NOBODY if known is None else known[0], given)
        if known is None or not same:
            raise NotAccepted("unknown")
        return known[1]
