"""Rows of numbers for words: one row for one word, however it is written, of bounded cost."""

from __future__ import annotations

import unicodedata
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.classify.names.model import features as f
from gateway.classify.names.model.features import (
    COLUMNS,
    GAP,
    HASHED,
    Features,
    WordPieces,
    hashes,
    sign_feature,
)
from gateway.classify.names.model.lexicon import Lexicon, LexiconEntry, word_hash
from gateway.classify.names.model.words import cut

from .knowing import plain_features

ROWS = {  # columns and the rows of their tables, as the module's own table says
    **dict.fromkeys(range(4), 30_522),
    **dict.fromkeys(range(4, 12), HASHED),
    12: 9, 13: 64, 14: 13, 15: 8, 16: 9, 17: 4, 18: 4, 19: 2, 20: 4,
}  # fmt: skip


@given(st.text(alphabet=st.characters(codec=None)))
@settings(max_examples=300)
def test_every_number_is_a_row_of_its_table(text: str) -> None:
    table = plain_features().rows(cut(text))
    assert table.shape == (len(cut(text)), COLUMNS)
    assert (table >= 0).all()
    for column, rows in ROWS.items():
        assert (table[:, column] < rows).all()


@given(st.text(alphabet=st.characters(codec=None), min_size=1))
def test_a_word_is_never_padding(text: str) -> None:
    assert (plain_features().rows(cut(text))[:, 14] > 0).all()


@pytest.mark.parametrize("word", ["José", "Łódź", "Müller", "Nguyễn", "Žižek"])
def test_accents_written_apart_make_the_same_row(word: str) -> None:
    features = plain_features()
    apart = features.rows(cut(unicodedata.normalize("NFD", word)))
    assert (apart == features.rows(cut(word))).all()


def test_a_kept_row_is_the_row_of_a_first_look() -> None:
    features = plain_features()
    words = cut("Anna met\nAnna")
    assert (features.rows(words) == features.rows(words)).all()
    first, _, again = features.rows(words)
    assert (first[:GAP] == again[:GAP]).all()
    assert first[GAP] != again[GAP]


def test_what_is_given_away_is_no_part_of_what_is_kept() -> None:
    features = plain_features()
    features.rows(cut("Anna"))[:] = 0
    assert features.rows(cut("Anna")).any()


def test_words_that_are_kept_are_bounded_in_number_and_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f, "_CACHED_WORDS", 100)
    features = plain_features()
    features.rows(cut(" ".join(f"w{n}" for n in range(1_000))))
    features.rows(cut("a" * 60_000))
    assert 0 < len(features._cache) <= 100
    assert max(map(len, features._cache)) <= f._LONGEST


class _Counted(dict[str, int]):
    """A vocabulary that counts its look-ups."""

    looked_up = 0
    characters = 0

    def get(self, piece: str, default: int | None = None) -> int | None:  # type: ignore[override]
        self.looked_up += 1
        self.characters += len(piece)
        return super().get(piece, default)


@pytest.mark.parametrize("letter", ["a", "é", "ﷺ", "王", "\u0390"])
def test_the_cost_of_a_word_does_not_grow_with_its_length(letter: str) -> None:
    costs = []
    for length in (100, 60_000):
        vocabulary = _Counted({"[UNK]": 1, "a": 2, "##a": 3})
        features = Features(vocabulary, Lexicon(np.array([], np.uint32), np.array([], np.uint16)))
        features.rows(cut(letter * length))
        costs.append((vocabulary.looked_up, vocabulary.characters))
    assert costs[0] == costs[1]


def test_a_run_of_accents_is_cut_before_it_is_normalised(monkeypatch: pytest.MonkeyPatch) -> None:
    normalised: list[int] = []

    class Watched:
        combining = staticmethod(unicodedata.combining)

        @staticmethod
        def normalize(form: str, text: str) -> str:
            normalised.append(len(text))
            return unicodedata.normalize(form, text)  # type: ignore[arg-type]

    monkeypatch.setattr(f, "unicodedata", Watched)
    plain_features().rows(cut("e" + "\u0301\u0323" * 30_000))
    assert normalised
    assert max(normalised) <= f._LONGEST


def test_pieces_are_the_longest_that_fit() -> None:
    pieces = WordPieces({"[UNK]": 1, "un": 2, "##able": 3, "unab": 4, "##le": 5, "a": 6, "##a": 7})
    assert pieces.tokenize("unable") == [4, 5]
    assert pieces.tokenize("Unàble") == [4, 5]
    assert pieces.tokenize("xyz") == [1]
    assert pieces.tokenize("a" * 30) == [6, 7, 7, 7]


def test_parts_of_words_are_told_apart_from_words() -> None:
    assert hashes("ab")[0] not in hashes("abab")[1:]
    assert len(set(hashes("katharina")[:8])) == 8
    assert all(len(hashes(word)) == f.HASHES for word in ("", "a", "ab", "abc", "abcd", "a" * 99))
    assert 0 not in hashes("katharina")  # 0 is padding


def test_hashes_are_spread_evenly() -> None:
    found = Counter(hashes(f"word{n}")[0] for n in range(HASHED))
    assert max(found.values()) <= 10  # Poisson of mean 1: P(over 10) is 1e-8


@pytest.mark.parametrize(
    ("word", "sign"), [("_", 1), (".", 2), ("word", 0), ("é", 61), ("☃", 62), ("\x00", 0)]
)
def test_the_class_of_a_sign(word: str, sign: int) -> None:
    assert sign_feature(word) == sign


def test_the_lexicon_gives_back_what_was_put_in() -> None:
    facts = {
        "anna": LexiconEntry(frequency=3, languages=8, given=3),
        "schmidt": LexiconEntry(frequency=2, languages=1, surname=3),
        "köln": LexiconEntry(frequency=7, languages=2, place=1),
    }
    order = sorted(facts, key=word_hash)
    lexicon = Lexicon(
        np.array([word_hash(w) for w in order], np.uint32),
        np.array([facts[w].packed() for w in order], np.uint16),
    )
    assert {word: lexicon.find(word.upper()) for word in facts} == facts
    assert lexicon.find("nobody") == LexiconEntry()
    assert lexicon.find("\ud800") == LexiconEntry()


@given(
    st.builds(
        LexiconEntry,
        st.integers(0, 7), st.integers(0, 8), st.integers(0, 3), st.integers(0, 3),
        st.integers(0, 1),
    )
)  # fmt: skip
def test_facts_survive_being_packed(known: LexiconEntry) -> None:
    assert LexiconEntry.unpack(known.packed()) == known
    assert known.packed() < 1 << 16
