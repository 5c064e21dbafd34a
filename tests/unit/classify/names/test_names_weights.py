"""The trained model as it ships. Every test here reads the weights of the package."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import random
from pathlib import Path

import numpy as np
import pytest

from gateway.classify import NoScan
from gateway.classify.names import FULL_NAME
from gateway.classify.names.canaries import CANARIES, NOBODY
from gateway.classify.names.engines.local import LocalNames
from gateway.classify.names.engines.reader import NamesReader
from gateway.classify.names.model.card import card
from gateway.classify.names.model.tagger import MARGIN, WINDOW, OnnxModel, Tagger, load_features
from gateway.classify.names.model.words import cut
from gateway.core.types import Finding

NAMES = "Margaret Whitfield"
FILLER = (  # noqa: SIM905 - a text
    "the report says that the water in the tank was too cold for the test and the pump had to "
    "be replaced before the second run which took about four hours in the afternoon . "
).split()
MARKER = "Marguerite Quillfeather"
LOUD = (  # texts as far from speech as texts come
    "\U0001f600" * 900,
    "\x00\ud800" * 400,
    "QXZJ " * 500,
    "{" * 1_000,
    "e\u0301" * 3_000,
    "0" * 5_000,
)
SURNAMES = (  # noqa: SIM905 - of places and of companies
    "Guimarães Braga London Toledo Medina Bergen Lisboa Ferrara Siena Verona Trier Bamberg Lincoln "
    "Hamilton Dallas Chester York Kent Segovia Zamora Amsterdam Utrecht Delft Opole Bosch Siemens "
    "Ford Heinz Philips Benz Hilton Wells Boeing Cartier Ferrari"
).split()
EVERYDAY = (  # noqa: SIM905
    "Monday Friday December Please Thanks Tomorrow Today Yes Also Regards Dear Next Are Is Would "
    "Hello"
).split()
BEARERS = ("Zbigniew", "Ingrid", "Pedro", "Claire", "Katarzyna", "Emre")
SENTENCES = (
    "{} is what the form says. Is it plausible?",
    "{}: call back tomorrow",
    "Bitte {} anrufen",
    "Rozmawiałem z {} wczoraj.",
)


@pytest.fixture(scope="module")
def reader(weights: Path) -> NamesReader:
    return NamesReader.load(weights)


@pytest.fixture(scope="module")
def tagger(weights: Path) -> Tagger:
    return Tagger.load(weights)


def found(reader: NamesReader, text: str) -> list[Finding]:
    (one,) = reader.read([text])
    assert not isinstance(one, NoScan)
    return one


def test_the_card_says_what_the_weights_are(weights: Path) -> None:
    told = card(weights)
    assert {"version", "languages", "thresholds"} <= told.keys()
    assert set(told["languages"]) == {language for language, *_ in CANARIES}
    kinds = ("full", "lone", "address", "handle", "named_handle")
    assert told["thresholds"].keys() == set(kinds)
    assert all(0 < told["thresholds"][kind] < 1 for kind in kinds)
    assert 0 < told["doubt"]["least"] < min(told["thresholds"].values())
    assert 0 < told["doubt"]["share"] <= 1


def test_the_samples_of_every_language_come_out_right(reader: NamesReader, weights: Path) -> None:
    assert reader.missed(card(weights)["languages"]) == []


@pytest.mark.parametrize("given", ["Małgorzata", "Jarosław", "Hendrika", "Addolorata", "Frauke"])
def test_given_names_of_every_language_are_found_in_english(
    reader: NamesReader, given: str
) -> None:
    """In prose that is not theirs the letters around them tell nothing."""
    for family in ("Guimarães", "Vasconcelos", "Wesołowski", "Achterberg", "Delacroix"):
        for text in (
            f"{given} {family} is what the form says. Is it plausible?",
            f"Update the file: {given} {family} was wrong until now.",
        ):
            assert any(f.score >= FULL_NAME for f in found(reader, text)), text


@pytest.mark.parametrize(
    "at", sorted({0, 1, 40, WINDOW - 1, *range(WINDOW - 2 * MARGIN - 2, WINDOW + 3, 2), 2 * WINDOW})
)
def test_a_name_is_found_at_any_offset_of_a_long_text(reader: NamesReader, at: int) -> None:
    words = (FILLER * 60)[: 3 * WINDOW]
    words[at:at] = f"please call {NAMES} back".split()
    text = " ".join(words)
    assert [text[f.start : f.end] for f in found(reader, text)] == [NAMES]


def test_a_text_reads_the_same_alone_and_among_others(tagger: Tagger) -> None:
    texts = [text for *_, text in CANARIES] + list(NOBODY) + [" ".join(FILLER * 30)]
    alone = [tagger.probabilities([cut(text)])[0] for text in texts]
    for seed in range(3):
        company = [*texts, *LOUD]
        order = random.Random(seed).sample(range(len(company)), len(company))
        together = tagger.probabilities([cut(company[at]) for at in order])
        for at, probabilities in zip(order, together, strict=True):
            if at < len(texts):
                # Without this a caller's text moves another's: 0.06 with scales of the batch.
                assert np.abs(probabilities - alone[at]).max() < 1e-4


def test_calls_at_the_same_time_get_the_answers_that_they_get_alone(weights: Path) -> None:
    texts = [text for *_, text in CANARIES] + list(NOBODY)

    async def play() -> tuple[list[list[list[Finding]]], list[list[list[Finding]]]]:
        names = LocalNames(card(weights)["languages"], weights=weights)
        await names.start()
        try:
            alone = [await names.find([text], 20) for text in texts]
            calls = [names.find([text], 20) for text in texts + list(LOUD)]
            together = await asyncio.gather(*calls, return_exceptions=True)
            return alone, together[: len(texts)]  # type: ignore[return-value]
        finally:
            await names.aclose()

    alone, together = asyncio.run(play())
    assert together == alone


def test_findings_lie_in_the_text_whatever_it_is(reader: NamesReader) -> None:
    for text in (
        *LOUD,
        "".join(LOUD),
        "Anna\x00Schmidt",
        "Jose\u0301 Marti\u0301",
        "\ud800Anna Lee",
    ):
        for one in found(reader, text):
            assert 0 <= one.start < one.end <= len(text)
            assert 0 < one.score <= 1


def test_accents_written_apart_are_part_of_the_finding(reader: NamesReader) -> None:
    text = "Merci de rappeler Madame Ame\u0301lie Lefe\u0300vre demain matin."
    said = [text[f.start : f.end] for f in found(reader, text)]
    assert said == ["Ame\u0301lie Lefe\u0300vre"]


def test_text_in_an_unmeasured_language_is_no_scan(weights: Path) -> None:
    text = "Jag har inte varit på sjukhuset men det var för att han som är med om det inte ville."

    async def read(other_languages: bool) -> str:
        names = LocalNames(["en"], other_languages=other_languages, weights=weights)
        await names.start()
        try:
            await names.find(["Hello there", text], 20)
        except NoScan as failure:
            return failure.reason
        else:
            return "read"
        finally:
            await names.aclose()

    assert asyncio.run(read(False)) == "unmeasured_language"
    assert asyncio.run(read(True)) == "read"


def test_nothing_says_what_was_read(
    weights: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)

    async def play() -> list[str]:
        names = LocalNames(["en"], weights=weights)
        await names.start()
        said = []
        for text, budget_s in (
            (f"Please call {MARKER} back.", 20.0),
            (f"Please call {MARKER} back. " * 20_000, 0.05),
            (f"{MARKER} и Иванов", 20.0),
        ):
            try:
                said.append(repr(await names.find([text], budget_s)))
            except NoScan as failure:
                said.append(repr(failure))
        await names.aclose()
        return said

    first, late, foreign = asyncio.run(play())
    printed = "".join(capfd.readouterr()) + caplog.text + first + late + foreign
    assert "PERSON" in first
    assert late.startswith("ScanLate")
    assert foreign.startswith("UnmeasuredLanguage")
    assert not any(part in printed for part in MARKER.split())


def test_a_full_name_identifies_and_a_lone_one_does_not(reader: NamesReader) -> None:
    (full,) = found(reader, f"Please call {NAMES} back.")
    assert full.score >= FULL_NAME
    lone = found(reader, "Janet's ducks lay 16 eggs per day. How many does Janet sell?")
    assert all(f.score < FULL_NAME for f in lone)


def test_a_surname_of_a_place_or_a_company_is_one(reader: NamesReader) -> None:
    """Alone, and repeated as a call may hold it. 57 of the 1,680 were missed when the model alone
    drew the line between a surname and a place."""
    missed = []
    for at, (given, surname) in enumerate(itertools.product(BEARERS, SURNAMES)):
        text = SENTENCES[at % len(SENTENCES)].format(f"{given} {surname}")
        for call in (text, f"{text}\n|\nnote amber-river\n|\n{text}"):
            if not any(f.type == "PERSON" and f.score >= FULL_NAME for f in found(reader, call)):
                missed.append(call)
    assert len(missed) <= 2, missed


def test_an_everyday_word_behind_a_given_name_is_no_surname(reader: NamesReader) -> None:
    """127 of the 512 were flagged while every capitalised word behind a name joined it, and 74 by
    the model alone."""
    texts = [
        sentence.format(f"{given} {word}")
        for given in ["Janet", "Oliver", "Priya", "Marek", "Lucía", "Fatima", "Georg", "Noah"]
        for word in EVERYDAY
        for sentence in (
            "Ask {} is fine for me.",
            "Tell {} we are late.",
            "I met {} morning works too",
            "for {}: see below",
        )
    ]
    assert len(texts) == 512
    flagged = [text for text in texts if any(f.score >= FULL_NAME for f in found(reader, text))]
    assert len(flagged) <= 95, flagged


@pytest.mark.parametrize(
    "text",
    [
        "London bound trains are late, says the board.",
        "Is Paris Nord closer than Paris Est?",
        "Janet's Boeing is late.",
        "Ask Alexa. Amsterdam is lovely in May.",
        "Tell Janet, Hamilton and Dallas are far apart.",
    ],
)
def test_a_place_or_a_company_near_a_name_is_no_surname(reader: NamesReader, text: str) -> None:
    assert not any(f.score >= FULL_NAME for f in found(reader, text))


def test_a_handle_in_prose_is_somebodys_and_a_sign_in_code_is_not(reader: NamesReader) -> None:
    for text in ("omg thx @sarah_k for the ride", "RT @marioruns4: good morning to everyone"):
        (one,) = found(reader, text)
        assert one.type in ("PERSON", "USERNAME")
        assert "@" in text[one.start : one.end]
    for text in (
        "@dataclass\nclass Oven:\n    heat: int",
        "npm install @angular/core @types/node",
        "@media (max-width: 600px) { .grid { display: block; } }",
        "def __init__(self):\n    @property\n    def size(self): return 3",
    ):
        assert found(reader, text) == []


def test_both_models_together_find_what_the_first_one_misses(
    reader: NamesReader, weights: Path
) -> None:
    first = NamesReader(
        Tagger(load_features(weights), OnnxModel(weights / "first.onnx")),
        None,
        card(weights)["thresholds"],
    )
    text = "cant wait 4 messi 2nite"
    assert found(first, text) == []
    assert [text[f.start : f.end] for f in found(reader, text)] == ["messi"]
    text = "How many windows does Hannah smash?"
    assert [text[f.start : f.end] for f in found(first, text)] == ["Hannah smash"]
    assert [text[f.start : f.end] for f in found(reader, text)] == ["Hannah"]


def test_the_weights_are_small(weights: Path) -> None:
    assert sum(path.stat().st_size for path in weights.iterdir()) < 15_000_000
    json.loads((weights / "card.json").read_text())
