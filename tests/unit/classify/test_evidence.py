"""What proves by itself that a text restricts is what a scan of that text would find."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from stdnum import iban

from gateway.classify.conversations.memory import BETWEEN
from gateway.classify.gate.armed import ArmedGate
from gateway.classify.gate.evidence import (
    ADDRESS,
    CARD_IN_GROUPS,
    FLAGS,
    IBAN,
    SOCIAL_SECURITY,
    Evidence,
    iban_in,
    is_sure_card,
    may_be_social_security,
)
from gateway.classify.patterns.store import BlobStore
from gateway.classify.profile import Profile
from gateway.classify.scanner.recognizers import PresidioScanner
from gateway.config import ClassifySettings
from tests.unit.classify import test_gate

PROFILE = Profile.from_settings(ClassifySettings())
PROVEN = (
    ("write to anna.kern@mail.example.org today", "EMAIL_ADDRESS"),
    ("her number is 536-90-4399.", "US_SSN"),
    ("charge 4111 1111 1111 1111, please", "CREDIT_CARD"),
    ("charge 4111111111111111 then", "CREDIT_CARD"),
    ("amex 3782-822463-10005", "CREDIT_CARD"),
    ("pay to DE89 3704 0044 0532 0130 00 now", "IBAN_CODE"),
    ("pay to gb29nwbk60161331926819 now", "IBAN_CODE"),
)
NOT_PROVEN = (
    "mail icon@2x.png or git@github.com:a/b.git",
    "call a@b.mean( x )",
    "the order 4111 1111 1111 1112 has a wrong check digit",
    "area 666-12-3456 and 000-12-3456 and 536-00-4399 are nobody's",
    "pay to DE88 3704 0044 0532 0130 00 now",
    "1.2.3 4.5.6 of 2024-01-15 in 3 of 12",
    "",
)


@pytest.fixture(scope="session")
def evidence(scanner: PresidioScanner) -> Evidence:
    return armed(scanner)


def armed(scanner: PresidioScanner, *allowed: str) -> Evidence:
    found = Evidence()
    found.arm({need.recognizer for need in scanner.needs().needs}, allowed)
    return found


@pytest.mark.parametrize(("text", "kind"), PROVEN)
def test_a_value_is_proof_that_a_scan_confirms(
    text: str, kind: str, evidence: Evidence, scanner: PresidioScanner
) -> None:
    assert evidence.find(text, PROFILE) == kind
    assert kind in {f.type for f in scanner.scan(text)}


@pytest.mark.parametrize("text", NOT_PROVEN)
def test_what_only_looks_alike_is_no_proof(text: str, evidence: Evidence) -> None:
    assert evidence.find(text, PROFILE) is None


@pytest.mark.parametrize(("text", "kind"), PROVEN)
def test_only_what_restricts_this_caller_is_proof(text: str, kind: str, evidence: Evidence) -> None:
    other = dataclasses.replace(PROFILE, types=PROFILE.types - {kind})
    assert evidence.find(text, other) is None
    strict = dataclasses.replace(PROFILE, threshold=1.01)
    assert evidence.find(text, strict) is None


@pytest.mark.parametrize(("text", "kind"), PROVEN)
def test_what_the_scanner_does_not_look_for_is_no_proof(text: str, kind: str) -> None:
    found = Evidence()
    assert found.find(text, PROFILE) is None, "nothing is, before it is known"
    found.arm((), ())
    assert found.find(text, PROFILE) is None


def test_a_value_that_the_operator_allows_is_no_proof(scanner: PresidioScanner) -> None:
    allowed = ("anna.kern@mail.example.org", "DE89 3704 0044 0532 0130 00", "4111 1111 1111 1111")
    found = armed(scanner, *allowed)
    assert [found.find(text, PROFILE) for text, kind in (PROVEN[0], PROVEN[2], PROVEN[5])] == [
        None, None, None,
    ]  # fmt: skip
    assert found.find("write to bert.kern@mail.example.org", PROFILE) == "EMAIL_ADDRESS"


def test_a_text_full_of_what_looks_alike_is_left_to_a_worker(evidence: Evidence) -> None:
    assert evidence.find("icon@2x.png " * 200 + "anna@mail.example.org", PROFILE) is None
    assert evidence.find("icon@2x.png " * 20 + "anna@mail.example.org", PROFILE) is not None


_ACCOUNT = regex.compile(r"[0-9]{2}(?:(?<=[A-Za-z]{2}..)|(?<=[A-Za-z]{2}[ -]..))[ -]?[A-Za-z0-9]")
_NUMBER = regex.compile(r"[0-9][0-9 .-]{7,}[0-9]")


def plainly_found(text: str) -> str | None:
    """`Evidence.find` of everything, as it reads: each expression is tried at each character."""
    addresses = [(max(0, at - 65), at + 640) for at, c in enumerate(text) if c == "@"]
    numbers = [(m.start(), m.end() + 8) for m in _NUMBER.finditer(text)]
    accounts = [
        (m.start() - 2 - (not text[m.start() - 1].isalpha())) for m in _ACCOUNT.finditer(text)
    ]
    for kind, expression, places, holds in (
        ("EMAIL_ADDRESS", ADDRESS, addresses, lambda value: True),
        ("US_SSN", SOCIAL_SECURITY, numbers, may_be_social_security),
        ("CREDIT_CARD", CARD_IN_GROUPS, numbers, is_sure_card),
        ("IBAN_CODE", IBAN, [(at, at + 66 + 8) for at in accounts], plainly_an_account),
    ):
        for start, last in places[:32]:
            end = min(last, len(text))
            match = regex.compile(expression, FLAGS).search(text, start, end)
            if match is None or len(match[0]) > 254 or match.end() == end < len(text):
                continue
            if holds(match[0]):
                return kind
    return None


def plainly_an_account(value: str) -> int | None:
    compact = ""
    for at, character in enumerate(value, 1):
        compact += character if character.isalnum() else ""
        whole = at == len(value) or not value[at].isalnum()
        if character.isalnum() and whole and len(compact) >= 15 and iban.is_valid(compact):
            return at
    return None


PIECES = st.sampled_from(
    (
        *("4111 1111 1111 1111", "4111111111111111", "3782-822463-10005", "5500.0000.0000.0004"),
        *("6304 1234 5678 90", "536-90-4399", "536.90.4399", "536 90 4399", "666-12-3456"),
        *("DE89 3704 0044 0532 0130 00", "NO9386011117947", "GB29NWBK60161331926819"),
        *("anna@mail.example.org", "a.b+c@x-y.co", "git@github.com", "icon@2x.png", "2024-01-15"),
        *("@", "-", ".", " ", ",", "\n", "+", "/", "_", "(", "x", "Z", "ü", "7", "42", "iban"),
        *("ssn", "\u200b", "\u00a0", "\uff11"),
    )
)
TEXTS = st.lists(PIECES, max_size=14).map("".join)


@settings(max_examples=150)
@given(TEXTS, st.sampled_from(["", "word and more " * 150, "x" * 2030 + " "]))
def test_whatever_is_proven_a_scan_finds(
    evidence: Evidence, scanner: PresidioScanner, text: str, before: str
) -> None:
    text = BETWEEN.join((before, text))
    if evidence.find(text, PROFILE) is not None:
        assert PROFILE.restricts(scanner.scan(text))


NUMERIC = st.text(alphabet="0123456789 .-", max_size=120)
MIXED = st.text(alphabet="0123456789 .-,+/_aDE\u017f\uff11@", max_size=60)


@settings(max_examples=600)
@given(st.lists(PIECES | NUMERIC | MIXED, max_size=14).map("".join))
def test_passing_over_digits_changes_nothing_that_is_found(evidence: Evidence, text: str) -> None:
    assert evidence.find(text, PROFILE) == plainly_found(text)


def test_a_hundred_thousand_digits_are_passed_over(evidence: Evidence) -> None:
    """All in one go: trying each of them costs fifteen times as much."""
    text = "".join(random.Random(7).choices("0123456789", k=100_000))

    def least_s(look: Callable[[], object]) -> float:
        spent_s = []
        for _ in range(5):
            started_s = time.thread_time()
            assert look() is None
            spent_s.append(time.thread_time() - started_s)
        return min(spent_s)

    plain = [regex.compile(each, FLAGS) for each in (SOCIAL_SECURITY, CARD_IN_GROUPS)]
    each_s = least_s(lambda: next(filter(None, (p.search(text) for p in (*plain, _ACCOUNT))), None))
    assert least_s(lambda: evidence.find(text, PROFILE)) < each_s / 4


_STRUCTURES = st.sampled_from(
    ("DE89370400440532013000", "NO9386011117947", "GB29NWBK60161331926819", "BE68539007547034",
     "ES9121000418450200051332", "FR1420041010050500013M02606", "ME25505000012345678951",
     "MT84MALT011000012345MTLCAST001S", "XX8937040044053201300", "LI21088100002324013AA")
)  # fmt: skip


@settings(max_examples=400)
@given(
    _STRUCTURES,
    st.lists(
        st.tuples(st.integers(4, 30), st.sampled_from("0123456789aZK\u212a\u0661")), max_size=2
    ),
    st.integers(2, 5),
    st.sampled_from(["", " ", "-"]),
    st.booleans(),
)
def test_account_numbers_are_those_of_the_registry(
    number: str, changed: list[tuple[int, str]], group: int, between: str, lower: bool
) -> None:
    for at, character in changed:
        number = number[:at] + character + number[at + 1 :]
    if number.isascii() and changed:  # so that more than one in a hundred gets as far
        number = number[:2] + iban.calc_check_digits(number[:2] + "00" + number[4:]) + number[4:]
    written = between.join(number[at : at + group] for at in range(0, len(number), group))
    written = written.lower() if lower else written
    for value in (written, f"{written} and more"):
        assert iban_in(value) == plainly_an_account(value)


@pytest.mark.parametrize("number", ["DE89370400440532013000", "ES9121000418450200051332"])
def test_a_country_s_own_check_is_asked(number: str) -> None:
    """Spain's numbers have check digits of their own behind those of ISO 7064."""
    assert iban_in(number) == len(number)
    if number.startswith("ES"):
        wrong = number[:4] + "2100041855" + number[14:]
        wrong = wrong[:2] + iban.calc_check_digits(wrong[:2] + "00" + wrong[4:]) + wrong[4:]
        assert iban.is_valid(wrong, check_country=False)
        assert iban_in(wrong) is None


@pytest.fixture(scope="session")
def gate(scanner: PresidioScanner) -> ArmedGate:
    return test_gate.armed(scanner.needs(), BlobStore.for_user())


@settings(max_examples=300)
@given(TEXTS, st.sampled_from(["", "word and more " * 150]))
def test_whatever_is_proven_the_gate_does_not_clear(
    evidence: Evidence, gate: ArmedGate, text: str, before: str
) -> None:
    """So that it does not matter who is asked first."""
    text = BETWEEN.join((before, text))
    if evidence.find(text, PROFILE) is not None:
        assert gate.armed
        assert not gate.clear(text)


@pytest.mark.parametrize(("text", "kind"), PROVEN)
def test_what_is_proven_is_likely(text: str, kind: str) -> None:
    assert Evidence.likely(text), kind


@pytest.mark.parametrize("text", ["", "by 4 of 2024, or 12.50", "no more than words"])
def test_what_has_neither_an_address_nor_a_long_number_is_not(text: str) -> None:
    assert not Evidence.likely(text)


def test_no_part_of_presidio_is_loaded_for_it() -> None:
    source = Path(__file__).parents[3] / "gateway" / "classify" / "gate" / "evidence.py"
    assert "presidio_analyzer" not in source.read_text("utf-8")
