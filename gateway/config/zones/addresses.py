"""Which region an address is in, and whether that contradicts a zone.

Regions are read from the forms of hosts and paths that AWS, Google Cloud and Azure publish. An
address that names no region contradicts nothing: then the settings' word stands.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from gateway.config.zones.sections import EU, ZoneSettings, all_countries
from gateway.core import yaml_document

GLOBAL: Final = "global"
"""A region that is none: calls go wherever there is room."""

_AWS = r"([a-z]{2,4}(?:-gov|-iso[a-z]?)?-[a-z]+-\d)"
_HOSTS = (
    re.compile(rf"(?:^|\.){_AWS}\.(?:vpce\.)?(?:amazonaws\.(?:com|com\.cn|eu)|api\.aws)$"),
    re.compile(r"^([a-z]+-[a-z]+\d+|[a-z]+)-aiplatform(?:\.mtls)?\.googleapis\.com$"),
    re.compile(r"(?:^|\.)aiplatform\.([a-z0-9-]+)\.rep\.googleapis\.com$"),
    re.compile(
        r"(?:^|\.)([a-z0-9]+)\.(?:api\.cognitive\.microsoft\.(?:com|us)|models\.ai\.azure\.com"
        r"|inference\.(?:ai|ml)\.azure\.com)$"
    ),
)
_LOCATION = re.compile(r"/locations/([a-z0-9-]+)(?:/|$)")
_NO_REGION = re.compile(r"^aiplatform(?:\.mtls)?\.googleapis\.com$")
_PROFILE = re.compile(r"^(?:arn:[^/]*/)?(us-gov|us|eu|apac|jp|au|ca|global)\.[a-z0-9-]+\.")
"""An inference profile of Bedrock, which spreads calls over the regions that it names."""
_SPREAD: Final = {
    "us": ("us-",), "us-gov": ("us-gov-",), "eu": ("eu-",), "jp": ("ap-northeast-",),
    "au": ("ap-southeast-",), "ca": ("ca-", "us-"), "apac": ("ap-",), "global": (),
}  # fmt: skip


@cache
def countries() -> dict[str, str]:
    """By region."""
    document = yaml_document.read(Path(__file__).with_name("regions.yaml")).document
    return {region: country for country, regions in document.items() for region in regions}


def regions(host: str, url: str = "") -> set[str]:
    """Those that an address names."""
    host = host.rstrip(".").lower()
    named = {match[1] for form in _HOSTS if (match := form.search(host))}
    if host.endswith(".googleapis.com") and (place := _LOCATION.search(url)):
        named.add(place[1])
    elif _NO_REGION.match(host):
        named.add(GLOBAL)
    return named


def refusal(zone: ZoneSettings, region: str) -> str:
    """Why nothing in this region is in the zone; empty if it may be."""
    if region == GLOBAL:
        return "is spread over all regions" if zone.regions or zone.countries else ""
    if zone.regions and region not in zone.regions:
        return f"is in region {region}, and the zone has {', '.join(zone.regions)}"
    if not zone.countries or region in zone.regions:
        return ""
    country = countries().get(region)
    if country is None:
        return f"is in region {region}, whose country is not known here; list it under regions"
    inside = all_countries((country,)) <= all_countries(zone.countries)
    where = "the EU" if country == EU else country
    return "" if inside else f"is in {where}, and the zone in {', '.join(zone.countries)}"


def profile_refusal(zone: ZoneSettings, model: str) -> str:
    """Why a model's name at Bedrock takes calls out of the zone; empty if it does not."""
    profile = _PROFILE.match(model)
    if profile is None or not (zone.regions or zone.countries):
        return ""
    name = profile[1]
    if name == GLOBAL:
        return "is spread over all regions"
    spread = [r for r in countries() if r[-2] == "-" and r.startswith(_SPREAD[name])]
    if name == "eu":  # without Zurich and London
        spread = [r for r in spread if countries()[r] in all_countries((EU,))]
    return next((f"may answer where it {why}" for r in spread if (why := refusal(zone, r))), "")
