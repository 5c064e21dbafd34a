"""Tables of exact values: found in whatever spelling, and in nothing else (C21)."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.classify import ScannerUnfit
from gateway.classify.categories.values import FEWEST_SIGNS, LONGEST, ValueTable, new_key, written
from gateway.classify.categories.words import size, words
from tests.unit.classify.category_rig import table

VALUES = ["Maria Keller", "José Álvarez-Núñez", "PX-204", "Straße 17", "ΑΘΗΝΑ Palace", "4711 Blue"]
BETWEEN = st.sampled_from([" ", "  ", "-", ", ", "\n", "_", "/", " | ", "\t", "; "])
CASES = st.sampled_from([str.lower, str.upper, str.title, str.swapcase, str])
SPELLINGS = st.sampled_from(
    [str, *(lambda t, form=form: unicodedata.normalize(form, t) for form in ("NFC", "NFD"))]
)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> ValueTable:
    its = table(tmp_path_factory.mktemp("values"), VALUES)
    return ValueTable.load(its["values"], its["key_file"])


@given(st.sampled_from(VALUES), CASES, SPELLINGS, BETWEEN, st.booleans())
def test_a_value_is_found_in_any_spelling(
    people: ValueTable, value: str, case: object, spelling: object, between: str, wide: bool
) -> None:
    assert callable(case)
    assert callable(spelling)
    written_so = between.join(case(spelling(word)) for word in value.replace("-", " ").split())
    if wide:  # full-width forms of ASCII (Unicode FF01 to FF5E)
        written_so = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in written_so)
    own = words(f"please ask {written_so} about it")
    assert len(people.matches(own)) == 1


@given(st.text())
def test_other_words_are_found_nowhere(people: ValueTable, text: str) -> None:
    own, values = words(text), [words(value) for value in VALUES]
    standing = [
        (at, at + len(value))
        for at in range(len(own))
        for value in values
        if own[at : at + len(value)] == value
    ]
    assert people.matches(own) == standing


@given(st.lists(st.text(min_size=4, max_size=30), min_size=1, max_size=20), st.text(max_size=30))
def test_words_hash_equal_only_if_they_are(
    tmp_path_factory: pytest.TempPathFactory, values: list[str], other: str
) -> None:
    kept = [own for value in values if size(own := words(value)[:LONGEST]) >= FEWEST_SIGNS]
    if not kept:
        return
    its = table(tmp_path_factory.mktemp("any"), values)
    made = ValueTable.load(its["values"], its["key_file"])
    assert all(made.matches(own) for own in kept)
    own = words(other)
    if not any(own[at : at + len(k)] == k for k in kept for at in range(len(own))):
        assert made.matches(own) == []


@given(st.text(), CASES)
def test_words_do_not_depend_on_what_they_are_spelled_with(text: str, case: object) -> None:
    assert callable(case)
    assert words(unicodedata.normalize("NFD", text)) == words(unicodedata.normalize("NFC", text))
    assert words(" ".join(words(text))) == words(text)


@pytest.mark.parametrize(
    ("value", "text", "other"),
    [
        ("张伟", "请问张伟先生在吗", "请问张先生伟大吗"),
        ("김철수", "어제 김철수가 왔다", "어제 김철이 왔다"),
        ("田中ガク", "昨日田中ｶﾞｸさんと話した", "昨日田中カクさんと話した"),
        ("Иванов Пётр", "спросите ИВАНОВ, ПЕТР об этом", "спросите Иванова Петра"),  # noqa: RUF001
    ],
)
def test_a_value_in_another_script(tmp_path: Path, value: str, text: str, other: str) -> None:
    its = table(tmp_path, [value])
    made = ValueTable.load(its["values"], its["key_file"])
    assert made.matches(words(text))
    assert not made.matches(words(other))


def test_a_long_value_is_found_by_its_first_words(tmp_path: Path) -> None:
    its = table(tmp_path, [" ".join(f"word{at}" for at in "abcdefghijkl")])
    made = ValueTable.load(its["values"], its["key_file"])
    assert made.matches(words("worda wordb wordc wordd worde wordf wordg wordh and no more"))
    assert not made.matches(words("worda wordb wordc wordd worde wordf wordg"))


def test_nothing_of_a_value_can_be_read_in_its_table(tmp_path: Path) -> None:
    content = table(tmp_path, VALUES)["values"].read_bytes()
    # by chance random bytes have a word of two letters in one of ten tables
    longer = [word for value in VALUES for word in words(value) if len(word) > 4]
    assert len(longer) > 4
    assert not any(word.encode() in content.lower() for word in longer)
    assert content != written(VALUES, bytes.fromhex(new_key()))[0]


def test_a_table_is_opened_with_its_own_key_alone(tmp_path: Path) -> None:
    its = table(tmp_path, VALUES)
    its["key_file"].write_text(new_key())
    with pytest.raises(ScannerUnfit, match="another key"):
        ValueTable.load(its["values"], its["key_file"])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (lambda whole: b"name\nMaria Keller\n", "spillway values"),
        (lambda whole: whole[:-1], "not whole"),
        (lambda whole: whole + b"x", "not whole"),
        (lambda whole: whole.replace(b'"check"', b'"chock"'), "no table"),
        (lambda whole: b"", "no table"),
    ],
)
def test_a_table_that_is_none_is_refused(tmp_path: Path, content: object, why: str) -> None:
    assert callable(content)
    its = table(tmp_path, VALUES)
    its["values"].write_bytes(content(its["values"].read_bytes()))
    with pytest.raises(ScannerUnfit, match=why):
        ValueTable.load(its["values"], its["key_file"])


def test_a_table_of_nothing_is_refused(tmp_path: Path) -> None:
    its = table(tmp_path, ["ab", "-"])
    with pytest.raises(ScannerUnfit, match="empty"):
        ValueTable.load(its["values"], its["key_file"])


@pytest.mark.parametrize("key", ["", "secret", "00", "zz" * 32])
def test_a_key_that_is_none_is_refused(tmp_path: Path, key: str) -> None:
    its = table(tmp_path, VALUES)
    its["key_file"].write_text(key)
    with pytest.raises(ScannerUnfit, match="key"):
        ValueTable.load(its["values"], its["key_file"])
