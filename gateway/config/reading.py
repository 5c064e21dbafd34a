"""A settings file as Settings, or as the lines that say what is wrong in it (O1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.config.settings import Settings
from gateway.config.validation import validated
from gateway.core import yaml_document


def schema() -> dict[str, Any]:
    """The JSON schema of the file, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Settings.model_json_schema(),
    }


def load(path: Path) -> Settings:
    """Settings of a YAML file. Raises ConfigError, each line `file:line: key: what to do`."""
    return validated(yaml_document.read(path), Settings)


def parse(text: str, name: str = "<config>") -> Settings:
    return validated(yaml_document.parse(text, name), Settings)
