"""The second model: asked where the first doubts, in bounded stretches, and never done without."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.classify.names import FULL_NAME
from gateway.classify.names.engines.local import ReaderThread
from gateway.classify.names.engines.reader import NamesReader
from gateway.classify.names.model import second as s
from gateway.classify.names.model.features import COLUMNS, PIECES
from gateway.classify.names.model.labels import BEGIN, INSIDE, LABELS
from gateway.classify.names.model.second import (
    CONTEXT,
    STRETCH,
    DoubtThresholds,
    SecondReading,
    piece_counts,
    stretches,
)
from gateway.classify.names.model.tagger import WINDOW, Tagger
from gateway.classify.names.model.words import cut

from .knowing import HERE, Knows, Logits, Rows, nothing, plain_features
from .reading import THRESHOLDS, outcome, scenario

DOUBT = DoubtThresholds(least=0.02, sure=0.9, sure_full=0.95, share=0.8)
SURE, UNSURE = 0.99, 0.3


class Says:
    """A first model that gives words a probability to be a person."""

    def __init__(self, likely: Mapping[str, float]) -> None:
        features = plain_features()
        self._likely = [(features.rows(cut(word))[0, HERE], p) for word, p in likely.items()]

    def __call__(self, rows: Rows) -> Logits:
        logits = np.full((*rows.shape[:2], len(LABELS)), -30, dtype=np.float32)
        logits[..., 0] = 0
        for row, p in self._likely:
            here = (rows[..., HERE] == row).all(-1)
            logits[here, 0], logits[here, BEGIN["PERSON"]] = np.log(1 - p), np.log(p)
        return logits


class Again:
    """A second model that knows some names for sure, and keeps what it was asked."""

    def __init__(self, *names: str) -> None:
        self._knows = Knows(dict.fromkeys(names, "PERSON"))
        self.asked: list[Rows] = []

    def __call__(self, rows: Rows) -> Logits:
        self.asked.append(rows)
        found: Logits = self._knows(rows[None])[0]
        return found


def tagger(
    likely: Mapping[str, float], again: s.SecondModel, doubt: DoubtThresholds = DOUBT
) -> Tagger:
    return Tagger(plain_features(), Says(likely), SecondReading(again, doubt))


def said(tagger: Tagger, text: str) -> list[str]:
    (found,) = tagger.find([text], 0.5)
    return [text[m.start : m.end] for m in found]


@pytest.mark.parametrize(
    ("probability", "asked"),
    [(0.001, False), (0.015, False), (0.03, True), (UNSURE, True), (0.85, True), (SURE, False)],
)
def test_the_second_model_is_asked_what_the_first_one_doubts(
    probability: float, asked: bool
) -> None:
    again = Again()
    said(tagger({"Zara": probability}, again), "call Zara now")
    assert bool(again.asked) is asked


@pytest.mark.parametrize(("probability", "asked"), [(0.93, True), (0.97, False)])
def test_whether_a_name_goes_on_is_doubted_longer(probability: float, asked: bool) -> None:
    def first(rows: Rows) -> Logits:
        logits = np.full((*rows.shape[:2], len(LABELS)), -30, dtype=np.float32)
        logits[..., 0] = 0
        logits[:, 1, 0], logits[:, 1, INSIDE["PERSON"]] = (
            np.log(1 - probability),
            np.log(probability),
        )
        return logits

    again = Again()
    Tagger(plain_features(), first, SecondReading(again, DOUBT)).find(["Zara paints"])
    assert bool(again.asked) is asked


def test_a_doubt_about_an_address_is_a_doubt_and_one_about_a_place_is_none() -> None:
    def first(kind: str) -> Callable[[Rows], Logits]:
        def model(rows: Rows) -> Logits:
            logits = nothing(rows)
            logits[:, 1, BEGIN[kind]] = logits[:, 1, 0]  # as likely as not
            return logits

        return model

    for kind, asked in (("STREET_ADDRESS", 1), ("LOCATION", 0), ("ORGANIZATION", 0)):
        again = Again()
        Tagger(plain_features(), first(kind), SecondReading(again, DOUBT)).find(["in Zara Lane"])
        assert len(again.asked) == asked, kind


def test_a_handle_is_always_a_doubt_and_a_username_from_its_own_threshold_on() -> None:
    text = "thanks @zara_k, write to zara@example.org"
    again = Again("zara")
    both = tagger({}, again, DoubtThresholds(least=0.02, sure=0.9, sure_full=0.95, share=0.3))
    (found,) = both.find([text], 0.5, handle=0.25)
    assert [(m.kind, text[m.start : m.end]) for m in found] == [("USERNAME", "@zara_k")]
    assert both.find([text], 0.5, handle=0.35) == [[]]
    assert both.find(["write to zara@example.org"], 0.5, handle=0.25) == [[]]
    assert len(again.asked) == 2


def test_what_both_say_counts_where_the_first_one_doubts() -> None:
    text = "Zara met Otto and Hugo"
    likely = {"Zara": UNSURE, "Otto": 0.6, "Hugo": SURE}
    assert said(Tagger(plain_features(), Says(likely)), text) == ["Otto", "Hugo"]
    assert said(tagger(likely, Again("Zara", "Hugo")), text) == ["Zara", "Hugo"]


def test_a_text_without_doubt_keeps_what_the_first_one_said() -> None:
    again = Again("Otto")  # it would say otherwise
    assert said(tagger({"Zara": SURE}, again), "Zara met Otto") == ["Zara"]
    assert again.asked == []


def test_each_text_is_asked_by_itself() -> None:
    again = Again("Zara")
    texts = ["Zara", "nobody here", "Zara and Otto", ""]
    found = tagger({"Zara": UNSURE}, again).find(texts, 0.5)
    assert [len(mentions) for mentions in found] == [1, 0, 1, 0]
    assert [len(rows) for rows in again.asked] == [1, 3]


# Long texts (C5)


def far_apart(doubts: int, between: int) -> str:
    return ("filler " * between + "Zara ") * doubts + "filler " * between


@pytest.mark.parametrize("between", [0, 1, 7, 40, 94, 127, 300])
def test_a_doubt_anywhere_in_a_long_text_is_settled(between: int) -> None:
    again = Again("Zara")
    text = far_apart(12, between)
    assert said(tagger({"Zara": UNSURE}, again), text) == ["Zara"] * 12
    assert max(int(piece_counts(rows).sum()) for rows in again.asked) <= STRETCH


def test_the_rest_of_a_long_text_is_not_asked_about() -> None:
    again = Again()
    said(tagger({"Zara": UNSURE}, again), "filler " * 5 * WINDOW + "Zara " + "filler " * WINDOW)
    assert len(again.asked) == 1


PIECE_COUNTS = st.integers(1, 400).flatmap(
    lambda words: st.lists(st.integers(1, PIECES), min_size=words, max_size=words)
)


@given(PIECE_COUNTS, st.data())
@settings(max_examples=300)
def test_stretches_hold_every_doubt_once_with_what_stands_round_it(
    counts: list[int], data: st.DataObject
) -> None:
    every = data.draw(st.sampled_from((1, 2, 9, 40)))
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(counts) - 1)] * 2)))
    doubtful = set(range(first, last + 1, every))
    pieces = np.array(counts)
    ends = np.cumsum(pieces)
    made = list(stretches(np.array(sorted(doubtful), dtype=np.intp), pieces))
    kept = [word for one in made for word in range(one.keep_from, one.keep_to)]
    assert kept == sorted(set(kept))
    assert doubtful <= set(kept)
    for one in made:
        assert 0 <= one.first <= one.keep_from < one.keep_to <= one.last <= len(counts)
        assert pieces[one.first : one.last].sum() <= STRETCH
        # A word more would be room enough for the context, or there is no text.
        assert one.last == len(counts) or ends[one.last - 1] - ends[one.keep_to - 1] >= (
            CONTEXT - PIECES
        )
        doubt = min(word for word in doubtful if word >= one.keep_from)
        assert one.first == 0 or pieces[one.first : doubt].sum() > CONTEXT - PIECES


@pytest.mark.parametrize("word", ["Zara", "x", "unable", "Zara,", "!"])
def test_the_work_grows_no_faster_than_the_text_however_much_is_doubtful(word: str) -> None:
    def read(text: str) -> int:
        again = Again()
        doubts = {w: UNSURE for w in ("Zara", "x", "unable", "!")}
        tagger(doubts, again).find([text])
        return sum(int(piece_counts(rows).sum()) for rows in again.asked)

    text = f"{word} " * 6_000
    whole = read(text)
    assert whole <= 2 * (read(text[: len(text) // 2]) + STRETCH)
    assert whole <= 2.5 * 6_000 * max(1, len(word))


def test_reading_stops_between_stretches_when_it_is_told_to() -> None:
    class Stop(Exception):
        pass

    again = Again()

    def go_on() -> None:
        if len(again.asked) == 2:
            raise Stop

    with pytest.raises(Stop):
        tagger({"Zara": UNSURE}, again).find([far_apart(20, 100)], go_on=go_on)
    assert len(again.asked) == 2


# Failures (C1), samples (C8)


def raises(rows: Rows) -> Logits:
    raise RuntimeError


def of_one(change: Callable[[Logits], Logits]) -> s.SecondModel:
    return lambda rows: change(nothing(rows[None])[0])


@pytest.mark.parametrize(
    "again",
    [
        raises,
        of_one(lambda logits: logits * float("nan")),
        of_one(lambda logits: logits + float("inf")),
        of_one(lambda logits: logits[:-1]),
        of_one(lambda logits: logits[:, :-1]),
        of_one(lambda logits: logits[None]),
    ],
)
def test_a_second_model_that_fails_never_looks_like_a_text_without_names(
    again: s.SecondModel,
) -> None:
    reader = NamesReader(tagger({"Zara": UNSURE, "Otto": SURE}, again), None, THRESHOLDS)

    async def play(thread: ReaderThread) -> object:
        texts = ("call Zara now", "call Dr. Otto now", "call me now")
        return [await outcome(thread, text) for text in texts]

    assert scenario(reader.read, play) == ["failed", "found", "nothing"]


@pytest.mark.parametrize(
    ("again", "wrong"),
    [
        (Again("Margaret", "Whitfield"), "STREET_ADDRESS (en, second model)"),
        (Again("Margaret"), "PERSON (en, second model)"),
        (Again("Margaret", "Whitfield", "summary"), "PERSON (false alarm, second model)"),
    ],
)
def test_a_second_model_that_misses_its_samples_is_unfit_though_the_first_finds_them(
    again: Again, wrong: str
) -> None:
    first = Knows({"Margaret": "PERSON", "Whitfield": "PERSON", "48": "STREET_ADDRESS"})
    both = NamesReader(
        Tagger(plain_features(), first, SecondReading(again, DOUBT)), None, THRESHOLDS
    )
    alone = NamesReader(Tagger(plain_features(), first), None, THRESHOLDS)
    told = set(both.missed(["en"])) - set(alone.missed(["en"]))
    assert wrong in told
    assert all("second model" in one for one in told)


@pytest.mark.parametrize(
    ("text", "read_again"),
    [
        ("call Dr. Otto now, and then Dr. Zara", False),
        ("call Dr. Zara now, and then Dr. Otto", False),
        ("call Dr. Zara now", True),
    ],
)
def test_where_one_name_is_enough_a_sure_one_needs_no_second_model(
    text: str, read_again: bool
) -> None:
    again = Again("Zara", "Otto")
    reader = NamesReader(tagger({"Zara": UNSURE, "Otto": SURE}, again), None, THRESHOLDS)
    (found,) = reader.read([text], enough=lambda text, finding: finding.score >= FULL_NAME)
    assert found
    assert bool(again.asked) == read_again


# What goes into the model


def rows_of(*pieces: tuple[int, ...]) -> Rows:
    rows = np.zeros((len(pieces), COLUMNS), dtype=np.int32)
    for at, found in enumerate(pieces):
        rows[at, : len(found)] = found
        rows[at, PIECES:] = at + 1
    return rows


def test_pieces_go_in_one_after_the_other_behind_the_one_that_begins() -> None:
    given_ = s.inputs(rows_of((7,), (8, 9, 10, 11), (), (12, 13)))
    assert given_["pieces"].tolist() == [101, 7, 8, 9, 10, 11, 100, 12, 13]
    assert given_["words"].tolist() == [0, 1, 2, 2, 2, 2, 3, 4, 4]
    assert given_["first"].tolist() == [1, 2, 6, 7]
    assert given_["about"][:, 0].tolist() == [0, 1, 2, 3, 4]
    assert {array.dtype for array in given_.values()} == {np.dtype(np.int32)}


def test_pieces_are_counted_as_they_go_in() -> None:
    rows = rows_of((7,), (8, 9, 10, 11), (), (12, 13))
    counts: npt.NDArray[np.intp] = piece_counts(rows)
    assert counts.tolist() == [1, 4, 1, 2]
    assert 1 + counts.sum() == len(s.inputs(rows)["pieces"])
