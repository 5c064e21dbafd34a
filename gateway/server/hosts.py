"""The names that this gateway goes by, where whoever reaches it may call.

A page in a browser on this machine reaches the loopback too. If its own name leads there all at
once (DNS rebinding), its requests say that name in `host`; and what it sends across, in `origin`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from gateway.core.errors import RequestRejected

_ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})


class HostNotAllowed(RequestRejected):
    http_status, grpc_status, reason = 421, "FAILED_PRECONDITION", "host_not_allowed"


class OriginNotAllowed(RequestRejected):
    http_status, grpc_status, reason = 403, "PERMISSION_DENIED", "origin_not_allowed"


class AllowedHosts:
    def __init__(
        self, listen_host: str, allowed: Iterable[str], origins: Iterable[str] = ()
    ) -> None:
        """`allowed`: names and addresses besides the loopback's and the listener's, no ports;
        `origins`: of pages that may call all the same."""
        self._origins = frozenset(origins)
        self._names = {_plain(name) for name in (listen_host, *allowed)} - _ANY_ADDRESS

    def check(self, host: str, origin: str | None, local: str | None) -> None:
        """`host` and `origin` as the head has them, nothing where it has no host; `local`: the
        address at this end of the connection. Raises HostNotAllowed, OriginNotAllowed."""
        if host and not self._is_ours(_without_port(host), local):
            raise HostNotAllowed(
                "host: is none of this gateway's names; without keys it answers to loopback names "
                "and to those of listen.allowed_hosts"
            )
        if origin is None or origin in self._origins:
            return
        if not self._is_ours(_origin_host(origin), local):
            raise OriginNotAllowed("origin: pages of other sites may not call without a key")

    def _is_ours(self, name: str, local: str | None) -> bool:
        name = _plain(name)
        if name in self._names or name == "localhost" or name.endswith(".localhost"):
            return True
        address = _address(name)
        if address is None:
            return False
        return address.is_loopback or (local is not None and address == _address(local))


def _plain(name: str) -> str:
    return name.strip("[]").rstrip(".").lower()


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0]
    return host.partition(":")[0]


def _origin_host(origin: str) -> str:
    try:
        return urlsplit(origin).hostname or ""
    except ValueError:
        return ""


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
