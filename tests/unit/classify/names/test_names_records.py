"""People whose names stand in parts, in records of every kind, and records of nobody."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pytest

from gateway.classify import TooMany
from gateway.classify.names import FULL_NAME, PERSON, Enough, is_lone
from gateway.classify.names.engines.reader import NamesReader, UnmeasuredLanguage
from gateway.classify.names.forms import find_in_all_forms
from gateway.classify.names.records.keys import NamePart, folded, keys
from gateway.classify.names.records.people import read
from gateway.core.types import Finding
from tests.unit.classify.names import records_rig as rig
from tests.unit.classify.names.test_names_weights import SURNAMES

ASK_THE_MODEL = {
    "carets",
    "FHIR family and birth date",
}
"""Their keys do not say that a word is a person's name."""
KNOWN = (
    ("Anna", "Kowalska"), ("Katharina", "Brinkhoff"), ("Odette", "Thibault"), ("Carmen", "Delgado"),
    ("Gonçalo", "Vasconcelos"), ("Wouter", "Achterberg"), ("Donatella", "Pellegrini"),
    ("Nathaniel", "Featherstone"),
)  # fmt: skip


@lru_cache(1)
def reader(weights: Path) -> NamesReader:
    return NamesReader.load(weights)


class ByModel:
    """The trained model as a `Names`, in this thread."""

    def __init__(self, weights: Path) -> None:
        self._reader = reader(weights)
        self.texts: list[str] = []

    async def start(self) -> None: ...
    async def aclose(self) -> None: ...

    async def find(
        self,
        texts: Sequence[str],
        budget_s: float,
        lone: Sequence[bool] | None = None,
        enough: Enough | None = None,
    ) -> list[list[Finding]]:
        self.texts += texts
        answers = self._reader.read(texts)
        assert not any(isinstance(answer, UnmeasuredLanguage) for answer in answers)
        return [answer for answer in answers if not isinstance(answer, UnmeasuredLanguage)]


class NobodyKnown:
    """A model that knows no name."""

    async def start(self) -> None: ...
    async def aclose(self) -> None: ...

    async def find(
        self,
        texts: Sequence[str],
        budget_s: float,
        lone: Sequence[bool] | None = None,
        enough: Enough | None = None,
    ) -> list[list[Finding]]:
        return [[] for _ in texts]


def identified(text: str, names: ByModel | NobodyKnown) -> list[Finding]:
    (findings,) = asyncio.run(find_in_all_forms(names, [text], 60.0))
    return [f for f in findings if f.type == PERSON and not is_lone(f)]


def people(seed: int, language: str, count: int) -> list[rig.Person]:
    dice = random.Random(f"{seed} {language}")
    return [rig.person(dice, language) for _ in range(count)]


@pytest.mark.parametrize("name", [n for n in rig.TWO_FIELDS if n not in ASK_THE_MODEL])
def test_two_values_under_keys_of_a_name_are_a_person_whom_no_model_has_to_know(name: str) -> None:
    form = rig.TWO_FIELDS[name]
    records = [form(one) for language in rig.KEYS for one in people(1, language, 2)]
    assert [record for record in records if not identified(record, NobodyKnown())] == []


@pytest.mark.parametrize("name", [*rig.TWO_FIELDS, *rig.BESIDE])
def test_a_person_in_two_fields_or_beside_a_particular_is_found_in_every_language(
    name: str, weights: Path
) -> None:
    form = rig.TWO_FIELDS.get(name) or rig.BESIDE[name]
    names = ByModel(weights)
    records = [form(one) for language in rig.KEYS for one in people(2, language, 1)]
    missed = [record for record in records if not identified(record, names)]
    assert len(missed) <= 1, missed


@pytest.mark.parametrize("name", [n for n in rig.BESIDE if n not in ASK_THE_MODEL])
def test_a_value_under_the_key_of_a_name_counts_beside_a_particular(name: str) -> None:
    records = [rig.BESIDE[name](one) for language in rig.KEYS for one in people(3, language, 2)]
    assert [record for record in records if not identified(record, NobodyKnown())] == []


BORN = (
    "Name: {}\nDate of birth: 1940-02-14\nDiagnosis: type 2 diabetes",
    "Name: {}\ngeb. 14.02.1940",
    '{{"name": "{}", "birthDate": "1940-02-14"}}',
    "born: 1940-02-14\nname: {}\nward: 4",
)


@pytest.mark.parametrize("form", BORN)
def test_a_value_under_any_key_of_a_name_beside_a_date_of_birth_is_a_persons(form: str) -> None:
    """Whatever the names model takes it for: a surname may be a place's or a company's."""
    for surname in SURNAMES:
        (found,) = read(form.format(surname)).people
        assert form.format(surname)[found.start : found.end] == surname


def test_a_type_in_the_place_of_a_name_beside_the_one_of_a_birth_is_nobodys() -> None:
    assert read("name: string\nborn: date").people == ()
    assert read('{"name": "Berlin", "founded": "1940-02-14"}').people == ()


def test_surnames_of_places_and_companies_are_found_beside_other_particulars(weights: Path) -> None:
    """14 of the 31 were missed when the names model was asked about them in one sentence."""
    forms = ("Name: {}\nDiagnosis: type 2 diabetes", "Name: {}\nPatient no.: A-4711-03")
    missed = [
        (surname, form)
        for surname in SURNAMES
        for form in forms
        if not identified(form.format(surname), ByModel(weights))
    ]
    assert {surname for surname, _ in missed} <= {"Lisboa", "Amsterdam", "Delft", "Boeing"}


@pytest.mark.parametrize(("given", "family"), KNOWN)
def test_lone_names_in_cells_beside_each_other_are_one_persons(
    given: str, family: str, weights: Path
) -> None:
    cells = rig.adjacent(given, family)
    names = ByModel(weights)
    assert [name for name, text in cells.items() if not identified(text, names)] == []


@pytest.mark.parametrize("name", rig.NOBODY)
def test_records_of_nobody_name_nobody(name: str, weights: Path) -> None:
    assert identified(rig.NOBODY[name], ByModel(weights)) == []


@pytest.mark.parametrize("name", rig.NOBODY)
def test_keys_alone_are_no_person(name: str) -> None:
    assert read(rig.NOBODY[name]).people == ()


def test_each_part_is_found_where_it_stands() -> None:
    text = '{"first_name": "Zorvana", "city": "Leeds", "last_name": "Kelbrinsky"}'
    found = [(text[f.start : f.end], f.score >= FULL_NAME) for f in read(text).people]
    assert sorted(found) == [("Kelbrinsky", True), ("Zorvana", True)]


def test_a_part_that_was_escaped_is_found_where_it_was_written() -> None:
    text = r'{"a": "{\"vorname\": \"J\u00f3zwina\", \"nachname\": \"Kelbrinsky\"}"}'
    found = {text[f.start : f.end] for f in read(text).people}
    assert found == {r"J\u00f3zwina", "Kelbrinsky"}


def test_a_person_on_the_allow_list_is_none() -> None:
    text = '{"first_name": "Zorvana", "last_name": "Kelbrinsky"}'
    assert read(text, ["Zorvana Kelbrinsky"]).people == ()
    assert read(text, ["Kelbrinsky Zorvana"]).people == ()


@pytest.mark.parametrize(
    "text",
    [
        "Anna was born on 12 March 1980.",
        "Kowalska, geboren am 12.03.1980, wartet seit acht Uhr.",
        "Anna has been diagnosed with type 2 diabetes.",
        "Bei Kowalska wurde Brustkrebs festgestellt. Diagnose: Mammakarzinom",
        "Anna (customer number 48213) asks for a refund.",
        "Anna souffre de dépression depuis deux ans.",
        "Carmen padece hipertensión.",
        "Nota: Katarzyna choruje na cukrzycę typu 2.",
        "DOB 1980-03-12, name Anna, ward 4",
        "Member ID: 4821-33. Please call Anna back.",
    ],
)
def test_a_lone_name_beside_a_particular_identifies_in_prose(text: str, weights: Path) -> None:
    assert identified(text, ByModel(weights)) != []


@pytest.mark.parametrize(
    "text",
    [
        "Janet's ducks lay 16 eggs per day.",
        "Anna and Ben share 12 marbles.",
        "Sam reads 30 pages a day. How long does he need for 480 pages?",
        "Is it true that diabetes is more common now than it was in 1980?",
        "Write a birthday card for Anna.",
        "Anna, Ben and Carla play cards.",
        "names = ['Alice', 'Bob']",
    ],
)
def test_a_lone_name_by_itself_does_not(text: str, weights: Path) -> None:
    assert identified(text, ByModel(weights)) == []


@pytest.mark.parametrize(
    "text",
    [
        "My name is Anna and my surname is Trzebiatowska.",
        "Kowalska is my last name and Anna is my first name.",
        "Wir haben Anna (Nachname: Trzebiatowska) heute aufgenommen.",
        "Je m'appelle Odette et mon nom de famille est Thibault.",
        "Me llamo Carmen y mi apellido es Bustamante.",
        "Mam na imię Anna, a moje nazwisko to Trzebiatowska.",
        "first name anna, last name trzebiatowska",
        "Patient: Trzebiatowska, Anna",
        "Last name, first name: Trzebiatowska, Anna",
        "NAME: TRZEBIATOWSKA, ANNA",
        "First name - Anna\nLast name - Trzebiatowska",
        "First name\nAnna\nLast name\nTrzebiatowska",
        "Vorname;Anna\nNachname;Trzebiatowska\n",
        '[["first_name","Anna"],["last_name","Trzebiatowska"]]',
        'person.setFirstName("Anna"); person.setLastName("Trzebiatowska");',
        "create --first-name Anna --last-name Trzebiatowska",
        "insert into p (first_name,last_name) select 'Anna','Trzebiatowska'",
    ],
)
def test_a_name_near_the_key_of_one_and_another_are_one_persons(text: str, weights: Path) -> None:
    assert identified(text, ByModel(weights)) != []


def test_more_doubtful_names_than_may_be_asked_about_are_not_cleared() -> None:
    rows = "".join(f"{letter}el{end}en,Regular\n" for letter in "BDFGHKLMNPRSTVWZ" for end in
                   ("ba", "do", "fu", "gi", "ka", "lo", "mu", "ni", "pa", "ro", "su", "ti", "va",
                    "wo", "xu", "zi", "bra"))  # fmt: skip
    with pytest.raises(TooMany):
        read("first,last\n" + rows)


def test_a_particular_far_from_a_name_is_not_its_bearers(weights: Path) -> None:
    text = "Janet's ducks lay 16 eggs. " + "The weather was fine. " * 60 + "Case number: 48213."
    assert identified(text, ByModel(weights)) == []


def test_a_short_key_is_one_behind_other_words_too_and_no_part_of_a_word() -> None:
    text = "patientGn user_sn designs snow assign"
    assert [key.part for key in keys(text, folded(text))] == [NamePart.GIVEN, NamePart.FAMILY]
