"""What is changed in the fields of a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from gateway.config.section import Contradiction, Section

_FIXED = ("model", "stream")


class FieldChanges(Section):
    """Of the calls of one model, before they are read: what is read is what is sent."""

    set: dict[str, Any] = Field({}, description="field → its value, whatever the call says")
    default: dict[str, Any] = Field({}, description="field → its value where the call has none")
    remove: tuple[str, ...] = Field((), description="fields that are left out")

    @model_validator(mode="after")
    def _once_each(self) -> FieldChanges:
        stated = [*self.set, *self.default, *self.remove]
        for name in stated:
            if name in _FIXED:
                raise Contradiction((), f"{name} says where the call goes and how; drop it")
            if stated.count(name) > 1:
                raise Contradiction((), f"{name} stands in two of set, default and remove")
        return self

    def applied(self, document: Mapping[str, Any]) -> dict[str, Any]:
        changed = {**self.default, **document, **self.set}
        for name in self.remove:
            changed.pop(name, None)
        return changed
