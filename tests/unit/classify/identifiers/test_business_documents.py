"""Business documents without personal data stay clear: they are full of numbers and of capitals."""

from __future__ import annotations

import random
import re

import pytest

from gateway.classify.profile import Profile
from gateway.classify.scanner.recognizers import PresidioScanner
from gateway.config import ClassifySettings
from tests.unit.classify.identifiers.business_documents import DOCUMENTS
from tests.unit.classify.identifiers.test_sentences import STRICT

MOST = 1
"""Documents that may be flagged: digits meet a check digit by chance."""
BALANCED = ClassifySettings()
_CODE = re.compile(r"(?<!\d)(?!20[0-3]\d(?!\d))\d{3,}")


@pytest.fixture(scope="module")
def scanner() -> PresidioScanner:
    return PresidioScanner(STRICT, Profile.from_settings(STRICT).types)


def flagged(scanner: PresidioScanner, documents: list[str]) -> list[str]:
    profile = Profile.from_settings(BALANCED)
    return [text for text in documents if profile.restricts(scanner.scan(text))]


def test_patterns_flag_next_to_none(scanner: PresidioScanner) -> None:
    assert len(flagged(scanner, list(DOCUMENTS))) <= MOST


def test_patterns_flag_few_of_the_same_documents_with_other_codes(scanner: PresidioScanner) -> None:
    """A card's or a person's check digit is met by one code in ten to one in a hundred."""
    dice = random.Random(21)
    others = [_CODE.sub(lambda code: _other(dice, code[0]), text) for text in DOCUMENTS]
    assert len(flagged(scanner, others)) <= len(others) // 10


def _other(dice: random.Random, code: str) -> str:
    return code[0] + "".join(dice.choice("0123456789") for _ in code[1:])
