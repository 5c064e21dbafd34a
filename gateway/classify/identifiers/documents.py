# ruff: noqa: RUF001 - letters and quotes of other languages are meant as they are
"""Documents, plates and dates of birth beside their words, in eight languages.

Their numbers have hundreds of forms and mostly no check digit that holds everywhere (ICAO Doc 9303
for passports; Directive 2006/126/EC for driving licences), so only the words tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from presidio_analyzer import Pattern

from gateway.classify.identifiers import Identifier, coded, labelled

CODE = (
    r"(?:(?-i:[A-Z]{1,4})[ -])?(?=\w{0,5}\d)[A-Z0-9]{2,20}(?:[ /.-](?=\w{0,3}\d)[A-Z0-9]{1,8}){0,6}"
)
_DATE_LIKE = re.compile(r"\A(?:\d{4}([-./])\d\d?\1\d\d?|\d\d?([-./])\d\d?\2(?:\d\d)?\d\d)\Z")


class DocumentNumber(Identifier):
    """A number of a document: at least five digits, or four and a letter; no date."""

    def parts(self, text: str, pattern: str, start: int, end: int) -> Iterable[tuple[int, int]]:
        spans = super().parts(text, pattern, start, end)
        return [(first, last) for first, last in spans if _is_code(text[first:last])]


def _is_code(value: str) -> bool:
    digits = sum(c.isdigit() for c in value)
    letters = sum(c.isalpha() for c in value)
    enough = digits >= 5 or (digits >= 4 and 0 < letters <= 5)
    return enough and not _DATE_LIKE.match(value)


class EnglishPassport(DocumentNumber):
    """By Presidio's name for it; its own finds nine digits after a "bus" as well."""

    entity = "US_PASSPORT"
    forms: ClassVar[tuple[Pattern, ...]] = (labelled(r"passport|travel document", CODE),)


class Passport(DocumentNumber):
    entity = "PASSPORT"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(
            r"reisepass|passnummer|pass-?nr|passeport|pasaporte|passaporto|passaporte|paspoort"
            r"|paszport|паспорт",
            CODE,
        ),
    )


class DriverLicense(DocumentNumber):
    """Of the United States by its English words, of all others by theirs."""

    entity = "US_DRIVER_LICENSE"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(
            r"driv(?:er|ers|er['’]s|ers['’]|ing)[ _-]?(?:licen[cs]e|permit)|driverslicense"
            r"|dl(?: no| number|#)"
            r"|operator['’]s licen[cs]e",
            CODE,
        ),
        coded(r"licen[cs]e (?:no|nr|number|#)", r"(?-i:[A-Z])\d{6,13}", "of one letter"),
    )


class DrivingLicence(DocumentNumber):
    entity = "DRIVER_LICENSE"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(
            r"führerschein|fuehrerschein|fahrerlaubnis|permis de conduire|n° de permis"
            r"|numéro de permis"
            r"|(?:permiso|carn[ée]t?|licencia) de conduc\w{2,4}|patente(?: di guida)?"
            r"|carta de condução"
            r"|carteira de motorista|rijbewijs|prawo jazdy|prawa jazdy",
            CODE,
        ),
        Pattern(
            "driver number of the DVLA",
            r"(?<![\w-])(?-i:[A-Z9]{5})\d[0156]\d[0-3]\d\d(?-i:[A-Z9]{2})\d(?-i:[A-Z]{2})(?![\w-])",
            0.5,
        ),
    )


class IdCard(DocumentNumber):
    entity = "ID_CARD"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(
            r"id[ _-]?card|identity card|national id|nationalid|citizen(?:ship)? (?:id|number)"
            r"|idcardnum"
            r"|personalausweis|ausweis|aufenthaltstitel|carte d['’]identité"
            r"|carte nationale d['’]identité"
            r"|titre de séjour|pièce d['’]identité|documento de identidad|tarjeta de residencia"
            r"|dni|carta"
            r" d['’]identità|documento d['’]identità|permesso di soggiorno|cartão de cidadão"
            r"|bilhete de"
            r" identidade|identiteitskaart|identiteitsbewijs|verblijfsvergunning|dowód osobisty"
            r"|dowodu"
            r" osobistego|dowodem osobistym|karta pobytu|karty pobytu|tax id|taxpayer|tax number"
            r"|income tax number|tin|social number|socialnum",
            CODE,
        ),
    )


_PLATE = r"(?-i:[A-ZÄÖÜ]{1,3}\d{5,8}|[A-ZÄÖÜ0-9]{1,7}(?:[ -][A-Z0-9]{1,5}){0,2})"


class VehiclePlate(Identifier):
    """Number plates beside their words. Alone their forms are those of part numbers."""

    entity = "VEHICLE_PLATE"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(
            r"licen[cs]e plate|number plate|plate (?:no|number)|vehicle registration"
            r"|registration (?:no"
            r"|number|plate)|reg(?: no|\.)|vrm|kennzeichen|kfz-kennzeichen|autokennzeichen|kfz"
            r"|immatricul"
            r"|plaque|matrícula|matricula|placa|targa|targato|kenteken|nummerplaat|rejestracyj"
            r"|tablic"
            r"|nr rej",
            _PLATE,
        ),
        Pattern(
            "vehicle identification number",
            r"(?<![^\W_])(?:vin|chassis|fin|fahrgestell\w{0,8}|bastidor|telaio|chassi)[\W_]{1,4}"
            r"(?:[^\W\d_]{1,10}[\W_]{1,4}){0,3}?(?P<value>[A-HJ-NPR-Z0-9]{17})(?!\w)",
            0.5,
        ),
    )

    def parts(self, text: str, pattern: str, start: int, end: int) -> Iterable[tuple[int, int]]:
        spans = super().parts(text, pattern, start, end)
        return [(first, last) for first, last in spans if _is_plate(text[first:last])]


def _is_plate(value: str) -> bool:
    """Letters and digits, or digits in groups; a year or a count is neither."""
    signs = [c for c in value if c.isalnum()]
    mixed = any(c.isalpha() for c in signs) or "-" in value
    return len(signs) >= 4 and any(c.isdigit() for c in signs) and mixed


class RegionalPlate(Identifier):
    """Plates of the United Kingdom (DVLA, INF104: since 2001 two letters, the half-year, three
    letters; before that with the year's letter in front) and of Poland (Dz.U. 2022 poz. 1847:
    letters of the voivodeship and the county, four or five signs), behind the vehicle's word."""

    entity = "VEHICLE_PLATE"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(
            r"reg|registration|plate|vrm|vehicle|car|van|lorry|motorbike|motorcycle",
            r"(?-i:[A-HJ-PR-Y]{2}(?:0[2-9]|[1-7]\d) ?[A-HJ-PR-Z]{3}"
            r"|[A-HJ-NPR-TV-Y]\d{1,3} ?[A-Z]{3})",
            "of the United Kingdom",
        ),
        labelled(
            r"rej|rejestracj|rejestracyj|tablic|samoch[oó]d|aut[oaem]{1,2}|pojazd|motocykl|przyczep"
            r"|naczep",
            r"(?-i:[B-GK-PR-TWZ][A-Z]{1,2}) ?(?-i:(?=[A-Z]{0,2}\d)[0-9A-Z]{4,5})",
            "of Poland",
        ),
    )


_MONTH = r"[^\W\d_]{3,12}\.?"


class BirthDate(Identifier):
    """A date that its words call somebody's birth."""

    entity = "DATE_OF_BIRTH"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(
            r"d\.?o\.?b|date of birth|birth ?date|birthday|born(?: on)?|geburtsdatum"
            r"|geboren(?: am)?|geb\."
            r"|geburtstag|date de naissance|née?(?: le)?|fecha de nacimiento|nacid[oa](?: el)?"
            r"|f\. ?nac"
            r"|data di nascita|nat[oa](?: il)|data de nascimento|nascid[oa](?: em)?|geboortedatum"
            r"|geboren op|data urodzenia|urodz\w{2,5}|ur\.",
            rf"\d{{1,2}}[-./ ]\d{{1,2}}[-./ ]\d{{2,4}}|\d{{4}}[-./]\d{{1,2}}[-./]\d{{1,2}}"
            rf"|\d{{1,2}}(?:\.|st|nd|rd|th|er)? (?:de |of )?{_MONTH}(?: de)?,? \d{{4}}"
            rf"|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}",
        ),
        Pattern("with a star", r"(?<=\(\*) ?\d{1,2}\.\d{1,2}\.\d{4}", 0.5),
    )
