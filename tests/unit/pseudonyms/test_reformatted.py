"""A model writes surrogates in its own way: each is put back, or what is left of it is counted."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

import pytest

from gateway.classify.pseudonyms.answers.restorer import Channel, Restorer
from gateway.classify.pseudonyms.ledger import SurrogateLedger
from tests.unit.pseudonyms.samples import MASKER, found

CARD = "4539 1488 0343 6467"
IBAN = "DE89 3704 0044 0532 0130 00"
MOBILE = "+49 176 12345678"
LANDLINE = "+44 20 7183 8750"
AMERICAN = "+1 (646) 234-7788"
SOCIAL = "536-90-4399"
NAME = "Maria Keller"
EMAIL = "maria.keller@posteo.de"
STREET = "17 Lindenbaum Road, Woolwich SE18 6HQ"

VALUES = (
    ("CREDIT_CARD", CARD), ("IBAN_CODE", IBAN), ("PHONE_NUMBER", MOBILE),
    ("PHONE_NUMBER", LANDLINE), ("PHONE_NUMBER", AMERICAN), ("US_SSN", SOCIAL), ("PERSON", NAME),
    ("EMAIL_ADDRESS", EMAIL), ("STREET_ADDRESS", STREET),
)  # fmt: skip


def surrogate_of(value: str, seed: int) -> tuple[str, Restorer]:
    ledger = SurrogateLedger([value], Random(seed))
    (one,) = MASKER.mask([value], [found(value, VALUES)], ledger)
    return one.text, Restorer(ledger.forms)


def read(text: str, restorer: Restorer) -> str:
    """The same whole, in one character at a time, and cut at each place."""
    whole = restorer.whole(text)
    one_by_one = Channel(restorer)
    assert "".join(map(one_by_one.feed, text)) + one_by_one.flush() == whole
    for cut in range(len(text)):
        channel = Channel(restorer)
        assert channel.feed(text[:cut]) + channel.feed(text[cut:]) + channel.flush() == whole
    return whole


def dashed(text: str) -> str:
    return re.sub(r"[ ()]+", "-", text).strip("-")


def solid(text: str) -> str:
    return re.sub(r"[^\w+]", "", text)


def dotted(text: str) -> str:
    return re.sub(r"[^\w+]+", ".", text)


def no_break(text: str) -> str:
    return text.replace(" ", "\u00a0").replace("-", "\u2011")


def at_home(text: str) -> str:
    country = "1" if text.startswith("+1") else text[1:3]
    return "0" + solid(text)[1 + len(country) :]


def last_four(text: str) -> str:
    return "the one ending in " + solid(text)[-4:] + "."


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("value", "said"),
    [
        *((value, change) for value in (CARD, IBAN, MOBILE, LANDLINE, AMERICAN, SOCIAL)
          for change in (dashed, solid, dotted, no_break)),
        *((value, at_home) for value in (MOBILE, LANDLINE, AMERICAN)),
        *((value, last_four) for value in (CARD, IBAN, SOCIAL)),
        *((value, change) for value in (NAME, EMAIL) for change in (str.upper, str.lower)),
        (NAME, lambda name: f"{name}'s, {name.split()[1]}\u2019s and Mrs {name.split()[1]}"),
        (NAME, lambda name: f"{name[0]}. {name.split()[1]}"),
        (NAME, lambda name: ", ".join(reversed(name.split()))),
        (EMAIL, lambda email: email.partition("@")[0]),
        (STREET, lambda street: street.replace("Road", "Rd")),
        (STREET, lambda street: street.replace("Road", "Road.\n").replace(",", "")),
        (STREET, lambda street: street.partition(",")[0]),
        (STREET, lambda street: street.rpartition(", ")[2]),
    ],
)  # fmt: skip
def test_a_surrogate_in_other_groups_is_put_back_in_these(
    value: str, said: Callable[[str], str], seed: int
) -> None:
    surrogate, restorer = surrogate_of(value, seed)
    assert read(f"It is {said(surrogate)} then", restorer) == f"It is {said(value)} then"
    assert restorer.unrestored == 0


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (CARD, lambda card: card[:-5]),
        (CARD, lambda card: "** " + card[5:-1]),
        (IBAN, lambda iban: iban[:-3]),
        (MOBILE, lambda phone: phone[:-1] + "x"),
        (MOBILE, lambda phone: phone[-9:]),
        (NAME, lambda name: name[:-2]),
        (NAME, lambda name: name[:2] + "\u00e9" + name[2:]),
        (EMAIL, lambda email: email.replace("@", "-")[1:]),
        (STREET, lambda street: re.sub(r"(?<=[a-z])[a-z] Road", " Road", street)),
    ],
)  # fmt: skip
def test_what_of_a_surrogate_cannot_be_put_back_is_counted(
    value: str, said: Callable[[str], str], seed: int
) -> None:
    surrogate, restorer = surrogate_of(value, seed)
    restorer.whole(f"It is {said(surrogate)} then")
    assert restorer.unrestored > 0


def test_what_is_cut_off_is_counted_wherever_the_stream_is_cut() -> None:
    surrogate, restorer = surrogate_of(NAME, 0)
    text = f"It is {surrogate[:-2]}, then"
    for cut in range(len(text)):
        channel, before = Channel(restorer), restorer.unrestored
        channel.feed(text[:cut])
        channel.feed(text[cut:])
        channel.flush()
        assert restorer.unrestored == before + 1


@pytest.mark.parametrize("frame", ["9{}", "{}9", "1234 {}", "{} 5678", "1234-{}-5678", "x{}7"])
def test_four_digits_are_no_part_of_a_longer_number(frame: str) -> None:
    surrogate, restorer = surrogate_of(CARD, 0)
    text = frame.format(surrogate[-4:])
    assert read(text, restorer) == text


@pytest.mark.parametrize("frame", ["x{}", "*{}", "({})", "{}, 2027", "{} 12/27", "no 12 {}"])
def test_four_digits_by_themselves_are_the_end_of_a_card(frame: str) -> None:
    surrogate, restorer = surrogate_of(CARD, 0)
    assert read(frame.format(surrogate[-4:]), restorer) == frame.format(CARD[-4:])


def test_an_answer_of_other_things_is_left_alone() -> None:
    text = "In 2024 a winter road, 4 of 17, cost 1,234.50 and 4000 people at 12:30 saw it."
    for seed in range(20):
        for _, value in VALUES:
            _, restorer = surrogate_of(value, seed)
            assert restorer.whole(text) == text
            assert restorer.unrestored == 0
