"""What each recognizer finds in sentences of eight languages, and what it leaves alone there.

sentences.tsv has a language, a type and a sentence, in which the value stands between marks; no
type where there is none. The values are invented, or published as examples by their issuers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.classify.profile import Profile
from gateway.classify.scanner.recognizers import PresidioScanner
from gateway.config import ClassifySettings

LINES = (Path(__file__).parent / "sentences.tsv").read_text("utf-8").splitlines()
CASES = [line.replace("\\n", "\n").split("\t") for line in LINES]
FOUND = [(type_, marked) for _, type_, marked in CASES if type_]
HARMLESS = [text for _, type_, text in CASES if not type_]
STRICT = ClassifySettings(profile="strict")


@pytest.fixture(scope="module")
def strict() -> PresidioScanner:
    return PresidioScanner(STRICT, Profile.from_settings(STRICT).types)


@pytest.mark.parametrize(("type_", "marked"), FOUND)
def test_an_identifier_is_found_where_it_stands(
    type_: str, marked: str, strict: PresidioScanner
) -> None:
    before, value, after = marked.replace("⟧", "⟦").split("⟦")
    found = strict.scan(before + value + after)
    start, end = len(before), len(before) + len(value)
    assert any(f.type == type_ and f.start < end and start < f.end for f in found), found
    assert all(f.end - f.start <= len(value) + 20 for f in found if f.type == type_)


@pytest.mark.parametrize("text", HARMLESS)
def test_a_sentence_without_identifiers_restricts_nothing(
    text: str, strict: PresidioScanner
) -> None:
    found = strict.scan(text)
    assert not Profile.from_settings(STRICT).restricts(found), found


def test_what_stands_before_a_number_is_not_found_in_the_number(strict: PresidioScanner) -> None:
    """Numbers in an odd dress are read again behind the words before them."""
    text = "write to heyden@aol.com. Document reference FILE-201703-7719"
    found = [text[f.start : f.end] for f in strict.scan(text) if f.type == "EMAIL_ADDRESS"]
    assert found == ["heyden@aol.com"]


@pytest.mark.parametrize(
    "text",
    [
        "Version 10.4.11.2 broke the build, 10.4.11.1 was fine.",
        "After release 6.3.14.2 (before: 6.3.14.1 and 6.2.0.9) the page is blank.",
        "Monthly sales: 1350 9719 2232 1399 1620 1710. Forecast the next three.",
        "Column A: 4501 4502 4503 4504; column B: 17 18 19 20. Join them.",
        "The lottery numbers were 41 07 42 25 21 03.",
        "Artikel 0658-680-487, 0658-680-488 und 0658-680-489 sind vergriffen.",
        "Parts 0312 345678 and 0312 345679",
    ],
)
def test_lists_of_numbers_hold_nobody(text: str, strict: PresidioScanner) -> None:
    assert strict.scan(text) == []


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("IP_ADDRESS", "Version 10.4.11.2 runs on the server 81.2.69.142."),
        ("IP_ADDRESS", "Version 6.3.1.4\nIP: 192.120.45.67"),
        ("IP_ADDRESS", "Version 6.3.1.4 is out! Try 192.120.45.67"),
        ("IN_AADHAAR", "9719 2232 1399"),
        ("IN_AADHAAR", "Aadhaar 9719 2232 1399 1620 1710"),
        ("IN_AADHAAR", "9719 2232 1399 1620"),
        ("CREDIT_CARD", "4111 1111 1111 1111 1228 0737"),
        ("PHONE_NUMBER", "tél. 33 07 42 25 21 03"),
        ("PHONE_NUMBER", "01 42 34 56 78, 07 42 25 21 03"),
        ("PHONE_NUMBER", "Artikel 4711, Telefon 0658-680-487"),
        ("PHONE_NUMBER", "Artikel 12345, 0658-680-487"),
    ],
)
def test_a_value_in_a_list_of_numbers_counts(
    type_: str, text: str, strict: PresidioScanner
) -> None:
    assert type_ in {finding.type for finding in strict.scan(text)}
