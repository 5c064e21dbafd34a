"""What the settings say of zones, and of classes of data between clear and restricted."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Annotated, Final

from pydantic import Field

from gateway.config.section import NotNegative, Section
from gateway.config.zones import ZoneName
from gateway.core import ambient

EU: Final = "EU"
_MEMBERS = frozenset(
    (  # noqa: SIM905 - a line instead of ten
        "AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IT LT LU LV MT NL PL PT RO SE SI SK"
    ).split()
)
ALWAYS_RESTRICTED: Final = frozenset({"HIDDEN_TEXT", "DENY_LIST"})
CLEAR, RESTRICTED = "clear", "restricted"  # classes that are built in

Country = Annotated[str, Field(pattern="^[A-Z]{2}$")]
Region = Annotated[str, Field(pattern="^[a-z][a-z0-9-]{1,40}$")]


class ZoneSettings(Section):
    """One zone: where it is, who operates it and what its contract says. What is not stated is
    taken for the worst. One whose name begins with `onprem-` is on the premises: every class
    admits it."""

    regions: tuple[Region, ...] = Field(
        (), description="as providers call them, such as eu-central-1; its hosts name no other"
    )
    countries: tuple[Country, ...] = Field(
        (), description="ISO 3166, or EU: all that data may be in"
    )
    operator: str = Field("", max_length=100)
    retention_days: NotNegative | None = Field(
        None, description="for which the operator keeps calls; absent: not known"
    )
    training: bool = Field(True, description="the operator may train on calls")
    agreement: date | None = Field(None, description="of the data processing agreement")
    attested: bool = Field(False, description="its servers prove what they run")


class ZoneRule(Section):
    """Which zones outside the premises are admitted: those for which all of this holds."""

    zones: tuple[ZoneName, ...] | None = Field(None, description="these alone")
    regions: tuple[Region, ...] | None = Field(None, description="all of its regions are of these")
    countries: tuple[Country, ...] | None = Field(
        None, description="all of its countries are of these"
    )
    operators: tuple[str, ...] | None = None
    retention_days: NotNegative | None = Field(None, description="at most")
    training: bool = Field(True, description="false: only where nobody trains on calls")
    agreement: bool = Field(False, description="only with a data processing agreement")
    attested: bool = Field(False, description="only where it is")

    def admits(self, zone: ZoneSettings, name: str) -> bool:
        retention_days = zone.retention_days
        return (
            (self.zones is None or name in self.zones)
            and _within(zone.regions, self.regions)
            and _within(
                all_countries(zone.countries),
                None if self.countries is None else all_countries(self.countries),
            )
            and (self.operators is None or zone.operator in self.operators)
            and (
                self.retention_days is None
                or (retention_days is not None and retention_days <= self.retention_days)
            )
            and (self.training or not zone.training)
            and (not self.agreement or _signed(zone.agreement))
            and (not self.attested or zone.attested)
        )


class ClassSettings(Section):
    """One class of data between clear and restricted: what puts a call there, beside a label, and
    the zones outside the premises that it admits. `clear` has a rule alone."""

    entities: tuple[str, ...] = Field((), description="entity types, which restrict from then on")
    categories: tuple[str, ...] = Field((), description="names under classify.categories")
    admits: ZoneRule = Field(description="an empty rule admits every zone")


def all_countries(stated: Iterable[str]) -> frozenset[str]:
    """With the members of the EU in its place."""
    some = frozenset(stated)
    return (some - {EU}) | _MEMBERS if EU in some else some


def _within(some: frozenset[str] | tuple[str, ...], allowed: Iterable[str] | None) -> bool:
    """Whether all are allowed; of a zone that names none nothing is known."""
    return allowed is None or (bool(some) and set(some) <= set(allowed))


def _signed(agreement: date | None) -> bool:
    today = datetime.fromtimestamp(ambient.wall_s(), UTC).date()
    return agreement is not None and agreement <= today
