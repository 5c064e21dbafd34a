"""Which zones outside the premises the classes of data admit: fixed with the settings."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from gateway.config.zones import named
from gateway.config.zones.sections import CLEAR, ClassSettings, ZoneRule, ZoneSettings
from gateway.core.types import CLOUD, CLOUD_ONLY, NOWHERE, Zone, is_onprem

CATEGORY = "category:"
"""Begins the entity types that categories have."""


@dataclass(frozen=True, slots=True)
class DataClasses:
    """The classes of one version of the settings. A call that falls in several is admitted where
    each of them is."""

    clear: frozenset[Zone] = CLOUD_ONLY
    admitted: Mapping[str, frozenset[Zone]] = field(default_factory=dict)
    """By class, of those between clear and restricted."""
    by_type: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The classes that a finding of an entity type puts a call in."""

    @classmethod
    def from_settings(
        cls, zones: Mapping[str, ZoneSettings], classes: Mapping[str, ClassSettings]
    ) -> DataClasses:
        stated = {CLOUD.name: ZoneSettings(), **zones}
        outside = {name: its for name, its in stated.items() if not is_onprem(name)}

        def admits(rule: ZoneRule) -> frozenset[Zone]:
            return frozenset(named(name) for name, its in outside.items() if rule.admits(its, name))

        clear = admits(classes[CLEAR].admits if CLEAR in classes else ZoneRule())
        between = {name: its for name, its in classes.items() if name != CLEAR}
        by_type: dict[str, frozenset[str]] = {}
        for name, its in between.items():
            for kind in (*its.entities, *(f"{CATEGORY}{category}" for category in its.categories)):
                by_type[kind] = by_type.get(kind, frozenset()) | {name}
        # guard: M7.clear-bound admits(its.admits) & clear -> admits(its.admits)
        admitted = {name: admits(its.admits) & clear for name, its in between.items()}
        return cls(clear, admitted, by_type)

    def admission(self, names: Iterable[str]) -> tuple[str, frozenset[Zone]]:
        """The name and the zones of all these classes together; no zone for one that is unknown."""
        zones = self.clear
        ordered = sorted(names)
        for name in ordered:
            # guard: M7.intersection -> zones = self.admitted.get(name, NOWHERE)
            zones = zones & self.admitted.get(name, NOWHERE)
        return "+".join(ordered), zones

    def by_findings(
        self, types: Iterable[str], restricting: Container[str]
    ) -> frozenset[str] | None:
        """The classes of what was found. None: something of it is in no class, so that the call is
        restricted."""
        classes: frozenset[str] = frozenset()
        for kind in types:
            if kind in self.by_type:
                classes |= self.by_type[kind]
            elif kind in restricting:  # guard: M7.unclassed-type
                return None
        return classes or None
