"""Where calls go: scheme, host and port, and whom the certificate there must be of."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from gateway.protocols.tls import TlsFiles, client_context

Tls = ssl.SSLContext | Callable[[], ssl.SSLContext]
"""Of all connections, or asked for each new one."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port; with `tls` for https. `base` goes before every path. The certificate
    must be of `certified`, where that is another name than the host's."""

    host: str
    port: int
    tls: Tls | None = None
    base: str = ""
    certified: str = ""

    @classmethod
    def from_url(cls, url: str, tls: Tls | None = None) -> Origin:
        """Raises ValueError for a URL with credentials, a query or another scheme."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("url: must be http://host[:port] or https://host[:port]")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("url: must have neither credentials nor a query")
        secure = parts.scheme == "https"
        if secure and tls is None:
            tls = trusting()
        port = parts.port or (443 if secure else 80)
        return cls(parts.hostname, port, tls if secure else None, parts.path.rstrip("/"))

    @property
    def authority(self) -> bytes:
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = 443 if self.tls else 80
        return (host if self.port == usual else f"{host}:{self.port}").encode("ascii")


def trusting(ca_file: str | None = None) -> ssl.SSLContext:
    """TLS that checks names and certificates, against `ca_file` alone where one is given."""
    return client_context(TlsFiles("ca_file", ca_file=None if ca_file is None else Path(ca_file)))
