"""What every section of the settings is made of."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from gateway.configfile import Where

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
AtLeastOne = Annotated[float, Field(ge=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Score = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
ProfileName = Literal["patterns", "balanced", "strict"]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$")]


class Contradiction(ValueError):
    """Settings that do not go together; `where` leads from the section to the one to mend."""

    def __init__(self, where: Where, message: str) -> None:
        super().__init__(message)
        self.where, self.message = where, message


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def known(names: Collection[str]) -> str:
    """For messages about a name that leads nowhere."""
    return f"there are: {', '.join(sorted(names)) or 'none'}"
