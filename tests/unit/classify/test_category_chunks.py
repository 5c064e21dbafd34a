"""Parts of texts that are held against categories, and where they stand."""

from __future__ import annotations

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from gateway.classify.categories.chunks import LONGEST, spans
from gateway.classify.categories.matching import _place
from gateway.classify.categories.words import words

TEXTS = st.text(st.sampled_from("ab é.!?:;,|\n\t- 1世界"), max_size=600)


@given(TEXTS)
def test_parts_are_in_order_and_hold_every_word(text: str) -> None:
    parts = spans(text)
    assert all(0 < end - start <= LONGEST for start, end in parts)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(parts))
    rest, at = "", 0
    for start, end in parts:
        rest += text[at:start] + "\n"
        at = end
    left = rest + text[at:]
    assert re.search(r"[^\W\d_]{2}", left) is None


def test_sentences_are_apart_and_short_ones_together() -> None:
    long = "The recipe calls for two eggs, a cup of flour and a pinch of salt, "
    long += "and for much patience, besides."
    text = f"{long} Yes. No. {long}"
    assert [text[start:end].strip() for start, end in spans(text)] == [long, "Yes. No.", long]


@given(st.lists(st.sampled_from(["Maria", "Keller-Ost", "PX204", "é", "|", "..."]), min_size=1))
def test_a_place_has_the_words_that_it_is_of(written: list[str]) -> None:
    text = "  ".join(written)
    own = words(text)
    for first in range(len(own)):
        for last in range(first + 1, len(own) + 1):
            start, end = _place(text, first, last)
            within = words(text[start:end])
            joined = "\0".join(within)
            assert "\0".join(own[first:last]) in joined
