"""Which numbers beside words are a street's door."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.classify.names.addresses import has_door
from gateway.classify.names.engines.reader import NamesReader
from gateway.classify.profile import Profile
from gateway.config import ClassifySettings
from tests.unit.classify.identifiers.business_documents import DOCUMENTS

MOST = 4
"""Business documents in which articles may look like names."""


@pytest.mark.parametrize(
    "address",
    [
        *("Lindenstraße 12a", "12 Oak Street", "14, rue de la Paix", "Csabai kapu 39", "Polna 8/3"),
        *(
            "Via Appia Nuova 12",
            "2914 184th Street",
            "8116 56 rue La Boétie",
            "Butt's Road, IP5 1DP",
        ),
        *(
            "12 oak street",
            "Király u. 15",
            "Praça do Comércio 4, 1100 Lisboa",
            "Hoofdstraat 3, 1421 AB",
        ),
    ],
)
def test_a_number_beside_a_name_is_a_door(address: str) -> None:
    assert has_door(address, 0, len(address))


@pytest.mark.parametrize(
    "written",
    [
        *("Lieferschein 80/442/11872", "Lieferschein 80442", "Rampe 4", "Rohmasse 612 kg"),
        *("Cena jednostkowa 412,00 EUR", "Ableitstrom 0,04 mA", "Wellendichtring 25x47x7"),
        *("33 palety EUR", "Śruba M8x40", "Pumpe NK-250", "lote 24318", "šarže 24/318"),
        *("Warennummer 84821010", "Order 4500", "Montmartre", "Riso 312 MOhm", "Item 12"),
    ],
)
def test_a_quantity_a_size_or_the_number_of_a_paper_is_none(written: str) -> None:
    assert not has_door(written, 0, len(written))
    assert not has_door(f"(see: {written})", 6, 6 + len(written))


def test_a_part_of_a_number_is_none() -> None:
    text = "233,80 Gruppe"
    assert not has_door(text, 4, len(text))


def test_business_documents_have_hardly_a_name_or_an_address(weights: Path) -> None:
    profile = Profile.from_settings(ClassifySettings())
    answers = NamesReader.load(weights).read(DOCUMENTS)
    read = [
        (text, answer)
        for text, answer in zip(DOCUMENTS, answers, strict=True)
        if isinstance(answer, list)
    ]
    assert len(read) > len(DOCUMENTS) // 2
    named = [text for text, findings in read if profile.restricts(findings)]
    assert len(named) <= MOST, named
