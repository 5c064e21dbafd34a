"""Which names identify: full ones, and those with a title before them, in eight languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.classify.names import FULL_NAME
from gateway.classify.names.model.tagger import Mention
from gateway.classify.names.rules import LONE_NAME, findings, identifies

THRESHOLDS = {"full": 0.4, "lone": 0.6, "address": 0.5, "handle": 0.1, "named_handle": 0.7}


def said(before: str, name: str) -> bool:
    text = before + name
    return identifies(text + " und so weiter", len(before), len(text))


@pytest.mark.parametrize(
    "name",
    [
        "Anna Schmidt", "J. Smith", "E. Hemingway", "J.R.R. Tolkien", "Smith, John", "john_smith",
        "Ludwig van Beethoven", "María de la Cruz", "Ortega y Gasset", "Al Gore", "Van Morrison",
        "ANNA SCHMIDT", "anna schmidt", "Jean-Luc O'Neill", "Rene\u0301 Descartes", "John\nSmith",
        "Sunita Das", "Linda Le", "Karen Do", "Anirban De",
        "Louis XIV",  # too much, which is safe
    ],
)  # fmt: skip
def test_full_names_identify(name: str) -> None:
    assert said("", name)


@pytest.mark.parametrize(
    "name",
    [
        "Anna", "Janet's", "Janet\u2019s", "O'Brien", "Anna-Maria", "d'Artagnan", "de la Cruz",
        "van Dijk", "von der Leyen", "Smith Jr.", "Anna de", "Das", "J. K.",
        "Mu\u0308ller", "St. Clair",
    ],
)  # fmt: skip
def test_lone_names_do_not(name: str) -> None:
    assert not said("", name)


@pytest.mark.parametrize(
    "title",
    [
        "Mr ", "Mr. ", "MRS. ", "Ms ", "Dr.", "dr ", "Prof. Dr. ", "Sir ", "Miss ", "Judge ",
        "Sister ", "Capt. ", "Rev. ",
        "Herr ", "Herrn ", "Frau ", "Frau Dr. ", "Prof. Dr. med. ", "Dr. med. dent. ", "Hr. ",
        "Fr. ", "Dipl.-Ing. ", "Dr. h. c. ",
        "M. ", "MM. ", "Mme ", "Mmes ", "Mlle ", "Me ", "Maître ", "Monsieur ", "Pr ",
        "Sr. ", "Sra. ", "D. ", "Dña. ", "Don ", "doña ", "el señor ", "la señora ",
        "Sig. ", "Sig.ra ", "signor ", "Dott. ", "Dott.ssa ", "Avv. ", "Ing. ", "Prof.ssa ",
        "o senhor ", "a Senhora ", "seu ", "dona ", "Eng. ", "Dra. ",
        "dhr. ", "mevr. ", "mw. ", "Meneer ", "mevrouw ", "de heer ", "drs. ", "prof. dr. ",
        "Pan ", "pani ", "panem ", "panią ", "p. ", "mgr ", "lek. ", "inż. ", "mec. ", "dr hab. ",
        "Dear Mr.\n",
    ],
)  # fmt: skip
def test_a_title_makes_a_lone_name_identify(title: str) -> None:
    assert said(title, "Nowak")
    assert said(f"Brief an {title}", "Nowak")


@pytest.mark.parametrize(
    "before",
    [
        "", "call ", "call me ", "tell me ", "I miss ", "her sister ", "his father ", "HR ",
        "at 3 p.m. ", "10 a.m. ", "3 P.M. ",
        "5 m ", "vitamin D ", "the Amman ", "fr ", "Madrid. ", "Adam ",
        "Mr. X said that ", "Dr. ) ", "justice ", "my lady ",
    ],
)  # fmt: skip
def test_words_that_look_like_titles_do_not(before: str) -> None:
    assert not said(before, "Janet")


def finding(text: str, kind: str, probability: float) -> float | None:
    (found,) = findings(text, [Mention(kind, 0, len(text), probability, 2)], THRESHOLDS) or (None,)
    return None if found is None else found.score


@pytest.mark.parametrize(
    ("text", "kind", "probability", "score"),
    [
        ("Anna Schmidt", "PERSON", 0.4, FULL_NAME),
        ("Anna Schmidt", "PERSON", 1.0, 1.0),
        ("Anna Schmidt", "PERSON", 1.0000002, 1.0),  # a sum of two roundings
        ("Anna Schmidt", "PERSON", 0.39, None),
        ("Anna", "PERSON", 0.6, LONE_NAME),
        ("Anna", "PERSON", 1.0, 0.49),
        ("Anna", "PERSON", 0.59, None),
        ("12 345", "PERSON", 1.0, None),
        ("12 Oak Street", "STREET_ADDRESS", 0.5, 0.5),
        ("12 Oak Street", "STREET_ADDRESS", 0.49, None),
        ("Oak Street", "STREET_ADDRESS", 1.0, None),
        ("Rua Augusta, ١٢", "STREET_ADDRESS", 1.0, 1.0),
    ],
)
def test_the_score_says_how_much_it_identifies(
    text: str, kind: str, probability: float, score: float | None
) -> None:
    assert finding(text, kind, probability) == score


def test_no_score_is_over_one() -> None:
    thresholds = dict.fromkeys(THRESHOLDS, 0.999999)
    (found,) = findings("Bo Lee", [Mention("PERSON", 0, 6, 1.000001, 2)], thresholds)
    assert found.score == 1.0


@given(
    st.floats(0, 1.000001), st.floats(0, 1), st.sampled_from(["Anna", "Anna Schmidt", "1 Oak St"])
)
def test_a_lone_name_never_scores_like_a_full_one(
    probability: float, least: float, text: str
) -> None:
    thresholds = dict.fromkeys(THRESHOLDS, least)
    found = findings(text, [Mention("PERSON", 0, len(text), probability, 1)], thresholds)
    for one in found:
        assert LONE_NAME <= one.score <= 1
        assert (one.score >= FULL_NAME) == identifies(text, 0, len(text))


@given(st.text(alphabet=st.characters(codec=None)), st.data())
def test_any_span_of_any_text_is_judged(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    assert identifies(text, start, end) in (True, False)


def test_a_handle_is_a_username_unless_it_is_taken_for_a_name() -> None:
    text = "thx @anna_k, @annalee"
    handles = [Mention("USERNAME", 4, 11, 0.3, 4), Mention("USERNAME", 13, 21, 0.9, 2)]
    name = Mention("PERSON", 13, 21, 0.9, 2)
    found = findings(text, [name, *handles], THRESHOLDS)
    assert [(f.type, f.start) for f in found] == [("PERSON", 13), ("USERNAME", 4)]
    assert all(LONE_NAME <= f.score < FULL_NAME for f in found)
    unlikely = Mention("PERSON", 13, 21, 0.65, 2)  # enough for a lone name
    assert [f.type for f in findings(text, [unlikely, *handles], THRESHOLDS)] == ["USERNAME"] * 2
    assert findings(text, [Mention("USERNAME", 4, 11, 0.09, 4)], THRESHOLDS) == []


@pytest.mark.parametrize(
    ("said", "start", "types"),
    [
        ("@anna", 0, []), ("@anna", 1, []), ("@anna_lee", 0, []), (" @anna", 0, []),
        ("Anna", 0, ["PERSON"]), ("@anna Lee", 0, ["PERSON"]), ("#anna", 0, ["PERSON"]),
    ],
)  # fmt: skip
def test_only_a_handle_alone_needs_more_to_be_a_name(
    said: str, start: int, types: list[str]
) -> None:
    mention = Mention("PERSON", start, len(said), 0.65, 1)
    assert [f.type for f in findings(said, [mention], THRESHOLDS)] == types
