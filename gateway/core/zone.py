"""Where endpoints stand. Not compiled: a native class cannot have objects of its own class."""

from __future__ import annotations

from typing import ClassVar, Final


def is_onprem(zone: str) -> bool:
    """By the name alone: whoever reads a record or a ledger may not have the settings."""
    return zone == "onprem" or zone.startswith("onprem-")


class Zone:
    """Compared by identity: `gateway.config.zones.named` makes them."""

    ONPREM: ClassVar[Zone]
    CLOUD: ClassVar[Zone]
    __slots__ = ("name", "onprem")

    def __init__(self, name: str) -> None:
        self.name, self.onprem = name, is_onprem(name)


Zone.ONPREM, Zone.CLOUD = Zone("onprem"), Zone("cloud")
ONPREM: Final = Zone.ONPREM
CLOUD: Final = Zone.CLOUD
