# ruff: noqa: RUF001 - letters and quotes of other languages are meant as they are
"""Whether what the names model takes for an address has a door: a number behind or before a street.

Orders, invoices and norms are full of capitals next to numbers. A quantity, a decimal number, a
size (`25x47x7`), a part of a code, and the number of a paper or a part of goods are no doors.
"""

from __future__ import annotations

import re

from gateway.classify.text.labels import GOODS

_DOOR = re.compile(
    r"(?<![\w./\u2013-])(?<!\d,)\d{1,5}[A-JN-Ua-jn-u]?(?:[-/]\d{1,4}[A-Za-z]?)?(?![\w/]|[.,]\d|-\w)"
)
_POSTCODE = re.compile(r"(?<!\w)[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}(?!\w)")
_QUANTITY = re.compile(
    r"\s?(?:[mck]?m[23²³]?|[km]?g|ml|hl|min|std|hrs?|[km]?v|[km]?w|kwh|m?a|[km]?hz|bar|[kmh]?pa|nm"
    r"|[km]?ohm|%|°|szt\w{0,2}|stk|stück|pcs|pce|pieces?|units?|buc|uds?|un|ks|ark|db"
    r"|eur|usd|gbp|pln|chf|zł|lei|[€$£]|palet\w{0,3}|pallets?|kartons?|cartons?|colis|cajas|colli"
    r"|lat|lata|dn[ií]|tygodni\w?|years?|days?|weeks?|months?|tage|wochen|monate|jahre|jours|semaines|mois"
    r"|ans|días|semanas|meses|años|giorni|settimane|mesi|anni|dias|anos|dagen|weken|maanden|ft|kč|kpl|hét)"
    r"(?!\w|\. ?\d)",
    re.IGNORECASE,
)
_GOODS_BEFORE = re.compile(
    rf"(?<![^\W_])(?:{GOODS})[^\w\n]{{1,3}}(?:(?:nr|no)\.?[ ]?)?\Z", re.IGNORECASE
)
_WORD = r"[^\W\d_](?:[^\W\d_]|['’-])*"
_BEFORE = re.compile(rf"(?<!\w)(?:{_WORD}[^\w\n]{{1,3}}){{1,3}}\Z")
_BEHIND = re.compile(rf"(?:[^\w\n]{{1,3}}\d{{1,6}}[a-z]{{0,2}})?(?:[^\w\n]{{1,3}}{_WORD}){{1,5}}")
_NEAR = 40  # characters


def has_door(text: str, start: int, end: int) -> bool:
    """Whether a number between `start` and `end` stands as a street's does: beside a word in
    capitals, or in a line without any."""
    if _POSTCODE.search(text, start, end) is not None:
        return True
    return any(_is_door(text, *match.span()) for match in _DOOR.finditer(text, start, end))


def _is_door(text: str, start: int, end: int) -> bool:
    before, after = text[max(0, start - _NEAR) : start], text[end : end + _NEAR]
    if _QUANTITY.match(after) or _GOODS_BEFORE.search(before):
        return False
    words = [match[0] for match in (_BEFORE.search(before), _BEHIND.match(after)) if match]
    if any(map(_has_capital, words)):
        return True
    line = text[text.rfind("\n", 0, start) + 1 :].partition("\n")[0]
    return bool(words) and line.islower()


def _has_capital(words: str) -> bool:
    return words.lower() != words
