"""The operator's recognizers in Presidio's YAML: taken as they are, or refused with the line."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml
from presidio_analyzer.recognizer_registry import RecognizerRegistryProvider

from gateway.classify.patterns import registry
from gateway.config import ClassifySettings
from gateway.core.yaml_document import ConfigError

ZIP = """\
recognizers:
- name: Zip
  supported_language: en
  supported_entity: ZIP
  patterns: [{name: weak, regex: '\\b\\d{5}\\b', score: 0.5}]
"""
WHOLE = """\
supported_languages: [en]
global_regex_flags: 26
recognizers:
- name: CreditCardRecognizer
  type: predefined
- name: Zip
  type: custom
  supported_languages: [{language: en}]
  supported_entity: ZIP
  patterns: [{name: weak, regex: '\\b\\d{5}\\b', score: 0.5}]
"""


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "recognizers.yaml"
    path.write_text(text)
    return path


def _names(found: Any) -> set[str]:
    return {recognizer.name for recognizer in found.recognizers}


@pytest.mark.parametrize("languages", [("en",), ("de", "xx"), ("en", "es", "it", "pl", "ko", "th")])
def test_presidios_own_are_those_of_its_provider(languages: tuple[str, ...]) -> None:
    file = resources.files("presidio_analyzer") / "conf" / "default_recognizers.yaml"
    configuration = {**yaml.safe_load(file.read_bytes()), "supported_languages": [*languages]}
    provider = RecognizerRegistryProvider(registry_configuration=configuration)
    theirs = provider.create_recognizer_registry()
    ours = registry.load(ClassifySettings(languages=languages))
    assert _told(ours) == _told(theirs)
    assert len([*ours.recognizers]) >= len(languages) * 5


def _told(found: Any) -> list[Any]:
    """All that is said of the recognizers, but for who they are: an id has an address in it."""
    return [found.supported_languages, found.global_regex_flags] + [
        (
            type(recognizer).__name__,
            [(p.name, p.regex, p.score) for p in getattr(recognizer, "patterns", ())],
            sorted(
                (name, repr(value))
                for name, value in vars(recognizer).items()
                if " at 0x" not in repr(value) and name not in ("id", "_id")
            ),
        )
        for recognizer in found.recognizers
    ]


def test_pattern_recognizers_come_on_top_of_presidios_own(tmp_path: Path) -> None:
    found = registry.load(ClassifySettings(recognizers=_file(tmp_path, ZIP)))
    names = _names(found)
    assert {"Zip", "CreditCardRecognizer", "IbanRecognizer"} <= names


def test_a_registry_stands_in_for_presidios_own(tmp_path: Path) -> None:
    found = registry.load(ClassifySettings(registry=_file(tmp_path, WHOLE)))
    assert _names(found) == {"Zip", "CreditCardRecognizer"}


@pytest.mark.parametrize(
    ("key", "text", "line", "says"),
    [
        ("recognizers", "recognizers: [", 1, "not valid YAML"),
        ("recognizers", "- a\n", 1, "must be a mapping"),
        ("recognizers", "recognizers: 5\n", 1, "must be a list"),
        ("recognizers", ZIP.replace("{5}", "{5}("), 2, "regex"),
        ("recognizers", ZIP.replace("score: 0.5", "score: 5"), 2, "score"),
        ("recognizers", ZIP.replace("supported_language: en", "supported_language: fr"), 2, "'fr'"),
        ("recognizers", ZIP + "- 7\n", 6, "must be a mapping"),
        ("registry", WHOLE.replace("[en]", "[fr]"), 1, "lacks en"),
        ("registry", WHOLE.replace("CreditCard", "CreditKart"), 4, "CreditKart"),
        ("registry", WHOLE.replace("{5}", "{5}("), 6, "regex"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(
    tmp_path: Path, key: str, text: str, line: int, says: str
) -> None:
    path = _file(tmp_path, text)
    settings = ClassifySettings.model_validate({key: path})
    with pytest.raises(ConfigError) as refused:
        registry.load(settings)
    assert str(refused.value).startswith(f"{path}:{line}: ")
    assert says in str(refused.value)
