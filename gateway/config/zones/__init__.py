"""Zones: where endpoints stand, under which contract, and which data each may have.

`sections` are their settings and those of the classes of data, `admission` says which zones a class
admits, `addresses` which zone an address contradicts. `onprem` and `cloud` are built in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Annotated, Any, Final

from pydantic import (
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
)

from gateway.config.section import known
from gateway.core.types import CLOUD, EVERYWHERE, ONPREM, ONPREM_ONLY, Zone

CONTEXT: Final = "zones"
"""Where the context of a validation has the names of the file's zones."""
RESERVED: Final = frozenset({"none", "refused", "unknown", "any"})
"""Words that stand where a zone's name does, in records, metrics and headers."""
ZoneName = Annotated[str, Field(pattern="^[a-z0-9][a-z0-9._-]{0,62}$")]

_MADE = {zone.name: zone for zone in (ONPREM, CLOUD)}  # as many as settings here have named


def named(name: str) -> Zone:
    """The one object for it, whichever version of the settings names it: doors and endpoints of
    several versions have it in common."""
    return _MADE.setdefault(name, Zone(name))


class Zones:
    """All zones of one version of the settings."""

    def __init__(self, stated: Iterable[str] = ()) -> None:
        self.by_name = {name: named(name) for name in (ONPREM.name, CLOUD.name, *stated)}
        every = frozenset(self.by_name.values())
        self.everywhere = EVERYWHERE if every == EVERYWHERE else every
        onprem = frozenset(zone for zone in every if zone.onprem)
        self.onprem = ONPREM_ONLY if onprem == ONPREM_ONLY else onprem

    def allowed(self, stays: bool, names: Collection[str] | None) -> frozenset[Zone]:
        """Those of these names, without any outside the premises where the call `stays`."""
        zones = self.onprem if stays else self.everywhere
        if names is None:
            return zones
        return frozenset(zone for zone in zones if zone.name in names)


def _named(value: Any, info: ValidationInfo) -> Any:
    """Of a file, which has the zones that it states in its context."""
    if isinstance(value, Zone):
        return value
    if not isinstance(value, str):
        raise ValueError("must be the name of one zone")
    stated = (ONPREM.name, CLOUD.name, *((info.context or {}).get(CONTEXT) or ()))
    if info.context is not None and value not in stated:
        raise ValueError(f"no zone {value!r}; {known(stated)}")
    return named(value)


ZoneReference = Annotated[
    Zone,
    PlainValidator(_named),
    PlainSerializer(lambda zone: zone.name, return_type=str),
    WithJsonSchema({"type": "string", "examples": [ONPREM.name, CLOUD.name]}),
]
"""The zone of an endpoint, by its name."""
