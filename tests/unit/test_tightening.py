"""M5: a key and a tenant add to what restricts their calls, and can take nothing away."""

from __future__ import annotations

import itertools

import pytest

from gateway import config
from gateway.auth.configured import ConfiguredKeys
from gateway.classify.profile import PROFILES, Profile
from gateway.config import ClassifySettings
from gateway.core.types import NOT_TIGHTENED, Finding, Tightening
from tests.unit.settings_text import GOOD, refusal

KEYS = """\
keys:
  app:
    key: ${SPILLWAY_TEST_KEY}
    tenant: clinic
"""
TENANTS = """\
tenants:
  clinic:
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPILLWAY_TEST_KEY", "s3cret")


def test_what_a_key_and_a_tenant_add_is_read() -> None:
    text = GOOD + KEYS + "    profile: strict\n    restrict: [URL]\n    threshold: 0.2\n"
    settings = config.parse(text + TENANTS + "    placement: onprem\n    restrict: [DATE_TIME]\n")
    key, tenant = settings.keys["app"], settings.tenants["clinic"]
    assert (key.profile, key.restrict, key.threshold) == ("strict", ("URL",), 0.2)
    assert (tenant.placement, tenant.restrict) == ("onprem", ("DATE_TIME",))


@pytest.mark.parametrize(("section", "line"), [(KEYS, 22), (KEYS + TENANTS, 24)])
@pytest.mark.parametrize(
    ("classify", "own", "told"),
    [
        ("", "threshold: 0.4", "threshold: is over classify.threshold (0.35); it can only tighten"),
        (
            "classify: {threshold: 0.1}",
            "threshold: 0.2",
            "threshold: is over classify.threshold (0.1); it can only tighten",
        ),
        (
            "classify: {profile: strict}",
            "profile: balanced",
            "profile: restricts less than classify.profile, which is strict; it can only tighten",
        ),
    ],
)
def test_what_would_loosen_is_refused_with_its_line(
    section: str, line: int, classify: str, own: str, told: str
) -> None:
    text = f"{GOOD}{section}    {own}\n{classify}\n"
    name = "tenants.clinic" if "tenants" in section else "keys.app"
    assert refusal(text) == f"f.yaml:{line}: {name}.{told}"


@pytest.mark.parametrize("own", ["threshold: 1.5", "threshold: .nan", "profile: lax", "allow: [X]"])
def test_what_makes_no_sense_is_refused_with_its_line(own: str) -> None:
    assert refusal(f"{GOOD}{KEYS}    {own}\n").startswith("f.yaml:22: keys.app.")


@pytest.mark.parametrize("own", ["threshold: 0.35", "profile: balanced", "profile: strict"])
def test_as_tight_as_the_gateway_is_no_contradiction(own: str) -> None:
    config.parse(f"{GOOD}{KEYS}    {own}\n")


@pytest.mark.parametrize("answers", ["report", "restrict"])
def test_a_key_that_sees_masks_restricts_as_others_do(answers: str) -> None:
    """Nothing else is read, or read otherwise, of its calls."""
    text = f"{GOOD}classify: {{answers: {answers}}}\n{KEYS}    mask_answers: true\n"
    settings = config.parse(text)
    (caller,) = ConfiguredKeys(settings.keys, {}).callers
    assert caller.tightening.answers_masked
    assert caller.tightening == NOT_TIGHTENED
    for joined in (caller.tightening | NOT_TIGHTENED, NOT_TIGHTENED | caller.tightening):
        assert joined.answers_masked
    plain = config.parse(text.replace("true", "false"))
    assert not ConfiguredKeys(plain.keys, {}).callers[0].tightening.answers_masked


@pytest.mark.parametrize("stated", ["off", "'off'", "false"])
def test_answers_are_read_where_that_is_asked_for(stated: str) -> None:
    assert config.parse(GOOD).classify.answers == "off"
    assert config.parse(f"{GOOD}classify: {{answers: {stated}}}\n").classify.answers == "off"
    assert refusal(f"{GOOD}classify: {{answers: sometimes}}\n").startswith("f.yaml:18: classify.")


def test_a_tenant_that_no_key_has_is_refused() -> None:
    told = refusal(GOOD + KEYS + "tenants: {clinc: {}}\n")
    assert told == "f.yaml:22: tenants.clinc: no key under keys is of this tenant"


# What restricts, then

ADDED = [
    NOT_TIGHTENED,
    Tightening("balanced"),
    Tightening("strict"),
    Tightening(types=frozenset({"URL"})),
    Tightening(threshold=0.1),
    Tightening("balanced", frozenset({"URL"}), 0.9),
]
GATEWAYS = [
    ClassifySettings(),
    ClassifySettings(profile="strict"),
    ClassifySettings(restrict=("US_SSN",), threshold=0.2),
]


@pytest.mark.parametrize("settings", GATEWAYS)
@pytest.mark.parametrize(("one", "other"), [*itertools.product(ADDED, ADDED)])
def test_nothing_that_is_added_takes_anything_away(
    settings: ClassifySettings, one: Tightening, other: Tightening
) -> None:
    own = Profile.from_settings(settings)
    some, more = Profile.from_settings(settings, one), Profile.from_settings(settings, one | other)
    assert own.types <= some.types <= more.types
    assert own.threshold >= some.threshold >= more.threshold
    assert (own.name == "strict") <= (some.name == "strict") <= (more.name == "strict")
    assert more == Profile.from_settings(settings, other | one)


def test_what_is_added_restricts() -> None:
    url, address = Finding("URL", 0, 9, 0.5), Finding("MAC_ADDRESS", 0, 9, 0.5)
    weak = Finding("US_SSN", 0, 9, 0.3)
    own = Profile.from_settings(ClassifySettings())
    assert not own.restricts([url, address, weak])
    assert Profile.from_settings(
        ClassifySettings(), Tightening(types=frozenset({"URL"}))
    ).restricts([url])
    assert Profile.from_settings(ClassifySettings(), Tightening("strict")).restricts([address])
    assert Profile.from_settings(ClassifySettings(), Tightening(threshold=0.3)).restricts([weak])


def test_the_strictest_profile_restricts_what_any_does() -> None:
    assert PROFILES["balanced"] <= PROFILES["strict"]
