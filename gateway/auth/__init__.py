"""Who calls: from the credential alone, never from a header that the caller may choose.

A credential is a key of the settings, a key that `spillway keys` issued, a token of an OIDC issuer,
or the certificate of a TLS connection. What is sent in `authorization` decides who calls; where a
known certificate comes with it, its floors and limits hold as well.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from gateway.auth.caller import ANYONE, Caller
from gateway.auth.configured import ConfiguredKeys, Same
from gateway.auth.issued import IssuedKeys
from gateway.auth.key_form import PREFIX
from gateway.auth.refusal import NotAccepted, refused
from gateway.config import KeySettings, TenantSettings
from gateway.core.errors import GatewayError, Unauthenticated, Unverifiable
from gateway.core.tasks import run_together
from gateway.core.types import Tightening

__all__ = ["ANYONE", "Caller", "Callers"]

_RETRY_S = 1.0


class Tokens(Protocol):
    """Tokens of the configured issuers."""

    def find(self, token: str) -> Caller:
        """Raises NotAccepted."""
        ...

    def tightenings(self) -> frozenset[Tightening]: ...
    async def fetched(self) -> None: ...
    def follow(self, before: Any) -> None: ...
    async def run(self) -> None: ...


class Certificates(Protocol):
    """Callers by the names in the certificate that a TLS connection was opened with."""

    def find(self, names: Sequence[str]) -> Caller | None: ...
    def tightenings(self) -> frozenset[Tightening]: ...


class Callers:
    def __init__(
        self,
        keys: Mapping[str, KeySettings],
        same: Same = hmac.compare_digest,
        tenants: Mapping[str, TenantSettings] | None = None,
        *,
        issued: IssuedKeys | None = None,
        tokens: Tokens | None = None,
        certificates: Certificates | None = None,
        on_refusal: Callable[[str, str], None] = lambda kind, why: None,
    ) -> None:
        self._configured = ConfiguredKeys(keys, tenants or {}, same)
        self._issued = issued
        self._tokens = tokens
        self._certificates = certificates
        self._on_refusal = on_refusal
        self._keys = "key", self._configured.find
        self._only_keys = issued is None and tokens is None
        self.lasting = self._only_keys  # guard: B6.settings-key self._only_keys -> True
        """Whether a credential that they know is known for as long as they are. Issued keys are
        revoked, and tokens expire."""
        # guard: M5.empty-store minus 2
        self._open = not keys and issued is None and tokens is None and certificates is None

    @property
    def anybody(self) -> bool:
        """Development mode: no credential of any kind is configured."""
        return self._open

    @property
    def knows_certificates(self) -> bool:
        return self._certificates is not None

    def tightenings(self) -> frozenset[Tightening]:
        """All that any of them adds to what restricts: each must be looked for in its calls. A
        type that only an issued key names is not among it: there may be no such type, and a
        gateway that was asked to look for it would not start. Its calls stay."""
        tightenings = frozenset(caller.tightening for caller in self._configured.callers)
        for source in (self._tokens, self._certificates):
            tightenings |= frozenset() if source is None else source.tightenings()
        if self._issued is not None:
            stated = frozenset[str]().union(*(added.types for added in tightenings))
            issued = self._issued.tightenings()
            tightenings |= {replace(added, types=added.types & stated) for added in issued}
        return tightenings

    def scans_are_built(self, looked_for: Callable[[Tightening], bool]) -> None:
        """A key that is issued from now on may add what nobody looks for: its calls stay."""
        if self._issued is not None:
            self._issued.looked_for = looked_for

    def follow(self, before: Callers) -> None:
        """What those of before have fetched need not be fetched again."""
        if self._tokens is not None and before._tokens is not None:
            self._tokens.follow(before._tokens)

    async def fetched(self) -> None:
        """Returns once whatever is asked of others has been answered."""
        if self._tokens is not None:
            await self._tokens.fetched()

    async def run(self) -> None:
        """Keeps up with what changes outside, until it is cancelled."""
        sources = (self._issued, self._tokens)
        await run_together(*(source.run() for source in sources if source is not None))

    def identify(self, authorization: str, names: Sequence[str] = ()) -> Caller:
        """The caller of an `authorization` header (`Bearer <key or token>`), over a connection
        whose certificate has these names. Raises Unauthenticated, Unverifiable."""
        if self._open:
            return ANYONE
        certificates = self._certificates
        peer = None if certificates is None or not names else certificates.find(names)
        if not authorization and peer is not None:
            return peer
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if not token or (scheme != "Bearer" and scheme.lower() != "bearer"):
            # guard: M5.no-credentials -> return ANYONE
            self._on_refusal("certificate" if names else "none", "absent")
            raise Unauthenticated("authorization: send your key as 'Bearer <key>'")
        kind, find = self._keys if self._only_keys else self._source(token)
        try:
            caller = find(token)
        except NotAccepted as exc:
            # guard: M5.unknown-caller -> return ANYONE
            raise self._refusal(kind, exc.why) from None
        # guard: M5.certificate-floors -> return caller
        return caller if peer is None else caller.within(peer)

    def issued_ids(self, token: str) -> tuple[str, ...]:
        """Of an issued key in use, and of those that it was rotated from; empty if it is none.
        Raises Unverifiable."""
        if self._issued is None or not token.startswith(PREFIX):
            return ()
        try:
            return self._issued.ids(token)
        except NotAccepted as exc:
            if exc.why == "unverifiable":
                raise _unverifiable() from None
            return ()

    def _source(self, token: str) -> tuple[str, Callable[[str], Caller]]:
        """By the form of what was sent. A key of the settings may have any."""
        if self._issued is not None and token.startswith(PREFIX):
            return "issued", self._issued.find
        if self._tokens is not None and token.startswith("eyJ") and token.count(".") == 2:
            return "token", self._tokens.find
        return self._keys

    def _refusal(self, kind: str, why: str) -> GatewayError:
        self._on_refusal(kind, why)
        if why == "unverifiable":
            return _unverifiable()
        return refused()


def _unverifiable() -> Unverifiable:
    return Unverifiable(
        "this key or token cannot be checked at the moment; send it again", retry_after_s=_RETRY_S
    )
