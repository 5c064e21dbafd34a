"""What Hyperscan matches and the recognizer would not is no reason for a scan; what it would is."""

from __future__ import annotations

import random

import pytest
import regex
from presidio_analyzer.predefined_recognizers import MedicalLicenseRecognizer

from gateway.classify.gate.armed import ArmedGate, dump, load
from gateway.classify.gate.confirmation import MOST_CONFIRMED, Confirmation, is_dea_number
from gateway.classify.gate.recognized import CONFIRMED
from gateway.classify.patterns.store import BlobStore
from gateway.classify.patterns.syntax import parse
from gateway.classify.scanner.recognizers import PresidioScanner
from tests.unit.classify.test_gate import armed
from tests.unit.classify.test_gate_signs import written

_FLAGS = 26  # as Presidio compiles
_DEA = MedicalLicenseRecognizer.PATTERNS[0].regex


@pytest.fixture(scope="session")
def gate(scanner: PresidioScanner) -> ArmedGate:
    return armed(scanner.needs(), BlobStore.for_user())


@pytest.mark.parametrize(
    "text",
    [
        "the variant rs6034464 of the gene",
        "lawsuit case 'LAX2019080202'",
        "an Uber from 221B Baker Street, Berkeley",
        "a tour of 10 Downing Street and of 1600 Pennsylvania Avenue",
        "he lost in 100 Supreme Court cases",
    ],
)
def test_what_is_not_confirmed_is_clear(
    text: str, gate: ArmedGate, scanner: PresidioScanner
) -> None:
    assert scanner.scan(text) == []
    assert gate.clear(text)


@pytest.mark.parametrize(
    "text",
    [
        "the variant rs6034463 of the gene",
        "rs6034464 and BX1234563",
        "from 221B Baker Street to 221 Baker Street",
        "In 2008 Wall Street fell",
        "**BX**1234563",
        "221B Baker Street\nor 7&#32;Main Street",
    ],
)
def test_what_is_confirmed_is_scanned(text: str, gate: ArmedGate) -> None:
    assert not gate.clear(text)


def test_a_text_that_takes_too_long_to_confirm_is_scanned(gate: ArmedGate) -> None:
    words = "the variant rs6034464 of a" + " gene" * (MOST_CONFIRMED // 5)
    assert gate.clear(words[:MOST_CONFIRMED])
    assert not gate.clear(words[: MOST_CONFIRMED + 1])


def test_a_match_is_confirmed_from_each_character_on() -> None:
    """A window of the scanner may begin at any."""
    confirmation = Confirmation("MedicalLicenseRecognizer", _DEA, _FLAGS)
    assert not is_dea_number("AB9123456")
    assert is_dea_number("B91234563")
    assert confirmation.holds("AB91234563")


def test_check_digits_are_those_of_presidio() -> None:
    rng, recognizer = random.Random(7), MedicalLicenseRecognizer()
    values = [rng.choice(("AB", "K9")) + f"{rng.randrange(10**7):07}" for _ in range(500)]
    right = [value for value in values if is_dea_number(value)]
    assert right == [value for value in values if recognizer.validate_result(value)]
    assert 20 < len(right) < 80


def test_every_expression_that_is_confirmed_is_in_use(scanner: PresidioScanner) -> None:
    needs = {n.expression: n.confirmed for n in scanner.needs().needs if n.confirmed}
    assert needs == CONFIRMED


def test_a_confirmation_matches_what_the_expression_matches(scanner: PresidioScanner) -> None:
    """Also where what stands before is cut off, as at the start of a window."""
    rng, matches = random.Random(5), 0
    for need in scanner.needs().needs:
        if not need.confirmed:
            continue
        own, confirmed = (regex.compile(e, need.flags) for e in (need.expression, need.confirmed))
        tree = parse(need.expression, need.flags)
        for _ in range(1_000):
            before = rng.choice(("", "in ", "the ", "x 2008 ", "(", "3, ", "221B Baker Street, "))
            text = before + written(tree, rng) + rng.choice(("", ".", " 4", "s", " Court"))
            if any(own.search(text[at:]) for at in range(9) if not text[at - 1 : at].isalnum()):
                assert confirmed.search(text), text
                matches += 1
    assert matches > 200


def test_confirmations_survive_the_cache(gate: ArmedGate) -> None:
    assert gate.gate is not None
    loaded = load(dump(gate.gate))
    kept = [question.confirmations for question in loaded.compiled.questions]
    assert kept == [question.confirmations for question in gate.gate.compiled.questions]
    assert sum(map(len, kept)) == len(CONFIRMED)
