"""A surrogate has the format of its original, and belongs to nobody."""

from __future__ import annotations

import ipaddress
import re
from random import Random

import pytest
from stdnum import iban, luhn
from stdnum.gb import nhs

from gateway.classify.pseudonyms.surrogates import MAKERS, unlabelled
from gateway.classify.pseudonyms.values.lists import FAMILY, GIVEN, MAILBOXES, STREETS
from tests.unit.pseudonyms.samples import VALUES

SEEDS = range(40)


def made(type_: str, value: str, seed: int = 0) -> str:
    label, value = unlabelled(type_, value)
    found = MAKERS[type_](value, Random(seed))
    assert found is not None
    return label + found.text


RESERVED = {
    "CREDIT_CARD": r"(?:4000[ -]?00).*",
    "EMAIL_ADDRESS": r"[a-z]+\d{3}@example\.(?:com|net|org)",
    "IBAN_CODE": r"[A-Z]{2}\d\d ?(?:0000|XXXX).*",
    "MAC_ADDRESS": r"00:00:5E:00:53:[0-9A-F]{2}",
    "MEDICAL_RECORD": r"MRN \d{8}",
    "PHONE_NUMBER": r"\+49 00\d \d{8}|\(\d{3}\) 555-01\d\d|\+44 77 0090 0\d{3}"
    r"|0033 1 99 00 \d\d \d\d",
    "UK_NHS": r"999 \d{3} \d{4}",
    "UK_NINO": r"QQ \d\d \d\d \d\d C",
    "US_SSN": r"666-\d\d-\d{4}",
}  # fmt: skip


@pytest.mark.parametrize(("type_", "value"), [v for v in VALUES if v[0] in RESERVED])
def test_surrogates_come_from_what_is_set_aside(type_: str, value: str) -> None:
    for seed in SEEDS:
        assert re.fullmatch(RESERVED[type_], made(type_, value, seed)), made(type_, value, seed)


def test_a_surrogate_keeps_the_groups_of_its_original() -> None:
    for type_, value in VALUES:
        if type_ in ("CREDIT_CARD", "IBAN_CODE", "US_SSN", "UK_NHS", "UK_NINO", "MEDICAL_RECORD"):
            groups = [re.sub(r"[0-9A-Za-z]", "x", v) for v in (value, made(type_, value))]
            assert groups[0] == groups[1]


def test_check_digits_are_right() -> None:
    for seed in SEEDS:
        assert luhn.is_valid(made("CREDIT_CARD", "4111 1111 1111 1111", seed).replace(" ", ""))
        assert luhn.is_valid(made("CREDIT_CARD", "378282246310005", seed))
        assert (
            iban.calc_check_digits(
                plain := made("IBAN_CODE", "DE89 3704 0044 0532 0130 00", seed).replace(" ", "")
            )
            == plain[2:4]
        )
        assert nhs.is_valid(made("UK_NHS", "943 476 5919", seed))


@pytest.mark.parametrize(
    ("value", "nets"),
    [
        ("10.20.30.40", ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")),
        ("fe80::1ff:fe23:4567:890a", ("2001:db8::/32",)),
    ],
)
def test_addresses_are_those_of_documentation(value: str, nets: tuple[str, ...]) -> None:
    for seed in SEEDS:
        address = ipaddress.ip_address(made("IP_ADDRESS", value, seed))
        assert any(address in ipaddress.ip_network(net) for net in nets)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("CREDIT_CARD", "4111 1111 1111\n1111"),
        ("CREDIT_CARD", "NDExMSAxMTExIDExMTEgMTExMQ=="),
        ("CREDIT_CARD", "\uff14111 1111 1111 1111"),
        ("EMAIL_ADDRESS", "maria at posteo dot de"),
        ("EMAIL_ADDRESS", '"maria k"@posteo.de'),
        ("EMAIL_ADDRESS", "maria%40posteo.de"),
        ("IBAN_CODE", "DE89"),
        ("IP_ADDRESS", "10.20.30"),
        ("PHONE_NUMBER", "two one two, five five five"),
        ("PHONE_NUMBER", "+49 176 12345678 ext. 12"),
        ("US_SSN", "536904399000"),
    ],
)
def test_a_value_in_a_form_that_is_not_its_own_has_no_surrogate(type_: str, value: str) -> None:
    """A decoded or folded form: the span would be rebuilt as something else."""
    assert MAKERS[type_](value, Random(0)) is None


@pytest.mark.parametrize("type_", ["SECRET", "DENY_LIST", "HIDDEN_TEXT", "US_PASSPORT", "CRYPTO"])
def test_what_nothing_is_set_aside_for_has_no_maker(type_: str) -> None:
    assert type_ not in MAKERS


def test_forms_can_stand_in_json_however_deep() -> None:
    for type_, value in VALUES:
        if type_ not in MAKERS:
            continue
        found = MAKERS[type_](unlabelled(type_, value)[1], Random(1))
        assert found is not None
        for seen, original in found.forms:
            assert seen.isascii()
            assert not set('"\n\t') & set(seen + original)
            assert "\\" not in original


def test_no_invented_name_is_part_of_another() -> None:
    names = [n.lower() for names in (GIVEN, FAMILY, MAILBOXES, STREETS) for n in names]
    assert len(set(names)) == len(names)
    assert [(a, b) for a in names for b in names if a != b and a in b] == []
