"""Settings of other gateways, as Spillway's: what could be kept, and what somebody has to look at.

A guess is always the one that keeps more at home: what is not certain to stand on the premises is
in zone `cloud`, where no restricted call goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Weight(Enum):
    CHECK = "check"
    """Kept by a guess: somebody who knows has to say whether it is right."""
    LEFT_OUT = "left out"
    """Nothing here does that; what to do instead is said."""


@dataclass(frozen=True, slots=True)
class Note:
    weight: Weight
    where: str  # in the file that was read
    text: str


@dataclass(slots=True)
class Imported:
    """A document of settings (secrets as references), and what is to be said of it."""

    document: dict[str, Any] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)  # variable: what belongs into it

    def check(self, where: str, text: str) -> None:
        self.notes.append(Note(Weight.CHECK, where, text))

    def left_out(self, where: str, text: str) -> None:
        self.notes.append(Note(Weight.LEFT_OUT, where, text))

    def report(self) -> Mapping[str, Any]:
        return {
            "settings": self.document,
            "secrets": self.secrets,
            "notes": [{"weight": n.weight.value, "where": n.where, "told": n.text}
                      for n in self.notes],
        }  # fmt: skip
