"""Telephones, and the numbers that are grouped like them."""

from __future__ import annotations

import pytest

from gateway.classify.identifiers.telephone import Telephone


def _found(text: str) -> list[str]:
    return [text[r.start : r.end] for r in Telephone().analyze(text, ["PHONE_NUMBER"])]


def _digits(number: str) -> str:
    return "".join(filter(str.isdecimal, number))


@pytest.mark.parametrize(
    "number",
    [
        *("+1-604-696-5272x565", "+41 (0)71 526 99 04", "+447700 921 916", "+49 30 901820"),
        *("(602)272-9781", "463-612-6138x036", "259.735.7502", "1-800-555-0199"),
        *("001-253-366-9781", "0044-32.227.4965", "011 49 30 901820", "0033 1 42 34 56 78"),
        *("0341 8387176", "(030) 901820", "089/1234567", "020 7946 0958", "(0161) 496 0000"),
        *("01 42 34 56 78", "01.42.34.56.78", "06-12345678", "044 668 18 00", "0470 12 34 56"),
        *("612 34 56 78", "91 234 56 78", "22 123 45 67", "(22) 123-45-67", "601-234-567"),
        *("(11) 91234-5678", "0412 345 678", "0612345678", "07911123456", "01761234567"),
    ],
)
def test_a_telephone_is_told_by_its_groups(number: str) -> None:
    assert number in _found(f"here {number} there")


@pytest.mark.parametrize(
    "number",
    [
        *("9498777106", "723 813 266", "432 03 163", "99 577450", "601234567", "98765 43210"),
        *("555-0147-2389", "3331234567", "12 34 56 78"),
    ],
)
def test_a_number_without_a_form_is_one_beside_the_words(number: str) -> None:
    assert _found(f"here {number} there") == []
    assert _found(f"Mobile: {number}") == [number]
    assert _found(f"mój numer telefonu to {number}") == [number]


UNUSUAL = (
    # as they are written in Greenland, Denmark, Iceland, Cyprus, Estonia, Uruguay, Tunisia, Poland
    *("33 93 31", "71-33-52-22", "482 1234", "96 123 456", "523 1234", "4933 8563", "71-335-222"),
    *("69 123 45 67", "(53) 912-634"),
)
ANNOUNCED = (
    *(
        "call {}",
        "answering at {}",
        "you can reach me at {}",
        "my registered {}",
        "{}-Office, {}-Fax",
    ),
    *(
        "Melden Sie sich unter {}",
        "Ich bin unter {} erreichbar",
        "Appelez-moi au {}",
        "Llámame al {}",
    ),
    *("Chiamami al {}", "Ligue para {}", "Bel me op {}", "Zadzwoń pod {}", "Proszę o kontakt: {}"),
)


@pytest.mark.parametrize("sentence", ANNOUNCED)
def test_a_number_of_unusual_form_is_one_where_words_announce_it(sentence: str) -> None:
    for number in UNUSUAL:
        found = _found(sentence.replace("{}", number))
        assert _digits(number) in map(_digits, found), number


@pytest.mark.parametrize(
    "text",
    [
        "call it 100 000 times",
        "call on 12 11 24",
        "ring 12-31-24",
        "The answer is 1234567",
        "We reached 1234567 people",
        "Message 1234567 was lost",
        "part 0007-4412-900",
        "03 12 450 000 szt.",
    ],
)
def test_a_number_behind_such_a_word_may_be_another(text: str) -> None:
    assert _found(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "MRN 847-293-1056",
        "Medical record number 619-384-7250",
        "invoice no. 0312 345678",
        "054-28-6917",  # a social security number
        "01234-5678",  # a ZIP code
        "12-3456789",  # an employer's number
        "81.2.69.142",
        "12.03.2024 14",
        "05/22/2001 09:25",
        "2024-01-15 0930",
        "Phone IMEI 490154203237518",
        "3.1415926535",
        "01 02 03 04 05",
        "00 1A 01 22 33 44 55 66",
        "ISBN 0-306-40615-2",
        "000-000-0000",
        "DOC-201203-7093",
        "0.123456 0.234567",
        "call_id 1234567890",
        "NDC 0002-1433-80",
        "NDC codes: 00378-0018-01, 00591-0405-01 and 00781-1506-10",
        "Is HCPCS J1885 billed with NDC 0409-3795-01?",
    ],
)
def test_other_numbers_are_no_telephones(text: str) -> None:
    assert _found(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "NDC 0002-1433-80. Reach us on 0151-2345-67",
        "NDC 0002-1433-80, call 0151-2345-67",
        "NDC and telephone 0151-2345-67",
        "0151-2345-67 is not an NDC",
        "NDC 0151 2345 67",
    ],
)
def test_a_telephone_behind_a_drug_code_is_one(text: str) -> None:
    assert [value for value in _found(text) if value.startswith("0151")]
