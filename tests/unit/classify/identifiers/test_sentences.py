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
