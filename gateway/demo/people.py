"""People who do not exist, with identifiers that look as real ones do: check digits are right.

Numbers come from ranges set aside for fiction and tests where there are any (Ofcom's drama numbers,
example.org), so that nobody is called by accident.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

_FIRST = ("Alma", "Boris", "Chiara", "Dmitri", "Elena", "Farid", "Greta", "Hugo", "Ingrid", "Jonas")
_LAST = (
    "Abbott",
    "Brandt",
    "Castell",
    "Dorn",
    "Eklund",
    "Ferrari",
    "Grau",
    "Holm",
    "Ivers",
    "Jost",
)
MOST_PEOPLE = 1000  # as many as there are numbers from +44 20 7946 0000 to 0999


@dataclass(frozen=True, slots=True)
class Person:
    """No two of one crowd share any identifier, so one found somewhere tells whose it is."""

    name: str
    email: str
    phone: str
    iban: str
    card: str
    ssn: str


def crowd(dice: random.Random, size: int) -> list[Person]:
    """`size` people, at most MOST_PEOPLE."""
    phones = dice.sample(range(MOST_PEOPLE), size)
    accounts = dice.sample(range(10**9, 10**10), size)
    serials = dice.sample(range(1, 10_000), size)
    return [
        _person(dice, at, phone, account, serial)
        for at, (phone, account, serial) in enumerate(zip(phones, accounts, serials, strict=True))
    ]


def _person(dice: random.Random, at: int, phone: int, account: int, serial: int) -> Person:
    first, last = dice.choice(_FIRST), dice.choice(_LAST)
    return Person(
        name=f"{first} {last}",
        email=f"{first.lower()}.{last.lower()}{at:03}@example.org",
        phone=f"+44 20 7946 {phone:04}",
        iban=iban("DE", f"37040044{account}"),
        card=card(f"400000{account:010}"[:15]),
        ssn=f"219-09-{serial:04}",
    )


def iban(country: str, account: str) -> str:
    """ISO 13616: the two digits that make the number, rearranged, 1 modulo 97."""
    digits = "".join(str(int(character, 36)) for character in f"{account}{country}00")
    return f"{country}{98 - int(digits) % 97:02}{account}"


def card(stem: str) -> str:
    """ISO/IEC 7812: the stem and Luhn's digit, in groups of four."""
    total = 0
    for at, character in enumerate(reversed(stem)):
        doubled = int(character) * (2 if at % 2 == 0 else 1)
        total += doubled - 9 if doubled > 9 else doubled
    whole = f"{stem}{-total % 10}"
    return " ".join(whole[at : at + 4] for at in range(0, len(whole), 4))
