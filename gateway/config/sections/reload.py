"""Whether a running gateway follows its settings file."""

from __future__ import annotations

from pydantic import Field

from gateway.config.section import Section


class ReloadSettings(Section):
    """How the settings are read again while the gateway runs."""

    watch: bool = Field(
        True, description="read the file again when it changes; false: on SIGHUP alone"
    )
