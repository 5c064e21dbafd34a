"""What must hold between zones, classes, and the sections that name them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from gateway.config.section import Contradiction, known
from gateway.config.sections.callers import ScopeSettings, TenantSettings
from gateway.config.sections.classify import ClassifySettings
from gateway.config.sections.endpoints import EndpointSettings, TlsSettings
from gateway.config.sections.models import ModelSettings
from gateway.config.zones import RESERVED, Zones
from gateway.config.zones.addresses import countries, profile_refusal, refusal, regions
from gateway.config.zones.sections import (
    ALWAYS_RESTRICTED,
    CLEAR,
    RESTRICTED,
    ClassSettings,
    ZoneSettings,
)
from gateway.core.types import CLOUD, ONPREM
from gateway.core.yaml_document import Where


def check(
    stated: Mapping[str, ZoneSettings],
    tls: TlsSettings,
    endpoints: Mapping[str, EndpointSettings],
    models: Mapping[str, ModelSettings],
    classify: ClassifySettings,
    scopes: Mapping[tuple[str, str], ScopeSettings | TenantSettings],
) -> None:
    """Raises Contradiction, from the whole file on."""
    _check_zones(stated)
    zones = Zones(stated).by_name
    for name in tls.zones:
        if name not in stated:
            raise Contradiction(("tls", "zones", name), f"no such zone; {known(stated)}")
    for name, its in classify.classes.items():
        _check_class(name, its, zones, classify)
    labels = [RESTRICTED, *(name for name in classify.classes if name != CLEAR)]
    for where, scope in scopes.items():
        _check_label((*where, "label"), scope.label, labels)
        _check_names((*where, "zones"), scope.zones, zones)
    for name, model in models.items():
        _check_label(("models", name, "label"), model.label, labels)
    authorities = _authorities(tls)
    for name, endpoint in endpoints.items():
        _check_names(("endpoints", name, "zone"), (endpoint.zone.name,), zones)
        _check_authority(name, endpoint, authorities)
        if (its_zone := stated.get(endpoint.zone.name)) is not None:
            _check_regions(name, endpoint, its_zone)
            _check_profiles(name, endpoint, its_zone, models)


def _check_label(where: Where, label: str | None, labels: Collection[str]) -> None:
    if label is not None and label not in labels:
        raise Contradiction(where, f"no class {label!r}; {known(labels)}")


def _check_names(where: Where, names: Iterable[str] | None, zones: Collection[str]) -> None:
    for name in names or ():
        if name not in zones:
            raise Contradiction(where, f"no zone {name!r}; {known(zones)}")


def _check_zones(zones: Mapping[str, ZoneSettings]) -> None:
    for name, zone in zones.items():
        if name in RESERVED:
            raise Contradiction(("zones", name), "is a word of records and headers; take another")
        if name == ONPREM.name:
            raise Contradiction(("zones", name), "is built in; a zone beside it is onprem-NAME")
        apart = ZoneSettings(countries=zone.countries)
        for region in sorted(countries().keys() & zone.regions):
            if why := refusal(apart, region):
                raise Contradiction(("zones", name, "regions"), f"{region} {why}")


def _check_class(
    name: str, its: ClassSettings, zones: Collection[str], classify: ClassifySettings
) -> None:
    where: Where = ("classify", "classes", name)
    # guard: M7.restricted-rule
    if name == RESTRICTED:
        raise Contradiction(where, "admits zones on the premises alone, whatever is said; drop it")
    if name == CLEAR and (its.entities or its.categories):
        raise Contradiction(where, "has what nothing was found in; it takes a rule alone")
    for kind in its.entities:
        if kind in ALWAYS_RESTRICTED:  # guard: M7.always-restricted
            raise Contradiction((*where, "entities"), f"{kind} restricts whatever is said; drop it")
    for category in its.categories:
        stated = classify.categories.get(category)
        if stated is None or stated.action != "restrict":
            raise Contradiction((*where, "categories"), f"no category {category!r} that restricts")
    _check_names((*where, "admits", "zones"), its.admits.zones, zones)


def _check_authority(
    name: str, endpoint: EndpointSettings, authorities: Mapping[Path, set[str]]
) -> None:
    """One that is trusted for another zone says nothing of who is in this one."""
    path = endpoint.ca_file
    own = None if path is None else authorities.get(path.resolve())
    if own is not None and endpoint.zone.name not in own:  # guard: M8.authority
        raise Contradiction(
            ("endpoints", name, "ca_file"),
            f"is the authority of zone {', '.join(sorted(own))}, and the endpoint is in "
            f"{endpoint.zone.name}",
        )


def _check_regions(name: str, endpoint: EndpointSettings, zone: ZoneSettings) -> None:
    aws = endpoint.credential and endpoint.credential.aws
    if aws and aws.region and (why := refusal(zone, aws.region)):  # guard: M8.signing-region
        raise Contradiction(("endpoints", name, "credential", "aws", "region"), why)
    for key, host, address in endpoint.hosts():
        for region in sorted(regions(host, address)):
            if why := refusal(zone, region):  # guard: M8.region
                raise Contradiction(("endpoints", name, key), f"{host} {why}")


def _check_profiles(
    endpoint: str, its: EndpointSettings, zone: ZoneSettings, models: Mapping[str, ModelSettings]
) -> None:
    if its.provider is None or not its.provider.name.startswith("bedrock"):
        return
    for name, model in models.items():
        for i, served in enumerate(model.served_by):
            stated = served.model or name
            if served.endpoint == endpoint and (why := profile_refusal(zone, stated)):
                # guard: M8.profile
                raise Contradiction(("models", name, "served_by", i, "model"), f"{stated} {why}")


def _authorities(tls: TlsSettings) -> dict[Path, set[str]]:
    """The zones that each file of authorities is trusted for."""
    zones: dict[Path, set[str]] = {}
    for name, its in {ONPREM.name: tls.onprem, CLOUD.name: tls.cloud, **tls.zones}.items():
        if its.ca_file is not None:
            zones.setdefault(its.ca_file.resolve(), set()).add(name)
    return zones
