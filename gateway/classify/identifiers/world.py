# ruff: noqa: RUF002 - letters and quotes of other languages are meant as they are
"""Numbers of persons elsewhere, where the check digit makes them precise."""

from __future__ import annotations

import re
from typing import ClassVar

from presidio_analyzer import Pattern
from stdnum.in_ import aadhaar
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
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"[2-9]\d{3}(?: \d{4} |-\d{4}-)\d{4}"),
        labelled(r"aadhaar|aadhar|uidai|uid", r"\d{4}[ -]?\d{4}[ -]?\d{4}"),
    )

    def check(self, value: str) -> bool | None:
        return bool(aadhaar.is_valid(re.sub(r"\D", "", value)))


class TurkishNumber(Identifier):
    """T.C. kimlik numarası: eleven digits, the last two of them checks (NVI)."""

    entity = "TR_NATIONAL_ID"
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"[1-9]\d{10}"),
        labelled(r"tckn|t\.?c\.? ?kimlik|kimlik", r"[1-9]\d{10}"),
    )

    def check(self, value: str) -> bool | None:
        return bool(tckimlik.is_valid(value))
