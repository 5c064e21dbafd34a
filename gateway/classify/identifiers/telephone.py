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
    # English
    r"tele?|phone|mobile?|cell|cellular|gsm|fax|whatsapp|signal|sms|hotline|helpline|pager|desk"
    r"|contact|smartphone|landline|voicemail|registered|(?:my|his|her|their|our|new|old|home|work"
    r"|direct|private|emergency) number"
    # German
    r"|telephon|telefon|telefoon|fon|handy|rufnummer|durchwahl|rückruf|erreichbar|kontakt|festnetz|mobilnummer"
    r"|(?:meine|seine|ihre|neue) nummer|unter der nummer"
    # French, Spanish, Italian, Portuguese
    r"|tél|téléphon|portable|joignable|(?:mon|son|votre|nouveau|au) numéro"
    r"|teléfon|móvil|móviles|celular|cel|fijo|localizable|(?:mi|su|tu|nuevo|al) número"
    r"|faks|fisso|cellulare|reperibile|recapito|(?:mio|suo|nuovo|al) numero"
    r"|telemóvel|fixo|contacto|(?:meu|seu|novo) número"
    # Dutch, Polish
    r"|bereikbaar|mobiel|(?:mijn|zijn|haar|nieuwe) nummer|op nummer"
    r"|komórk\w{1,3}|kom|stacjonarn|smartfon|(?:mój|jego|jej|nowy) numer|numerem"
)
# Verbs: only as words of a sentence, never as parts of a name such as `call_id`.
VERBS = (
    # English
    r"call(?:ing)?|called (?:me|him|her|us|them|from|at|on)|dial(?:l?ing|l?ed)?|ring|reach(?:able)?"
    r"|reached (?:at|on|via)|answer(?:ing|s)? (?:at|on)|text|message (?:at|on)"
    r"|phon(?:e|ed|ing)|contacting"
    # German
    r"|an(?:ge)?rufen|rufen?|ruf|rückruf|zurückrufen"
    r"|meld(?:en|et|e) (?:(?:sie|dich|mich|euch|sich) ){1,2}unter"
    r"|erreich(?:en|st|e)|erreicht (?:mich|uns|ihn|sie)|wählen sie|wähle"
    # French
    r"|r?appele[zr](?:-moi|-nous)?|appelle|appelé|joindre|joignez|contactez?r?|compose[zr]|téléphone[zr]"
    r"|répond(?:re|s)? (?:au|sur)"
    # Spanish
    r"|llam(?:ar|e|a|en|adme)|llám\w{2,4}|marcar|marque|contactar|localizar(?:[mlnt]\w{1,2})?"
    r"|(?:responde|atiende) (?:al|en)"
    # Italian
    r"|chiam(?:are|ate|[ai])(?:[mlc]i)?|contatt(?:are|[ai])(?:[mlc]i)?|telefonare"
    r"|telefon[aio]|rispond[eo] al|componga"
    # Portuguese
    r"|ligu?(?:e|ar|a)|contacte|telefone|telefonar|atend[eo] (?:no|pelo)|disque"
    # Dutch
    r"|bel(?:len|t)?|gebeld|bereiken op|contacteren"
    # Polish
    r"|dzwoni\w{0,3}|zadzwo\w{1,3}|oddzwo\w{1,3}|(?:s?kontaktowa|skontaktuj)\w{0,2}|odbiera\w? pod"
)
LEAST = r"\+?\(?\d(?:[ ./()-]{0,3}\d){5}"
_ANY = rf"\+?\(?\d(?:[ ./()-]{{0,3}}\d){{5,14}}{_EXTENSION}"
NOUN_FORM = labelled(_WORDS, _ANY, "as a noun")
VERB_FORM = Pattern(
    "beside its words as a verb",
    rf"(?<![\w-])(?:{VERBS})(?: {{1,3}}[^\W\d_]{{1,15}}[,:?]?){{0,5}}[ :]{{1,3}}"
    rf"(?P<value>{_ANY})(?!\w)(?![.,]\d)",
    0.5,
)
LABEL_BEHIND = (
    r" ?[-(\u2013] ?(?:office|fax|mobile?|cell|home|work|direct|tel|phone|büro|privat|dienstlich"
    r"|handy|zentrale|bureau|domicile|portable|oficina|casa|trabajo|móvil|ufficio|cellulare"
    r"|escritório|telemóvel|kantoor|thuis|werk|mobiel|biuro|praca|dom|komórka)"
    r"| (?:erreichbar|bereikbaar|joignable|reperibile)"
)
LABELLED_BEHIND = Pattern(
    "beside its words, which follow",
    r"(?<![\w.,+/-])(?P<value>\+?\(?\d(?:[ ./()-]{0,2}\d){5,14})"
    rf"(?:{LABEL_BEHIND})(?![^\W_])",
    0.5,
)

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
_NO_DRUG = re.compile(rf"[.!?;]\s|(?<![^\W_])(?:{_WORDS}|{VERBS})", re.IGNORECASE)
_LIST = 240  # characters of a list of numbers behind the word for them
_AND = r"(?:\s?[,;/]|\s(?:and|und|et|y|e|i|or|oder|ou|o))?\s{1,2}"
_PAIRS = re.compile(r"\d\d(?: \d\d){4}")
_FEW_PAIRS = re.compile(r"(?<!\d)(?<!\d )\d\d(?: \d\d){0,3} \Z")

_DATE = re.compile(
    r"\A\(?(?:\d?\d([./ -])\d?\d\1(?:19|20)\d\d|(?:19|20)\d\d([./ -])[01]\d\2[0-3]\d)(?!\d)"
)
_IN_PAIRS = re.compile(
    r"\A(?!(?:[0-2]\d|3[01])\D(?:0\d|1[0-2])\D|(?:0\d|1[0-2])\D(?:[0-2]\d|3[01])\D)"
    r"\d\d([ .-])\d\d\1\d\d\Z"
)
"""Six digits as Greenland writes them, and no date."""
_IP = re.compile(r"\A\d{1,3}(?:\.\d{1,3}){3}\Z")
_DECIMAL = re.compile(r"\A(?!0\d)\d+\.\d+\Z")
_LONGEST_DIALLED = 13  # digits without a plus or zeros before them; 15 are a device's (IMEI)
_SSN = re.compile(r"\A\d{3}([-. ])\d\d\1\d{4}\Z")
_ZIP_OR_EIN = re.compile(r"\A(?:\d{5}-\d{4}|\d\d-\d{7})\Z")


_COUNTED = re.compile(
    r" ?(?:szt|stk|pcs|pce|kg|m[23]?|l|t|eur|usd|zł|st|un|uds?|buc|ks)\b", re.IGNORECASE
)


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
            r"(?<![0-9A-Za-z_.,+/-])(?!000)"
            r"(?:\(0\d{1,4}\)[ ./-]{0,2}\d{2,8}|0\d{1,5}[ ./-]{1,2}\d{2,8})"
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
        NOUN_FORM,
        VERB_FORM,
        LABELLED_BEHIND,
    )

    def check(self, value: str) -> bool | None:
        """False for what is grouped like something else; a telephone has no check digit."""
        digits = _digits(value)
        if not 6 <= len(digits) <= 15 or len(set(digits)) < 3:
            return False
        if len(digits) == 6 and not _IN_PAIRS.match(value):
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
    if _COUNTED.match(after) and all(len(group) == 3 for group in groups[2:]):
        return False  # a line's number, and a quantity in thousands
    if all(len(g) == 2 for g in groups):  # France; six pairs are bytes, or somebody counts
        steps = {int(b) - int(a) for a, b in itertools.pairwise(groups)}
        return len(groups) == 5 and len(steps) > 1 and not re.match(r"[ .:-]\w\w\b", after)
    return True
