"""Who looks at the page, and who may act on it.

The page is of every tenant, so a caller's key opens nothing. With neither keys nor operators
configured (development mode) whoever sits at this machine may do everything, and nobody else: the
connection and the name that it asked for must be loopback, and no proxy may stand between, or a
page of any site could be made to look (DNS rebinding) or to act.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gateway.config import OperatorSettings, external_addresses
from gateway.core.errors import Forbidden, GatewayError, Unauthenticated

_PORT = re.compile(r":[0-9]*$")
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


@dataclass(frozen=True, slots=True)
class Operator:
    name: str
    operates: bool  # else only looks


IssuedIds = Callable[[str], tuple[str, ...]]
"""The ids of an issued key that is in use; empty for anything else."""

LOCAL = Operator("local", operates=True)


class Operators:
    def __init__(
        self,
        operators: Mapping[str, OperatorSettings],
        keys_configured: bool,
        issued_ids: IssuedIds = lambda token: (),
    ) -> None:
        self.follow(operators, keys_configured, issued_ids)

    def follow(
        self,
        operators: Mapping[str, OperatorSettings],
        keys_configured: bool,
        issued_ids: IssuedIds,
    ) -> None:
        """Know these and nobody else from now on, also of streams that are open."""
        named = {name: (Operator(name, o.may == "operate"), o) for name, o in operators.items()}
        self._keys = tuple(
            (_digest(o.key.get_secret_value().strip()), operator)
            for operator, o in named.values()
            if o.key is not None
        )
        self._issued = {o.issued_key: operator for operator, o in named.values() if o.issued_key}
        self._issued_ids = issued_ids
        # guard: P2.caller-keys-only minus 2
        self.development = not operators and not keys_configured

    def identify(self, headers: Mapping[str, str], peer: str | None) -> Operator:
        """Raises Unauthenticated or Unverifiable, or Forbidden where no key could help."""
        if self.development:
            _check_local(headers, peer)
            return LOCAL
        if not self._keys and not self._issued:
            raise Forbidden("callers have keys here and nobody may look: name console.operators")
        scheme, _, token = headers.get("authorization", "").partition(" ")
        digest = _digest(token.strip())
        match: Operator | None = None
        for known, operator in self._keys:  # all of them, so that time tells nothing
            if hmac.compare_digest(known, digest):
                match = operator
        if match is None and self._issued:
            ids = self._issued_ids(token.strip())
            match = next((self._issued[i] for i in ids if i in self._issued), None)
        if match is None or scheme.lower() != "bearer" or not token.strip():
            raise Unauthenticated("authorization: send an operator's key as 'Bearer <key>'")
        return match

    def knows(self, headers: Mapping[str, str], peer: str | None) -> bool:
        """Whether an operator asks."""
        try:
            self.identify(headers, peer)
        except GatewayError:
            return False
        return True

    def acting(self, headers: Mapping[str, str], peer: str | None) -> Operator:
        """Of a request that changes something; it must come from the page itself."""
        known = self.identify(headers, peer)
        if not known.operates:  # guard: P2.viewer-role
            raise Forbidden("this operator may look and not act (console.operators: may: operate)")
        if not _from_page(headers):
            raise Forbidden("this request does not come from the page of this gateway")
        return known


def _check_local(headers: Mapping[str, str], peer: str | None) -> None:
    host = _PORT.sub("", headers.get("host", ""))
    # guard: P2.local-proxy -> straight = True
    straight = not any(name in headers for name in _FORWARDED)
    # guard: P2.remote-address all(map(_loopback, (peer, host))) -> _loopback(host)
    # guard: P2.host-name all(map(_loopback, (peer, host))) -> _loopback(peer)
    if peer is None or not straight or not all(map(_loopback, (peer, host))):
        raise Forbidden(
            "without operators the page is for this machine alone, by a loopback address and "
            "without a proxy; name console.operators to look from elsewhere"
        )


def _loopback(host: str) -> bool:
    return external_addresses.is_loopback(host.strip("[]"))


def _from_page(headers: Mapping[str, str]) -> bool:
    """A form or a script of another site cannot send JSON here without asking first, which is never
    granted; browsers say where a request comes from, besides."""
    json = headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"
    origin = headers.get("origin")
    own = origin is None or origin.partition("://")[2] == headers.get("host")
    # guard: P2.form-content minus 1
    # guard: P2.cross-site minus 2
    return json and own and headers.get("sec-fetch-site", "same-origin") == "same-origin"


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
