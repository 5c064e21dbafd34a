"""One original, one surrogate, for the length of one call."""

from __future__ import annotations

from random import Random

import pytest

from gateway.classify.pseudonyms import PseudonymDoubt
from gateway.classify.pseudonyms.answers.restorer import Restorer
from gateway.classify.pseudonyms.ledger import MAX_VALUES, SurrogateLedger
from tests.unit.pseudonyms.samples import MASKER, VALUES, found, masked, masked_one


def test_the_same_value_has_the_same_surrogate_in_every_text() -> None:
    value = "maria.keller@posteo.example"
    (one, two), _ = masked([f"Write to {value}.", f"{value} wrote back to {value}"])
    surrogate = one.text.removeprefix("Write to ").removesuffix(".")
    assert surrogate != value
    assert two.text == f"{surrogate} wrote back to {surrogate}"


def test_different_values_have_different_surrogates() -> None:
    cards = [f"4111 1111 1111 {n:04}" for n in range(60)]
    ledger = SurrogateLedger(cards, Random(0))
    assert len({ledger.surrogate("CREDIT_CARD", card) for card in cards}) == len(cards)


def test_a_name_is_kept_part_by_part() -> None:
    (one, two), _ = masked(["Maria Keller and", "Mrs Keller, that is KELLER, Maria"])
    given, family = one.text.removesuffix(" and").split(" ")
    assert two.text == f"Mrs {family}, that is {family.upper()}, {given}"


def test_titles_and_particles_stay() -> None:
    text, _ = masked_one("Jürgen von Müller-Lüdenscheidt called")
    assert text.split(" ")[1] == "von"


def test_what_the_finder_saw_in_one_text_is_replaced_in_all() -> None:
    card = "4111 1111 1111 1111"
    ledger = SurrogateLedger([card], Random(0))
    one, two = MASKER.mask([card, f"again {card}"], [found(card), []], ledger)
    assert two.text == f"again {one.text}"


def test_a_word_with_a_name_in_it_has_its_surrogate_in_it() -> None:
    (one, two), _ = masked(["Maria Keller", "Kellerei Mariazell, keller and maria"])
    given, family = one.text.split(" ")
    assert two.text == f"{family}ei {given}zell, {family.lower()} and {given.lower()}"


def test_a_label_within_a_finding_stays_and_the_number_is_known_without_it() -> None:
    (one, two), _ = masked(["MRN 00482913", "record 00482913 again"])
    assert one.text.startswith("MRN ")
    assert two.text == f"record {one.text.removeprefix('MRN ')} again"


def test_no_surrogate_stands_in_the_call_as_it_was_written() -> None:
    """With every surrogate but a few taken, those few are drawn."""
    taken = [f"(212) 555-01{n:02}" for n in range(100) if n != 42]
    ledger = SurrogateLedger([*taken, "212 201 202 213 303 305 312"], Random(0))
    for seed in range(20):
        text = ledger.surrogate("PHONE_NUMBER", f"(646) 555-77{seed:02}")
        assert text not in taken


def test_no_form_of_one_original_is_part_of_that_of_another() -> None:
    made = [(value, masked([value], seed=3)[1]) for _, value in VALUES]
    (_, ledger) = masked([value for _, value in VALUES])
    forms = [form.surrogate.lower() for form in ledger.forms]
    assert len(forms) > 30
    assert len(set(forms)) == len(forms)
    assert all(one.forms for _, one in made)


def test_counts_are_of_different_values_by_type() -> None:
    (_, ledger) = masked(
        ["Maria Keller, MARIA KELLER, Mrs Keller", "4111 1111 1111 1111", "378282246310005"]
    )
    assert ledger.counts == {"CREDIT_CARD": 2, "PERSON": 1}


@pytest.mark.parametrize("type_", ["SECRET", "DENY_LIST", "HIDDEN_TEXT", "NEVER_HEARD_OF"])
def test_a_type_without_surrogates_is_a_doubt(type_: str) -> None:
    with pytest.raises(PseudonymDoubt, match="no_surrogate"):
        SurrogateLedger([], Random(0)).surrogate(type_, "whatever")


@pytest.mark.parametrize("name", ["", "x", "12 34", "Maria\nKeller", "a" * 90, "von der", '"M" K'])
def test_a_name_that_does_not_look_like_one_is_a_doubt(name: str) -> None:
    with pytest.raises(PseudonymDoubt, match="no_surrogate"):
        SurrogateLedger([], Random(0)).surrogate("PERSON", name)


def test_too_many_values_are_a_doubt() -> None:
    ledger = SurrogateLedger([], Random(0))
    for n in range(MAX_VALUES):
        ledger.surrogate("MEDICAL_RECORD", f"{n:012}")
    ledger.surrogate("MEDICAL_RECORD", f"{0:012}")
    with pytest.raises(PseudonymDoubt, match="too_many"):
        ledger.surrogate("MEDICAL_RECORD", f"{MAX_VALUES:012}")


def test_findings_that_cross_each_other_are_a_doubt() -> None:
    text = "Maria Keller"
    crossing = [
        *found(text),
        *found("xxxxx Keller Street 12", [("STREET_ADDRESS", "Keller Street 12")]),
    ]
    with pytest.raises(PseudonymDoubt, match="overlap"):
        MASKER.mask([f"{text} Street 12"], [crossing], SurrogateLedger([], Random(0)))


def test_a_finding_within_another_is_part_of_it() -> None:
    text = "maria.keller@posteo.example"
    both = found(text, [("EMAIL_ADDRESS", text), ("PERSON", "keller")])
    (one,) = MASKER.mask([text], [both], ledger := SurrogateLedger([text], Random(0)))
    assert ledger.counts == {"EMAIL_ADDRESS": 1}
    assert "keller" not in one.text


def test_nothing_of_it_is_ever_shown_and_nothing_is_left_when_it_is_forgotten() -> None:
    (_, ledger) = masked([value for _, value in VALUES])
    restorer = Restorer(ledger.forms)
    spelled = f"{ledger!r} {ledger} {restorer!r} {ledger.forms!r}"
    for form in ledger.forms:
        assert form.original not in spelled
        assert form.surrogate not in spelled
    for thing in (ledger, restorer):
        thing.forget()
    kept = [v for thing in (ledger, restorer) for v in vars(thing).values()]
    assert not any(v for v in kept if isinstance(v, dict | set | str))
    assert restorer.whole("Maria Keller") == "Maria Keller"
