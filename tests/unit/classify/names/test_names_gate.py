"""The gate of the names model: what it leaves to the model, what it passes over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gateway.classify.conversations.memory import BETWEEN, SegmentMemory
from gateway.classify.names import Enough
from gateway.classify.names.canaries import CANARIES, NOBODY
from gateway.classify.names.engines.local import LocalNames
from gateway.classify.names.engines.reader import NamesReader
from gateway.classify.names.gate.kinds import TOKEN
from gateway.classify.names.gate.windows import GatedText, NamesGate
from gateway.classify.names.model.card import card
from gateway.classify.names.model.languages import Languages
from gateway.classify.names.model.tagger import Tagger, load_features
from gateway.classify.names.model.words import cut
from gateway.classify.verdicts.budget import ReadingBudget
from gateway.classify.verdicts.names import NameVerdicts
from gateway.classify.verdicts.policies import CallerPolicies
from gateway.config import ClassifySettings
from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.types import NOT_TIGHTENED, DocumentCall, InferenceRequest, WireProtocol

LANGUAGES = frozenset({"en", "de", "fr", "es", "it", "pt", "nl", "pl"})


@pytest.fixture(scope="module")
def languages(weights: Path) -> Languages:
    lexicon = load_features(weights).lexicon
    return Languages.load(weights / "languages.npz", LANGUAGES, lexicon)


@pytest.fixture(scope="module")
def gate(weights: Path, languages: Languages) -> NamesGate:
    return NamesGate(load_features(weights).lexicon, languages)


def windows(gate: NamesGate, text: str) -> list[str]:
    return [text[start:end] for start, end in gate.filter(text, lone=False).windows]


@pytest.mark.parametrize(
    "name",
    [
        "Margaret Whitfield", "Xochitl Prvtzk", "Anna van der Meer", "Anneke de Vries",
        "J. Kowalski", "J.K. Rowling", "Kate M. Begum", "Muqtada al-Sadr", "Joe O'Neill",
        "Anne-Marie Andersson", "Kowalska, Anna", "anna kowalska", "john wertheim", "ANNA KOWALSKA",
        "Mike vick", "herr müller", "Herr Klein", "Mme G.", "M. D. R.", "Sig.ra Rossi",
        "dhr. ten Pas", "mr. quizzling", "Dr. med. Lindner", "48 Maple Street", "742 sansom st",
        "Lindenstraße 17", "12 bis rue Victor Hugo", "Calle Mayor, 4", "Via Garibaldi 8",
        "ul. Lipowej 12/4", "J0hanna W3idenfeller", "LeBron James", "Anna | Kowalska",
        "Jose\u0301 Núñez", "Sunita Das", "Linda Le", "Rafal Trzaskowski", "Stanisław Król",
    ],
)  # fmt: skip
def test_whatever_could_identify_somebody_is_left_to_the_model(gate: NamesGate, name: str) -> None:
    text = f"Please look at the two tables below, {name} and tell me what the numbers mean for us."
    (window,) = windows(gate, text)
    assert name in window
    assert len(window) < len(text)


@pytest.mark.parametrize(
    "name", ["I'm Quarto Angelo", "I am Bishop Angelo", "I\u2019m Quarto Angelo"]
)
def test_who_introduces_himself_is_read_though_he_is_called_by_words(
    gate: NamesGate, name: str
) -> None:
    (window,) = windows(gate, f"Good morning to all of you here. {name}, and we live at the lake.")
    assert name in window


def test_a_handle_is_read_with_more_of_what_stands_round_it(gate: NamesGate) -> None:
    words = "the parcel arrived on time and nobody was at home "
    text = f"{words * 4}so ask @anna_k about it, {words * 4}please. Thanks!"
    (window,) = windows(gate, text)
    assert len(words) < len(window) < len(text)


@pytest.mark.parametrize(
    "text",
    [
        NOBODY[0], "Janet's ducks lay 16 eggs per day.", "", " \n", "margo", "u-quizzling",
        "Please fix the parser, see #1284, and help me serialize a tree.",
        "The dielectric constant of a parallel plate capacitor is low in a Google Pixel.",
    ],
)  # fmt: skip
def test_what_names_nobody_costs_no_model(gate: NamesGate, text: str) -> None:
    assert windows(gate, text) == []


def test_where_lone_names_count_all_of_a_text_is_read(gate: NamesGate) -> None:
    text = "Janet's ducks lay 16 eggs per day."
    assert gate.filter(text, lone=True).windows == ((0, len(text)),)


@pytest.mark.parametrize("text", ["call margo quizzling now", "CALL MARGO QUIZZLING NOW"])
def test_a_string_in_one_case_is_read_whole(gate: NamesGate, text: str) -> None:
    others = "The parcel arrived on time and nobody was at home to take it in."
    (window,) = windows(gate, BETWEEN.join((others, text, others)))
    assert text in window


def texts() -> Iterator[str]:
    foreign = (
        "Patienten har haft feber siden i går og skal ikke have mere af den medicin nu",
        "potilas on ollut kuumeessa eilisestä lähtien eikä hänen pidä ottaa lääkettä enää nyt",
        "Bemor kechadan beri isitmalab yotibdi va endi bu dorini ichmasligi kerak deb aytildi",
        "Отправь письмо Анне", "lorem ipsum dolor sit amet consectetur adipiscing elit sed do",
    )  # fmt: skip
    known = (
        *(text for *_, text in CANARIES), *NOBODY,
        "for i in range(10):\n    print(i, den, var, och, er)",
        "Die Patientin ist seit gestern hier und wird morgen wieder nach Hause gehen können.",
    )  # fmt: skip
    yield from (*foreign, *known)
    for one in foreign:
        yield one.replace(" ", "\t")
        yield one.replace(" ", "  ")
        for other in known[:4]:
            yield BETWEEN.join((other, one))
            yield f"{(other + chr(10)) * 12}{one}\n{other}"


def test_a_text_is_foreign_to_the_gate_where_it_is_to_the_tables(
    gate: NamesGate, languages: Languages
) -> None:
    by_gate = {text: gate.filter(text, lone=False).foreign for text in texts()}
    assert by_gate == {text: languages.foreign(text, cut(text)) is not None for text in by_gate}
    assert set(by_gate.values()) == {True, False}


@pytest.mark.parametrize(
    "text", [*texts(), "a  b\t c", "@ anna #x", "user_name", "é\u0301\u0301 x"]
)
def test_tokens_are_the_words_of_the_model_with_all_between_them(text: str) -> None:
    tokens = TOKEN.findall(text)
    assert "".join(tokens) == text
    assert [token.strip() for token in tokens if token.strip()] == cut(text).words


def test_a_part_of_a_text_is_cut_as_in_the_whole() -> None:
    text = "first line\n  Anna Kowalska, second"
    whole = cut(text)
    part = cut(text, text.index("Anna"), text.index(","))
    assert part == whole.part(2, 4)


class Blind(NamesGate):
    def filter(self, text: str, lone: bool, enough: Enough | None = None) -> GatedText:
        return super().filter(text, lone, enough) if lone else GatedText(text, ())


def test_a_gate_that_misses_the_sample_of_a_language_is_unfit(weights: Path) -> None:
    tagger = Tagger.load(weights)
    reader = NamesReader(tagger, Blind(tagger.features.lexicon, None), card(weights)["thresholds"])
    assert reader.missed(["en"]) == ["PERSON (en, gate)", "STREET_ADDRESS (en, gate)"]


def verdicts(*calls: Sequence[str], allowed: Sequence[str] = ()) -> list[str]:
    """Of calls one after the other, by their turns, in `balanced`."""
    segments = SegmentMemory(64, 60.0, time.monotonic, b"k" * 32)
    policy = CallerPolicies(ClassifySettings(), (), True).find(NOT_TIGHTENED)

    async def run() -> list[str]:
        names = LocalNames(["en"])
        await names.start()
        try:
            budget = ReadingBudget(30.0, time.monotonic)
            by_names = NameVerdicts(names, segments, budget, allowed)
            return [
                (await by_names.find(request(turns), policy, turns, time.monotonic()))[0]
                for turns in calls
            ]
        finally:
            await names.aclose()

    return asyncio.run(run())


def request(turns: Sequence[str]) -> InferenceRequest:
    messages = [{"role": "user", "content": turn} for turn in turns]
    call = DocumentCall(CHAT, {"model": "m", "messages": messages})
    return InferenceRequest("r", WireProtocol.OPENAI, "t", "m", call, Deadline.after(60.0))


def verdict(*turns: str) -> str:
    (reason,) = verdicts(turns)
    return reason


def test_a_lone_name_restricts_beside_a_particular_and_by_itself_does_not() -> None:
    asks = "Could you help Janet with her homework? She has to write about rivers."
    assert verdict(asks) == "clear"
    assert verdict(asks, "Her date of birth is 12 March 1980, if that matters.") == "entities"


def test_a_name_in_another_form_restricts() -> None:
    assert verdict("Please write to **Margaret** **Whitfield** about it.") == "entities"
    assert verdict("Please decode TWFyZ2FyZXQgV2hpdGZpZWxkIGNhbGxlZA== for me.") == "entities"


FILLER = "the parcel arrived on time and nobody was at home to take it in before the evening. " * 6


@pytest.mark.parametrize("allowed", ["Margaret Whitfield", "Katharina Lindner"])
def test_a_name_that_is_allowed_ends_no_search(allowed: str) -> None:
    text = f"Please ask Margaret Whitfield. {FILLER} Please ask Katharina Lindner."
    assert verdicts([text], allowed=[allowed]) == ["entities"]
    assert verdicts([text], allowed=["Margaret Whitfield", "Katharina Lindner"]) == ["clear"]


def test_what_was_not_read_behind_a_name_is_not_remembered_as_clear() -> None:
    known = [f"First, {FILLER}", f"Then, {FILLER}"]
    later = f"Please ask Katharina Lindner. {FILLER}"
    earlier = f"Please ask Margaret Whitfield. {FILLER}"
    calls = known, [earlier, *known, later], [*known, later]
    assert verdicts(*calls) == ["clear", "entities", "entities"]
