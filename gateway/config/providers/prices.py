"""What a provider publishes that its models cost, each price from a day on."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated

from pydantic import Field

from gateway.config.section import NotNegative, Section

_DATED = re.compile(r"-20\d\d-?\d\d-?\d\d")


class ModelPrice(Section):
    """US dollars for a million tokens of one model."""

    model: Annotated[str, Field(min_length=1)] = Field(
        description="its name there; snapshots of it with a date behind the name cost the same"
    )
    since: date
    input: NotNegative
    output: NotNegative = 0.0
    cached: NotNegative | None = Field(None, description="of input that was in the cache")
    cache_write: NotNegative | None = Field(None, description="of input that is put there")


class PriceTable(Section):
    """The provider's price list; what its settings state stands over it."""

    source: str = Field(description="where the provider publishes it")
    checked: date = Field(description="the last day on which it was compared with the source")
    models: tuple[ModelPrice, ...] = ()

    def price(self, model: str, day: date) -> ModelPrice | None:
        """What counts on that day; None: not listed."""
        names = [model]
        if (dated := _DATED.search(model)) and dated.end() == len(model):
            names.append(model[: dated.start()])
        for name in names:
            listed = [each for each in self.models if each.model == name and each.since <= day]
            if listed:
                return max(listed, key=lambda each: each.since)
        return None
