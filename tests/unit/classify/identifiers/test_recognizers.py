"""What holds for all of our recognizers."""

from __future__ import annotations

import re
import time
import warnings

import pytest
import regex

from gateway.classify import canaries
from gateway.classify.identifiers import Identifier, labelled
from gateway.classify.profile import DENY_LIST, HIDDEN_TEXT, PROFILES
from gateway.classify.scanner.additions import ADDITIONS
from gateway.classify.scanner.engine import build_engine
from gateway.config import ClassifySettings
from gateway.core.types import STRICTNESS

WINDOW = 2048
_UNITS = (
    *(
        "a.",
        "1.",
        "A ",
        "Aa ",
        "1 ",
        "12 ",
        "123 Aa ",
        "+1 ",
        "(0",
        "a@b.",
        "http://a",
        "tel ",
        "call ",
    ),
    *("passport a ", "MRN 1234, ", "Straße ", "rue de la ", "Via Aa ", "ul. Aa ", "address Aa "),
    *(
        "password=a",
        "eyJa.",
        "DE89 ",
        "geb. ",
        "::",
        "f:",
        "A1-",
        "ab://a:",
        "aaaa",
        "1111",
        "    ",
    ),
)


@pytest.mark.parametrize("kind", ADDITIONS, ids=lambda kind: kind.__name__)
def test_its_cost_is_bounded_on_repeated_patterns(kind: type[Identifier]) -> None:
    """The slowest needs 9 ms for a window (November 2026); a quadratic one seconds."""
    recognizer = kind()
    for unit in _UNITS:
        text = (unit * WINDOW)[:WINDOW]
        started_s = time.thread_time()
        recognizer.analyze(text, [])
        assert time.thread_time() - started_s < 0.5, unit


@pytest.mark.parametrize("kind", ADDITIONS, ids=lambda kind: kind.__name__)
def test_the_standard_library_reads_its_expressions_too(kind: type[Identifier]) -> None:
    """The pattern scan derives its automaton from that reading; what it cannot read runs always."""
    recognizer = kind()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for pattern in recognizer.patterns:
            re.compile(pattern.regex, getattr(kind, "flags", re.IGNORECASE))


@pytest.mark.parametrize("kind", ADDITIONS, ids=lambda kind: kind.__name__)
def test_names_of_its_patterns_tell_them_apart(kind: type[Identifier]) -> None:
    names = [pattern.name for pattern in kind().patterns]
    assert len(set(names)) == len(names)


def test_every_type_of_ours_restricts_in_a_profile_and_has_a_sample() -> None:
    ours = {kind().supported_entities[0] for kind in ADDITIONS} - {"URL"}
    assert ours <= PROFILES["strict"]
    assert ours <= {type_ for type_, _, _ in canaries._POSITIVE}


def test_every_type_of_the_default_profile_has_a_recognizer_in_the_default_languages() -> None:
    recognizers = build_engine(ClassifySettings()).registry.recognizers
    found = {type_ for recognizer in recognizers for type_ in recognizer.supported_entities}
    elsewhere = {HIDDEN_TEXT, DENY_LIST, "PERSON"}
    assert PROFILES["balanced"] - elsewhere <= found


def test_each_profile_holds_the_one_before() -> None:
    assert PROFILES["patterns"] < PROFILES["balanced"] < PROFILES["strict"]
    assert PROFILES["balanced"] - PROFILES["patterns"] == {"PERSON"}
    by_size = sorted(PROFILES, key=lambda name: len(PROFILES[name]))
    assert sorted(PROFILES, key=lambda name: STRICTNESS[name]) == by_size


class Badge(Identifier):
    entity = "BADGE"
    forms = (labelled("badge", r"\d{4}"),)

    def check(self, value: str) -> bool | None:
        return int(value) % 7 == 0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("badge 1234", [("1234", 0.5)]),
        ("Badges: 7777", [("7777", 1.0)]),
        ('{"badge_number": "1234"}', [("1234", 0.5)]),
        ("badge of my brother is 1234", [("1234", 0.5)]),
        ("badge that he lost on the way 1234", []),
        ("badge lost; 1234 others", []),
        ("badger 1234", [("1234", 0.5)]),
        ("adbadge 1234", []),
        ("badge 12345", []),
        ("badge 1234.5", []),
    ],
)
def test_a_labelled_value_is_found_without_its_words(
    text: str, found: list[tuple[str, float]]
) -> None:
    results = Badge().analyze(text, ["BADGE"])
    assert [(text[r.start : r.end], r.score) for r in results] == found


def test_expressions_run_as_presidio_compiles_them() -> None:
    assert regex.DEFAULT_VERSION == regex.VERSION0
