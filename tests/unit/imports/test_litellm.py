"""LiteLLM's config.yaml becomes settings that hold, with no secret in them and no zone guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gateway import config
from gateway.__main__ import main
from gateway.app.imports import Imported, Weight
from gateway.app.imports.litellm.reader import imported
from gateway.cli.settings.importing import written
from gateway.config import ConfigError, Settings
from gateway.core.types import Zone

SECRET = "sk-this-stands-in-the-file"


def entry(name: str = "chat", model: str = "openai/gpt-4o", **params: Any) -> dict[str, Any]:
    return {"model_name": name, "litellm_params": {"model": model, **params}}


def of(*entries: dict[str, Any], onprem: tuple[str, ...] = (), **rest: Any) -> Imported:
    return imported({"model_list": list(entries), **rest}, onprem)


def settings(found: Imported, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in found.secrets:
        monkeypatch.setenv(name, f"secret of {name}")
    return config.parse(written(found, "config.yaml"))


def told(found: Imported, weight: Weight) -> list[str]:
    return [f"{note.where}: {note.text}" for note in found.notes if note.weight is weight]


@pytest.mark.parametrize(
    ("model", "base", "url", "zone"),
    [
        ("gpt-4o", None, "https://api.openai.com/v1", "cloud"),
        ("openai/gpt-4o", None, "https://api.openai.com/v1", "cloud"),
        ("groq/llama-3", None, "https://api.groq.com/openai/v1", "cloud"),
        (
            "azure/eu",
            "https://x.openai.azure.com/",
            "https://x.openai.azure.com/openai/v1",
            "cloud",
        ),
        ("azure/eu", "http://10.0.0.7", "http://10.0.0.7/openai/v1", "cloud"),
        ("litellm_proxy/a", "http://127.0.0.1:4000", "http://127.0.0.1:4000/v1", "cloud"),
        ("ollama/phi3", None, "http://127.0.0.1:11434/v1", "onprem"),
        ("hosted_vllm/meta/llama", "http://localhost:8000", "http://localhost:8000/v1", "onprem"),
        ("openai/own", "http://localhost:8000/v1/", "http://localhost:8000/v1", "onprem"),
        ("hosted_vllm/llama", "http://gpu-1:8000", "http://gpu-1:8000/v1", "cloud"),
        ("hosted_vllm/llama", "http://10.1.2.3:8000", "http://10.1.2.3:8000/v1", "cloud"),
        ("hosted_vllm/llama", "https://llm.example.com", "https://llm.example.com/v1", "cloud"),
    ],
)
def test_only_what_is_certain_to_stand_here_is_onprem(
    model: str, base: str | None, url: str, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = of(entry(model=model, **({"api_base": base} if base else {})))
    (endpoint,) = settings(found, monkeypatch).endpoints.values()
    assert (endpoint.url, endpoint.zone.name) == (url, zone)


@pytest.mark.parametrize("base", ["https://api.anthropic.com", "https://proxy.example.com/claude"])
def test_anthropic_is_spoken_as_it_is(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    its = settings(of(entry(model="anthropic/claude-test", api_base=base)), monkeypatch)
    (endpoint,) = its.endpoints.values()
    assert (endpoint.kind, endpoint.url, endpoint.zone) == ("anthropic", base, Zone.CLOUD)


def test_a_private_host_is_onprem_when_the_caller_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    own = entry(model="hosted_vllm/llama", api_base="http://gpu-1:8000")
    (note,) = [t for t in told(of(own), Weight.CHECK) if "--onprem" in t]
    assert "--onprem gpu-1" in note
    for host in ("gpu-1", "llm.example.com"):
        own = entry(model="hosted_vllm/llama", api_base=f"http://{host}:8000")
        (endpoint,) = settings(of(own, onprem=(host,)), monkeypatch).endpoints.values()
        assert endpoint.zone is Zone.ONPREM
    with pytest.raises(ConfigError, match="--onprem gpu-2: no server"):
        of(own, onprem=("gpu-2",))


def test_nothing_that_forwards_elsewhere_is_onprem_whatever_the_caller_says() -> None:
    proxy = entry(model="litellm_proxy/a", api_base="http://proxy:4000")
    with pytest.raises(ConfigError, match="no server of one's own"):
        of(proxy, onprem=("proxy",))


def test_deployments_of_one_name_are_places_of_one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    found = of(
        entry("chat", "openai/gpt-4o", api_key="os.environ/OPENAI"),
        entry("chat", "ollama/llama3"),
        entry("other", "openai/gpt-4o-mini", api_key="os.environ/OPENAI"),
    )
    its = settings(found, monkeypatch)
    assert list(its.endpoints) == ["openai", "127.0.0.1"]
    places = its.models["chat"].served_by
    assert [(p.endpoint, p.model, p.substitute) for p in places] == [
        ("openai", "gpt-4o", True),  # another model than the one on the premises
        ("127.0.0.1", "llama3", False),
    ]
    assert [p.endpoint for p in its.models["other"].served_by] == ["openai"]


def test_a_key_that_stands_in_the_file_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    found = of(
        entry("a", api_key=SECRET),
        entry("b", api_key="os.environ/OPENAI_API_KEY"),
        entry("c", api_key=SECRET),
        general_settings={"master_key": "sk-1234"},
    )
    text = written(found, "config.yaml") + json.dumps(found.report())
    assert SECRET not in text
    assert "sk-1234" not in text
    its = settings(found, monkeypatch)
    keys = {n: e.api_key.get_secret_value() for n, e in its.endpoints.items() if e.api_key}
    assert keys == {
        "openai": "secret of OPENAI_API_KEY_2",  # not that of another account
        "openai-2": "secret of OPENAI_API_KEY",
    }
    assert its.keys["master"].key.get_secret_value() == "secret of LITELLM_MASTER_KEY"


def test_fallbacks_and_aliases_are_places_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    found = of(
        entry("own", "ollama/llama3"),
        entry("big", "openai/gpt-4o"),
        router_settings={
            "fallbacks": [{"own": ["big", "nowhere"]}],
            "model_group_alias": {"gpt-4": "big", "lost": "nothing"},
        },
    )
    its = settings(found, monkeypatch)
    assert [p.endpoint for p in its.models["own"].served_by] == ["127.0.0.1", "openai"]
    assert its.models["gpt-4"].served_by[0].model == "gpt-4o"
    assert "lost" not in its.models
    left = told(found, Weight.LEFT_OUT)
    assert any("own to nowhere" in t for t in left)
    assert any("lost" in t for t in left)


def test_embeddings_of_different_weights_do_not_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    found = of(
        entry("embed", "openai/text-embedding-3-small"),
        entry("embed", "ollama/nomic-embed-text"),
        entry("chat", "ollama/llama3"),
        router_settings={"fallbacks": [{"embed": ["chat"]}]},
    )
    its = settings(found, monkeypatch)
    assert its.models["embed"].task == "embeddings"
    assert [p.endpoint for p in its.models["embed"].served_by] == ["openai"]
    assert any("must not mix" in t for t in told(found, Weight.LEFT_OUT))


def test_prices_are_kept_and_a_missing_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    priced = entry("a", input_cost_per_token=0.0000025, output_cost_per_token=0.00001)
    found = of(priced, entry("b"), entry("c", output_cost_per_token=0.000002))
    its = settings(found, monkeypatch)
    (place,) = its.models["a"].served_by
    assert place.price_usd_per_1k_input_tokens == pytest.approx(0.0025)
    assert place.price_usd_per_1k_output_tokens == pytest.approx(0.01)
    assert its.models["c"].served_by[0].price_usd_per_1k_tokens == pytest.approx(0.002)
    assert [t for t in told(found, Weight.CHECK) if "price" in t and t.startswith("b:")]


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (entry(model="bedrock/anthropic.claude-3"), "bedrock"),
        (entry(model="sagemaker/x"), "sagemaker"),
        (entry(model="triton/x", api_base="http://gpu:8000/v2/models/x/generate"), "kind triton"),
        (entry(model="cohere/command"), "not known to speak"),
        (entry(name="openai/*", model="openai/*"), "wildcard"),
        (entry(name="with spaces"), "no name for a model"),
        (entry(name="../up"), "no name for a model"),
        (entry(model="openai/a/../b"), "no name for a model at an endpoint"),
        (entry(model="openai/with spaces"), "no name for a model at an endpoint"),
        (entry(api_base="os.environ/BASE"), "stands in BASE"),
        (entry(api_base="http://user:word@host/v1"), "user name"),
        (entry(model="hosted_vllm/llama"), "needs an api_base"),
        (entry(model="azure/eu"), "no api_base"),
        ({**entry(), "model_info": {"mode": "image_generation"}}, "image_generation"),
        ({"model_name": "x"}, "no model_name"),
        ("text", "no model_name"),
    ],
)
def test_what_cannot_be_kept_is_told_and_the_rest_is_kept(
    made: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = of(made, entry("kept"))
    assert [t for t in told(found, Weight.LEFT_OUT) if words in t]
    assert list(settings(found, monkeypatch).models) == ["kept"]
    with pytest.raises(ConfigError, match="no model of this file"):
        of(made)


AS_LITELLM = {
    ("openrouter/deepseek/deepseek-r1:free", None): ("openrouter", "deepseek/deepseek-r1:free"),
    ("deepseek/deepseek-r1:free", "openrouter"): ("openrouter", "deepseek/deepseek-r1:free"),
    ("openrouter/deepseek/r1:free", "openrouter"): ("openrouter", "deepseek/r1:free"),
    ("ft:gpt-3.5-turbo:org::id", None): ("openai", "ft:gpt-3.5-turbo:org::id"),
    ("openai/ft:gpt-4o:org::id", None): ("openai", "ft:gpt-4o:org::id"),
    ("ft:gpt-4o:org/team::id", None): ("openai", "ft:gpt-4o:org/team::id"),
    ("ollama/llama3.2:3b", None): ("ollama", "llama3.2:3b"),
    ("ollama_chat/hf.co/a/B-GGUF:Q4_K_M", None): ("ollama_chat", "hf.co/a/B-GGUF:Q4_K_M"),
    ("hosted_vllm//models/llama", None): ("hosted_vllm", "/models/llama"),
    ("meta-llama/Llama-3", "hosted_vllm"): ("hosted_vllm", "meta-llama/Llama-3"),
    ("openai/gpt-4o", "litellm_proxy"): ("litellm_proxy", "openai/gpt-4o"),
    ("openai/claude@20240620", None): ("openai", "claude@20240620"),
}
"""(model, custom_llm_provider): the provider, and what it calls the model. `tests/clients` asks
LiteLLM itself."""


@pytest.mark.parametrize(("model", "stated"), AS_LITELLM)
def test_a_model_is_called_what_its_provider_calls_it(
    model: str, stated: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, name = AS_LITELLM[model, stated]
    base = f"http://{provider.replace('_', '-')}.test/v1"
    more = {} if stated is None else {"custom_llm_provider": stated}
    its = settings(of(entry("a@b:c/d", model, api_base=base, **more)), monkeypatch)
    (served,) = its.models["a@b:c/d"].served_by
    assert served.model == name
    assert its.endpoints[served.endpoint].url == base


def test_one_address_serves_a_name_with_all_its_models(monkeypatch: pytest.MonkeyPatch) -> None:
    free, paid = "deepseek/deepseek-r1:free", "deepseek/deepseek-r1"
    found = of(
        entry("r1", f"openrouter/{free}", input_cost_per_token=0, output_cost_per_token=0),
        entry("r1", f"openrouter/{paid}"),
        entry("r1", f"openrouter/{paid}"),
        entry("small:1", "openrouter/small:1"),
        entry("big:1", "openrouter/big:1"),
        router_settings={
            "fallbacks": [{"big:1": ["small:1"]}],
            "model_group_alias": {"latest@1": "r1", "no name": "r1"},
        },
    )
    its = settings(found, monkeypatch)
    assert list(its.endpoints) == ["openrouter"]
    for name in ("r1", "latest@1"):
        assert [(s.endpoint, s.model) for s in its.models[name].served_by] == [
            ("openrouter", free),
            ("openrouter", paid),
        ]
    assert [s.model for s in its.models["big:1"].served_by] == [None, "small:1"]
    left = told(found, Weight.LEFT_OUT)
    assert any(f"{paid} at openrouter: it is listed there already" in t for t in left)
    assert any("'no name' is no name for a model here" in t for t in left)


def test_every_other_setting_is_accounted_for() -> None:
    found = of(
        entry(),
        litellm_settings={"success_callback": ["x"], "novelty": 1, "request_timeout": 30},
        router_settings={"routing_strategy": "simple-shuffle"},
        guardrails=[
            {
                "litellm_params": {
                    "guardrail": "presidio",
                    "pii_entities_config": {"US_SSN": "MASK"},
                }
            },
            {"litellm_params": {"guardrail": "aporia"}},
        ],
        environment_variables={"REDIS_HOST": "x"},
        something_new={},
    )
    assert found.document["limits"] == {"default_latency_budget_ms": 30000}
    left = "\n".join(told(found, Weight.LEFT_OUT))
    for name in ("success_callback", "novelty", "routing_strategy", "aporia", "REDIS_HOST",
                 "something_new"):  # fmt: skip
        assert name in left
    assert "US_SSN" in "\n".join(told(found, Weight.CHECK))


_words = st.sampled_from(
    ["openai/gpt", "ollama/x", "azure/x", "bedrock/x", "chat", "a b", "", "os.environ/KEY",
     "http://gpu:1", "https://h.example.com/v1", "*", "x\n- y: 1", "# no", "${X}"]
)  # fmt: skip
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9999) | _words,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(_words, below, max_size=3),
    max_leaves=6,
)
_known = ("model", "api_base", "rpm", "max_parallel_requests", "input_cost_per_token")
_secret = {"api_key": st.just(SECRET) | _values}
_params = st.fixed_dictionaries({}, optional={**dict.fromkeys(_known, _values), **_secret})
_entries = st.fixed_dictionaries(
    {}, optional={"model_name": _values, "litellm_params": _params | _values, "model_info": _values}
)
_documents = st.fixed_dictionaries(
    {"model_list": st.lists(_entries, max_size=4).map(lambda some: [*some, entry("kept")])},
    optional={k: _values for k in ("litellm_settings", "router_settings", "guardrails", "other")}
    | {"general_settings": st.fixed_dictionaries({"master_key": st.just(SECRET) | _values})},
)


@given(document=_documents)
def test_whatever_is_in_the_file_the_settings_hold_and_have_no_secret(
    document: dict[str, Any],
) -> None:
    found = imported(document)
    its = dict(found.document)
    text = yaml.safe_dump(its)
    assert SECRET not in text
    for name in found.secrets:
        text = text.replace(f"${{{name}}}", "${file:/proc/self/comm}")
    config.parse(text)
    body = yaml.safe_load(written(found, "config.yaml"))
    assert body == its  # nothing of the notes got out of its comment


def test_the_command_writes_a_file_that_check_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, made = tmp_path / "config.yaml", tmp_path / "spillway.yaml"
    source.write_text(yaml.safe_dump({"model_list": [entry(api_key=SECRET)]}))
    assert main(["import", "litellm", str(source), "-o", str(made)]) == 0
    assert "OPENAI_API_KEY" in capsys.readouterr().err
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    assert main(["check", str(made)]) == 0
    assert main(["import", "litellm", str(source), "-o", str(made)]) == 2
    assert "there already" in capsys.readouterr().err
    assert main(["import", "litellm", str(source), "-o", str(made), "--force"]) == 0
    capsys.readouterr()
    assert main(["import", "litellm", str(source), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["secrets"] == {
        "OPENAI_API_KEY": "model_list[0].litellm_params"
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be a mapping"),
        ("- a", "must be a mapping"),
        ("a: [", "line 1: not valid YAML"),
        ("a: b", "there is no model_list"),
        ("model_list: []", "no model of this file"),
        ("a: \x00", "not valid YAML"),
    ],
)
def test_a_file_that_is_none_of_litellms_is_refused_with_the_reason(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "config.yaml"
    source.write_text(text)
    assert main(["import", "litellm", str(source)]) == 2
    assert words in capsys.readouterr().err
    assert main(["import", "litellm", str(tmp_path / "nowhere.yaml")]) == 2
    assert "cannot be read" in capsys.readouterr().err
