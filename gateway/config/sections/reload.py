"""Whether a running gateway follows its settings file."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from gateway.config.section import Positive, Section


class ReloadSettings(Section):
    """How the settings are read again while the gateway runs."""

    watch: bool = Field(
        True, description="read the file again when it changes; false: on SIGHUP alone"
    )
    commands_s: Positive = Field(
        300.0, description="between two runs of the commands that secrets come from"
    )
    environment: Path | None = Field(
        None, description="a file of lines NAME=value, over the variables of the environment"
    )
