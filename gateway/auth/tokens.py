"""Callers by the tokens (JWT, RFC 7519) of the configured OIDC issuers.

The issuer is the one that the token names, and must be configured; algorithms, audience and what
it may say are that issuer's alone. A token that was verified once is remembered by its digest until
it expires or the issuer's keys change.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.auth import jws
from gateway.auth.caller import Caller, caller_from_scope
from gateway.auth.issued import Clocks
from gateway.auth.issuer_keys import Fetched, IssuerKeys
from gateway.auth.refusal import NotAccepted
from gateway.config import IssuerSettings, TenantSettings
from gateway.config.section import is_name
from gateway.core.types import Tightening

_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class _Verified:
    issuer: _Issuer
    by: Fetched
    expires_s: float
    caller: Caller


class IssuerTokens:
    """All issuers."""

    def __init__(
        self,
        issuers: Mapping[str, IssuerSettings],
        tenants: Mapping[str, TenantSettings],
        clocks: Clocks,
    ) -> None:
        self._clocks = clocks
        self._most_remembered = _REMEMBERED
        made = (_Issuer(name, its, tenants, clocks) for name, its in issuers.items())
        self._by_issuer = {issuer.settings.issuer: issuer for issuer in made}
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()

    def find(self, text: str) -> Caller:
        """Raises NotAccepted."""
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
        known = self._verified.get(digest)
        if known is not None:
            # guard: B6.cached-expiry minus 2
            # guard: B6.cached-keys -> if known.issuer.keys.current and self._clocks.wall_s() <
            #   known.expires_s:
            if known.issuer.keys.current is known.by and self._clocks.wall_s() < known.expires_s:
                self._verified.move_to_end(digest)
                return known.caller
            del self._verified[digest]
        verified = self._verify(text)
        self._verified[digest] = verified
        if len(self._verified) > self._most_remembered:
            self._verified.popitem(last=False)
        return verified.caller

    async def fetched(self) -> None:
        """Returns once each issuer's keys have been fetched."""
        for issuer in self._by_issuer.values():
            await issuer.keys.fetched.wait()

    def follow(self, before: IssuerTokens) -> None:
        """Issuers that have not changed need not be asked before their tokens can be read."""
        for name, issuer in self._by_issuer.items():
            if name in before._by_issuer:
                issuer.keys.follow(before._by_issuer[name].keys)

    def tightenings(self) -> frozenset[Tightening]:
        issuers = self._by_issuer.values()
        return frozenset(added for issuer in issuers for added in issuer.tightenings())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for issuer in self._by_issuer.values():
                group.create_task(issuer.keys.run())

    def _verify(self, text: str) -> _Verified:
        token = jws.read(text)
        claims = token.claims()
        named = claims.get("iss")
        issuer = self._by_issuer.get(named) if isinstance(named, str) else None
        if issuer is None:
            raise NotAccepted("issuer")
        by = issuer.keys.verify(token)
        expires_s = issuer.check(claims, self._clocks.wall_s())
        return _Verified(issuer, by, expires_s, issuer.caller(claims))


class _Issuer:
    def __init__(
        self,
        name: str,
        settings: IssuerSettings,
        tenants: Mapping[str, TenantSettings],
        clocks: Clocks,
    ) -> None:
        self.name = name
        self.settings = settings
        self.keys = IssuerKeys(name, settings, clocks.monotonic_s)
        self._tenants = tenants

    def check(self, claims: Mapping[str, Any], now_s: float) -> float:
        """When it expires. Raises NotAccepted."""
        settings = self.settings
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if not any(isinstance(a, str) and a in settings.audience for a in audiences):
            raise NotAccepted("audience")  # guard: B6.audience
        expires_s = _time(claims, "exp")
        if expires_s is None:
            raise NotAccepted("claims")
        if now_s >= expires_s + settings.leeway_s:  # guard: B6.expiry
            raise NotAccepted("expired")
        for claim in ("nbf", "iat"):
            starts_s = _time(claims, claim)
            if starts_s is not None and starts_s > now_s + settings.leeway_s:
                raise NotAccepted("not_yet_valid")  # guard: B6.not-before
        return expires_s + settings.leeway_s

    def caller(self, claims: Mapping[str, Any]) -> Caller:
        """Raises NotAccepted."""
        settings = self.settings
        tenant = claims.get(settings.tenant_claim)
        if not isinstance(tenant, str) or not is_name(tenant):
            raise NotAccepted("claims")
        # guard: M5.issuer-tenants
        if settings.tenants is not None and tenant not in settings.tenants:
            raise NotAccepted("claims")
        caller = caller_from_scope(
            f"{self.name}:{tenant}", tenant, settings, self._tenants.get(tenant)
        )
        if settings.models_by_scope is None:
            return caller
        granted = frozenset(
            model
            for scope in _scopes(claims.get(settings.scope_claim))
            for model in settings.models_by_scope.get(scope, ())
        )
        # guard: M5.scope-models -> return caller
        return caller.within(Caller(tenant, models=granted, pseudonymise=True))

    def tightenings(self) -> list[Tightening]:
        floors = (None, *self._tenants.values())
        return [
            caller_from_scope(self.name, "", self.settings, floor).tightening for floor in floors
        ]


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    """Seconds since 1970. Raises NotAccepted for what is no time."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotAccepted("claims")
    return float(value)


def _scopes(claim: Any) -> list[str]:
    """Words in one string (RFC 8693), or a list of them, as some issuers have it."""
    if isinstance(claim, str):
        return claim.split()
    return [s for s in claim if isinstance(s, str)] if isinstance(claim, list) else []
