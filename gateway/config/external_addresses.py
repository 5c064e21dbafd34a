"""Which addresses could stand outside the premises (BEHAVIOURS M6).

Every name under a public suffix could, for it leads wherever its DNS says, and so could every
address that the internet routes. The zone is what the settings say; this asks once more where that
would be a slip, and refuses spellings that programs read differently.
"""

from __future__ import annotations

import functools
import ipaddress
import re
import socket
from typing import Any
from urllib.parse import urlsplit

_HOST = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_.])?"
_URL = re.compile(rf"https?://(?:{_HOST}|\[[0-9A-Fa-f:.]+\])(?::[0-9]{{1,5}})?(?:/[!-~]*)?", re.I)
_TARGET = re.compile(rf"(?:{_HOST}|\[[0-9A-Fa-f:.]+\]):[0-9]{{1,5}}")
_NUMBERS = re.compile(r"(?:0x[0-9a-f]+|[0-9]+)(?:\.(?:0x[0-9a-f]+|[0-9]+)){0,3}")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")

_CLOUD_MACHINES = re.compile(
    r"(?:^|\.)(?:(?:ec2|compute|google)\.internal|c\.[a-z0-9.:-]+\.internal)"
)
"""Names that instances have in the private DNS of a cloud (AWS, Google)."""
_PRIVATE_SUFFIXES = frozenset({"home.arpa"})  # RFC 8375; in the public suffix list all the same


def url_host(url: str) -> str:
    """Raises ValueError for a URL whose host is not beyond doubt."""
    if "@" in url:
        raise ValueError("must not carry a user name; credentials go into api_key or headers")
    if not _URL.fullmatch(url):
        raise ValueError(
            "must be http:// or https://, a host in ASCII, and at most a port and a path"
        )
    if re.search(r"[\\?#]", url):
        raise ValueError("must end with its path: no query, no fragment, no backslash")
    parts = urlsplit(url)
    _port(parts.port)
    return parts.hostname or ""


def target_host(target: str) -> str:
    """The host of gRPC's host:port. Raises ValueError for gRPC's other forms (`dns:///...`,
    `ipv4:...`), whose first word would be taken for the host."""
    if not _TARGET.fullmatch(target):
        raise ValueError("must be host:port")
    parts = urlsplit(f"//{target}")
    _port(parts.port)
    return parts.hostname or ""


def _port(port: int | None) -> None:
    if port == 0:
        raise ValueError("port 0 is no place")


def could_be_outside(host: str) -> bool:
    host = host.rstrip(".").lower()
    address = _address(host)
    if address is not None:
        return _leads_outside(address)
    return _CLOUD_MACHINES.search(host) is not None or _public(host)


def _public(host: str) -> bool:
    """Whether a name stands under a suffix of the public DNS, as of the list in tldextract."""
    if "." not in host:
        return False
    parts = _public_suffixes()(host)
    return bool(parts.domain and parts.suffix) and parts.suffix not in _PRIVATE_SUFFIXES


@functools.cache
def _public_suffixes() -> Any:
    import tldextract  # takes 0.1 s, and most settings name no host with a dot

    return tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Also of the forms that resolvers take: 134744072, 0x8.8.8.8, 8.8."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    if not _NUMBERS.fullmatch(host):
        return None
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except OSError:
        return None


def _leads_outside(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return inner.is_global
    return address.is_global


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
