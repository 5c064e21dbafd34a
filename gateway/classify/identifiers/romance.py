# ruff: noqa: RUF001 - letters and quotes of other languages are meant as they are
"""Numbers of persons in France, Spain, Italy, Portugal, Brazil and Mexico. Check digits are those
of python-stdnum."""

from __future__ import annotations

import re
from typing import ClassVar

from presidio_analyzer import Pattern
from stdnum.br import cnpj, cpf
from stdnum.es import dni, nie
from stdnum.fr import nif as fiscal
from stdnum.fr import nir
from stdnum.it import codicefiscale, iva
from stdnum.mx import curp
from stdnum.pt import cc
from stdnum.pt import nif as pt_nif

from gateway.classify.identifiers import Identifier, bare, labelled


class FrenchSocialNumber(Identifier):
    """NIR: sex, year, month, place of birth (2A and 2B in Corsica), order, key modulo 97 (décret
    82-103; INSEE)."""

    entity = "FR_NIR"
    scheme = nir
    ignored = r"[ ./-]"
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(
            r"[12]\d\d(?:0[1-9]|1[0-2]|[2-9]\d)(?:\d\d|2[AB])\d{6} ?\d\d|[123478][ .]\d\d[ .]"
            r"(?:0[1-9]|1[0-2]|[2-9]\d)[ .](?:\d\d|2[AB])[ .]\d{3}[ .]\d{3}[ ./-]{0,3}\d\d"
        ),
        labelled(
            r"sécurité sociale|sécu|nir|n° ?ss|numéro ss|insee|assuré social|immatriculation"
            r"|vitale",
            r"[123478](?:[ .]?[\dAB]){12}(?:[ ./-]{0,3}\d\d)?",
        ),
    )


class FrenchTaxNumber(Identifier):
    """Numéro fiscal (SPI): thirteen digits from 0 to 3, the last three modulo 511 (OECD, TIN of
    France). In one block it is like a time in milliseconds, so beside its words only."""

    entity = "FR_TAX_ID"
    scheme = fiscal
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"[0-3]\d[ ]\d\d[ ]\d{3}[ ]\d{3}[ ]\d{3}"),
        labelled(
            r"numéro fiscal|n° fiscal|identifiant fiscal|référence fiscale|spi|nif",
            r"[0-3]\d(?:[ ]?\d){11}",
        ),
    )


class FrenchIdCard(Identifier):
    """Carte nationale d'identité: twelve digits, or since 2021 nine letters and digits (décret
    2021-279); titre de séjour, permis."""

    entity = "ID_CARD"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(
            r"carte (?:nationale )?d['’]identité|cni|cnie|pièce d['’]identité|titre de séjour",
            r"\d{12}|[A-Z0-9]{0,4}\d[A-Z0-9]{4,8}",
        ),
    )


class SpanishId(Identifier):
    """DNI/NIF: eight digits and a letter by modulus 23; NIE: X, Y or Z before seven (Real Decreto
    1553/2005; Orden INT/2058/2008), with the dots and dashes that people add."""

    entity = "ES_NIF"
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"\d{1,2}\.\d{3}\.\d{3}[ -]?[A-Z]|\d{8}[ -](?-i:[A-Z])|[XYZ][ -]?\d{7}[ -]?[A-Z]"),
        labelled(
            r"dni|nif|nie|d\.n\.i|n\.i\.f|n\.i\.e|documento nacional|número de identidad"
            r"|identificación"
            r" fiscal|cédula|cif",
            r"[XYZA-HJNP-SUVW]?[ -]?\d{1,2}\.?\d{3}\.?\d{2,3}[ -]?[A-Z0-9]",
        ),
    )

    def check(self, value: str) -> bool | None:
        solid = re.sub(r"[ .-]", "", value).upper()
        return bool(dni.is_valid(solid.zfill(9)) or nie.is_valid(solid))


class SpanishSocialNumber(Identifier):
    """Número de afiliación (NUSS): province, serial number, and both modulo 97 (Orden TIN/... on
    affiliation, Real Decreto 84/1996)."""

    entity = "ES_NSS"
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"\d\d[ /-]\d{7,8}[ /-]\d\d"),
        labelled(r"seguridad social|nss|nuss|afiliación|s\.s", r"\d\d[ /-]?\d{7,8}[ /-]?\d\d"),
    )

    def check(self, value: str) -> bool | None:
        digits = re.sub(r"\D", "", value)
        body, key = digits[2:-2], int(digits[-2:])
        whole = digits[:2] + (body.lstrip("0") if len(body) == 8 and body[0] == "0" else body)
        return int(whole) % 97 == key


class ItalianFiscalCode(Identifier):
    """Codice fiscale with omocodia: letters in place of digits (DM 23 dicembre 1976, article 6),
    and in the groups of the card. One of letters alone, which takes 127 others of the same name,
    day and place, is found beside its words: a sentence has such groups by chance."""

    entity = "IT_FISCAL_CODE"
    scheme = codicefiscale
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(
            r"(?=[A-Z ]{6,18}\d)"
            r"[A-Z]{3} ?[A-Z]{3} ?[\dLMNP-V]{2}[A-EHLMPR-T][\dLMNP-V]{2} ?[A-Z][\dLMNP-V]{3} ?[A-Z]"
        ),
        labelled(
            r"codice fiscale|c\.f|cod\.? fisc",
            r"[A-Z]{6}[\dA-Z]{2}[A-Z][\dA-Z]{2}[A-Z][\dA-Z]{3}[A-Z]",
        ),
    )


class ItalianVatNumber(Identifier):
    """Partita IVA of a business or of one person: beside its words (DPR 633/1972, article 35)."""

    entity = "IT_VAT_CODE"
    scheme = iva
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(r"partita iva|p\.? ?iva|piva", r"(?:IT ?)?\d{11}"),
        labelled(r"vat", r"(?:IT ?)?\d{11}", "of any country", score=0.3),
    )


class EuropeanVatNumber(Identifier):
    """VAT numbers of the Union, of companies and of those who work alone (Directive 2006/112/EC,
    article 215), beside their words."""

    entity = "EU_VAT_NUMBER"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(
            r"ust-?id(?:nr)?|umsatzsteuer|vat|tva|iva|btw|moms",
            r"(?-i:[A-Z]{2}) ?(?-i:[A-Z0-9]{8,12})",
        ),
    )


class PortugueseId(Identifier):
    """NIF (Decreto-Lei 14/2013), NISS, número de utente, cartão de cidadão (Lei 7/2007: eight
    digits, a check digit, two characters and another)."""

    entity = "PT_NIF"
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"\d{8}[ -]?\d[ -]?(?-i:[A-Z0-9][A-Z])\d|\d{8}[ -]?\d[ -]?(?-i:[A-Z][A-Z0-9])\d"),
        labelled(
            r"nif|contribuinte|identificação fiscal|niss|segurança social|utente|cartão de cidadão"
            r"|bilhete de identidade|b\.i",
            r"\d{3}[ .]?\d{3}[ .]?\d{3}(?:\d\d)?|\d{8}[ -]?\d[ -]?[A-Z0-9]{2}\d|\d{7,8}(?:-\d)?",
        ),
    )

    def check(self, value: str) -> bool | None:
        solid = re.sub(r"[ .-]", "", value).upper()
        return bool(cc.is_valid(solid) or pt_nif.is_valid(solid))


class BrazilianId(Identifier):
    """CPF, two check digits by modulus 11 (Receita Federal), RG and CNH beside their words."""

    entity = "BR_CPF"
    scheme = cpf
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"\d{3}\.\d{3}\.\d{3}-\d\d"),
        labelled(r"cpf", r"\d{3}\.?\d{3}\.?\d{3}[-/]?\d\d"),
        labelled(
            r"rg|registro geral|carteira de identidade|cnh|cns|pis|pasep|nis",
            r"\d{1,3}\.?\d{3}\.?\d{3}(?:[.-]?[\dX]{1,4}(?:-\d)?)?",
            "others",
        ),
    )


class BrazilianCompany(Identifier):
    """CNPJ, of a company or of one who works alone (Receita Federal, IN RFB 2119/2022)."""

    entity = "BR_CNPJ"
    scheme = cnpj
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"\d\d\.\d{3}\.\d{3}/\d{4}-\d\d"),
        labelled(r"cnpj", r"\d\d\.?\d{3}\.?\d{3}/?\d{4}-?\d\d"),
    )


class MexicanCurp(Identifier):
    """CURP: names, date of birth, sex, state, check digit (RENAPO)."""

    entity = "MX_CURP"
    scheme = curp
    forms: ClassVar[tuple[Pattern, ...]] = (
        bare(r"[A-Z]{4}\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])[HMX][A-Z]{5}[A-Z\d]\d"),
    )
