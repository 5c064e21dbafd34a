"""Texts in languages that the model was not measured on are told apart; code and chat are not."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.classify.names.languages import Languages, foreign_script
from gateway.classify.names.lexicon import word_hash
from gateway.classify.names.words import cut

EVERYDAY = {
    "en": "the of and to in is you that it he was for on are with as his they at be this from",
    "de": "der die und das ist nicht ein eine mit von auf für sich dem den im",
    "sv": "och att det som en på är av för den till inte jag har med om var han men",
    "tr": "bir ve bu da de için ben çok ne mi sen daha gibi ama olarak var",
}


def tables(measured: Iterable[str] = ("en", "de")) -> Languages:
    names = [*EVERYDAY]
    masks: dict[int, int] = {}
    for at, language in enumerate(names):
        for word in EVERYDAY[language].split():
            masks[word_hash(word)] = masks.get(word_hash(word), 0) | 1 << at
    return Languages(
        np.array(list(masks), np.uint32),
        np.array(list(masks.values()), np.uint64),
        names,
        frozenset(measured),
    )


SWEDISH = "jag har inte varit på sjukhuset men det var för att han som är med om det inte var "
ENGLISH = "he was at the clinic for a week and they said that it is to be in the report with this "


def foreign(text: str, languages: Languages | None = None) -> str | None:
    return (languages or tables()).foreign(text, cut(text))


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("", None),
        ("jag har", None),  # too little to tell
        (SWEDISH, "sv"),
        (SWEDISH.upper(), "sv"),
        (ENGLISH, None),
        ("der Patient ist nicht mit dem Arzt und das ist für sich ein Fall", None),
        ("for (int i = 0; i < n; i++) { total += values[i]; }", None),
        (ENGLISH * 2 + SWEDISH, None),  # a quotation: the rest of it is read
        (ENGLISH * 100 + SWEDISH * 20, "sv"),  # a text that changes its language
        (SWEDISH * 20 + ENGLISH * 100, "sv"),
        (ENGLISH * 100 + SWEDISH * 20 + ENGLISH * 100, "sv"),
    ],
)
def test_a_text_in_an_unmeasured_language_is_told(text: str, language: str | None) -> None:
    assert foreign(text) == language


def test_a_measured_language_is_none_of_the_others() -> None:
    assert foreign(SWEDISH, tables(("en", "de", "sv"))) is None


@pytest.mark.parametrize("at", range(0, 900, 50))
def test_a_long_part_in_another_language_is_told_wherever_it_stands(at: int) -> None:
    words = (ENGLISH * 60).split()
    words[at:at] = (SWEDISH * 14).split()
    assert foreign(" ".join(words)) == "sv"


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("Meet Иванов today", "cyrillic"),
        ("王小明", "cjk"),
        ("さくら", "hiragana"),
        ("김민준", "hangul"),
        ("محمد علي", "arabic"),
        ("สมชาย", "thai"),
        ("Παπαδόπουλος", "greek"),
        ("the angle \u03b1 and the sum \u03a3 of \u03b2", None),
        ("αβ", None),
        ("\U0001d400\U0001d427" * 4 + " \u211d\u207f " + "\uff41\uff42" * 4, None),
        ("Ærø, Łódź, Nguyễn, Đặng", None),
        ("😀😀😀😀😀😀", None),
        ("\ud800\ud801", None),
    ],
)
def test_a_script_that_no_measured_language_has(text: str, script: str | None) -> None:
    assert foreign_script(text) == script


@given(st.text(alphabet=st.characters(codec=None)))
@settings(max_examples=200, deadline=None)
def test_any_text_is_judged(text: str) -> None:
    assert isinstance(foreign(text), str | None)


def test_the_words_looked_up_grow_no_faster_than_the_text() -> None:
    looked_up = []
    for count in (5_000, 10_000):
        languages = tables()
        masks = languages._masks
        seen = 0

        class Counted(dict[int, int]):
            def get(self, word: int, default: int | None = None) -> int | None:  # type: ignore[override]
                nonlocal seen
                seen += 1
                return super().get(word, default)

        languages._masks = Counted(masks)
        foreign("the cat " * (count // 2), languages)
        looked_up.append(seen)
    assert looked_up[1] <= 2.1 * looked_up[0] <= 2.1 * 1.6 * 5_000


def test_each_string_of_a_call_has_a_language_of_its_own() -> None:
    """Joined as the classifier joins them, a short message between long ones counts by itself."""
    joined = "\n|\n".join([ENGLISH * 8, SWEDISH, ENGLISH * 8])
    assert foreign(joined) == "sv"
    assert foreign(joined.replace("\n|\n", " ")) is None
