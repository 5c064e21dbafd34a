"""Mutual TLS between gateways: both sides show a certificate of the one authority, in the name of a
gateway of the cluster, and neither talks to anybody else."""

from __future__ import annotations

import ssl
from collections.abc import Collection, Mapping
from typing import Any

from gateway.config import ClusterSettings, ConfigError


def client_context(settings: ClusterSettings) -> ssl.SSLContext:
    """Who is called must be named in its certificate, whatever its address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks names and certificates
    return _prepared(context, settings)


def server_context(settings: ClusterSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    return _prepared(context, settings)


def peer_name(certificate: Mapping[str, Any] | None, peers: Collection[str]) -> str | None:
    """Which of the peers shows this checked certificate; None: none of them."""
    names = (certificate or {}).get("subjectAltName", ())
    return next((name for kind, name in names if kind == "DNS" and name in peers), None)


def _prepared(context: ssl.SSLContext, settings: ClusterSettings) -> ssl.SSLContext:
    """Made by hand: `ssl.create_default_context` writes keys to $SSLKEYLOGFILE."""
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_verify_locations(str(settings.ca_file))
    except (OSError, ssl.SSLError):
        raise ConfigError(
            f"cluster.ca_file: {settings.ca_file} is not a PEM file of certificates"
        ) from None
    try:
        context.load_cert_chain(str(settings.cert_file), str(settings.key_file), _no_passphrase)
    except (OSError, ssl.SSLError):
        raise ConfigError(
            f"cluster.cert_file, cluster.key_file: {settings.cert_file} and {settings.key_file} "
            "are not a certificate and its key in PEM, without a passphrase"
        ) from None
    return context


def _no_passphrase() -> bytes:
    """Else OpenSSL would ask for it on the terminal."""
    return b""
