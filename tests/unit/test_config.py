"""O1, M6: a wrong settings file is refused with file, line, key and what to do about it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from gateway import config
from gateway.config.model_catalog import Catalog
from gateway.config.sections.callers import Spill
from gateway.core.types import Zone
from tests.unit.settings_text import GOOD, changed, refusal

HERE = Path(__file__).parent


def test_a_good_file_is_read() -> None:
    settings = config.parse(GOOD)
    assert settings.endpoints["gpu"].zone is Zone.ONPREM
    assert settings.models["chat"].served_by[1].model == "gpt-4.1"


# Zones (M6)


@pytest.mark.parametrize(("kind", "line"), [("triton", 2), ("openai", 6)])
def test_an_endpoint_that_does_not_say_its_zone_is_refused(kind: str, line: int) -> None:
    zone = {"triton": "onprem", "openai": "cloud"}[kind]
    text = changed(f"    kind: {kind}\n    zone: {zone}\n", f"    kind: {kind}\n")
    name = {"triton": "gpu", "openai": "out"}[kind]
    told = "is missing; every endpoint says cloud or onprem"
    assert refusal(text) == f"f.yaml:{line}: endpoints.{name}.zone: {told}"


@pytest.mark.parametrize("zone", ["edge", "ONPREM", "", "on-prem", "[onprem, cloud]", "null"])
def test_there_are_two_zones_and_an_endpoint_has_one(zone: str) -> None:
    told = refusal(changed("zone: onprem", f"zone: {zone}"))
    assert told.startswith("f.yaml:4: endpoints.gpu.zone: ")


@pytest.mark.parametrize(
    "address",
    [
        "url: https://api.openai.com/v1",
        "url: https://8.8.8.8/v1",
        "url: http://134744072/",
        "url: http://[2001:4860:4860::8888]/",
        "url: https://my.azure.com./",
    ],
)
def test_a_cloud_address_that_is_labelled_onprem_needs_i_know(address: str) -> None:
    text = f"""\
endpoints:
  near:
    kind: openai
    zone: onprem
    {address}
models: {{}}
"""
    told = refusal(text)
    assert told.startswith("f.yaml:5: endpoints.near.url: ")
    assert "i_know: true" in told
    config.parse(text.replace("zone: onprem", "zone: onprem\n    i_know: true"))
    config.parse(text.replace("zone: onprem", "zone: cloud"))


def test_a_cloud_address_of_the_grpc_side_needs_i_know_too() -> None:
    told = refusal(changed("grpc: gpu-1:8001", "url: http://gpu-1:8000\n    grpc: 8.8.8.8:8001"))
    assert told.startswith("f.yaml:6: endpoints.gpu.grpc: 8.8.8.8 is a public")


@pytest.mark.parametrize(
    ("old", "new", "line", "key"),
    [
        ("url: https://api.openai.com/v1", "url: https://me:pw@gpu-1/v1", 9, "endpoints.out.url"),
        ("url: https://api.openai.com/v1", "url: gpu-1:8000", 9, "endpoints.out.url"),
        ("url: https://api.openai.com/v1", "url: http://a\\@b/", 9, "endpoints.out.url"),
        ("grpc: gpu-1:8001", "grpc: dns:///api.openai.com:443", 5, "endpoints.gpu.grpc"),
        ("grpc: gpu-1:8001", "grpc: gpu-1", 5, "endpoints.gpu.grpc"),
    ],
)
def test_an_address_that_can_be_read_in_two_ways_is_refused(
    old: str, new: str, line: int, key: str
) -> None:
    told = refusal(changed(old, new))
    assert told.startswith(f"f.yaml:{line}: {key}: must ")
    assert "pw" not in told


# Unknown keys, dangling names, contradictions (O1)


@pytest.mark.parametrize("case", yaml.safe_load((HERE / "refused_settings.yaml").read_text()))
def test_what_cannot_be_is_refused_where_it_stands(case: dict[str, str]) -> None:
    assert refusal(changed(case["old"], case["new"])).startswith(case["told"])


def test_names_with_dots_and_slashes_do_not_lead_to_the_wrong_line() -> None:
    text = GOOD.replace("  chat:", "  meta/llama-3.1:").replace("endpoint: gpu", "endpoint: none")
    assert refusal(text).startswith("f.yaml:14: models.meta/llama-3.1.served_by.0.endpoint: ")


@pytest.mark.parametrize(
    "name",
    ["llama3.2:3b", "ft:gpt-4o:org::id", "a/b:free", "m@1", "@cf/meta/m", "~a/latest", "a" * 128],
)
def test_names_are_those_of_providers(name: str) -> None:
    text = changed("  chat:", f"  {name!r}:")
    text = changed("  gpu:", f"  {name!r}:", text.replace("endpoint: gpu", f"endpoint: {name!r}"))
    settings = config.parse(text)
    assert name in settings.models
    assert settings.models[name].served_by[0].endpoint == name


@pytest.mark.parametrize(
    "name",
    ["../chat", "a/../b", "a/./b", "a//b", "a/", "/a", ".a", ":a", "-a", "a b", "a%2Fb", "a#b",
     "a\\b", "a\n", "é", "a" * 129],
)  # fmt: skip
def test_a_name_that_could_be_read_in_two_ways_is_refused(name: str) -> None:
    text = changed("  chat:", f'  "{name}":')
    assert refusal(text).startswith("f.yaml:")


@pytest.mark.parametrize("name", ["/models/llama", "accounts/a/m#accounts/a/d", "m[1]", "a" * 256])
def test_an_endpoint_may_call_a_model_what_it_likes(name: str) -> None:
    settings = config.parse(changed("model: gpt-4.1", f"model: {name!r}"))
    assert settings.models["chat"].served_by[1].model == name


@pytest.mark.parametrize("name", ["..", "../m", "a/../m", "a/.", "a b", "a\n", "é", "", "a" * 257])
def test_but_nothing_that_leads_elsewhere(name: str) -> None:
    text = changed("model: gpt-4.1", f'model: "{name}"')
    assert refusal(text).startswith("f.yaml:16: models.chat.served_by.1.model: ")


def test_an_endpoint_with_several_models_of_one_name_is_a_place_for_each() -> None:
    more = "      - {endpoint: out, model: 'r1:free', substitute: true, price_usd: 0}\n"
    settings = config.parse(GOOD + more)
    assert list(settings.places()) == ["gpu", "out", "out#r1:free"]
    placed = settings.models["chat"].placed("chat")
    assert [(at, s.model) for at, s in placed] == [
        ("gpu", None),
        ("out", "gpt-4.1"),
        ("out#r1:free", "r1:free"),
    ]
    catalog = Catalog.from_settings(settings)
    assert catalog.find("chat").endpoints == ("gpu", "out", "out#r1:free")
    served = {name: its.models["chat"].model for name, its in catalog.endpoints.items()}
    assert served == {"gpu": "chat", "out": "gpt-4.1", "out#r1:free": "r1:free"}
    assert catalog.endpoints["out#r1:free"].zone is Zone.CLOUD


def test_every_wrong_setting_is_named_at_once() -> None:
    text = changed("kind: triton", "kind: tritn", changed("zone: cloud", "zone: clod"))
    lines = refusal(text).splitlines()
    assert [line.split(": ")[0] for line in lines] == ["f.yaml:3", "f.yaml:8"]


# Keys and secrets


KEYS = """\
keys:
  app:
    key: ${SPILLWAY_TEST_KEY}
    tenant: app
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPILLWAY_TEST_KEY", "s3cret")
    monkeypatch.setenv("SPILLWAY_TEST_SAME", "s3cret")
    monkeypatch.setenv("SPILLWAY_TEST_EMPTY", " ")
    monkeypatch.delenv("SPILLWAY_TEST_NONE", raising=False)


def test_a_secret_comes_from_the_environment_and_is_not_shown() -> None:
    settings = config.parse(GOOD + KEYS)
    assert settings.keys["app"].key.get_secret_value() == "s3cret"
    assert "s3cret" not in repr(settings)
    assert "s3cret" not in settings.model_dump_json()


def test_a_secret_comes_from_a_file_without_its_line_end(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret\n")
    text = GOOD + KEYS.replace("${SPILLWAY_TEST_KEY}", f"${{file:{tmp_path}/key}}")
    assert config.parse(text).keys["app"].key.get_secret_value() == "s3cret"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("s3cret", "key: secrets stand in the environment or in a file"),
        ("'123456'", "key: secrets stand in the environment or in a file"),
        ("123456", "key: secrets stand in the environment or in a file"),
        ("pre-${SPILLWAY_TEST_KEY}", "key: secrets stand in the environment or in a file"),
        ("${SPILLWAY_TEST_NONE}", "key: the environment has no variable SPILLWAY_TEST_NONE"),
        ("${SPILLWAY_TEST_EMPTY}", "key: the secret behind ${SPILLWAY_TEST_EMPTY} is empty"),
        ("${file:/nowhere/key}", "key: the file /nowhere/key cannot be read"),
        ("${file:/}", "key: the file / cannot be read"),
    ],
)
def test_a_secret_that_is_not_there_or_stands_in_the_file_is_refused(value: str, told: str) -> None:
    text = GOOD + KEYS.replace("${SPILLWAY_TEST_KEY}", value)
    assert refusal(text).startswith(f"f.yaml:20: {told}")
    assert refusal(text).count("\n") == 0
    assert "s3cret" not in refusal(text)


@pytest.mark.parametrize("key", ["api_key: s3cret", "headers: {Authorization: Bearer s3cret}"])
def test_credentials_of_endpoints_are_secrets_too(key: str) -> None:
    told = refusal(changed("kind: openai", f"kind: openai\n    {key}"))
    assert told.startswith("f.yaml:8: ")
    assert "secrets stand in the environment" in told
    assert "s3cret" not in told


def test_a_header_that_is_no_secret_may_stand_in_the_file() -> None:
    settings = config.parse(changed("kind: openai", "kind: openai\n    headers: {x-team: ml}"))
    assert settings.endpoints["out"].headers["x-team"].get_secret_value() == "ml"


@pytest.mark.parametrize("reference", ["${}", "${SPILLWAY-TEST}", "${A:-b}", "${file:}", "x${"])
def test_a_reference_that_is_none_is_not_taken_for_text(reference: str) -> None:
    told = refusal(changed("endpoint: out", f"endpoint: out\n        version: '{reference}'"))
    assert told.startswith("f.yaml:16: version: write a reference as")


def test_a_setting_that_is_not_a_secret_may_hold_references_within_text() -> None:
    os.environ["SPILLWAY_TEST_KEY"] = "gpu-9"
    text = changed("grpc: gpu-1:8001", "grpc: ${SPILLWAY_TEST_KEY}:8001")
    assert config.parse(text).endpoints["gpu"].grpc == "gpu-9:8001"


def test_two_keys_with_one_credential_are_refused_without_showing_it() -> None:
    text = GOOD + KEYS + "  other:\n    key: ${SPILLWAY_TEST_SAME}\n    tenant: other\n"
    told = refusal(text)
    assert told == "f.yaml:23: keys.other.key: is the key of keys.app too"


def test_a_key_for_a_model_that_nobody_serves_is_refused_where_models_are_declared() -> None:
    text = GOOD + KEYS + "    models: [chat, chta]\n"
    config.parse(text)  # a server may have it
    told = refusal("undeclared_models: refuse\n" + text)
    assert told.startswith("f.yaml:23: keys.app.models.1: no model 'chta'; there are: chat")


def test_with_keys_the_gateway_may_listen_anywhere() -> None:
    assert config.parse(GOOD + KEYS + "listen: {host: 0.0.0.0}\n").listen.host == "0.0.0.0"


def test_what_a_key_says_of_the_cloud_is_read() -> None:
    text = GOOD + KEYS + "    spill: never\n    placement: onprem\n"
    key = config.parse(text).keys["app"]
    assert (key.spill, key.placement) == (Spill.NEVER, "onprem")


# The hash of the policy


def test_the_policy_hash_names_the_settings_and_not_their_order_or_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = config.parse(GOOD + KEYS)
    assert config.parse(KEYS + GOOD).policy_hash() == first.policy_hash()
    monkeypatch.setenv("SPILLWAY_TEST_KEY", "another")
    assert config.parse(GOOD + KEYS).policy_hash() == first.policy_hash()
    other = config.parse(GOOD + KEYS + "routing: {spill: false}\n")
    assert other.policy_hash() != first.policy_hash()


def test_settings_cannot_change_under_a_running_gateway() -> None:
    settings = config.parse(GOOD)
    with pytest.raises(ValueError, match="frozen"):
        settings.routing.spill = False  # type: ignore[misc]


def test_no_setting_lets_an_unread_call_out() -> None:
    schema = config.schema()["$defs"]["ClassifySettings"]["properties"]["on_unknown"]
    assert schema["enum"] == ["onprem", "block"]
