"""A text cut into words: every character that is no space is in exactly one of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.classify.names.model.words import Case, WordGap, cut, handles, letter_case

E_ACUTE = "e\u0301"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \n\t ", []),
        ("Anna Schmidt", ["Anna", "Schmidt"]),
        ("user_name", ["user", "_", "name"]),
        ("O'Brien's", ["O", "'", "Brien", "'", "s"]),
        ('{"a":1}', ["{", '"', "a", '"', ":", "1", "}"]),
        ("Jos" + E_ACUTE, ["Jos" + E_ACUTE]),
        (f"Ren{E_ACUTE}e", [f"Ren{E_ACUTE}e"]),
        ("\u0301", ["\u0301"]),
        ("a\x00b", ["a", "\x00", "b"]),
        ("a\ud800b", ["a", "\ud800", "b"]),
        ("\U0001f469\u200d\U0001f680", ["\U0001f469", "\u200d", "\U0001f680"]),
        ("王小明是医生", ["王小明是医生"]),
        ("\uff13rd", ["\uff13rd"]),
        ("Straße12b", ["Straße12b"]),
    ],
)
def test_words_are_runs_of_letters_and_digits_and_signs_alone(text: str, words: list[str]) -> None:
    assert cut(text).words == words


def test_a_word_knows_what_stands_before_it() -> None:
    words = cut("a b\nc.d \n e")
    assert [WordGap(gap).name for gap in words.gaps] == [
        "START", "SPACE", "LINE", "NONE", "NONE", "LINE",
    ]  # fmt: skip


@given(st.text() | st.text(alphabet=st.characters(codec=None)))
@settings(max_examples=300)
def test_words_tile_the_text(text: str) -> None:
    words = cut(text)
    said = [text[start:end] for start, end in zip(words.starts, words.ends, strict=True)]
    assert said == words.words
    assert "".join(said) == "".join(text.split())
    assert words.starts == sorted(words.starts)
    assert len(words.gaps) == len(words)


@pytest.mark.parametrize(
    ("word", "case"),
    [
        ("anna", Case.LOWER), ("Anna", Case.TITLE), ("ANNA", Case.UPPER), ("A", Case.INITIAL),
        ("McDonald", Case.MIXED), ("iPhone", Case.MIXED), ("1999", Case.DIGITS),
        ("٣", Case.DIGITS), ("B12", Case.MARKED), ("½", Case.MARKED), ("_", Case.SIGN),
        ("\x00", Case.SIGN), ("\ud800", Case.SIGN), ("王小明", Case.UNCASED),
        ("Łukasz", Case.TITLE),
        ("ß", Case.LOWER), ("ǅ", Case.MIXED),
    ],
)  # fmt: skip
def test_the_case_of_a_word(word: str, case: Case) -> None:
    assert letter_case(word) is case


def test_a_part_is_as_it_stands_in_the_text() -> None:
    words = cut("one two\nthree four")
    part = words.part(1, 3)
    assert (part.words, part.starts, part.gaps) == (
        ["two", "three"],
        [4, 8],
        [WordGap.SPACE, WordGap.LINE],
    )


def test_words_are_not_in_a_repr() -> None:
    assert "Anna" not in repr(cut("Anna Schmidt"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("@anna_k hi", ["@anna_k"]),
        ("hi @Anna99, @b", ["@Anna99", "@b"]),
        (".@BBC says", ["@BBC"]),
        ("(@a)@b", ["@a", "@b"]),
        ("@@x", ["@x"]),
        ("@__", ["@__"]),
        ("@J\u00f6rg", ["@J\u00f6rg"]),
        ("a@example.org", []),
        ("a_@b", []),
        ("@ home", []),
        ("@", []),
        ("5 @ 3", []),
        ("", []),
    ],
)
def test_a_handle_is_a_sign_and_what_hangs_on_it(text: str, said: list[str]) -> None:
    words = cut(text)
    found = [text[words.starts[first] : words.ends[last - 1]] for first, last in handles(words)]
    assert found == said
