"""A text of too many candidates is a verdict before they are checked; work stays bounded."""

from __future__ import annotations

import random

import pytest

from gateway.classify import TooMany
from gateway.classify.crowds import MOST, Crowd
from gateway.classify.profile import Profile
from gateway.classify.recognizers import FirstVerdict
from gateway.config import ClassifySettings

LARGEST = 65_000


@pytest.fixture(scope="module")
def first() -> FirstVerdict:
    settings = ClassifySettings()
    return FirstVerdict(settings, Profile.of(settings).types)


def many(candidate: str) -> str:
    return (candidate * (LARGEST // len(candidate) + 1))[:LARGEST]


@pytest.mark.parametrize(
    "candidate",
    [
        "4111 1111 1111 1112 ",
        "4111111111111112 ",
        "1.",
        "300.1.2.3 ",
        "DE89 ",
        "de89-",
        "password=",
        "11=3D::",
        "1:2:3: ",
        "12345678901 ",
    ],
)
def test_a_text_full_of_candidates_is_too_many(candidate: str, first: FirstVerdict) -> None:
    with pytest.raises(TooMany):
        first.scan(many(candidate))


def test_candidates_in_a_derived_form_count_too(first: FirstVerdict) -> None:
    with pytest.raises(TooMany):
        first.scan(many("4111 1111 1111 1112 ".replace(" ", "\u2003")))


@pytest.mark.parametrize(
    "text", ["4111 1111 1111 1112, ", "300.1.2.3 ", "DE89 3704 0044 0532 013X "]
)
def test_as_many_as_may_be_are_checked_and_one_more_is_not(text: str) -> None:
    Crowd().add(text * MOST)
    with pytest.raises(TooMany):
        Crowd().add(text * (MOST + 1))


def test_several_forms_of_a_text_count_together() -> None:
    crowd = Crowd()
    crowd.add("300.1.2.3 " * (MOST // 2))
    with pytest.raises(TooMany):
        crowd.add("300.1.2.3 " * (MOST // 2 + 1))


@pytest.mark.parametrize(
    "row",
    [
        "0.8423915523184, 0.1231238412348, ",
        "2024-01-15,12.5,17,Berlin\n",
        "1, 2, 3, 4, ",
        "version 1.2.3\n",
    ],
)
def test_tables_of_other_numbers_are_read(row: str) -> None:
    Crowd().add(many(row))


def test_a_short_text_is_not_counted_but_read() -> None:
    rng = random.Random(1)
    Crowd().add(" ".join(f"{rng.randrange(300, 900)}.1.2.3" for _ in range(200)))
