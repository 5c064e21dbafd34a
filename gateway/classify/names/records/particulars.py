# ruff: noqa: E501, SIM905 - tables of words
"""What makes a lone name somebody's: a date of birth, a number in a register, a diagnosis.

Read in folded text, in prose, records and forms, and in the strings of a call as they are joined.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gateway.classify.names.records.keys import folded
from gateway.classify.text.labels import HOLDERS, STEMS, joined
from gateway.classify.text.stems import Stems

_BIRTHS = (
    *"birth born geb naiss nacio nacim nacid nascit nata nato nascim nascid nasceu nacque urodz".split(),
    *(
        rf"\b{own}"
        for own in (
            *(r"dob\b", r"d\.o\.?b\b", r"ddn\b", r"nee?\b", r"ur\.", r"data.?ur\b"),
            r"f[._ ]{1,2}nac",
        )
    ),
    r"\(\*",
)
_REGISTERS = (*STEMS, r"[ck]ont[oa]\b", r"\bkd\.?[ -]{0,2}nr")
_HEALTHS = (
    *(
        "diagn rozpozn befund allerg alerg uczul medicat medikat medik medicij medicam medicin farmac"
        " leki blood blut sangu bloed krwi illness disease krank malad enferm malatt doenc ziekte"
        " chorob symptom sintom objaw therap terap treat behand leczen suffer leid cierpi diabet cukrz"
        " cancer krebs cancro kanker nowotw tumo karzin carcin hiv aids depress depres schizo epilep"
        " padacz asthm asma astm hypert hipert ipert nadcis leuk leuc demen alzheim parkin hepatit"
        " wirusowe sclero skler esclero stwardn infar zawal pregnan schwang enceint embaraz incint"
        " gravid zwanger ciaz condition copd bipolar psych covid positi bialacz lekarstw schorzen"
        " aandoening anamnes complaint health chronic medical antecedent heart padec"
        " souffr soffre lijdt sofre sufre choruje"
    ).split(),
    r"\bicd",
)
_STEMS = Stems([*_BIRTHS, *_REGISTERS, *_HEALTHS])

_SIGN = r"(?:\n\|\n|<[^<>\n]{0,80}>|[\s\"'`*_:=>\[\](){}|.,#/\\-]|\bn[or°º]\b)"
_TO = rf"{_SIGN}{{1,14}}?(?:(?:is|was|on|the|ist|war|am|le|est|el|es|e|il|em|op|dnia|jest|value)\b{_SIGN}{{1,10}}?){{0,2}}"
_MONTH = r"[^\W\d_]{3,12}\.?"
_DATE = (
    r"(?:(?:18|19|20)\d\d[-./ ]?\d\d[-./ ]?\d\d|\d{1,2}[-./ ]\d{1,2}[-./ ](?:\d\d){1,2}"
    rf"|\d{{1,2}}(?:\.|st|nd|rd|th|er)?[ ]?(?:de |di |of )?{_MONTH}(?:[ ]de|,)?[ ]\d{{4}}"
    rf"|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}})(?!\d)"
)
_BORN = (
    r"(?:d\.?o\.?b\.?|date[ _-]?of[ _-]?birth|birth[ _-]?dates?|birthday|birthtime|born(?: on)?"
    r"|geburts[ _-]?(?:datum|tag)|geboren(?: am| op)?|geb\.?(?:[ _-]?(?:datum|dat|am))?"
    r"|date[ _-]?(?:de[ _-]?)?naissance|nee?(?: le)?|ddn"
    r"|fecha[ _-]?(?:de[ _-]?)?nac(?:imiento)?|nacid[oa](?: el)?|f(?:\.[ ]?|[_-])nac\.?"
    r"|data[ _-]?(?:di[ _-]?)?nascita|nat[oa](?: il)?"
    r"|data[ _-]?(?:de[ _-]?)?nascimento|nascid[oa](?: em| a)?"
    r"|geboorte[ _-]?(?:datum|dag)"
    r"|data[ _-]?(?:urodzenia|ur\.?)|urodz\w{2,5}|ur\.|naci[do]\w{0,2}|nasceu|nacque|geboren wurde)"
)
_NUMBER_WORDS = f"(?:{folded(joined(*HOLDERS).words)})"
_CODE = r"(?=[a-z\d./-]{0,12}\d[a-z./-]{0,4}\d)[a-z]{0,5}[-./ ]?\d[a-z\d./-]{1,20}"
_HEALTH = (
    r"(?:diagnos[eiu]\w{0,3}|diagnost\w{1,4}|(?:haupt|neben|aufnahme|entlassungs)?diagnosen?|befund"
    r"|rozpoznani[ea]|choroba|choroby|schorzeni[ea]|alerg\w{2,6}|allerg\w{2,8}|uczuleni\w"
    r"|medications?|medikamente?|medikation|medicaments?|medicamentos|medicacion|farmaci|medicacao"
    r"|medicijn\w{0,3}|medicatie|leki|lekarstwa|blood[ _-]?(?:type|group)|blutgruppe|groupe[ _]sanguin"
    r"|grupo[ _]sanguineo|gruppo[ _]sanguigno|bloedgroep|grupa[ _]krwi|icd(?:[ _-]?(?:9|10|11))?"
    r"|medical[ _-]?(?:history|condition)s?|(?:health|chronic)[ _-]?(?:condition|problem|status)s?"
    r"|condition|illness|disease|krankheit\w{0,2}|vorerkrankung\w{0,2}|maladies?|antecedents|enfermedad"
    r"|malattia|doenca|ziekte|aandoening|anamnes[ei]|symptom[es]?|symptome|sintomas?|sintomi|objawy"
    r"|treatment|behandlung|traitement|tratamiento|tratamento|trattamento|behandeling|leczenie"
    r"|therap(?:y|ie)|terapi[ae]|presenting[ _]complaint|chief[ _]complaint)"
)
_SAYS = r"(?:\([^()\n]{0,20}\))?[\"'`*_\]]{0,3}(?:[ ]?[:=][\s\"'`*\[({]{0,6}|[ ](?:is|ist|est|es|e|jest|lautet)[ ]|\n\|\n|[ ]?\|[ ]?|\t|>\s*|\s?<[^<>]{1,60}>\s*)(?:(?:text|display|value|code|name)[\"']?(?:[:=][\s\"']{0,3}|\n\|\n))?"
_ILL = (
    r"(?:diabet\w+|cukrzyc\w+|cancer|krebs(?!e)\w*|cancro|kanker|nowotwor\w*|tumou?r\w*|karzinom\w*|carcinom\w*"
    r"|cancer\w*|hiv(?:[ -]?positi\w+)?|aids|depressi\w+|depresj\w+|schizo\w+|schizofr\w+|epilep\w+|padaczk\w+"
    r"|asth?ma\w*|asma|astm[aey]|hypertensi\w+|hipertensi\w+|ipertensi\w+|bluthochdruck|nadcisnieni\w+"
    r"|leuka?emi\w+|leucemi\w+|bialaczk\w+|demen[tcz]\w+|alzheimer\w*|parkinson\w*|hepatit\w+|copd"
    r"|multiple sclerosis|multipler? sklerose|esclerosis|sclerosi|stwardnieni\w+|heart attack|herzinfarkt"
    r"|infarct\w*|infarto|zawal\w*|bipolar\w*|psychos\w+|pregnan\w+|schwanger\w*|enceinte|embarazad\w+"
    r"|incinta|zwanger\w*|ciaz\w+|covid[-\d]*)"
)
_HAS = (
    r"(?:diagnosed (?:with|as)|diagnosis (?:of|is|was)|suffer(?:s|ed|ing)? from|tested positive for|treated for|being treated"
    r"|diagnostiziert|leidet (?:an|unter)|erkrankt an|wird wegen|souffre (?:de|d)|atteinte? (?:de|d)"
    r"|diagnostique|sufre (?:de)?|padece|diagnosticad[oa]|soffre di|affett[oa] da|diagnosticat[oa]|sofre de"
    r"|diagnosticad[oa]|lijdt aan|gediagnosticeerd|cierpi na|choruje na|zdiagnozowano|rozpoznano|leczon[ya] na"
    r"|has|have|had|hat|a (?:un|une|le|la|du|des)|is|ist|est|es|jest|tiene|ha|tem|heeft|ma)"
)
_BIRTH = re.compile(
    rf"(?<![^\W_]){_BORN}(?![^\W\d_]){_TO}(?:[^\W\d_]{{2,15}}{_SIGN}{{1,3}}){{0,3}}?(?P<value>{_DATE})"
    rf"|(?P<other>{_DATE})\s?\(?{_BORN}(?![^\W\d_])"
)
_WITH_STAR = re.compile(rf"\(\*\s?{_DATE}")
_REGISTER = re.compile(rf"(?<![^\W_]){_NUMBER_WORDS}s?(?![^\W\d_]){_TO}(?P<value>{_CODE})(?![\w])")
_HEALTH_KEY = re.compile(
    rf"(?<![^\W\d]){_HEALTH}(?![^\W_]){_SAYS}(?P<value>[^\W\d_][^\n\"'<>{{}}|]{{2,60}}|[a-z]\d\d[\d.]*)"
)
_ILLNESS = re.compile(
    rf"(?<![^\W_]){_HAS}[ ](?:[^\s.;!?]+[ ]){{0,4}}?(?P<value>{_ILL})(?![^\W_])"
    rf"|(?<![^\W_])(?:diagnosed with|tested positive for|leidet an|leidet unter|leiden an|leiden unter|souffre de|cierpi na|choruje na|erkrankt an|suffers from|souffre d['e]|padece|soffre di|sofre de|lijdt aan)[ ](?:[a-z]{{1,4}}[ ])?(?P<other>[^\W\d_]{{4,30}})"
)
_NO_VALUE = frozenset(
    (
        "string text null none true false object array type integer number required optional "
        "undefined value enum description unknown properties int str boolean varchar"
    ).split()
)
_AROUND = 40  # characters before and 160 behind a stem
_BEHIND = 200
FAR, NEAR, CLOSE = 1_000, 300, 160
"""Characters between a name and a date of birth, another particular of a record, and one of a
sentence."""


@dataclass(frozen=True, slots=True)
class Particular:
    """Where one stands, and how far from it a name is its bearer's."""

    start: int
    end: int
    reach: int
    birth_date: bool = False


def is_head(cell: str) -> bool:
    """Whether a column with this head, folded, holds particulars of somebody."""
    return _HEAD.fullmatch(cell.strip(" \"'`*[]:\r")) is not None


_HEAD = re.compile(rf"(?:[a-z]{{2,12}}[ _.-]){{0,2}}(?:{_BORN}|{_NUMBER_WORDS}|{_HEALTH})")


def particulars(plain: str) -> Iterator[Particular]:
    """Those of a folded text, in order."""
    end = 0
    for start, stop, stem in _STEMS.find(plain):
        if start < end:
            continue
        first, last = max(end, start - _AROUND), stop + _BEHIND
        kinds = _kinds(stem)
        if kinds is not _HEALTH_KINDS and _DIGIT.search(plain, first, last) is None:
            continue
        for expression, reach in kinds:
            match = expression.search(plain, first, last)
            if match is None or match.start() > stop:
                continue
            value = next((group for group in match.groups() if group), "-")
            if value.strip(" .,:;") in _NO_VALUE:
                continue
            birth = expression is _BIRTH or expression is _WITH_STAR
            yield Particular(match.start(), match.end(), reach, birth)
            end = match.end()
            break


_BIRTH_KINDS = ((_BIRTH, FAR), (_WITH_STAR, FAR))
_REGISTER_KINDS = ((_REGISTER, NEAR),)
_HEALTH_KINDS = ((_HEALTH_KEY, NEAR), (_ILLNESS, CLOSE))
_DIGIT = re.compile(r"\d")


def _kinds(stem: int) -> tuple[tuple[re.Pattern[str], int], ...]:
    """What may stand round the stem with that place in `_STEMS`, and how far it reaches."""
    if stem < len(_BIRTHS):
        return _BIRTH_KINDS
    return _REGISTER_KINDS if stem < len(_BIRTHS) + len(_REGISTERS) else _HEALTH_KINDS


class NearbyParticulars:
    """Where in a folded text a name is near enough to a particular to be its bearer's. `births`:
    near enough to a date of birth, which nothing but a person has."""

    def __init__(self, plain: str) -> None:
        listed = list(particulars(plain))
        self._spans = _Spans(listed)
        self.births = _Spans([one for one in listed if one.birth_date])

    def __bool__(self) -> bool:
        return bool(self._spans)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._spans)

    def reach(self, start: int, end: int) -> bool:
        """Whether what stands from `start` to `end` is near one."""
        return self._spans.reach(start, end)


class _Spans:
    """What particulars reach, in spans that do not overlap."""

    def __init__(self, particulars: Iterable[Particular]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for one in particulars:
            start, end = max(0, one.start - one.reach), one.end + one.reach
            while self._ends and start <= self._ends[-1]:
                start, end = min(start, self._starts.pop()), max(end, self._ends.pop())
            self._starts.append(start)
            self._ends.append(end)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._ends, strict=True)

    def reach(self, start: int, end: int) -> bool:
        at = bisect.bisect_left(self._ends, start)
        return at < len(self._ends) and self._starts[at] <= end
