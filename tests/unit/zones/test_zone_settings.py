"""Zones and classes of the settings: rules over contracts (M7), and contradictions (M8)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway import config
from gateway.config.zones import Zones, addresses, named
from gateway.config.zones.admission import DataClasses
from gateway.config.zones.sections import ClassSettings, ZoneRule, ZoneSettings
from gateway.core.config_error import ConfigError
from gateway.core.types import CLOUD, EVERYWHERE, ONPREM, ONPREM_ONLY

GOOD = """
zones:
  eu: {regions: [eu-central-1, eu-west-1], countries: [EU], operator: Acme, retention_days: 0,
       training: false, agreement: 2025-01-31}
  us: {countries: [US], training: false}
  onprem-lab: {}
tls:
  cloud: {ca_file: cloud.pem}
  zones: {eu: {ca_file: eu.pem}}
endpoints:
  gpu: {kind: triton, zone: onprem, grpc: "127.0.0.1:8001"}
  lab: {kind: openai, zone: onprem-lab, url: "http://127.0.0.1:9000"}
  eu: {kind: openai, provider: bedrock, zone: eu,
       credential: {aws: {file: keys, region: eu-central-1}},
       url: "https://bedrock-runtime.eu-central-1.amazonaws.com"}
  us: {kind: openai, zone: us, url: "https://bedrock-runtime.us-east-1.amazonaws.com"}
  out: {kind: openai, zone: cloud, url: "https://api.example.com"}
classify:
  classes:
    personal: {entities: [EMAIL_ADDRESS], admits: {countries: [EU], training: false}}
    internal: {entities: [PHONE_NUMBER], admits: {training: false}}
models:
  chat:
    task: generate
    served_by: [{endpoint: lab}, {endpoint: eu}, {endpoint: us}, {endpoint: out}]
key_store: keys.db
tenants: {t: {zones: [eu, us, onprem], label: internal}}
"""


def refused(before: str, after: str) -> str:
    assert before in GOOD
    with pytest.raises(ConfigError) as refusal:
        config.parse(GOOD.replace(before, after), "f.yaml")
    return str(refusal.value)


def names(zones: frozenset[Any]) -> set[str]:
    return {zone.name for zone in zones}


def test_classes_admit_zones_by_their_contracts() -> None:
    settings = config.parse(GOOD)
    classes = settings.data_classes()
    assert names(classes.clear) == {"cloud", "eu", "us"}
    assert {name: names(zones) for name, zones in classes.admitted.items()} == {
        "personal": {"eu"},
        "internal": {"eu", "us"},
    }
    assert settings.endpoints["eu"].zone is named("eu")
    assert names(Zones(settings.zones).onprem) == {"onprem", "onprem-lab"}


def test_without_zones_all_is_as_built_in() -> None:
    assert DataClasses.from_settings({}, {}) == DataClasses()
    assert (Zones().everywhere, Zones().onprem) == (EVERYWHERE, ONPREM_ONLY)
    assert named("onprem") is ONPREM
    assert named("cloud") is CLOUD


WHOLE = ZoneSettings.model_validate(
    {"regions": ["eu-west-1"], "countries": ["IE", "DE"], "operator": "Acme", "retention_days": 30,
     "training": False, "agreement": "2025-01-31", "attested": True}
)  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "admitted"),
    [
        ({}, True),
        ({"zones": ["z"]}, True),
        ({"zones": ["y"]}, False),
        ({"regions": ["eu-west-1", "eu-west-3"]}, True),
        ({"regions": ["eu-west-3"]}, False),
        ({"countries": ["EU"]}, True),
        ({"countries": ["IE", "DE", "FR"]}, True),
        ({"countries": ["IE"]}, False),
        ({"operators": ["Acme"]}, True),
        ({"operators": ["Other"]}, False),
        ({"retention_days": 30}, True),
        ({"retention_days": 29}, False),
        ({"training": False}, True),
        ({"agreement": True}, True),
        ({"attested": True}, True),
    ],
)
def test_a_rule_holds_for_all_that_it_says(rule: dict[str, Any], admitted: bool) -> None:
    assert ZoneRule.model_validate(rule).admits(WHOLE, "z") is admitted


@pytest.mark.parametrize(
    "rule",
    [{"regions": ["eu-west-1"]}, {"countries": ["EU"]}, {"operators": ["Acme"]},
     {"retention_days": 9999}, {"training": False}, {"agreement": True}, {"attested": True}],
)  # fmt: skip
def test_what_a_zone_does_not_state_is_taken_for_the_worst(rule: dict[str, Any]) -> None:
    assert not ZoneRule.model_validate(rule).admits(ZoneSettings(), "z")


def test_an_agreement_that_is_still_to_come_is_none() -> None:
    later = ZoneSettings.model_validate({"agreement": "2999-01-01"})
    assert not ZoneRule(agreement=True).admits(later, "z")


def test_no_class_admits_more_than_clear_does() -> None:
    zones = {"eu": ZoneSettings(training=False), "us": ZoneSettings()}
    classes = {
        "clear": ClassSettings.model_validate({"admits": {"training": False}}),
        "personal": ClassSettings.model_validate({"admits": {}}),
    }
    made = DataClasses.from_settings(zones, classes)
    assert names(made.clear) == names(made.admitted["personal"]) == {"eu"}


def test_two_classes_admit_what_both_do_and_an_unknown_one_nothing() -> None:
    eu, us = named("eu"), named("us")
    made = DataClasses(
        clear=frozenset({CLOUD, eu, us}),
        admitted={"a": frozenset({eu, us}), "b": frozenset({eu, CLOUD})},
    )
    assert made.admission(["b", "a"]) == ("a+b", frozenset({eu}))
    assert made.admission(["a", "gone"]) == ("a+gone", frozenset())


@pytest.mark.parametrize(
    ("types", "classes"),
    [
        (["EMAIL_ADDRESS"], {"personal"}),
        (["EMAIL_ADDRESS", "PHONE_NUMBER", "DATE_TIME"], {"personal", "internal"}),
        (["EMAIL_ADDRESS", "US_SSN"], None),
        (["US_SSN"], None),
        (["DATE_TIME"], None),
        ([], None),
    ],
)
def test_what_restricts_and_is_of_no_class_is_restricted(
    types: list[str], classes: set[str] | None
) -> None:
    made = config.parse(GOOD).data_classes()
    by_findings = made.by_findings(types, {"EMAIL_ADDRESS", "PHONE_NUMBER", "US_SSN"})
    assert by_findings == (None if classes is None else frozenset(classes))


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("zone: us,", "zone: uss,", "endpoints.us.zone: no zone 'uss'"),
        ("zones:\n  eu:", "zones:\n  onprem: {}\n  eu:", "zones.onprem: is built in"),
        ("zones:\n  eu:", "zones:\n  none: {}\n  eu:", "zones.none: is a word of records"),
        ("zones:\n  eu:", "zones:\n  EU: {}\n  eu:", "zones.EU"),
        ("countries: [EU]", "countries: [US]", "zones.eu.regions: eu-central-1 is in DE"),
        ("personal:", "restricted:", "classify.classes.restricted: admits zones on the premises"),
        ("personal:", "clear:", "classify.classes.clear: has what nothing was found in"),
        ("[EMAIL_ADDRESS]", "[HIDDEN_TEXT]", "HIDDEN_TEXT restricts whatever is said"),
        ("[EMAIL_ADDRESS]", "[], categories: [x]", "no category 'x' that restricts"),
        ("countries: [EU], training: false}}", "zones: [uk]}}", "admits.zones: no zone 'uk'"),
        ("label: internal", "label: clear", "tenants.t.label: no class 'clear'"),
        ("zones: [eu, us, onprem]", "zones: [moon]", "tenants.t.zones: no zone 'moon'"),
        ("task: generate", "task: generate\n    label: x", "models.chat.label: no class 'x'"),
        ("zones: {eu: {ca", "zones: {uk: {ca", "tls.zones.uk: no such zone"),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_stands(before: str, after: str, why: str) -> None:
    assert why in refused(before, after)


@pytest.mark.parametrize("zone", ["us", "onprem-lab"])
def test_a_public_address_is_in_no_zone_on_the_premises(zone: str) -> None:
    text = GOOD.replace("zone: us,", f"zone: {zone},")
    if zone == "us":
        config.parse(text)
        return
    with pytest.raises(ConfigError, match=r"the zone is onprem-lab"):
        config.parse(text)


@pytest.mark.parametrize(
    ("ca_file", "why"),
    [("eu.pem", ""), ("own.pem", ""), ("cloud.pem", "is the authority of zone cloud"),
     ("./cloud.pem", "is the authority of zone cloud")],
)  # fmt: skip
def test_the_authority_of_another_zone_is_refused(ca_file: str, why: str) -> None:
    text = GOOD.replace("provider: bedrock,", f"provider: bedrock, ca_file: {ca_file},")
    if not why:
        config.parse(text)
        return
    with pytest.raises(ConfigError, match=why):
        config.parse(text)


@pytest.mark.parametrize(
    ("model", "why"),
    [("eu.anthropic.claude-x-v1", ""), ("anthropic.claude-x-v1", ""),
     ("us.anthropic.claude-x-v1", "may answer where it is in"),
     ("global.anthropic.claude-x-v1", "is spread over all regions")],
)  # fmt: skip
def test_an_inference_profile_stays_in_the_zone(model: str, why: str) -> None:
    text = GOOD.replace("regions: [eu-central-1, eu-west-1], ", "").replace(
        "{endpoint: eu}", f"{{endpoint: eu, model: {model}, substitute: false}}"
    )
    if not why:
        config.parse(text)
        return
    with pytest.raises(ConfigError, match=why):
        config.parse(text)


@pytest.mark.parametrize(
    ("address", "regions"),
    [
        ("https://bedrock-runtime.eu-central-1.amazonaws.com", {"eu-central-1"}),
        ("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com", {"us-gov-west-1"}),
        ("https://vpce-1a.bedrock-runtime.us-east-1.vpce.amazonaws.com", {"us-east-1"}),
        ("https://runtime.sagemaker.cn-north-1.amazonaws.com.cn", {"cn-north-1"}),
        ("https://bedrock-mantle.eu-west-1.api.aws/v1", {"eu-west-1"}),
        ("https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/x",
         {"europe-west4"}),
        ("https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/us-central1/x",
         {"europe-west4", "us-central1"}),
        ("https://aiplatform.googleapis.com/v1/projects/p/locations/global/x", {"global"}),
        ("https://aiplatform.googleapis.com/v1/projects/p/locations/eu/x", {"eu"}),
        ("https://aiplatform.googleapis.com", {"global"}),
        ("https://aiplatform.eu.rep.googleapis.com", {"eu"}),
        ("https://westeurope.api.cognitive.microsoft.com", {"westeurope"}),
        ("https://llama.eastus2.models.ai.azure.com", {"eastus2"}),
        ("https://e.westeurope.inference.ml.azure.com", {"westeurope"}),
        ("https://name.openai.azure.com", set()),
        ("https://generativelanguage.googleapis.com/v1beta", set()),
        ("https://us-east-1.amazonaws.com.example.com", set()),
        ("https://API.EU-CENTRAL-1.AMAZONAWS.COM.", {"eu-central-1"}),
    ],
)  # fmt: skip
def test_regions_are_read_from_the_addresses_that_providers_publish(
    address: str, regions: set[str]
) -> None:
    host = address.removeprefix("https://").partition("/")[0]
    assert addresses.regions(host, address) == regions


@pytest.mark.parametrize(
    ("zone", "region", "refused"),
    [
        ({}, "us-east-1", False),
        ({}, "global", False),
        ({"regions": ["eu-west-1"]}, "eu-west-1", False),
        ({"regions": ["eu-west-1"]}, "eu-west-2", True),
        ({"countries": ["EU"]}, "us-east-1", True),
        ({"countries": ["EU"]}, "eu-west-2", True),
        ({"countries": ["EU"]}, "eu-west-1", False),
        ({"countries": ["IE"]}, "eu", True),
        ({"countries": ["EU", "GB"]}, "uksouth", False),
        ({"countries": ["EU"]}, "global", True),
        ({"countries": ["EU"]}, "a-region-that-nobody-knows-9", True),
    ],
)
def test_a_zone_has_no_address_elsewhere(zone: dict[str, Any], region: str, refused: bool) -> None:
    assert bool(addresses.refusal(ZoneSettings.model_validate(zone), region)) is refused


def test_a_region_that_requests_are_signed_for_is_in_the_zone() -> None:
    told = refused("{file: keys, region: eu-central-1}", "{file: keys, region: us-west-2}")
    assert "endpoints.eu.credential.aws.region: is in region us-west-2" in told


def test_an_endpoint_elsewhere_is_refused_with_its_line() -> None:
    told = refused("eu-central-1.amazonaws.com", "us-east-1.amazonaws.com")
    assert told.startswith("f.yaml:15: endpoints.eu.url: bedrock-runtime.us-east-1.amazonaws.com")
