"""Who may look at the page `/console`, and who may act on it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr, model_validator

from gateway.config.section import Contradiction, Count, Name, Section

KeyId = Annotated[str, Field(pattern=r"^[a-z2-7]{12}$")]


class OperatorSettings(Section):
    """One person or team. A caller's key opens nothing here: the page shows every tenant."""

    key: SecretStr | None = Field(None, description="a reference; or issued_key")
    issued_key: KeyId | None = Field(
        None, description="the id of a key that `spillway keys` issued; it makes no calls then"
    )
    may: Literal["look", "operate"] = Field(
        "look", description="operate: drain endpoints and stop what leaves, too"
    )

    @model_validator(mode="after")
    def _known_by_one_thing(self) -> OperatorSettings:
        if (self.key is None) is (self.issued_key is None):
            raise Contradiction(("key",), "give this operator either a key or an issued_key")
        return self


class ConsoleSettings(Section):
    """The page for whoever is on call."""

    enabled: bool = True
    tail: Count = Field(500, description="decisions that are kept to be looked at")
    operators: dict[Name, OperatorSettings] = Field({})
