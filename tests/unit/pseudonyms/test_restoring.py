"""restore(stream(mask(x))) == x, however the stream is cut."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.classify.pseudonyms.answers.restorer import Channel, Restorer
from gateway.classify.pseudonyms.forms import SurrogateForm
from tests.unit.pseudonyms.samples import VALUES, masked, masked_one

WORDS = st.sampled_from(
    ["", " ", "Dear ", ", ", "'s ", "\n", " and ", "(", ")", '"', "\\", "4000 00", "Auk", "5",
     "😀", "é", "İ", "+", "@example", "mail: ", "192.0.2", "Mc", "\u212a", "\u017f"]
)  # fmt: skip
PIECES = st.lists(st.one_of(st.sampled_from([v for _, v in VALUES]), WORDS), max_size=12)


def joined(pieces: list[str]) -> str:
    """With a mark between them, so that no two values make a third."""
    return "|".join(pieces)


def streamed(text: str, cuts: list[int], restorer: Restorer) -> str:
    channel, said, at = Channel(restorer), "", 0
    for cut in [*sorted(c % (len(text) + 1) for c in cuts), len(text)]:
        said += channel.feed(text[at:cut])
        at = cut
    return said + channel.flush()


@given(PIECES, st.lists(st.integers(0, 10_000), max_size=30), st.integers(0, 1 << 32))
def test_any_text_comes_back_whole_and_however_it_is_cut(
    pieces: list[str], cuts: list[int], seed: int
) -> None:
    text = joined(pieces)
    said, restorer = masked_one(text, seed)
    assert restorer.whole(said) == text
    assert streamed(said, cuts, restorer) == text
    assert streamed(said, list(range(len(said))), restorer) == text  # one character at a time


@given(st.data())
def test_an_answer_of_its_own_words_is_restored_the_same_in_one_piece_and_in_many(
    data: st.DataObject,
) -> None:
    _, ledger = masked([joined([v for _, v in VALUES])], data.draw(st.integers(0, 1 << 32)))
    restorer = Restorer(ledger.forms)
    seen = [form.surrogate for form in ledger.forms]
    some = st.sampled_from([*seen, *(s.upper() for s in seen), *(s[:5] for s in seen)])
    answer = "".join(data.draw(st.lists(st.one_of(some, WORDS), max_size=12)))
    cuts = data.draw(st.lists(st.integers(0, 10_000), max_size=30))
    assert streamed(answer, cuts, restorer) == restorer.whole(answer)


@given(st.integers(0, 1 << 32), st.lists(st.integers(0, 10_000), max_size=10))
def test_arguments_of_a_tool_call_are_json_with_the_originals(seed: int, cuts: list[int]) -> None:
    document = {f"{type_} {n}": value for n, (type_, value) in enumerate(VALUES)}
    said, restorer = masked_one(json.dumps(document, ensure_ascii=False), seed)
    assert json.loads(streamed(said, cuts, restorer)) == document
    escaped = said.replace("@", "\\u0040").replace("+", "\\u002b")
    assert json.loads(streamed(escaped, cuts, restorer)) == document


@pytest.fixture(scope="module")
def restorer() -> Restorer:
    forms = [
        SurrogateForm("Aurelind", "Maria"),
        SurrogateForm("Brisolden", "Keller"),
        SurrogateForm("4000 0012", "4111 1111"),
    ]
    return Restorer(forms)


@pytest.mark.parametrize(
    ("answer", "restored"),
    [
        ("Aurelind's card, AURELIND'S, aurelind", "Maria's card, MARIA'S, maria"),
        ("Brisoldens Karte", "Kellers Karte"),
        ("Brisolden, Aurelind", "Keller, Maria"),
        ("**Aurelind**_Brisolden_", "**Maria**_Keller_"),
        ("AureLind", "Maria"),
        ("4000 00124000 0012", "4111 11114111 1111"),
        ("Aurelin d 4000 001", "Aurelin d 4000 001"),
    ],
)
def test_case_possessives_and_signs_around_a_surrogate(
    answer: str, restored: str, restorer: Restorer
) -> None:
    assert restorer.whole(answer) == restored
    assert streamed(answer, list(range(len(answer))), restorer) == restored


def test_only_what_may_become_a_surrogate_is_held_back(restorer: Restorer) -> None:
    channel = Channel(restorer)
    told = [
        (channel.feed(piece), channel.held) for piece in ("Dear Mr A", "u", "stin, ", "Aurelind")
    ]
    assert told == [("Dear Mr ", True), ("", True), ("Austin, ", False), ("Maria", False)]


def test_nothing_is_held_back_longer_than_a_surrogate_is_long() -> None:
    forms = [
        SurrogateForm("Aurelind", "Mechtild"),
        SurrogateForm("4000 0012", "4111 1111"),
    ]  # of equal lengths
    channel, random, waiting = Channel(Restorer(forms)), Random(3), 0
    for _ in range(3000):
        waiting += 1 - len(channel.feed(random.choice("Aurelind40 ")))
        assert 0 <= waiting < len("4000 0012")


def test_halves_of_an_emoji_pass(restorer: Restorer) -> None:
    channel = Channel(restorer)
    assert channel.feed("Aurelind \ud83d") + channel.feed("\ude00") == "Maria \ud83d\ude00"
