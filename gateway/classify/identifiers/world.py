# ruff: noqa: RUF002 - letters and quotes of other languages are meant as they are
"""Numbers of persons elsewhere, where the check digit makes them precise."""

from __future__ import annotations

from typing import ClassVar

from presidio_analyzer import Pattern
from stdnum import luhn
from stdnum.au import tfn
from stdnum.in_ import aadhaar, pan
from stdnum.kr import rrn
from stdnum.tr import tckimlik

from gateway.classify.identifiers import Identifier, bare, labelled


class ChineseResidentNumber(Identifier):
    """Region, date of birth, serial number and a check character (GB 11643-1999: ISO 7064,
    MOD 11-2)."""

    entity = "CN_RESIDENT_NUMBER"
    forms: ClassVar[tuple[Pattern, ...]] = (
        Pattern(
            "18 characters",
            r"(?<!\d)[1-8]\d{5}(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])\d{3}[\dXx](?!\d)",
            0.3,
        ),
    )

    def check(self, value: str) -> bool | None:
        rest = sum(int(d) * 2 ** (17 - at) for at, d in enumerate(value[:17])) % 11
        return "10X98765432"[rest] == value[17].upper()


class Aadhaar(Identifier):
    """Twelve digits, the last by Verhoeff's scheme (UIDAI). Presidio takes every block of twelve,
    so that one in ten tails of a UUID in digits is one; here it is four and four and four, or its
    word."""

    entity = "IN_AADHAAR"
    scheme = aadhaar
    ignored = r"\D"
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"[2-9]\d{3}(?: \d{4} |-\d{4}-)\d{4}"),
        labelled(r"aadhaar|aadhar|uidai|uid", r"\d{4}[ -]?\d{4}[ -]?\d{4}"),
    )


class TurkishNumber(Identifier):
    """T.C. kimlik numarası: eleven digits, the last two of them checks (NVI)."""

    entity = "TR_NATIONAL_ID"
    scheme = tckimlik
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"(?!20[0-3]\d(?:0[1-9]|1[0-2]))[1-9]\d{10}"),  # nor an invoice's year and month
        labelled(r"tckn|t\.?c\.? ?kimlik|kimlik", r"[1-9]\d{10}"),
    )


class IndianTaxNumber(Identifier):
    """PAN (Income Tax Department of India): five letters, of which the fourth tells the kind of
    holder, four digits and a letter. By itself in capitals alone, for `watch2023a` has the form."""

    entity = "IN_PAN"
    scheme = pan
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"(?-i:[A-Z]{3}[ABCFGHJLPT][A-Z]\d{4}[A-Z])"),
        labelled(r"pan|permanent account", r"[A-Z]{5}\d{4}[A-Z]"),
    )


class SingaporeanNumber(Identifier):
    """NRIC and FIN (Immigration & Checkpoints Authority): a letter, seven digits, and a check
    letter of a table for each first letter."""

    entity = "SG_NRIC_FIN"
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"[STFGM]\d{7}[A-Z]"),
        labelled(r"nric|fin", r"[STFGM]\d{7}[A-Z]"),
    )

    def check(self, value: str) -> bool | None:
        first, digits, last = value[0].upper(), value[1:8], value[8].upper()
        added, letters = _SINGAPOREAN[first]
        weighed = sum(int(d) * w for d, w in zip(digits, (2, 7, 6, 5, 4, 3, 2), strict=True))
        return letters[(weighed + added) % 11] == last


_SINGAPOREAN = {
    "S": (0, "JZIHGFEDCBA"),
    "T": (4, "JZIHGFEDCBA"),
    "F": (0, "XWUTRQPNMLK"),
    "G": (4, "XWUTRQPNMLK"),
    "M": (3, "XWUTRQPNJLK"),
}


class AustralianTaxNumber(Identifier):
    """Tax file number (Australian Taxation Office): eight or nine digits with a weighted sum, which
    one number in eleven meets, so its words must stand beside it."""

    entity = "AU_TFN"
    scheme = tfn
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(r"tfn|tax file", r"\d{3}[ -]?\d{3}[ -]?\d{2,3}"),
    )


class AustralianMedicareNumber(Identifier):
    """Medicare number (Services Australia): eight digits, a check digit, the card's issue and the
    person's place on the card."""

    entity = "AU_MEDICARE"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(r"medicare", r"[2-6]\d{3}[ -]?\d{5}[ -]?\d(?:[ /-]?\d)?"),
    )

    def check(self, value: str) -> bool | None:
        digits = [int(sign) for sign in value if sign.isdigit()]
        weights = (1, 3, 7, 9, 1, 3, 7, 9)
        weighed = sum(digit * by for digit, by in zip(digits[:8], weights, strict=True))
        return weighed % 10 == digits[8]


class EmiratesId(Identifier):
    """Emirates ID (Federal Authority for Identity and Citizenship): 784 for the country (ISO
    3166-1), year of birth, seven digits and a check digit by Luhn."""

    entity = "AE_EMIRATES_ID"
    ignored = r"\D"
    scheme = luhn
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"784(?:-(?:19|20)\d\d-\d{7}-| (?:19|20)\d\d \d{7} |(?:19|20)\d{9})\d"),
        labelled(
            r"emirates id|emirates identity|eid|uae id|الهوية|رقم الهوية|هوية",
            r"784[- ]?(?:19|20)\d\d[- ]?\d{7}[- ]?\d",
        ),
    )


class KoreanNumber(Identifier):
    """Resident registration number (Resident Registration Act, enforcement rule, article 2): date
    of birth, century and sex, and until October 2020 a place and a check digit of modulus 11; since
    then six digits by chance, which only its words make one."""

    entity = "KR_RRN"
    scheme = rrn
    ignored = r"\D"
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])-[1-8]\d{6}"),
        labelled(
            r"rrn|resident registration|korean (?:resident|id|national)|jumin|주민등록번호|주민번호"
            r"|외국인등록번호|주민등록",
            r"\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])[- ]?[1-8]\d{6}",
        ),
    )
