"""Windows, batches and runs of words: a mention is found wherever it stands, and at its offsets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.classify.names.model import tagger as t
from gateway.classify.names.model.labels import BEGIN, INSIDE, LABELS
from gateway.classify.names.model.tagger import MARGIN, WINDOW, Mention, Tagger, mentions
from gateway.classify.names.model.words import cut

from .knowing import SEEN, Knows, Logits, Rows, Surroundings, nothing, plain_features

BORDER = WINDOW - MARGIN
STEP = WINDOW - 2 * MARGIN


def positions_round_the_borders() -> Iterator[int]:
    """Every word of the first windows' overlap, then some of it at each border that follows."""
    yield from range(BORDER - 2 * MARGIN, BORDER + 2 * MARGIN + 1)
    for window in range(1, 6):
        yield from range(window * STEP + BORDER - 3, window * STEP + BORDER + 4)


@pytest.mark.parametrize("at", sorted({*positions_round_the_borders(), SEEN, WINDOW, 2 * WINDOW}))
def test_a_name_at_any_border_of_windows_is_read_with_all_that_stands_round_it(at: int) -> None:
    words = ["filler"] * (6 * WINDOW)
    words[at - SEEN], words[at], words[at + SEEN] = "before", "Zara", "after"
    text = " ".join(words)
    tagger = Tagger(plain_features(), Surroundings("before", "Zara", "after"))
    ((found,),) = tagger.find([text])
    assert text[found.start : found.end] == "Zara"


@pytest.mark.parametrize("length", [1, WINDOW - 1, WINDOW, WINDOW + 1, BORDER + STEP, 3_000])
def test_each_word_of_a_text_is_kept_from_one_window(length: int) -> None:
    windows = list(t._windows([cut("w " * length)]))
    assert [at for w in windows for at in range(w.keep_from, w.keep_to)] == list(range(length))
    assert all(w.last - w.first <= WINDOW for w in windows)


def test_a_text_without_words_has_no_mentions_and_costs_no_run() -> None:
    model = Knows({"Zara": "PERSON"})
    assert Tagger(plain_features(), model).find(["", " \n", "Zara"])[:2] == [[], []]
    assert len(model.runs) == 1
    assert Tagger(plain_features(), model).find([]) == []


def test_texts_of_a_batch_keep_their_own_mentions() -> None:
    texts = ["Zara", "nobody " * 700 + "Zara", "x", "Zara and Zara", "nobody", ""] * 7
    tagger = Tagger(plain_features(), Knows({"Zara": "PERSON"}))
    together = tagger.find(texts)
    assert together == [tagger.find([text])[0] for text in texts]
    assert [len(found) for found in together[:6]] == [1, 1, 0, 2, 0, 0]


def test_a_run_of_the_model_has_a_bounded_size() -> None:
    model = Knows({})
    Tagger(plain_features(), model).find(["word " * 20_000, *["few words"] * 3_000])
    assert max(texts * words for texts, words, _ in model.runs) <= t.BATCH_WORDS


@pytest.mark.parametrize(
    "text",
    ["word " * 13_000, "x" * 65_536, "\x00" * 65_536, "é" * 32_768, "\U0001f600" * 16_384,
     "a." * 32_768, "王" * 21_845, "e\u0301" * 21_845, " " * 65_536],
)  # fmt: skip
def test_the_work_grows_no_faster_than_the_text(text: str) -> None:
    whole, half = Knows({}), Knows({})
    Tagger(plain_features(), whole).find([text])
    Tagger(plain_features(), half).find([text[: len(text) // 2]])
    assert whole.words <= 2 * half.words + WINDOW
    assert whole.words <= 1.2 * len(cut(text)) + WINDOW


def test_reading_stops_between_batches_when_it_is_told_to() -> None:
    class Stop(Exception):
        pass

    model = Knows({})

    def go_on() -> None:
        if len(model.runs) == 3:
            raise Stop

    with pytest.raises(Stop):
        Tagger(plain_features(), model).find(["word " * 20_000], go_on=go_on)
    assert len(model.runs) == 3


def not_a_number(rows: Rows) -> Logits:
    logits = nothing(rows)
    logits[-1, 0, 3] = np.nan
    return logits


def infinite(rows: Rows) -> Logits:
    logits = nothing(rows)
    logits[0, 0, 0] = np.inf
    return logits


@pytest.mark.parametrize(
    "model",
    [
        not_a_number,
        infinite,
        lambda rows: nothing(rows)[:, :-1],
        lambda rows: nothing(rows)[:-1],
        lambda rows: nothing(rows)[..., :-1],
        lambda rows: nothing(rows)[:1, :1],
        lambda rows: nothing(rows).reshape(-1, len(LABELS)),
    ],
)
def test_an_answer_that_does_not_fit_is_no_answer(model: t.TaggerModel) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        Tagger(plain_features(), model).find(["Anna Schmidt lives here", "and here"])


def labelled(text: str, labels: dict[int, tuple[int, float]]) -> list[Mention]:
    words = cut(text)
    found = np.zeros((len(words), len(LABELS)), dtype=np.float32)
    found[:, 0] = 1
    for at, (label, probability) in labels.items():
        found[at, label] = probability
        found[at, 0] = 1 - probability
    return list(mentions(words, found, 0.5))


B, IN, STREET = BEGIN["PERSON"], INSIDE["PERSON"], BEGIN["STREET_ADDRESS"]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({}, []),
        ({0: (B, 0.9), 1: (IN, 0.8)}, [("Anna Lee", 0.9)]),
        ({0: (B, 0.9), 1: (B, 0.8)}, [("Anna", 0.9), ("Lee", 0.8)]),
        ({0: (IN, 0.6), 1: (IN, 0.7)}, [("Anna Lee", 0.7)]),
        ({0: (B, 0.9), 2: (IN, 0.8)}, [("Anna", 0.9), ("met", 0.8)]),
        ({3: (B, 0.5)}, [("Bo", 0.5)]),
        ({3: (B, 0.49)}, []),
        ({0: (B, 0.9), 3: (IN, 0.9)}, [("Anna", 0.9), ("Bo", 0.9)]),
        ({0: (STREET, 0.9), 1: (B, 0.9)}, [("Lee", 0.9), ("Anna", 0.9)]),
        ({0: (BEGIN["LOCATION"], 1.0)}, []),
    ],
)
def test_mentions_are_runs_of_likely_words(
    labels: dict[int, tuple[int, float]], said: list[tuple[str, float]]
) -> None:
    text = "Anna Lee met Bo"
    found = [(text[m.start : m.end], round(m.probability, 6)) for m in labelled(text, labels)]
    assert found == said


@given(st.lists(st.text(alphabet=st.characters(codec=None)), max_size=4))
@settings(max_examples=200)
def test_mentions_lie_in_their_texts_and_in_order(texts: list[str]) -> None:
    noise = np.random.default_rng(len("".join(texts)))

    def noisy(rows: Rows) -> Logits:
        return noise.normal(size=(*rows.shape[:2], len(LABELS))).astype(np.float32) * 4

    for text, found in zip(texts, Tagger(plain_features(), noisy).find(texts, 0.2), strict=True):
        for kind in ("PERSON", "STREET_ADDRESS"):
            ends = [0]
            for one in (m for m in found if m.kind == kind):
                assert ends[-1] <= one.start < one.end <= len(text)
                assert 0.2 <= one.probability <= 1.000001
                ends.append(one.end)
