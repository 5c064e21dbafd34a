"""The callers of a settings file."""

from __future__ import annotations

from collections.abc import Callable

from gateway import ambient
from gateway.callers import Callers
from gateway.callers.issued import Clocks, IssuedKeys
from gateway.callers.key_store import KeyReader
from gateway.config import Settings


def build(
    settings: Settings, refusal_told: Callable[[str, str], None] = lambda kind, why: None
) -> Callers:
    """Issued keys have been read once."""
    issued = None
    if settings.key_store is not None:
        clocks = Clocks(ambient.monotonic_s, ambient.wall_s)
        issued = IssuedKeys(KeyReader(settings.key_store), settings.tenants, clocks)
        issued.look()
    return Callers(
        settings.keys, tenants=settings.tenants, issued=issued, refusal_told=refusal_told
    )
