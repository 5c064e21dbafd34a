"""Numbers whose check digit tells them from look-alikes: by themselves only the right one counts,
beside their words the wrong one too."""

from __future__ import annotations

import pytest

from gateway.classify.identifiers import Identifier, central_europe, northern, romance, world
from gateway.classify.identifiers.health import NhsNumber, ProviderNumber
from gateway.classify.identifiers.payment import (
    AnyCard,
    AnyIban,
    MexicanClabe,
    PolishAccount,
    RoutedAccount,
)
from gateway.classify.scanner.cards import is_card_number

# (recognizer, right, the same with a wrong check digit): published examples of the issuers, of
# python-stdnum, or computed by it.
BARE: tuple[tuple[type[Identifier], str, str], ...] = (
    (AnyCard, "4111 1111 1111 1111", "4111 1111 1111 1112"),
    (AnyIban, "DE89 3704 0044 0532 0130 00", "DE88 3704 0044 0532 0130 00"),
    (AnyIban, "gb82west12345698765432", "gb83west12345698765432"),
    (NhsNumber, "943 476 5919", "943 476 5918"),
    (PolishAccount, "61 1090 1014 0000 0712 1981 2874", "62 1090 1014 0000 0712 1981 2874"),
    (PolishAccount, "61109010140000071219812874", "61109010140000071219812875"),
    (central_europe.GermanTaxId, "36 574 261 809", "36 574 261 808"),
    (central_europe.GermanTaxId, "36574261809", "36574261808"),
    (central_europe.GermanPensionNumber, "65 170839 J 003", "65 170839 J 004"),
    (central_europe.GermanIdCard, "L01X00T471D", "L01X00T472D"),
    (central_europe.AustrianInsuranceNumber, "1237 010180", "1238 010180"),
    (central_europe.SwissInsuranceNumber, "756.9217.0769.85", "756.9217.0769.84"),
    (central_europe.Pesel, "44051401359", "44051401358"),
    (central_europe.PolishTaxNumber, "526-104-08-28", "526-104-08-27"),
    (central_europe.PolishIdCard, "ABS123456", "ABS223456"),
    (central_europe.BirthNumber, "710319/2745", "710319/2746"),
    (central_europe.RomanianPersonalCode, "1630615123457", "1630615123458"),
    (romance.FrenchSocialNumber, "2 95 10 99 126 111 93", "2 95 10 99 126 111 92"),
    (romance.FrenchSocialNumber, "253072B07300470", "253072B07300471"),
    (romance.FrenchTaxNumber, "30 23 217 600 053", "30 23 217 600 054"),
    (romance.SpanishId, "54.362.315-K", "54.362.315-L"),
    (romance.SpanishId, "X-2482300-W", "X-2482300-V"),
    (romance.SpanishSocialNumber, "28/12345678/40", "28/12345678/41"),
    (romance.ItalianFiscalCode, "RCCMNL83S18D969H", "RCCMNL83S18D969I"),
    (romance.ItalianFiscalCode, "RCCMNLU3S18D969E", "RCCMNLU3S18D969F"),
    (romance.PortugueseId, "00000000 0 ZZ4", "00000000 0 ZZ5"),
    (romance.BrazilianId, "390.533.447-05", "390.533.447-06"),
    (romance.BrazilianCompany, "16.727.230/0001-97", "16.727.230/0001-98"),
    (romance.MexicanCurp, "BOXW310820HNERXN09", "BOXW310820HNERXN08"),
    (northern.BelgianNumber, "85.07.30-033.28", "85.07.30-033.29"),
    (northern.IrishNumber, "6433435F", "6433435E"),
    (northern.SwedishNumber, "880320-0016", "880320-0017"),
    (northern.NorwegianNumber, "151086 95088", "151086 95089"),
    (world.ChineseResidentNumber, "11010519491231002X", "110105194912310021"),
    (world.Aadhaar, "2345 6789 0124", "2345 6789 0125"),
    (world.TurkishNumber, "10000000146", "10000000147"),
    (world.IndianTaxNumber, "ABCPE1234F", "ABCPE0000F"),
    (world.SingaporeanNumber, "S1234567D", "S1234567E"),
    (world.SingaporeanNumber, "T1234567J", "T1234567D"),
    (world.SingaporeanNumber, "F1234567N", "F1234567M"),
    (world.SingaporeanNumber, "G1234567X", "G1234567N"),
    (world.SingaporeanNumber, "M1234567K", "M1234567X"),
    (world.EmiratesId, "784-1984-1234567-4", "784-1984-1234567-8"),
    (world.EmiratesId, "784198412345674", "784198412345678"),
    (world.KoreanNumber, "850101-1000004", "850101-1000005"),
)
LABELLED: tuple[tuple[type[Identifier], str, str], ...] = (
    (AnyIban, "IBAN: ", "DE88 3704 0044 0532 0130 00"),
    (ProviderNumber, "NPI ", "1234567890"),
    (central_europe.GermanTaxId, "Steuer-ID: ", "12345678901"),
    (central_europe.GermanHealthNumber, "Versichertennummer ", "B987654321"),
    (central_europe.Pesel, "PESEL: ", "90010112345"),
    (central_europe.PolishRegon, "REGON ", "192598185"),
    (romance.SpanishId, "DNI ", "12345678A"),
    (romance.ItalianVatNumber, "partita IVA ", "00743110158"),
    (romance.BrazilianId, "CPF ", "39053344706"),
    (northern.DutchCitizenNumber, "BSN ", "123456789"),
    (world.AustralianTaxNumber, "tax file number: ", "123 456 789"),
    (world.AustralianMedicareNumber, "Medicare card no. ", "2123 45671 2"),
    (northern.DanishNumber, "CPR ", "011380-1234"),
    (PolishAccount, "nr rachunku: ", "62 1090 1014 0000 0712 1981 2874"),
    (MexicanClabe, "CLABE ", "032180000118359718"),
    (MexicanClabe, "Mi CLABE interbancaria es ", "032 180 00011835971 8"),
    (world.EmiratesId, "Emirates ID: ", "784-1984-1234567-8"),
    (world.EmiratesId, "رقم الهوية ", "784-1990-7654321-4"),
    (world.KoreanNumber, "주민등록번호: ", "850101-1234567"),
    (world.KoreanNumber, "resident registration number ", "8501011234567"),
)


def _found(kind: type[Identifier], text: str) -> list[tuple[str, float]]:
    return [(text[r.start : r.end], r.score) for r in kind().analyze(text, [kind.entity])]


@pytest.mark.parametrize(("kind", "right", "wrong"), BARE)
def test_a_number_by_itself_counts_when_its_check_digit_is_right(
    kind: type[Identifier], right: str, wrong: str
) -> None:
    assert (right, 1.0) in _found(kind, f"see {right}, please")
    assert _found(kind, f"see {wrong}, please") == []


@pytest.mark.parametrize(("kind", "right", "wrong"), BARE)
def test_a_number_inside_a_longer_one_is_none(
    kind: type[Identifier], right: str, wrong: str
) -> None:
    assert _found(kind, f"9{right}9") == []


@pytest.mark.parametrize(("kind", "words", "value"), LABELLED)
def test_a_mistyped_number_beside_its_words_counts_with_a_lower_score(
    kind: type[Identifier], words: str, value: str
) -> None:
    assert _found(kind, words + value) == [(value, 0.5)]


def test_a_clabe_counts_beside_its_word_alone() -> None:
    """One number of eighteen digits in ten has its check digit."""
    right = "032180000118359719"
    assert _found(MexicanClabe, f"CLABE {right}") == [(right, 1.0)]
    assert _found(MexicanClabe, f"see {right}, please") == []


@pytest.mark.parametrize(
    "text",
    [
        "ABA 021000021, account no. 8471920331",
        "Routing: 121000248 Account: 009384710",
        "routing number 021000021 and checking account 483920174",
    ],
)
def test_a_routing_number_leads_to_its_account(text: str) -> None:
    values = [value for value, _ in _found(RoutedAccount, text)]
    assert len(values) == 2, values


@pytest.mark.parametrize("text", ["routing table 121000248 entries", "ABA 021000021 is a bank's"])
def test_a_routing_number_without_an_account_is_a_banks(text: str) -> None:
    assert _found(RoutedAccount, text) == []


CARDS = (
    ("Visa", "4111111111111111"),
    ("Visa of 13", "4222222222222"),
    ("Visa of 19", "4000000000000000006"),
    ("Mastercard", "5555555555554444"),
    ("Mastercard, 2-series", "2223003122003222"),
    ("American Express", "378282246310005"),
    ("Diners Club", "30569309025904"),
    ("Discover", "6011111111111117"),
    ("JCB", "3530111333300000"),
    ("UnionPay", "6200000000000005"),
    ("Maestro", "6759649826438453"),
    ("RuPay", "6073849700004947"),
    ("Mir", "2200000000000004"),
)


@pytest.mark.parametrize(("scheme", "number"), CARDS)
@pytest.mark.parametrize("separator", ["", " ", "-"])
def test_cards_of_every_scheme_are_found_in_groups_and_in_one_block(
    scheme: str, number: str, separator: str
) -> None:
    sizes = (4, 6, 5) if len(number) < 16 and number[0] == "3" else (4, 4, 4, 4, 3)
    groups, rest = [], number
    for size in sizes:
        groups.append(rest[:size])
        rest = rest[size:]
    written = separator.join(filter(None, groups))
    assert _found(AnyCard, f"pay {written} now") == [(written, 1.0)]


@pytest.mark.parametrize(
    "number",
    [
        "411111111111111",  # a length that the scheme does not issue
        "9111111111111111",  # nobody's range
        "0000000000000000",
        "490154203237518",  # an IMEI
        "1712345678901",  # a time in milliseconds
        "9783161484100",  # an ISBN
    ],
)
def test_a_number_that_no_scheme_issues_is_no_card(number: str) -> None:
    assert not is_card_number(number)
    assert _found(AnyCard, number) == []


def test_an_iban_ends_where_its_country_says() -> None:
    assert _found(AnyIban, "DE89370400440532013000 ab morgen")[0][0] == "DE89370400440532013000"
