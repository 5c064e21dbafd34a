"""The settings that ship are right, and keep what they should."""

from __future__ import annotations

from pathlib import Path

import gateway
from gateway import config
from gateway.core.types import Zone

SHIPPED = Path(gateway.__file__).parent / "default.yaml"


def test_without_a_file_nothing_can_leave() -> None:
    settings = config.load(SHIPPED)
    assert {e.zone for e in settings.endpoints.values()} == {Zone.ONPREM}
    assert settings.listen.host == "127.0.0.1"
    assert not settings.listen.exposed


def test_every_model_of_the_default_lies_in_the_repository_that_ships() -> None:
    models = Path(__file__).parents[2] / "models"
    for name in config.load(SHIPPED).models:
        assert (models / name / "config.pbtxt").is_file(), name


def test_what_nobody_sets_is_the_careful_choice() -> None:
    settings = config.parse("endpoints: {}\nmodels: {}\n")
    assert settings.classify.on_unknown == "onprem"
    assert settings.undeclared_models == "onprem"
    assert config.ModelSettings.model_fields["tensors"].default == "restricted"
    assert config.EndpointSettings.model_fields["i_know"].default is False
    assert config.EndpointSettings.model_fields["zone"].is_required()


def test_calls_are_not_hedged_unless_the_settings_say_so() -> None:
    """A7: a second try costs twice, and not every model is without effect."""
    assert not config.parse("endpoints: {}\nmodels: {}\n").routing.hedge
