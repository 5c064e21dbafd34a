"""From mentions to findings: which names identify, which words are none after all.

A full name, or a name with a title before it, identifies its bearer; a lone name does not, unless
the operator wants it so (profile `strict`). The score of a PERSON finding says which it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gateway.classify.names import FULL_NAME, PERSON, USERNAME, namesakes
from gateway.classify.names.addresses import has_door
from gateway.classify.names.model.tagger import Mention
from gateway.classify.names.records import plausible
from gateway.core.types import Finding

LONE_NAME = 0.35
"""The least score of a lone name, as that of everything that counts."""

_NAME_WORD = re.compile(
    r"[^\W\d_]+(?:[\u0300-\u036f]+[^\W\d_]*)*(?:['\u2019-][^\W\d_]+(?:[\u0300-\u036f]+[^\W\d_]*)*)*"
)
_PARTICLES = frozenset(
    (  # noqa: SIM905 - a line instead of forty
        "al bin da das de del della den der des di do dos du e el ibn la las le les lo los ten ter "
        "van vom von y zu zum zur st san jr sr ii iii"
    ).split()
)
ALSO_GIVEN = frozenset({"al", "della", "van"})  # Al Green, Della Reese, Van Morrison
ALSO_FAMILY = frozenset({"das", "de", "di", "do", "du", "la", "le", "lo", "ten", "van"})
"""Sunita Das, Linda Le: with a capital and at the end of a name."""

_PHRASE = re.compile(r"[^\W\d_]+(?:['\u2019-]?[^\W\d_]+)*(?: [^\W\d_]+(?:['\u2019-]?[^\W\d_]+)*)*")
_LETTER_ALONE = re.compile(r"[A-Ha-h]|[A-G] (?:sharp|flat|major|minor|dur|moll|majeur|mineur)")
"""A letter of a list that no dot makes an initial, and a key of music."""
_SMALL = re.compile(r"[\s,.;:(]*(?:\d{1,2}|\d+[A-Za-z])[\s,.;:)]*")
_DECORATOR = re.compile(r"@[a-z_]\w*(?:(?:\.[A-Za-z_]\w*)+|\()")
_LAW_BEFORE = re.compile(r"(?:§|\b(?:art|artikel|article|abs|absatz|satz)\.?)\s?$", re.IGNORECASE)
_WORDS = re.compile(r"[^\W\d_]+")
_COUNTED = frozenset(
    (  # noqa: SIM905 - lines instead of a hundred
        # norms, laws and rules, by who sets them
        "iso iec ieee en din vde vdi iatf astm ansi asme api nf une uni pn bs nen rfc cfr ecma itu "
        "trgs trbs dguv eurocode eu eg ce ul sae mil std norm norma norme "
        # their parts, and those of books, tables and plans
        "art artikel article articulo artículo articolo artigo artykuł abs absatz al alinéa ust "
        "satz nr no núm num ziffer lit buchstabe teil part partie parte część blatt sheet anlage "
        "anhang annex appendix kapitel chapter chapitre capítulo capitolo rozdział hoofdstuk seite "
        "seiten page pages pagina página strona zeile line ligne línea riga spalte column tabelle "
        "table tabla tabella abb abbildung figure fig bild position pos punkt point punto step "
        "schritt étape paso phase fase stufe level niveau klasse class classe clase kategorie typ "
        "type tipo version modell model modèle modelo serie series série ausgabe edition band "
        "volume vol heft issue tag day jour día giorno woche week semaine semana monat month mois "
        "jahr year année año anno "
        # sizes and goods
        "stärke dicke breite höhe länge tiefe gewicht menge stück größe maße maß platte size width "
        "height length depth weight quantity thickness taille largeur hauteur talla tamaño taglia "
        "mal bis kschg bgb hgb stgb zpo gg sgb dsgvo estg ustg "
        "imei imsi vin mac sku isbn ean"
    ).split()
)
"""Words before numbers that are no streets' and no doors'."""

_ANY_CASE = (
    r"mrs?|ms|mx|sir|madam|dr|prof|professor|doctor|judge|capt|captain|lt|sgt|officer|nurse|"
    r"herrn?|frau|fräulein|doktor|dipl\.?-?ing|"
    r"mmes?|mlle|monsieur|madame|mademoiselle|maître|docteur|professeur|"
    r"sra?|srta|dña|don|doña|señora?|señorita|dra|doctora|profesora?|"
    r"sig\.?ra|sig\.?na|signor[ea]?|signorina|dott|dott\.?ssa|dottor[ea]?|dottoressa|prof\.?ssa|avv|"
    r"professor[ea]|professoressa|"
    r"senhora?|seu|dona|doutora?|professora|"
    r"dhr|mevr|mw|heer|meneer|mevrouw|drs|dokter|"
    r"pan|pani|pana|panu|panem|panią|doktora|doktorem|profesorem|mgr|inż"
)
# Other words too, without a dot: "tell hr Anna", "5 p Anna".
_WITH_DOT = r"hr|fr|col|gen|rev|hon|sig|ing|eng|arch|geom|lek|mec|hab"
# Other words too, in lower case: "I miss Anna", "tell me", "her sister Anna".
_WITH_CAPITAL = r"Miss|MISS|Lord|Lady|Dame|Justice|Rev|Sister|Father|Me|Pr"
_LETTER = r"MM?|D|[Pp]"  # with a dot, and not of "3 p.m."
_DEGREE = r"(?i:med|dent|vet|i?ur|jur|rer|nat|phil|pol|h\.\s?c)"
_TITLE = re.compile(
    rf"(?:(?:(?<![\w'\u2019])(?:(?i:{_ANY_CASE})\.?|(?i:{_WITH_DOT})\.|(?:{_WITH_CAPITAL})\.?)"
    rf"|(?<![\w.'\u2019-])(?:{_LETTER})\.)"
    rf"(?:\s{{1,2}}{_DEGREE}\.){{0,3}}(?:\s{{1,2}}|(?<=\.))){{1,3}}$"
)
_TITLE_WORD = re.compile(rf"(?i:{_ANY_CASE}|{_WITH_DOT})|{_WITH_CAPITAL}")
_BEFORE = 40  # characters; longer than a title and its degrees


def least(thresholds: Mapping[str, float]) -> float:
    """The probability from which on words are a mention. Handles have one of their own."""
    return min(thresholds[kind] for kind in ("full", "lone", "address"))


def findings(
    text: str, mentions: Sequence[Mention], thresholds: Mapping[str, float]
) -> list[Finding]:
    """`thresholds` are the least probabilities of `full` and `lone` names, of an `address`, of a
    `handle` and of a `named_handle`; those between them and 1 are spread over the scores that each
    has. A handle that is taken for somebody's name is a PERSON, another one a USERNAME."""
    findings = [f for f in (_finding(text, m, thresholds) for m in mentions) if f is not None]
    people = [f for f in findings if f.type == PERSON]
    return [
        f
        for f in findings
        if f.type != USERNAME or not any(p.start < f.end and f.start < p.end for p in people)
    ]


def _finding(text: str, mention: Mention, thresholds: Mapping[str, float]) -> Finding | None:
    if mention.kind == "STREET_ADDRESS":
        start, end = mention.start, mention.end
        if not (is_street(text, start, end) and has_door(text, start, end)):
            return None  # a street without a number is a place
        least, low, high = thresholds["address"], 0.5, 1.0
    elif mention.kind == USERNAME:
        if _is_decorator(text, mention.start, mention.end):
            return None
        least, low, high = thresholds["handle"], LONE_NAME, 0.49
    elif is_nobody(text, mention.start, mention.end):
        return None
    elif identifies(text, mention.start, mention.end):
        handle = _is_handle(text, mention)
        least, low, high = thresholds["named_handle" if handle else "full"], FULL_NAME, 1.0
    elif _is_handle(text, mention):
        least, low, high = thresholds["named_handle"], LONE_NAME, 0.49
    else:
        least, low, high = thresholds["lone"], LONE_NAME, 0.49
        if plausible.is_noun(text[mention.start : mention.end]):
            least = (1 + least) / 2
    if mention.probability < least:
        return None
    sure = min(1.0, (mention.probability - least) / max(1e-6, 1 - least))
    return Finding(mention.kind, mention.start, mention.end, round(low + (high - low) * sure, 4))


def _is_decorator(text: str, start: int, end: int) -> bool:
    """`@pytest.mark.slow` and `@cached(...)` at the beginning of a line, unless a name is in it."""
    called = _DECORATOR.match(text, start)
    if called is None or text[:start].rpartition("\n")[2].strip():
        return False
    return not any(
        plausible.is_given(word) or plausible.is_family(word) for word in _WORDS.findall(called[0])
    )


def _is_handle(text: str, mention: Mention) -> bool:
    written = text[max(0, mention.start - 1) : mention.end].lstrip()
    return "@" in written[:2] and not any(c.isspace() for c in written)


def identifies(text: str, start: int, end: int) -> bool:
    """Whether a name is a full one (an initial and a surname too), or has a title before it."""
    words = list(_name_words(text[start:end]))
    return (len(words) > 1 and any(len(word) > 1 for word in words)) or _has_title(text, start)


def _has_title(text: str, start: int) -> bool:
    return _TITLE.search(text[max(0, start - _BEFORE) : start]) is not None


def is_nobody(text: str, start: int, end: int) -> bool:
    """Whether what looks like a name is words, or the name of something else. What a title stands
    before is somebody."""
    written = text[start:end]
    if not any(map(str.isalpha, written)):
        return True
    if _has_title(text, start):
        return False
    if _LETTER_ALONE.fullmatch(written) and text[end : end + 1] != ".":
        return True
    if _PHRASE.fullmatch(written) and plausible.are_words(written.split()):
        return True
    return namesakes.is_namesake(text, start, end)


def is_street(text: str, start: int, end: int) -> bool:
    """Whether an address has a number, and words that are more than what is counted: a street
    without a number is a place, `ISO 9001` a norm and `Kapitel 14` a part of a book. A number by
    itself may be a postcode, unless it is a small one."""
    written = text[start:end]
    if not any(map(str.isdigit, written)):
        return False
    words = [word for word in _WORDS.findall(written) if word.lower() not in _PARTICLES]
    if _LAW_BEFORE.search(text, max(0, start - 12), start) or namesakes.is_product(
        text, start, end
    ):
        return False
    if not any(len(word) > 1 for word in words):
        return _SMALL.fullmatch(written) is None
    return any(len(word) > 1 and word.lower() not in _COUNTED for word in words)


def is_title_word(word: str) -> bool:
    """Whether a word without its dot may be a title, or the head of one (`sig.` of `sig.ra`)."""
    return _TITLE_WORD.fullmatch(word) is not None


def _name_words(name: str) -> Iterator[str]:
    words = [match[0] for match in _NAME_WORD.finditer(name)]
    for at, word in enumerate(words):
        also = ALSO_GIVEN if at == 0 else ALSO_FAMILY if at == len(words) - 1 else frozenset()
        initial = len(word) == 1 and word.isupper()
        if initial or word.lower() not in _PARTICLES or (word.istitle() and word.lower() in also):
            yield word
