"""A text that takes more work than a verdict is worth is a verdict; the work is counted, not timed.

The texts are those that kept a scanner busy longest (loadtests/classify/worst_case.py).
"""

from __future__ import annotations

import base64
import contextlib
import random
import threading
from collections.abc import Callable

import pytest
import regex

from gateway.classify import TooMany
from gateway.classify.patterns.automaton import Automaton
from gateway.classify.patterns.finder import ExpressionFinder
from gateway.classify.profile import Profile
from gateway.classify.scanner.effort import MOST, left, limited, spend
from gateway.classify.scanner.recognizers import FirstVerdict, PresidioScanner
from gateway.classify.text import decoding, normalise, numbers, spelled
from gateway.config import ClassifySettings

LARGEST = 65_000
PLENTY = 1e9


@pytest.fixture(scope="module")
def first() -> FirstVerdict:
    settings = ClassifySettings()
    built = FirstVerdict(settings, Profile.from_settings(settings).types)
    built._engine.wait()
    return built


def many(seed: str) -> str:
    return (seed * (LARGEST // len(seed) + 1))[:LARGEST]


def steps(work: Callable[[], object]) -> float:
    """What it spends."""
    with limited(PLENTY):
        with contextlib.suppress(TooMany):
            work()
        return PLENTY - left()


def spend_and_forget(amount: float) -> None:
    with contextlib.suppress(TooMany):
        spend(amount)


def test_over_the_limit_is_too_many() -> None:
    with limited(10):
        spend(10)
        with pytest.raises(TooMany):
            spend(1)
        with pytest.raises(TooMany):
            spend(0)
        spend_and_forget(-1)  # else the end of the limit raises again


def test_what_swallows_the_end_of_the_work_hides_it_not() -> None:
    with pytest.raises(TooMany), limited(10):
        spend_and_forget(11)


def test_what_is_spent_within_a_limit_counts_for_the_one_around_it() -> None:
    with limited(10):
        with limited(5):
            spend(3)
        assert left() == 7


def test_without_a_limit_nothing_is_too_many() -> None:
    with limited(10):
        pass
    spend(PLENTY)


def test_each_thread_has_limits_of_its_own() -> None:
    with limited(10):
        other = threading.Thread(target=spend, args=(PLENTY,))
        other.start()
        other.join()
        assert left() == 10


def found(expression: str, text: str, known: bool = True) -> None:
    automaton = Automaton.build([(expression, 0)])
    ends: list[int] = []

    def report(_: int, __: int, end: int, ___: int, ____: object) -> None:
        ends.append(end)

    folded = automaton.alphabet.encode(text)
    automaton.scan(folded, [0], report)
    reading = automaton.known[expression, 0].reading
    list(ExpressionFinder(expression, 0, reading).find(text, folded, ends if known else None, None))


def test_a_match_costs_more_than_what_is_none() -> None:
    none = steps(lambda: found(r"ab(?!- )", "ab- " * 50))
    assert 0 < none < 50 * 4
    assert steps(lambda: found(r"ab(?!- )", "ab1 " * 50)) >= none + 50 * 4


def test_reports_cost_where_all_of_them_make_one_region() -> None:
    """Beside 999 characters to search and 111 matches in them."""
    assert steps(lambda: found(r"\d{9}(?! x)", "1" * 999 + " x")) >= 999 / 5 + 111 * 4 + 900 / 4


def test_a_short_text_costs_its_length() -> None:
    assert steps(lambda: found(r"ab(?!- )", "ab- " * 8)) >= 32 / 6


def test_what_runs_on_every_text_costs_only_what_it_matches() -> None:
    """Without a database everything runs everywhere, which says nothing of the text."""
    assert steps(lambda: found(r"ab(?!- )", "ab- " * 500, known=False)) == 0
    assert steps(lambda: found(r"ab(?!- )", "ab1 " * 500, known=False)) >= 500 * 4


@pytest.mark.parametrize(
    ("work", "least"),
    [
        (lambda: normalise._Work(99).add("x" * 80, 0, 80), 40),
        (lambda: list(numbers.runs("12 345 6789; " * 100, False)), 800),
        (lambda: list(decoding.runs("QUJDREVGR0hJSktM; " * 100)), 400),
        (lambda: list(decoding.runs("4F 6B 4F 6B 4F 6B 4F 6B| " * 100)), 400),
        (lambda: list(decoding.runs("65, 66, 65, 66, 65, 66, 65, 66| " * 100)), 400),
        (lambda: list(spelled.forms("a at b.c; " * 100 + "@ ")), 1000),
        (lambda: list(spelled.forms("one one two two six six nine: " * 100)), 1000),
    ],
    ids=["a piece", "numbers", "base64", "hex", "codes", "addresses", "spoken numbers"],
)
def test_each_look_at_a_form_costs(work: Callable[[], object], least: float) -> None:
    assert steps(work) >= least


def encoded(rng: random.Random) -> str:
    return base64.b64encode(f"{rng.random():.12f}".encode()).decode()


MADE_OF_MANY = {
    "base64": lambda rng: encoded(rng),
    "private addresses": lambda rng: f"10.{rng.randrange(256)}.{rng.randrange(256)}.7",
    "account numbers": lambda rng: f"{rng.randrange(10**11, 10**12)}",
    "passports": lambda rng: f"passport {rng.choice(('no', 'a1'))}",
}


@pytest.mark.parametrize("made_of", MADE_OF_MANY)
def test_a_text_of_nothing_but_candidates_is_too_many(made_of: str, first: FirstVerdict) -> None:
    rng = random.Random(1)
    text = " ".join(MADE_OF_MANY[made_of](rng) for _ in range(7000))[:LARGEST]
    with pytest.raises(TooMany):
        first.scan(text)


@pytest.mark.parametrize("seed", ["DE89 ", "password=", "11=3D::", "dni ", "\uff44\uff4e\uff49 "])
def test_a_text_of_one_candidate_over_and_over_is_too_many(seed: str, first: FirstVerdict) -> None:
    """The last one in its derived form alone."""
    with pytest.raises(TooMany):
        first.scan(many(seed))


@pytest.mark.parametrize(
    "row",
    [
        "0.8423915523184, 0.1231238412348, ",
        "2024-01-15,12.5,17,Berlin\n",
        "1, 2, 3, 4, ",
        "version 1.2.3\n",
        "a",
        "the quick brown fox ",
        "one apple, two pears and five plums at home. ",
        "def read(self, path: str) -> bytes:\n    return self.open(path).read()\n",
    ],
)
def test_text_without_candidates_is_read(row: str, first: FirstVerdict) -> None:
    text = many(row)
    first.scan(text)
    assert steps(lambda: first.scan(text)) < MOST * 0.9


@pytest.mark.parametrize(
    "seed", ["\u0430a", "QUJD", "12-", "99-99-", "-----", "sk-", "é", "a", "A"]
)
def test_long_runs_of_one_sign_cost_little(seed: str, first: FirstVerdict) -> None:
    """Reports at each of their characters alone would be more than that."""
    text = many(seed)
    assert steps(lambda: first.scan(text)) < LARGEST / 3


def test_a_scan_for_everything_has_no_limit(first: FirstVerdict) -> None:
    text = many("dni ")
    with pytest.raises(TooMany):
        first.scan(text)
    PresidioScanner.scan(first, text)


def test_lower_case_keeps_each_character_in_its_place() -> None:
    every = "".join(map(chr, range(0x110000)))
    lowered = spelled.lower(every)
    assert len(lowered) == len(every)
    assert all(lowered[at] == chr(at).lower() for at in range(0x110000) if at != 0x130)


def test_spoken_forms_are_found_in_any_case() -> None:
    (number,) = spelled.forms("CALL ONE Two three FOUR fünf SIX sept")
    (address,) = spelled.forms("Anna.Lee [AT] Example DOT org")
    assert number[0].endswith("1234567")
    assert address[0] == "Anna.Lee@Example.org"


def test_what_stands_in_front_of_an_expression_is_looked_for_too() -> None:
    ends = _reports(r"(?<=[?&]sig=)[\w%+/-]{40,100}", "a" * 500 + "&sig=" + "b" * 60)
    assert min(ends) > 505
    for expression in (r"(?<=ab|c)d+e", r"(?<=\(\*) ?\d", r"(?<=a(?=b))b", r"(?<=^|ab)c"):
        for text in ("abde cde de", "(*1 (* 2", "ab b", "c abc dc"):
            ends = _reports(expression, text)
            for match in regex.finditer(expression, text):
                assert {match.end(), match.end() + 1} & set(ends), (expression, text)


def _reports(expression: str, text: str) -> list[int]:
    automaton = Automaton.build([(expression, 0)])
    ends: list[int] = []

    def report(_: int, __: int, end: int, ___: int, ____: object) -> None:
        ends.append(end)

    automaton.scan(automaton.alphabet.encode(text), [0], report)
    return ends
