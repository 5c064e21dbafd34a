"""The callers of a settings file."""

from __future__ import annotations

from collections.abc import Callable

from gateway.auth import Callers
from gateway.auth.certificates import ConfiguredCertificates
from gateway.auth.issued import Clocks, IssuedKeys
from gateway.auth.key_store import KeyReader
from gateway.config import Settings
from gateway.core import ambient


def build(
    settings: Settings, on_refusal: Callable[[str, str], None] = lambda kind, why: None
) -> Callers:
    """Issued keys have been read once."""
    issued, tokens = None, None
    clocks = Clocks(ambient.clock(), ambient.wall_s)
    if settings.key_store is not None:
        operators = (o.issued_key for o in settings.console.operators.values())
        issued = IssuedKeys(
            KeyReader(settings.key_store), settings.tenants, clocks,
            [key for key in operators if key is not None],
        )  # fmt: skip
        issued.poll()
    if settings.issuers:
        # Imports joserfc and cryptography, which only a gateway with issuers needs.
        from gateway.auth.tokens import IssuerTokens

        tokens = IssuerTokens(settings.issuers, settings.tenants, clocks)
    certificates = None
    if settings.certificates:
        certificates = ConfiguredCertificates(settings.certificates, settings.tenants)
    return Callers(
        settings.keys,
        tenants=settings.tenants,
        issued=issued,
        tokens=tokens,
        certificates=certificates,
        on_refusal=on_refusal,
    )
