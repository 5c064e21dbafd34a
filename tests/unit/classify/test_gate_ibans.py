"""What the gate knows of account numbers holds for each country that the recognizers know."""

from __future__ import annotations

import random
import re

import pytest
from presidio_analyzer.predefined_recognizers.generic import iban_patterns
from stdnum import iban

from gateway.classify.gate.recognized import IBAN

_CHARS = {"n": "0123456789", "a": "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_CHARS["c"] = _CHARS["n"] + _CHARS["a"]
STRUCTURES = {low: found["bban"] for _, low, _, found, _ in iban._ibandb.prefixes}


def narrower() -> re.Pattern[str]:
    return re.compile(IBAN, re.IGNORECASE)


@pytest.mark.parametrize("country", sorted(STRUCTURES))
@pytest.mark.parametrize("separator", ["", " ", "-"])
def test_an_account_number_of_every_country_is_seen(country: str, separator: str) -> None:
    rng = random.Random(country)
    for _ in range(20):
        number = country + "12"
        for count, kind in re.findall(r"(\d+)!([nac])", STRUCTURES[country]):
            number += "".join(rng.choices(_CHARS[kind], k=int(count)))
        written = separator.join((country, "12", *number[4:]))
        assert narrower().search(written), number


def test_presidio_knows_no_other_countries() -> None:
    assert set(iban_patterns.regex_per_country) <= set(STRUCTURES)


@pytest.mark.parametrize(
    "text", ["in 20 pencils and 3", "On 2024-01-15 it came", "at 12 to 1 noon"]
)
def test_everyday_text_is_no_account_number(text: str) -> None:
    assert not narrower().search(text)
