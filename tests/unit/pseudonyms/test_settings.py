"""Where surrogates are allowed: nowhere by default, and only where text comes back."""

from __future__ import annotations

import pytest

from gateway import config
from gateway.auth import ANYONE
from gateway.config import ConfigError, KeySettings, ModelSettings

HEAD = "endpoints: {gpu: {kind: triton, zone: onprem, grpc: 'gpu:8001'}}\nmodels:\n  m:\n"


def model(task: str, allowed: str) -> str:
    lines = [f"task: {task}", "served_by: [{endpoint: gpu}]", f"pseudonymise: {allowed}"]
    return HEAD + "".join(f"    {line}\n" for line in lines)


def test_nothing_allows_surrogates_by_itself() -> None:
    assert ModelSettings.model_fields["pseudonymise"].default is False
    assert KeySettings.model_fields["pseudonymise"].default is False
    assert ANYONE.pseudonymise is False


def test_a_model_that_generates_may_allow_them() -> None:
    assert config.parse(model("generate", "true")).models["m"].pseudonymise


@pytest.mark.parametrize("task", ["infer", "embeddings"])
def test_a_model_whose_answers_are_no_text_may_not(task: str) -> None:
    with pytest.raises(ConfigError, match=r"<config>:6: models\.m\.pseudonymise: task"):
        config.parse(model(task, "true"))
    config.parse(model(task, "false"))
