# ruff: noqa: RUF001, RUF002 - letters and quotes of other languages are meant as they are
"""Numbers of persons in Germany, Austria, Switzerland, Poland, Czechia, Slovakia, Romania, and
in the countries east and south of them. Check digits are mostly python-stdnum's."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from presidio_analyzer import Pattern
from stdnum import luhn
from stdnum.at import vnr
from stdnum.bg import egn
from stdnum.ch import ssn as ahv
from stdnum.cz import rc
from stdnum.de import idnr
from stdnum.gr import amka
from stdnum.hr import oib
from stdnum.pl import nip, pesel, regon
from stdnum.ro import cnp

from gateway.classify.identifiers import Identifier, bare, labelled
from gateway.classify.text.labels import GOODS


class GermanTaxId(Identifier):
    """Identifikationsnummer (section 139b AO): eleven digits, ISO 7064 MOD 11, 10, in one
    block or in the groups that offices print."""

    entity = "DE_TAX_ID"
    scheme = idnr
    ignored = r"\D"
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"[1-9]\d(?:[ .]\d{3}[ .]\d{3}[ .]\d{3}|\d{9})"),
        labelled(
            r"steuer-?id|steueridentifikation|steuerliche identifikation|identifikationsnummer|idnr"
            r"|id-nr|tin",
            r"\d(?:[ .]?\d){10}",
        ),
    )


class GermanTaxNumber(Identifier):
    """Steuernummer: 10 to 13 digits, grouped by each Land in its own way (ELSTER, Aufbau der
    Steuernummer); no check digit that holds for all."""

    entity = "DE_TAX_NUMBER"
    forms: ClassVar[tuple[Pattern, ...]] = (
        Pattern("slashes", r"(?<![\w/.-])\d{2,3}/\d{3}/\d{5}(?![\w/.-])", 0.45),
        labelled(r"steuer-?nummer|steuer-?nr|st\.?-?nr|stnr", r"\d{2,5}[/ ]?\d{3,5}[/ ]?\d{4,5}"),
    )

    def parts(self, text: str, pattern: str, start: int, end: int) -> Iterable[tuple[int, int]]:
        if pattern == "slashes" and _GOODS_BEFORE.search(text[max(0, start - _BEFORE) : start]):
            return []
        return super().parts(text, pattern, start, end)


_GOODS_BEFORE = re.compile(
    rf"(?<![^\W_])(?:{GOODS})[\W_]{{1,3}}(?:(?:nr|no)\.?[ ]?)?\Z", re.IGNORECASE
)
_BEFORE = 40  # characters


def _letters_first(value: str, weights: str) -> int:
    """Sum of the digit sums of the weighted digits, letters as two digits (VKVV, section 4)."""
    digits = "".join(f"{ord(c) - 64:02d}" if c.isalpha() else c for c in value)
    return sum(sum(divmod(int(d) * int(w), 10)) for d, w in zip(digits, weights, strict=True))


class GermanPensionNumber(Identifier):
    """Versicherungsnummer of the pension insurance: area, date of birth, initial, serial number,
    check digit (VKVV, sections 2 to 4)."""

    entity = "DE_SOCIAL_SECURITY"
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(
            r"\d\d ?(?:0[1-9]|[12]\d|3[01]|5[1-9]|[67]\d|8[01])(?:0[1-9]|1[0-2])\d\d ?[A-Z] ?\d{3}"
        ),
        labelled(
            r"rentenversicherung|sozialversicherung|rvnr|rv-nr|sv-nummer|sv-nr|svnr",
            r"\d\d ?\d{6} ?[A-Z] ?\d{3}",
        ),
    )

    def check(self, value: str) -> bool | None:
        solid = value.replace(" ", "").upper()
        return _letters_first(solid[:-1], "212571212121") % 10 == int(solid[-1])


class GermanHealthNumber(Identifier):
    """Krankenversichertennummer: a letter, eight digits and a check digit (section 290 SGB V)."""

    entity = "DE_HEALTH_INSURANCE"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(
            r"krankenversich|versicherten|versichertennummer|kvnr|kv-nr|krankenkasse|egk|aok"
            r"|barmer",
            r"[A-Z] ?\d{3} ?\d{3} ?\d{3}",
        ),
    )

    def check(self, value: str) -> bool | None:
        solid = value.replace(" ", "").upper()
        return _letters_first(solid[:-1], "1212121212") % 10 == int(solid[-1])


def _icao_check(value: str) -> int:
    """Weights 7, 3, 1 over digits and letters (ICAO Doc 9303, part 3, section 4.9)."""
    return sum(int(c, 36) * (7, 3, 1)[at % 3] for at, c in enumerate(value)) % 10


class GermanIdCard(Identifier):
    """Serial number of an identity card or a passport: nine characters and a check digit
    (Personalausweisverordnung; ICAO Doc 9303)."""

    entity = "DE_ID_CARD"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(
            r"personalausweis|ausweis|perso|reisepass|passnummer|pass-nr|seriennummer"
            r"|dokumentennummer",
            r"[CFGHJKLMNPRTVWXYZ][CFGHJKLMNPRTVWXYZ0-9]{8}\d?D?",
        ),
        bare(r"(?-i:[LMNPRTVWXY][CFGHJKLMNPRTVWXYZ0-9]{8})\d(?-i:D)", "with its D"),
    )

    def check(self, value: str) -> bool | None:
        solid = value.upper().removesuffix("D") if len(value) > 9 else value.upper()
        return len(solid) == 10 and _icao_check(solid[:9]) == int(solid[9])


class AustrianInsuranceNumber(Identifier):
    """Sozialversicherungsnummer: three digits, a check digit, date of birth (section 31 ASVG)."""

    entity = "AT_SVNR"
    scheme = vnr
    ignored = r"-"
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"[1-9]\d{3}[ -](?:0[1-9]|[12]\d|3[01])(?:0[1-9]|1[0-2])\d\d"),
        labelled(
            r"svnr|sv-nr|sv-nummer|sozialversicherung|versicherungsnummer", r"\d{4}[ -]?\d{6}"
        ),
    )


class SwissInsuranceNumber(Identifier):
    """AHV-Nummer, numéro AVS: 756 and an EAN-13 check digit (AHVV, article 133bis)."""

    entity = "CH_AHV"
    scheme = ahv
    ignored = r" "
    forms: ClassVar[tuple[Pattern, ...]] = (bare(r"756[. ]?\d{4}[. ]?\d{4}[. ]?\d\d"),)


class Pesel(Identifier):
    """PESEL: date of birth with the century in the month, serial number, check digit (ustawa o
    ewidencji ludności, article 15). Presidio's own finds it inside longer numbers as well."""

    entity = "PL_PESEL"
    scheme = pesel
    forms: ClassVar[tuple[Pattern, ...]] = (bare(r"\d{11}"), labelled(r"pesel", r"\d{11}"))


class PolishTaxNumber(Identifier):
    """NIP: ten digits, weighted sum modulo 11 (ustawa o zasadach ewidencji podatników)."""

    entity = "PL_NIP"
    scheme = nip
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"(?:PL ?)?(?:\d{3}-\d{3}-\d\d-\d\d|\d{3}-\d\d-\d\d-\d{3})|PL\d{10}"),
        labelled(
            r"nip|identyfikacji podatkowej", r"(?:PL ?)?\d{3}[- ]?\d\d\d?[- ]?\d\d[- ]?\d{2,3}"
        ),
    )


class PolishRegon(Identifier):
    """REGON: nine or fourteen digits of a business, a person's own among them (GUS). Nine digits
    are everywhere, so beside its word only."""

    entity = "PL_REGON"
    scheme = regon
    ignored = r"\D"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(r"regon", r"\d{3}[ -]?\d{3}[ -]?\d{3}(?:\d{5})?"),
    )


class PolishIdCard(Identifier):
    """Dowód osobisty: three letters, a check digit, five digits; passport: two letters and seven
    (rozporządzenie w sprawie dowodu osobistego; ICAO weights)."""

    entity = "PL_ID_CARD"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(
            r"dow(?:ód|od|odu|odem|odzie)(?: osobist\w{1,4})?|dokument(?:u|em)? tożsamości"
            r"|dowodu osobistego"
            r"|paszport|seria i numer",
            r"[A-Z]{3} ?\d{6}|[A-Z]{2} ?\d{7}",
        ),
        bare(r"(?-i:A[A-Z]{2}|[C-D][A-Z]{2}) ?\d{6}", "card by itself"),
    )

    def check(self, value: str) -> bool | None:
        solid = value.replace(" ", "").upper()
        letters = len(re.match(r"[A-Z]*", solid)[0])  # type: ignore[index]
        if letters != 3:
            return False
        weighted = zip(solid[:3] + solid[4:], (7, 3, 1, 7, 3, 1, 7, 3), strict=True)
        return sum(int(c, 36) * w for c, w in weighted) % 10 == int(solid[3])


class LandRegister(Identifier):
    """Numer księgi wieczystej: court, eight digits, check digit (EKW)."""

    entity = "PL_LAND_REGISTER"
    forms: ClassVar[tuple[Pattern, ...]] = (bare(r"[A-Z]{2}\d[A-Z]/\d{8}/\d", score=0.5),)


class BirthNumber(Identifier):
    """Rodné číslo of Czechia and Slovakia: date of birth (50 added to a woman's month), serial
    number, divisible by 11 since 1954 (zákon 133/2000 Sb., section 13)."""

    entity = "CZ_BIRTH_NUMBER"
    scheme = rc
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"\d\d[0156278]\d[0-3]\d/\d{3,4}"),
        labelled(r"rodn[éeý]\w{0,3} č[íi]sl\w{1,2}|r\.? ?č\.?", r"\d{6}/?\d{3,4}"),
    )


class RomanianPersonalCode(Identifier):
    """CNP: sex and century, date of birth, county, serial number, check digit (legea 105/1996)."""

    entity = "RO_CNP"
    scheme = cnp
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"[1-8]\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[0-4]\d|5[12]|70)\d{4}"),
        labelled(r"cnp|cod numeric personal", r"\d{13}"),
    )


class OtherEuropeanNumber(Identifier):
    """Beside their words: ЕГН of Bulgaria, OIB of Croatia (ISO 7064 MOD 11, 10), ΑΜΚΑ and ΑΦΜ of
    Greece, EMŠO and JMBG of the other successors of Yugoslavia, adóazonosító and TAJ of Hungary,
    the personal codes of the Baltic states, СНИЛС and ИНН of Russia."""

    entity = "NATIONAL_ID"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(r"егн|единен граждански номер|egn", r"\d{10}", "Bulgaria"),
        labelled(r"oib|osobni identifikacijski broj", r"\d{11}", "Croatia"),
        labelled(r"αμκα|α\.μ\.κ\.α|amka|αφμ|α\.φ\.μ|afm", r"\d{9}(?:\d\d)?", "Greece"),
        labelled(r"emšo|jmbg|матични број|ЈМБГ", r"\d{13}", "EMŠO"),
        labelled(r"adóazonosító|taj|személyi azonosító", r"\d{3}[ -]?\d{3}[ -]?\d{3,4}", "Hungary"),
        labelled(r"снилс|инн", r"\d{3}-?\d{3}-?\d{3}[ -]?\d\d\d?", "Russia"),
        labelled(r"asmens kod|isikukood|personas kod", r"\d{6}-?\d{5}", "Baltic states"),
    )

    def check(self, value: str) -> bool | None:
        kinds = (egn, oib, amka)
        return any(kind.is_valid(value) for kind in kinds) or bool(luhn.is_valid(value)) or None
