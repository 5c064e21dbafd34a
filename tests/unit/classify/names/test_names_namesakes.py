# ruff: noqa: RUF001 - letters of other languages are meant as they are
"""A brand, a method or an institution is no person; a person who is called like one stays one."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.classify.names import FULL_NAME, PERSON
from gateway.classify.names.engines.reader import NamesReader, UnmeasuredLanguage
from gateway.classify.names.model.tagger import Mention
from gateway.classify.names.namesake_tables import BRANDS, INSTITUTIONS, METHODS
from gateway.classify.names.records.keys import folded
from gateway.classify.names.records.plausible import are_words
from gateway.classify.names.rules import findings, is_nobody

THRESHOLDS = {"full": 0.28, "lone": 0.28, "address": 0.4, "handle": 0.06, "named_handle": 0.5}
THINGS = (
    "What is the oil change interval for a [John Deere] 5075E?",
    "Welche Reifen passen auf einen [John Deere] 6120M?",
    "Quelle est la garantie d'un tracteur [John Deere] en France ?",
    "Compare the quarterly results of [Morgan Stanley] and Goldman Sachs.",
    "Write an alt text for a [Michael Kors] handbag.",
    "Ein Hemd von [Hugo Boss] in Größe M",
    "Is a [Briggs] & [Stratton] engine loud?",
    "Which [Harley-Davidson] model is best for beginners?",
    "Explain [Karl Fischer] titration.",
    "Quel est le principe du titrage [Karl Fischer] ?",
    "Na czym polega miareczkowanie metodą [Karla Fischera]?",
    "Wie läuft eine [Karl Fischer Titration] ab?",
    "How is a [Kaplan Meier] curve read?",
    "Wofür braucht man den [Kaplan-Meier-Schätzer]?",
    "Was besagt der Satz von [Hardy Weinberg]?",
    "¿Cómo se hace la tinción de [Ziehl Neelsen]?",
    "What are the stages of [Charcot Marie Tooth] disease?",
    "Implement the [Knuth Morris Pratt] search in Rust.",
    "Explain [Guillain Barré] syndrome in elderly patients.",
    "What does [Johns Hopkins] University ask for?",
    "the [Max Planck] Institute for Chemistry",
    "Find grants of the Bill & [Melinda Gates] Foundation.",
    "Que fait l'Institut [Gustave Roussy] ?",
    "Où se trouve l'hôpital [Georges Pompidou] ?",
    "Quali corsi offre l'Università [Luigi Einaudi]?",
    "Compare [Floyd Warshall] with Bellman Ford.",
    "Quelles formations propose l'université [Claude Bernard Lyon] 1 ?",
    "Jakie kierunki ma Uniwersytet [Adama Mickiewicza]?",
    "Jak dojechać na lotnisko imienia [Lecha Wałęsy]?",
    "Wie bewerbe ich mich am [Anna-Lindh]-Institut?",
    "What are the opening hours of the [Paul Scherrer] Institute?",
)
PEOPLE = (
    "Patient {}, born 12.03.1961, was admitted with a fracture.",
    "{} (DOB 1961-03-12) owns a tractor.",
    "My neighbour {} drives a tractor of that model.",
    "My colleague {} ran the titration.",
    "Dear {}, your account is closed.",
    "Name: {}\nModel: 5075E",
    '{{"customer": "{}", "product": "tractor"}}',
    "{} bought a tractor from us.",
    "{} needs the annual report by Friday.",
    "Send {} the annual report, please.",
    "I met {} at the museum.",
    "Please call {} about his test.",
    "Please call {} about the hospital bed.",
    "Kunde: {}, Konto gesperrt",
    "{}, geboren am 1.2.1970, Test positiv",
    "{}, 45 ans, souffre d'un syndrome",
    "{} wohnt in Köln und kauft Hemden.",
    "Mein Kollege {} prüft die Produkte.",
    "El paciente {} tiene el síndrome.",
    "La paziente {} ha la sindrome.",
    "Pacjent {}, ur. 3.4.1980, zespół nerczycowy",
    "De patiënt {} heeft de ziekte.",
)
BEARERS = (
    "John Deere",
    "Hugo Boss",
    "Charles Schwab",
    "Karl Fischer",
    "Robert Koch",
    "Paul Ehrlich",
)
TITLES = ("Dr. ", "Herr ", "Mrs ", "M. ", "Sig. ", "Pani ", "Sra. ", "Dhr. ")


def marked(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text, and where the names in brackets stand in it."""
    plain, spans = "", []
    for part in text.split("["):
        name, closed, rest = part.partition("]")
        if closed:
            spans.append((len(plain), len(plain) + len(name)))
        plain += name + rest
    return plain, spans


@pytest.mark.parametrize("text", THINGS)
def test_what_bears_a_name_is_nobody(text: str) -> None:
    plain, spans = marked(text)
    assert all(is_nobody(plain, start, end) for start, end in spans)


@pytest.mark.parametrize("bearer", BEARERS)
@pytest.mark.parametrize("text", PEOPLE)
def test_who_is_called_like_a_thing_is_somebody(text: str, bearer: str) -> None:
    start = text.format("\0").index("\0")
    assert not is_nobody(text.format(bearer), start, start + len(bearer))


@pytest.mark.parametrize("title", TITLES)
@pytest.mark.parametrize("text", [text for text in THINGS if text.count("[") == 1])
def test_a_title_makes_anybody_of_it(text: str, title: str) -> None:
    plain, ((start, end),) = marked(text.replace("[", f"{title}["))
    assert not is_nobody(plain, start, end)


@pytest.mark.parametrize("name", ["Anna Kowalska", "Peter Müller", "Juan Pérez", "Emily Chen"])
@pytest.mark.parametrize(
    "text",
    [
        "At the airport {} lost a bag.", "Proofread the {} college essay.", "{} test results",
        "Am Flughafen {} abgeholt", "{} university application", "in the museum {} fell",
        "{} arbeitet am Max-Planck-Institut", "{} visited the Anne Frank House",
        "the {} account", "una camisa de {}", "der Bericht von {} zum Produkt", "{} & Partner",
    ],
)  # fmt: skip
def test_a_name_of_no_table_is_somebody(text: str, name: str) -> None:
    start = text.format("\0").index("\0")
    assert not is_nobody(text.format(name), start, start + len(name))


def test_the_tables_are_folded_and_hold_each_phrase_once() -> None:
    for table in (BRANDS, METHODS, INSTITUTIONS):
        assert len(set(table)) == len(table)
        assert all(folded(phrase) == phrase.replace("ß", "s") for phrase in table)


@pytest.mark.parametrize(
    "words",
    ["Yapay Zeka Nedir", "Kecerdasan Buatan", "Cách Chăm Sóc Mèo", "Terima Kasih", "hakkında",
     "Fabrik Umzug Halle Nord", "Lieferkette Stahl Preise Quartal"],
)  # fmt: skip
def test_everyday_words_are_no_name(words: str) -> None:
    assert are_words(words.split())


@pytest.mark.parametrize(
    ("word", "probability", "kept"),
    [("Hinweise", 0.6, False), ("Hinweise", 0.7, True), ("Putin", 0.3, True), ("Anna", 0.3, True),
     ("Kern", 0.3, True)],
)  # fmt: skip
def test_a_noun_takes_more_to_be_a_name(word: str, probability: float, kept: bool) -> None:
    assert bool(findings(word, [Mention(PERSON, 0, len(word), probability, 1)], THRESHOLDS)) == kept


@pytest.mark.parametrize(
    "name",
    ["Mehmet Yılmaz", "Ayşe Demir", "Joko Widodo", "Siti Rahayu", "Nguyễn Văn An", "Trần Thị Hoa",
     "Anna Kowalska", "Deniz Yıldız", "Budi Santoso", "Jan de Wit", "Rose Field Hill", "anna",
     "Müge", "S. Esmer", "A. Yapay"],
)  # fmt: skip
def test_names_of_those_languages_are_names(name: str) -> None:
    assert not are_words(name.split())


@pytest.mark.parametrize(
    ("text", "nobody"),
    [
        ("Company [B] sold it", True),
        ("parce que [K] a vendu", False),
        ("the scale of [C sharp] major", True), ("[A] or [B]", True),
        ("the applicant, [K.], said", False), ("the applicant, [K]. said", False),
        ("Mr [K] said", False), ("[C. Sharp] said", False), ("[Anna]", False),
    ],
)  # fmt: skip
def test_a_letter_alone_is_nobody(text: str, nobody: bool) -> None:
    plain, spans = marked(text)
    assert all(is_nobody(plain, start, end) == nobody for start, end in spans)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("DIN EN [ISO 9001 von IATF 16949]", False), ("VDI [2230 Blatt 1] regelt", False),
        ("bis [Kapitel 14] lesen", False), ("§ 15 Absatz [3 KSchG]", False),
        ("einen [John Deere 6120M]?", False), ("Dear [John Deere 6120]", True),
        ("41, [6], 58", False), ("in Bjert [6091] in", True),
        ("København [K 1421]", True), ("[Robert-Koch-Straße 5]", True),
        ("[Stärke 18] mm", False), ("a Deere [6120M]?", False),
        ("born in Cheb [2]", False), ("at [17151] 2450 Crown St", True),
        ("in der [Lindenallee 14b]", True), ("[12 rue de la Paix]", True), ("[Markt 5]", True),
        ("ul. [Długa 7 m. 3]", True), ("[444 29th St.]", True), ("[Klasse 3 Hauptstraße]", True),
        ("am [Lindenplatz]", False),
    ],
)  # fmt: skip
def test_what_is_counted_is_no_street(text: str, kept: bool) -> None:
    plain, ((start, end),) = marked(text)
    mention = Mention("STREET_ADDRESS", start, end, 0.9, 2)
    assert bool(findings(plain, [mention], THRESHOLDS)) == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("[@pytest].mark.parametrize fails", False), ("x\n[@cached](1)\ndef f(): ...", False),
        ("[@anna_k] said so", True), ("[@wolf99] (again)", True), ("thanks [@kev].", True),
        ("[@anna].kowalska is mine", True),
    ],
)  # fmt: skip
def test_a_decorator_is_no_handle(text: str, kept: bool) -> None:
    plain, ((start, end),) = marked(text)
    assert bool(findings(plain, [Mention("USERNAME", start, end, 0.3, 1)], THRESHOLDS)) == kept


@pytest.fixture(scope="module")
def reader(weights: Path) -> NamesReader:
    return NamesReader.load(weights)


@pytest.mark.parametrize("bearer", BEARERS)
def test_the_shipped_model_restricts_whoever_is_called_so(reader: NamesReader, bearer: str) -> None:
    texts = [text.format(bearer) for text in PEOPLE]
    for text, reading in zip(texts, reader.read(texts), strict=True):
        assert not isinstance(reading, UnmeasuredLanguage)
        if '"customer"' not in text:  # a record's, which its keys tell
            assert any(f.type == PERSON and f.score >= FULL_NAME for f in reading), text


def test_the_shipped_model_restricts_none_of_the_things(reader: NamesReader) -> None:
    texts = [marked(text)[0] for text in THINGS]
    for text, reading in zip(texts, reader.read(texts), strict=True):
        assert not isinstance(reading, UnmeasuredLanguage)
        assert not any(f.type == PERSON and f.score >= FULL_NAME for f in reading), text
