"""Whose each on-prem server is by right.

The settings say it now; a store that gateways share can say it later, behind the same port.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gateway.config import ClusterSettings
from gateway.core.types import endpoint_name


class Ownership(Protocol):
    @property
    def gateways(self) -> Sequence[str]:
        """All of them, in order of succession."""
        ...

    @property
    def owners(self) -> Sequence[str]:
        """Those of them that own any server."""
        ...

    def owner(self, server: str) -> str | None:
        """None: every gateway has a server of that name to itself."""
        ...


class Declared:
    """As the settings say."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._owners = {
            server: name for name, gateway in settings.gateways.items() for server in gateway.owns
        }
        self.gateways: Sequence[str] = tuple(settings.gateways)
        self.owners: Sequence[str] = tuple(n for n, g in settings.gateways.items() if g.owns)

    def owner(self, server: str) -> str | None:
        return self._owners.get(endpoint_name(server))


def single_owner(
    ownership: Ownership, servers: Sequence[str]
) -> tuple[str | None, tuple[str, ...]]:
    """The owner of the first of these servers by name, and those of them that are its own. Only of
    a model that the settings do not name can servers have several owners; every gateway then leaves
    out the same ones, in whichever order it came to know them."""
    owner = ownership.owner(min(servers)) if servers else None
    return owner, tuple(s for s in servers if ownership.owner(s) == owner)
