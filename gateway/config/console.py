"""Who may look at the page `/console`, and who may act on it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from gateway.config.section import Count, Name, Section


class OperatorSettings(Section):
    """One person or team. A caller's key opens nothing here: the page shows every tenant."""

    key: SecretStr
    may: Literal["look", "operate"] = Field(
        "look", description="operate: drain endpoints and stop what leaves, too"
    )


class ConsoleSettings(Section):
    """The page for whoever is on call."""

    enabled: bool = True
    tail: Count = Field(500, description="decisions that are kept to be looked at")
    operators: dict[Name, OperatorSettings] = Field({})
