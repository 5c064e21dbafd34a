"""Names that callers can say, and what servers may add to them (C6)."""

from __future__ import annotations

import pytest

from gateway import config
from gateway.config.model_catalog import Catalog
from gateway.core.errors import UnknownModel

TEXT = """\
endpoints:
  gpu: {kind: triton, zone: onprem, grpc: "gpu:8001"}
  gpu2: {kind: triton, zone: onprem, grpc: "gpu2:8001"}
  out: {kind: openai, zone: cloud, url: "https://api.openai.com/v1"}
models:
  chat:
    task: generate
    tensors: clear
    text_inputs: [text_input]
    latency_budget_ms: 250
    served_by:
      - {endpoint: gpu, model: scribe, substitute: false, version: "3"}
      - {endpoint: out, model: gpt, substitute: true, price_usd: 0.5}
  plain:
    served_by: [{endpoint: gpu}]
"""


@pytest.fixture
def catalog() -> Catalog:
    return Catalog.from_settings(config.parse(TEXT))


def test_a_declared_model_is_what_the_settings_say(catalog: Catalog) -> None:
    chat = catalog.find("chat")
    assert chat.endpoints == ("gpu", "out")
    assert (chat.tensors_clear, chat.latency_budget_s, chat.declared) == (True, 0.25, True)
    at_gpu, at_out = (catalog.endpoints[n].models["chat"] for n in ("gpu", "out"))
    assert (at_gpu.model, at_gpu.version, at_gpu.substitute) == ("scribe", "3", False)
    assert (at_out.model, at_out.price_usd, at_out.substitute) == ("gpt", 0.5, True)


def test_inputs_are_restricted_unless_the_settings_say_otherwise(catalog: Catalog) -> None:
    plain = catalog.find("plain")
    assert not plain.tensors_clear
    assert plain.text_inputs == frozenset()


@pytest.mark.parametrize("name", ["", "Chat", "chat ", "../chat", "scribe", "cloud/chat", "a\x00"])
def test_a_name_that_is_not_in_the_catalog_is_unknown_and_not_repeated(
    catalog: Catalog, name: str
) -> None:
    with pytest.raises(UnknownModel) as caught:
        catalog.find(name)
    assert caught.value.http_status == 404
    assert "Request for unknown model" in caught.value.message
    assert not name.strip() or f"'{name}'" not in caught.value.message


def test_what_a_server_has_and_nobody_declared_is_served_there_alone_and_restricted(
    catalog: Catalog,
) -> None:
    catalog.add_undeclared("gpu", ["extra", "plain"])
    extra = catalog.find("extra")
    assert (extra.endpoints, extra.tensors_clear, extra.declared) == (("gpu",), False, False)
    assert extra.text_inputs == frozenset()
    assert "extra" not in catalog.endpoints["out"].models
    catalog.add_undeclared("gpu2", ["extra"])
    assert catalog.find("extra").endpoints == ("gpu", "gpu2")
    catalog.add_undeclared("gpu2", ["extra"])
    assert catalog.find("extra").endpoints == ("gpu", "gpu2")


def test_a_server_cannot_change_what_is_declared(catalog: Catalog) -> None:
    before = catalog.find("chat")
    catalog.add_undeclared("gpu2", ["chat", "plain"])
    assert catalog.find("chat") == before
    assert catalog.find("plain").endpoints == ("gpu",)
    assert catalog.endpoints["gpu2"].models == {}


ALIASED = TEXT.replace("  chat:\n", '  chat:\n    aliases: [gpt-4o, "llama3.2:3b"]\n')


def test_an_alias_is_another_name_for_the_same_model() -> None:
    aliased = Catalog.from_settings(config.parse(ALIASED))
    assert aliased.find("gpt-4o") is aliased.find("llama3.2:3b") is aliased.find("chat")
    assert set(aliased.names()) == {"chat", "plain"}


def test_a_server_s_model_does_not_take_the_place_of_an_alias() -> None:
    aliased = Catalog.from_settings(config.parse(ALIASED))
    aliased.add_undeclared("gpu", ["gpt-4o", "other"])
    assert aliased.find("gpt-4o") is aliased.find("chat")
    assert aliased.find("other").endpoints == ("gpu",)


@pytest.mark.parametrize(
    ("aliases", "message"),
    [
        ("[plain]", "models.chat.aliases.0: 'plain' is a model"),
        ("[chat]", "models.chat.aliases.0: 'chat' is a model"),
        ("[a, b, a]", "models.chat.aliases.2: 'a' is an alias of models.chat too"),
        ("['a b']", "models.chat.aliases.0"),
    ],
)
def test_an_alias_stands_for_one_model(aliases: str, message: str) -> None:
    with pytest.raises(config.ConfigError) as caught:
        config.parse(TEXT.replace("  chat:\n", f"  chat:\n    aliases: {aliases}\n"))
    assert message in str(caught.value)
