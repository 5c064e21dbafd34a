"""Polish names in their cases, as a table of what a reader of Polish expects."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import pytest

from .serving import MODELS

CASES = ("gen", "dat", "acc", "ins", "loc")

# A name and its five cases, in the order of CASES.
WHOLE = [
    "Jan Kowalski: Jana Kowalskiego, Janowi Kowalskiemu, Jana Kowalskiego, Janem Kowalskim, "
    "Janie Kowalskim",
    "Anna Kowalska: Anny Kowalskiej, Annie Kowalskiej, Annę Kowalską, Anną Kowalską, "
    "Annie Kowalskiej",
    "Marek Zawadzki: Marka Zawadzkiego, Markowi Zawadzkiemu, Marka Zawadzkiego, "
    "Markiem Zawadzkim, Marku Zawadzkim",
    "Monika Nowak: Moniki Nowak, Monice Nowak, Monikę Nowak, Moniką Nowak, Monice Nowak",
    "Piotr Nowak: Piotra Nowaka, Piotrowi Nowakowi, Piotra Nowaka, Piotrem Nowakiem, "
    "Piotrze Nowaku",
    "Maria Wójcik: Marii Wójcik, Marii Wójcik, Marię Wójcik, Marią Wójcik, Marii Wójcik",
    "Paweł Krawiec: Pawła Krawca, Pawłowi Krawcowi, Pawła Krawca, Pawłem Krawcem, Pawle Krawcu",
    "Andrzej Duda: Andrzeja Dudy, Andrzejowi Dudzie, Andrzeja Dudę, Andrzejem Dudą, "
    "Andrzeju Dudzie",
    "Ewa Sroka: Ewy Sroki, Ewie Sroce, Ewę Srokę, Ewą Sroką, Ewie Sroce",
    "Tadeusz Kościuszko: Tadeusza Kościuszki, Tadeuszowi Kościuszce, Tadeusza Kościuszkę, "
    "Tadeuszem Kościuszką, Tadeuszu Kościuszce",
    "Jerzy Cichy: Jerzego Cichego, Jerzemu Cichemu, Jerzego Cichego, Jerzym Cichym, Jerzym Cichym",
    "Antoni Wolny: Antoniego Wolnego, Antoniemu Wolnemu, Antoniego Wolnego, Antonim Wolnym, "
    "Antonim Wolnym",
    "Kuba Maciejek: Kuby Maciejka, Kubie Maciejkowi, Kubę Maciejka, Kubą Maciejkiem, "
    "Kubie Maciejku",
    "Kasia Lis: Kasi Lis, Kasi Lis, Kasię Lis, Kasią Lis, Kasi Lis",
]

SINGLE = [
    ("Alicja", "Zielińska-Wrona", "gen", "Alicji", "Zielińskiej-Wrony"),
    ("Maja", "Puchała", "dat", "Mai", "Puchale"),
    ("Barbara", "Mazur", "loc", "Barbarze", "Mazur"),
    ("Jadwiga", "Nowacka", "dat", "Jadwidze", "Nowackiej"),
    ("Robert", "Stępień", "loc", "Robercie", "Stępniu"),
    ("Ernest", "Grzyb", "loc", "Erneście", "Grzybie"),
    ("Michał", "Kubiak", "loc", "Michale", "Kubiaku"),
    ("Konrad", "Kozioł", "gen", "Konrada", "Kozła"),
    ("Maciek", "Gołąb", "ins", "Maćkiem", "Gołębiem"),
    ("Grzegorz", "Bąk", "ins", "Grzegorzem", "Bąkiem"),
    ("Mieszko", "Jagiełło", "gen", "Mieszka", "Jagiełły"),
    ("Anna Maria", "Kot", "ins", "Anną Marią", "Kot"),
    ("Jan Maria", "Rokita", "acc", "Jana Marię", "Rokitę"),
    ("", "Wiśniewska", "acc", "", "Wiśniewską"),
    ("", "Kaczmarek", "dat", "", "Kaczmarkowi"),
    ("Zofia", "", "dat", "Zofii", ""),
    ("JAN", "NOWAK", "gen", "JANA", "NOWAKA"),
    ("Zuzanna", "Gąska", "dat", "Zuzannie", "Gąsce"),
    ("Stefan", "Sokół", "acc", "Stefana", "Sokoła"),
    ("Noemi", "Nowacka", "gen", "Noemi", "Nowackiej"),
    ("J.", "Nowicki", "gen", "J.", "Nowickiego"),
]

UNKNOWN = [("Ingrid", "Larsen"), ("George", "Moore"), ("Li", "Wu"), ("Enrique", "Castro")]


def loaded() -> Callable[[str, str, str], tuple[str, str]]:
    """The function; models/ is a model repository and not a package."""
    path = MODELS / "names" / "inflection.py"
    spec = importlib.util.spec_from_file_location("inflection", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[[str, str, str], tuple[str, str]] = module.inflect
    return function


inflect = loaded()


@pytest.mark.parametrize("line", WHOLE, ids=lambda line: line.split(":")[0])
def test_a_name_in_every_case(line: str) -> None:
    name, _, forms = line.partition(": ")
    given, surname = name.split()
    assert [" ".join(inflect(given, surname, case)) for case in CASES] == forms.split(", ")


@pytest.mark.parametrize(("given", "surname", "case", "given_form", "surname_form"), SINGLE)
def test_one_form(given: str, surname: str, case: str, given_form: str, surname_form: str) -> None:
    assert inflect(given, surname, case) == (given_form, surname_form)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("given", "surname"), UNKNOWN)
def test_what_is_not_known_stays(given: str, surname: str, case: str) -> None:
    assert inflect(given, surname, case) == (given, surname)


@pytest.mark.parametrize("case", ["", "nom", "voc"])
def test_another_case_changes_nothing(case: str) -> None:
    assert inflect("Jan", "Nowak", case) == ("Jan", "Nowak")
