"""Whether a name is a woman's or a man's, where that can be known, and invented ones of either."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum, auto

from gateway.classify.pseudonyms.values.lists import FEMININE, GIVEN, MASCULINE
from gateway.classify.pseudonyms.values.spelling import spelled_plainly


class Gender(Enum):
    FEMININE = auto()
    MASCULINE = auto()
    UNKNOWN = auto()


_HER = re.compile(
    r"\b(?:mrs|ms|miss|madam|frau|mme|madame|mlle|sra|se\u00f1ora|signora|mevrouw|pani)\b"
)
_HIS = re.compile(
    r"\b(?:mr|sir|herr|herrn|monsieur|m\.|se\u00f1or|sr|signor|signore|meneer|pan)(?=\W|$)"
)
_HERS = frozenset(
    (  # noqa: SIM905 - as a list
        "agnes alice amy anne birgit brigitte carmen caroline catherine charlotte chloe "
        "christine claire denise diane dorothy edith elisabeth elizabeth ellen emily esther "
        "eve florence gertrud gisele gudrun hannah heather heike helen ines ingrid irene "
        "isabel isabelle jacqueline jane janet jennifer joan joyce judith julie karen karin "
        "katharine kate kathleen kristin leonie lucy margaret marie marion marlene mary maud "
        "megan meredith michelle nancy nathalie nicole noemi pilar rachel raquel rosemary "
        "ruth sabine sarah sharon sigrid simone silke sophie susan sylvie ulrike ute valerie "
        "veronique vivian yvonne zoe elke anke antje beatrix beatriz dolores mercedes rosario "
        "soledad consuelo montserrat solange odile"
    ).split()
)
_HIS_IN_A = frozenset(
    (  # noqa: SIM905 - as a list
        "luca andrea nicola mattia elia enea joshua ezra noah nikita sascha mischa sasha "
        "barnaba bonawentura kuba jarema kosma dyzma ilja jona jonah micha josua"
    ).split()
)
_HIS_ENDINGS = ("o", "us", "er", "rd", "rt", "slaw", "mir", "ich", "ard", "ian", "as", "im", "ek")
_HIS_NAMES = frozenset(
    (  # noqa: SIM905 - as a list
        "adam alan albert andrew anton arthur benjamin bernd brian carl charles christoph "
        "christophe daniel david edward eric erik francois frank george guillaume hans harry "
        "heinz henri henry jack jacques jakub james jan javier jean jens john jonathan joseph "
        "jorg josef juan jurgen karl kevin klaus laurent luis marcin mark martin michael "
        "michel miguel nicolas oliver paul pawel philipp philippe pierre piotr rafael ralf "
        "robert samuel scott stefan stephan stephen steven sven thomas tim tom uwe victor "
        "vincent william wolfgang xavier yves"
    ).split()
)


def name_gender(name: str, given: str) -> Gender:
    """`name` may begin with a title; `given` is the first part of it."""
    lowered = name.lower()
    if _HER.search(lowered):
        return Gender.FEMININE
    if _HIS.search(lowered):
        return Gender.MASCULINE
    first = spelled_plainly(given).partition(" ")[0]
    if first in _HIS_NAMES or first in _HIS_IN_A:
        return Gender.MASCULINE
    if first in _HERS or first.endswith("a"):
        return Gender.FEMININE
    return Gender.MASCULINE if first.endswith(_HIS_ENDINGS) else Gender.UNKNOWN


def given_names(gender: Gender) -> Sequence[str]:
    return {Gender.FEMININE: FEMININE, Gender.MASCULINE: MASCULINE}.get(gender, GIVEN)
