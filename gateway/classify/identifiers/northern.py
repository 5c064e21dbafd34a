"""Numbers of persons in the Netherlands, Belgium, the United Kingdom, Ireland, Sweden, Denmark,
Norway and Finland. Check digits are computed by python-stdnum."""

from __future__ import annotations

from typing import ClassVar

from presidio_analyzer import Pattern
from stdnum.be import nn
from stdnum.dk import cpr
from stdnum.ie import pps
from stdnum.nl import bsn
from stdnum.no import fodselsnummer
from stdnum.se import personnummer

from gateway.classify.gate.evidence import (
    SOCIAL_SECURITY,
    SOCIAL_SECURITY_SCORE,
    may_be_social_security,
)
from gateway.classify.identifiers import Identifier, bare, labelled


class DutchCitizenNumber(Identifier):
    """Burgerservicenummer: nine digits by the eleven test (Wet algemene bepalingen BSN), which one
    number in eleven passes, so beside its words only."""

    entity = "NL_BSN"
    scheme = bsn
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(
            r"bsn|burgerservice|sofi|persoonsnummer|patiëntnummer", r"\d{3,4}[ .]?\d{2,3}[ .]?\d{3}"
        ),
    )


class BelgianNumber(Identifier):
    """Rijksregisternummer, numéro de registre national: date of birth, serial number, modulo 97
    (koninklijk besluit van 3 april 1984)."""

    entity = "BE_NATIONAL_NUMBER"
    scheme = nn
    ignored = r"\D"
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"\d\d[.]\d\d[.]\d\d[ -]\d{3}[. -]\d\d"),
        labelled(
            r"rijksregister|insz|niss|registre national|numéro national|nn",
            r"\d\d[. ]?\d\d[. ]?\d\d[ -]?\d{3}[. -]?\d\d",
        ),
    )


class IrishNumber(Identifier):
    """PPS number: seven digits, a check letter by modulus 23, since 2013 another letter (Social
    Welfare Consolidation Act 2005)."""

    entity = "IE_PPS"
    scheme = pps
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"\d{7}(?-i:[A-W][A-IW]?)"),
        labelled(r"pps|ppsn|personal public service", r"\d{7} ?[A-W][A-IW]?"),
    )


class NationalInsurance(Identifier):
    """National Insurance number in any grouping, UTR, and the driver number of the DVLA, beside
    their words (HMRC, NIM39110; DVLA INF1)."""

    entity = "UK_NINO"
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(
            r"(?-i:(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z])[ -]?"
            r"(?:\d\d[ -]?){3}(?-i:[A-D])",
            score=0.5,
        ),
        labelled(
            r"national insurance|nino|ni number|ni no",
            r"[A-Z]{2}[ -]?\d\d[ -]?\d\d[ -]?\d\d[ -]?[A-Z]",
        ),
        labelled(r"utr|unique taxpayer", r"\d{5}[ ]?\d{5}", "tax reference"),
    )


class SwedishNumber(Identifier):
    """Personnummer: date of birth, serial number, Luhn (folkbokföringslagen, section 18)."""

    entity = "SE_PERSONNUMMER"
    scheme = personnummer
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"(?:19|20)?\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[1-8]\d|9[01])[-+]\d{4}"),
        labelled(r"personnummer|pnr|samordningsnummer", r"(?:19|20)?\d{6}[-+]?\d{4}"),
    )


class DanishNumber(Identifier):
    """CPR-nummer: date of birth and four digits, without a check digit since 2007 (CPR-loven)."""

    entity = "DK_CPR"
    scheme = cpr
    forms: ClassVar[tuple[Pattern, ...]] = (labelled(r"cpr|personnummer", r"\d{6}[- ]?\d{4}"),)


class NorwegianNumber(Identifier):
    """Fødselsnummer: date of birth, serial number, two check digits (folkeregisterloven)."""

    entity = "NO_FODSELSNUMMER"
    scheme = fodselsnummer
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"[0-7]\d[01]\d\d\d \d{5}"),
        labelled(r"fødselsnummer|fodselsnummer|personnummer|f\.?nr|d-nummer", r"\d{6} ?\d{5}"),
    )


class SocialSecurityNumber(Identifier):
    """Area, group and serial number (20 CFR 422.103; since 2011 any area but 000 and
    666; those of 9xx are given out for tax alone, 26 CFR 301.6109-1).
    Presidio takes five digits and four for one, which are as often an order's."""

    entity = "US_SSN"
    forms: ClassVar[tuple[Pattern, ...]] = (
        Pattern("groups", SOCIAL_SECURITY, SOCIAL_SECURITY_SCORE),
        labelled(
            r"ssn|ssns|social security|social sec|soc sec|social|ss#|ss no|sin|taxpayer id",
            r"\d{3}[- ./]?\d\d[- ./]?\d{4}|\d{3}[- ]\d{3}[- ]\d{3}",
        ),
    )

    def check(self, value: str) -> bool | None:
        return None if may_be_social_security(value) else False
