"""What the demo's callers say. Each text carries words that occur in no other call.

`needles` are what must not be found in the cloud when the text is restricted, and what must be
found there when a clear one was served there: the search is shown to work on the same run.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from gateway.demo.people import Person

_WORDS = (
    "amber", "anchor", "barley", "basket", "birch", "bramble", "button", "candle", "cedar",
    "clover", "cobalt", "copper", "cotton", "ember", "feather", "fennel", "garnet", "ginger",
    "granite", "hazel", "heron", "indigo", "ivory", "juniper", "kettle", "lantern", "linen",
    "magnet", "maple", "marble", "meadow", "nutmeg", "oyster", "paddle", "pebble", "pepper",
    "pewter", "pigeon", "plaster", "quartz", "ribbon", "saddle", "saffron", "silver", "spindle",
    "thistle", "timber", "velvet", "walnut", "willow",
)  # fmt: skip

_RESTRICTED = (
    "Please answer {name}, who wrote from {email} about a bill that was paid twice.",
    "Summarise for the file: {name}, reached at {phone}, asks for an appointment next week.",
    "The refund goes to {iban}, account holder {name}. Write two friendly sentences.",
    "{name} disputes a charge on card {card}. Draft a reply to {email}.",
    "Patient {name}, SSN {ssn}, complains of a headache since Monday. Suggest questions to ask.",
    "Call back {name} at {phone}, or write to {email}: the parcel was damaged.",
)
_CLEAR = (
    "Explain in two sentences how a heat pump warms a house.",
    "Write a short note that thanks a team for a clean release.",
    "What should a checklist for a night shift in a warehouse contain?",
    "Give three ideas for a poster about saving water.",
    "Why does bread rise, and what slows it down?",
    "Describe the sound of rain on a tin roof.",
    "List what to look at when a conveyor belt starts to squeak.",
    "How do tides work? Keep it simple.",
)


@dataclass(frozen=True, slots=True)
class DemoText:
    words: str
    needles: tuple[str, ...]


class Markers:
    """Four plain words a call, never the same twice: no detector takes them for anything."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._given: set[str] = set()

    def next(self) -> str:
        while True:
            marker = "-".join(self._dice.sample(_WORDS, 4))
            if marker not in self._given:
                self._given.add(marker)
                return marker


def restricted(dice: random.Random, person: Person, marker: str) -> DemoText:
    template = dice.choice(_RESTRICTED)
    identifiers = {
        "email": person.email,
        "phone": person.phone,
        "iban": person.iban,
        "card": person.card,
        "ssn": person.ssn,
    }
    words = template.format(name=person.name, **identifiers)
    needles = tuple(value for key, value in identifiers.items() if f"{{{key}}}" in template)
    return DemoText(f"{words} (note {marker})", (marker, *needles))


def clear(dice: random.Random, marker: str) -> DemoText:
    return DemoText(f"{dice.choice(_CLEAR)} (note {marker})", (marker,))
