"""Telephone numbers, in the national forms of sixteen countries and in any international one.

Presidio asks the library phonenumbers, region by region: half of the numbers that people write are
not valid in its eight regions, and it takes dotted network addresses, social security numbers and
order numbers for telephones. What tells a number here is how it is grouped, a plus or a trunk zero
at its head, or the words before it.

Sources: ITU-T E.164 (15 digits at most) and E.123 (how numbers are written); the numbering plans
of NANPA, Ofcom, BNetzA, ARCEP, CNMC, AGCOM, ANACOM, Anatel, ACM, UKE, BIPT, BAKOM, RTR, ACMA, TRAI.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import ClassVar

from presidio_analyzer import Pattern

from gateway.classify.identifiers import Identifier, labelled

_EXTENSION = (
    r"(?:(?:\s?x|[ ,;]{0,2}(?:ext(?:ension|\.)?|Durchwahl|poste|wew\.|interno|ramal"
    r"|#))[ .:]?\d{1,6})?"
)
_END = r"(?![\w-]|[.,]\d|/\d)"

_WORDS = (
    r"tele?|tél|telephon|téléphon|teléfon|telefon|telemóvel|fon|phone|mobil|móvil|móviles|cell"
    r"|cellular"
    r"|celular|cel|gsm|handy|komórk\w{1,3}|kom|portable|fax|faks|whatsapp|signal|sms|hotline"
    r"|helpline|pager|desk"
    r"|rufnummer|durchwahl|rückruf|erreichbar|joignable|localizable|reperibile|bereikbaar|contact"
    r"|kontakt|numerem|smartphone|landline|festnetz|fijo|fisso|stacjonarn|(?:my|his|her|their"
    r"|our) number|mon numéro|meine nummer|seine nummer|ihre nummer|mi número|mój numer|mio numero"
    r"|meu número|mijn nummer|smartfon"
)
# Verbs: only as words of a sentence, never as parts of a name such as `call_id`.
_VERBS = (
    r"call(?:ing)?|dial|ring|reach|text|phone|anrufen|rufen|ruf|appele[zr]|appelle|rappele[zr]"
    r"|joindre"
    r"|llam(?:ar|e|a|en|adme)|llám\w{2,4}|chiam(?:are|a|i|ate)|ligu?(?:e|ar|a)|bel(?:len)?"
    r"|dzwoni\w{0,3}"
    r"|zadzwo\w{1,3}|oddzwo\w{1,3}"
)
_ANY = rf"\+?\(?\d(?:[ ./()-]{{0,3}}\d){{6,14}}{_EXTENSION}"

_OTHER = re.compile(
    r"(?:\b(?:mrn|record|chart|ssn|npi|dea|imei|isbn|issn|ean|upc|sku|iban|bic|vin|order|invoice"
    r"|bill|doc"
    r"|article|artikel|part|item|lot|batch|model|product|catalog(?:ue)?|charge|teil|produkt|modell"
    r"|document|account|acct|policy|claim|case|ticket|tracking|serial|card|tax|siren|siret|nip"
    r"|regon"
    r"|pesel|bsn|dni|nie|cpf|cnpj|passport|licen[cs]e|pid|port|commit|version|id|zip|postcode)s?"
    r"(?:[ _](?:no|nr|number|num|id|code|ref|reference))?|[-_])[\W_]{0,6}\Z"
    r"|\b(?:medical record|identifier|steuer\w*|versicherung\w*|konto\w*|kunden\w*|rechnung\w*)"
    r"(?:[ _]\w{1,10}){0,2}[\W_]{0,6}\Z",
    re.IGNORECASE,
)
"""What says that a number which looks like a telephone's is something else."""
_BEFORE = 40

_DRUG = re.compile(r"\A\d{4,5}-\d{3,4}-\d\d?\Z")
"""National Drug Code (FDA, 21 CFR 207.33): labeler, product, package."""
_DRUG_WORD = re.compile(r"\b(?:ndcs?|national drug codes?)\b", re.IGNORECASE)
_NO_DRUG = re.compile(rf"[.!?;]\s|(?<![^\W_])(?:{_WORDS}|{_VERBS})", re.IGNORECASE)
_LIST = 240  # characters of a list of numbers behind the word for them
_AND = r"(?:\s?[,;/]|\s(?:and|und|et|y|e|i|or|oder|ou|o))?\s{1,2}"
_PAIRS = re.compile(r"\d\d(?: \d\d){4}")
_FEW_PAIRS = re.compile(r"(?<!\d)(?<!\d )\d\d(?: \d\d){0,3} \Z")

_DATE = re.compile(
    r"\A\(?(?:\d?\d([./ -])\d?\d\1(?:19|20)\d\d|(?:19|20)\d\d([./ -])[01]\d\2[0-3]\d)(?!\d)"
)
_IP = re.compile(r"\A\d{1,3}(?:\.\d{1,3}){3}\Z")
_DECIMAL = re.compile(r"\A(?!0\d)\d+\.\d+\Z")
_LONGEST_DIALLED = 13  # digits without a plus or zeros before them; 15 are a device's (IMEI)
_SSN = re.compile(r"\A\d{3}([-. ])\d\d\1\d{4}\Z")
_ZIP_OR_EIN = re.compile(r"\A(?:\d{5}-\d{4}|\d\d-\d{7})\Z")


def _digits(value: str) -> str:
    return re.sub(r"\D", "", re.split(r"(?i)[x#,;a-wyz]", value, maxsplit=1)[0])


class Telephone(Identifier):
    """Whoever answers: PHONE_NUMBER."""

    entity = "PHONE_NUMBER"
    forms: ClassVar[tuple[Pattern, ...]] = (
        Pattern(
            "plus", rf"(?<![\w+])\+ ?\(?\d(?:[ .\-()/]{{0,3}}\d){{7,14}}{_EXTENSION}(?!\d)", 0.6
        ),
        Pattern(
            "North America",
            r"(?<![0-9A-Za-z_.,+/-])(?:(?:00|011[ .-]?)?1[ .-])?(?:\(\d{3}\)[ .-]?"
            r"|\d{3}[ .-])\d{3}[ .-]\d{4}" + _EXTENSION + _END,
            0.5,
        ),
        Pattern(
            "trunk zero, in groups",
            r"(?<![0-9A-Za-z_.,+/-])(?:\(0\d{1,4}\)[ ./-]{0,2}\d{2,8}|0\d{1,5}[ ./-]{1,2}\d{2,8})"
            r"(?:[ ./-]{1,2}\d{2,8}){0,4}" + _EXTENSION + _END,
            0.45,
        ),
        Pattern(
            "dialled abroad, in groups",
            r"(?<![0-9A-Za-z_.,+/-])(?:00|011)[ .-]?[1-9]\d{0,3}(?:[ .-]\d{1,4}){2,6}" + _END,
            0.45,
        ),
        Pattern(
            "nine digits as in Spain and Poland",
            r"(?<![0-9A-Za-z_.,+/-])(?:[6-9]\d\d(?: \d\d \d\d |-\d\d-\d\d-|\.\d\d\.\d\d\.)\d\d"
            r"|[1-9]\d(?: \d{3} \d\d |-\d{3}-\d\d-)\d\d"
            r"|\(\d\d\) ?\d{3}[ -]\d\d[ -]\d\d|[4-9]\d\d-\d{3}-\d{3})" + _END,
            0.45,
        ),
        Pattern("Brazil", r"(?<![0-9A-Za-z_.,+/-])\([1-9]\d\) ?9?[ .]?\d{4}[ -]?\d{4}" + _END, 0.5),
        Pattern(
            "mobile, in one block",
            r"(?<![0-9A-Za-z_.,+/$€£-])(?:0[67]\d{8}|07\d{9}|01[567]\d{8,9})" + _EXTENSION + _END,
            0.4,
        ),
        labelled(_WORDS, _ANY, "as a noun"),
        Pattern(
            "beside its words as a verb",
            rf"(?<![\w-])(?:{_VERBS})(?: {{1,3}}[^\W\d_]{{1,15}}[,:]?){{0,5}}[ :]{{1,3}}"
            rf"(?P<value>{_ANY})"
            r"(?!\w)(?![.,]\d)",
            0.5,
        ),
    )

    def check(self, value: str) -> bool | None:
        """False for what is grouped like something else; a telephone has no check digit."""
        digits = _digits(value)
        if not 7 <= len(digits) <= 15 or len(set(digits)) < 3:
            return False
        if len(digits) > _LONGEST_DIALLED and value.isdigit() and not value.startswith("00"):
            return False
        return False if any(other.match(value) for other in (_DATE, _IP, _DECIMAL, _SSN)) else None

    def parts(self, text: str, pattern: str, start: int, end: int) -> Iterable[tuple[int, int]]:
        spans = super().parts(text, pattern, start, end)
        return [(first, last) for first, last in spans if self._is_one(text, pattern, first, last)]

    def _is_one(self, text: str, pattern: str, start: int, end: int) -> bool:
        value = text[start:end]
        if self.check(value) is False:
            return False
        if pattern.startswith("beside") or pattern == "plus":
            return True
        before = _before_list(text[max(0, start - _LIST) : start], value)
        if _OTHER.search(before[-_BEFORE:]):
            return False
        if _DRUG.match(value) and _is_drug_code(before):
            return False
        if pattern == "trunk zero, in groups":
            if _PAIRS.fullmatch(value) and _FEW_PAIRS.search(text[max(0, start - 20) : start]):
                return False  # of numbers with two digits in a row
            return _is_grouped_as_telephone(value, text[end : end + 4])
        return True


def _before_list(before: str, value: str) -> str:
    """What stands before a list of numbers with as many digits as this one of them."""
    alike = rf"\d(?:[ ./-]?\d){{{len(_digits(value)) - 1}}}"
    return re.sub(rf"(?:(?<!\d){alike}{_AND})+\Z", "", before)


def _is_drug_code(before: str) -> bool:
    """Whether a list of drug codes is announced, and nothing else since."""
    behind = _DRUG_WORD.split(before)
    return len(behind) > 1 and _NO_DRUG.search(behind[-1]) is None


def _is_grouped_as_telephone(value: str, after: str) -> bool:
    groups = re.findall(r"\d+", value)
    if _ZIP_OR_EIN.match(value) or not 9 <= len(_digits(value)) <= 15:
        return False
    if all(len(g) == 2 for g in groups):  # France; six pairs are bytes, or somebody counts
        steps = {int(b) - int(a) for a, b in itertools.pairwise(groups)}
        return len(groups) == 5 and len(steps) > 1 and not re.match(r"[ .:-]\w\w\b", after)
    return True
