# ruff: noqa: RUF001 - letters and quotes of other languages are meant as they are
"""Numbers of patients, of their insurance, and of those who treat them.

Hospitals number as they like, so a record number is told by its label alone.
"""

from __future__ import annotations

import re
from typing import ClassVar

from presidio_analyzer import Pattern
from stdnum import luhn
from stdnum.gb import nhs

from gateway.classify.identifiers import LABELLED, Identifier, coded, labelled

_RECORD = r"(?:[A-Z]{1,4}[-.]?)?\d[\d-]{3,13}(?:/\d{2,8})?"
_MORE = (
    rf"(?:[*`)]{{0,3}}(?:,|;| or| and| und| et| y| e| i"
    rf"|, and)[\s*(]{{1,4}}(?P<more>{_RECORD})(?!\w)){{0,4}}"
)
_PATIENT_WORDS = (
    # English, German, French
    r"medical record|mrn|hospital (?:no|nr|number|id)|chart (?:no|nr|number|id)|uhid"
    r"|patient(?:'s)?[ _-]?(?:no|nr|number|id|identifier|file|record)|encounter (?:no|number|id)"
    r"|patienten-?(?:nr|nummer|id|akte|kennung)|fallnummer|fall-nr|krankenakte|aufnahmenummer"
    r"|pat\.-?nr"
    r"|numéro (?:de |du )?(?:dossier|patient)|n° (?:de )?(?:dossier|patient)|dossier médical"
    r"|dossier patient"
    r"|ipp|identifiant patient"
    # Spanish, Italian, Portuguese
    r"|historia clínica|nhc|n\.?º de historia|número de historia|id del paciente|expediente clínico"
    r"|cartella clinica|numero nosologico|id paziente|codice paziente|prontuário|processo clínico"
    r"|número de processo|id do paciente|episódio"
    # Dutch, Polish
    r"|patiëntnummer|patiënt-?(?:nr|id)|patientnummer|dossiernummer|historii choroby"
    r"|historia choroby"
    r"|(?:numer|nr|id) pacjenta|identyfikator pacjenta|kartotek|księgi głównej|karty pacjenta"
)


class MedicalRecordNumber(Identifier):
    """A number that its label calls one, in eight languages, and those listed after it."""

    entity = "MEDICAL_RECORD"
    forms: ClassVar[tuple[Pattern, ...]] = (
        Pattern(
            f"{LABELLED}, listed",
            rf"(?<![^\W_])(?:{_PATIENT_WORDS})s?[^\W\d_]{{0,8}}[\W_]{{0,8}}"
            rf"(?:(?:no|nr|n[º°]?|num|number|id|is|of|the|for|was|ist|lautet|est|es|è|é|jest"
            rf"|to)s?\.?[\W_]{{1,6}}){{0,3}}"
            rf"(?P<value>{_RECORD})(?![\w])(?![.,]\d){_MORE}",
            0.6,
        ),
        coded(
            r"accession(?: no| number| #|#)?|einsendenummer|numéro de prélèvement"
            r"|(?:nr|numer) (?:zlecenia )?badania",
            r"(?-i:[A-Z]{0,3})\d{2,4}[-/]\d{3,9}|\d{6,14}",
            "of a sample",
        ),
        Pattern("with its head", r"(?<![\w-])(?:MRN|MED|PAT|HN|UHID)[-#: ]?\d{5,10}(?!\w)", 0.5),
    )

    def check(self, value: str) -> bool | None:
        return False if re.fullmatch(r"(?:19|20)\d\d(?:-\d\d-\d\d)?", value) else None

    def validate_result(self, pattern_text: str) -> bool | None:
        """A year or a date after the words is no number of a record."""
        tail = re.search(r"[A-Z\d.-]+\Z", pattern_text, re.IGNORECASE)
        return self.check(tail[0]) if tail else None


class NhsNumber(Identifier):
    """Ten digits, the last by modulus 11 (NHS Data Dictionary, NHS NUMBER). Telephones of North
    America have the same groups, so only the spaced form counts without its words."""

    entity = "UK_NHS"
    scheme = nhs
    ignored = r"-"
    forms: ClassVar[tuple[Pattern, ...]] = (
        Pattern("spaced", r"(?<![\w.,+-])\d{3} \d{3} \d{4}(?![\w-]|[.,]\d| ?x\d)", 0.3),
        labelled(
            r"nhs|national health service|chi number|h&c number", r"\d{3}[ -]?\d{3}[ -]?\d{4}"
        ),
    )


class ProviderNumber(Identifier):
    """Those who treat: NPI (45 CFR 162.406; Luhn after the prefix 80840) beside its words."""

    entity = "US_NPI"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(r"npi|national provider|prescriber|provider id", r"\d{4}[ -]?\d{3}[ -]?\d{3}"),
    )

    def check(self, value: str) -> bool | None:
        digits = re.sub(r"\D", "", value)
        return digits[0] in "12" and bool(luhn.is_valid("80840" + digits))


class EuropeanProviderNumber(Identifier):
    """Physicians and practices beside their words: LANR, BSNR (KBV), RPPS, ADELI, FINESS (ANS),
    GMC, BIG, AGB, UZOVI (CIBG, Vektis), número de colegiado, PWZ (NIL), DEA (21 CFR 1306.05)."""

    entity = "PROVIDER_NUMBER"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(
            r"lanr|arztnummer|arzt-nr|bsnr|betriebsstättennummer|rpps|adeli|finess|n° am|gmc|gphc"
            r"|nmc"
            r"|big-?(?:nummer|nr|registratie)|agb-?code|agb|(?:de )?colegiad[oa]|nº col|pwz"
            r"|prawa wykonywania zawodu|ordem dos médicos|cédula profissional|crm|albo dei medici",
            r"\d[\d. /]{4,12}\d",
        ),
        labelled(r"uzovi", r"\d{4}", "of an insurer"),
        labelled(r"dea", r"[A-Z][A-Z9]\d{7}", "of a prescriber"),
    )


class HealthInsuranceNumber(Identifier):
    """Members of a health insurance, beside their words: Krankenversichertennummer (section 290
    SGB V), carte Vitale, tarjeta sanitaria (CIPA, CIP, SNS), tessera sanitaria, utente, zorgpas,
    EHIC (Decision S2 of 2009), member and policy ids of the United States, MBI (CMS)."""

    entity = "HEALTH_INSURANCE_NUMBER"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(
            r"krankenversicherten|krankenversicherungs|krankenkassen|versicherten|kvnr|kv-nr|kvnr\."
            r"|gesundheitskarte|carte vitale|carte européenne|mutuelle|numéro d['’]adhérent"
            r"|n° adhérent"
            r"|tarjeta sanitaria|cipa|cip|seguro médico|tessera sanitaria|utente|sns"
            r"|cartão de saúde|zorgpas|polisnummer|verzekerden|ekuz|ubezpieczenia zdrowotnego"
            r"|(?:nr|numer) polisy|versicherungsschein|numéro de police|número de póliza"
            r"|numero (?:di )?polizza|número da apólice"
            r"|member id|member number|subscriber id|insurance (?:id|policy|member)|policy (?:no"
            r"|number)"
            r"|medicare|medicaid|mbi|health card|health insurance",
            r"(?-i:[A-Z]{1,4})?[ -]?\d(?:[ -]?[A-Z]?\d){5,19}"
            r"|\d[A-Z][A-Z0-9]\d-?[A-Z][A-Z0-9]\d-?[A-Z]{2}\d\d",
        ),
        Pattern(
            "Medicare beneficiary",
            r"(?<![\w-])[1-9](?-i:[AC-HJKMNP-RT-Y][AC-HJKMNP-RT-Y0-9])\d-?(?-i:[AC-HJKMNP-RT-Y]"
            r"[AC-HJKMNP-RT-Y0-9])\d-?(?-i:[AC-HJKMNP-RT-Y]{2})\d\d(?![\w-])",
            0.5,
        ),
    )
