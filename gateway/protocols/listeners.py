"""Sockets of the gateway's own listeners."""

from __future__ import annotations

import os
import socket

from gateway.config import ConfigError, Settings
from gateway.protocols.tls import TlsFiles


def listener_files(settings: Settings) -> TlsFiles | None:
    tls = settings.listen.tls
    if tls is None:
        return None
    return TlsFiles("listen.tls", tls.cert_file, tls.key_file, tls.client_ca_file)


def bound(
    host: str, port: int, key: str = "listen.http_port", shared: bool = False
) -> socket.socket:
    """A socket to listen on; raises ConfigError that says which address is taken. `shared`: with
    other sockets of this user that are, too; the system gives each its part of the callers."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind((host, port))
    except OSError as exc:
        listener.close()
        raise ConfigError(
            f"{key}: cannot listen on {host}:{port}: {exc.strerror}. Stop what listens there, or "
            "take another port (0: a free one)"
        ) from exc
    listener.set_inheritable(False)
    return listener


def refuse_key_logging() -> None:
    """TLS keys in a file would open every connection of the gateway to whoever reads it."""
    if "SSLKEYLOGFILE" in os.environ and os.environ.get("SPILLWAY_TESTING") != "1":
        raise ConfigError("SSLKEYLOGFILE is set: unset it, or the TLS keys are written to a file")
