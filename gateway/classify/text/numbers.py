"""Numbers written with separators that no recognizer expects: digits one by one, in odd groups,
over lines, and as lists."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gateway.classify.scanner.cards import is_card_number
from gateway.classify.scanner.effort import spend

CONTEXT = 48
_SEPARATORS = r"\-./_,|\u00b7\u2022"
_GAP = rf"[ \t{_SEPARATORS}]{{0,3}}+(?:\r?\n[ \t>]{{0,12}}+[{_SEPARATORS}]?+)?"
_LETTER = rf"[A-Z][ \t{_SEPARATORS}]?+"
_RUN = re.compile(
    rf"(?<![\w.])(?:{_LETTER}){{0,6}}{_GAP}\d(?:{_GAP}(?:(?:{_LETTER}){{1,4}}{_GAP})?\d){{6,40}}"
    rf"(?:{_GAP}[A-Z]){{0,2}}(?![\w]|[.,]\d)"
)
_AREA = re.compile(r"\((\d{1,5})\)")  # its code, as telephone numbers have it
_TOKEN = re.compile(r"(\d+|[A-Z]+)")
_LONG_GROUP = re.compile(r"\d{7}")
_PAIR = re.compile(r"\d\d")
_DIGITS_ALONE = dict.fromkeys(
    [n for n in range(128) if not chr(n).isdigit()] + [0xB7, 0x2022]  # what else is in a run
)
_BREAK = re.compile(r"\r?\n(?:[ \t]*>[ \t>]*|[ \t]{2,})?")  # and what indents the next line
_ELEMENT = r"(?:\d{1,4}|[\"'][^\"'\n]{0,4}[\"'])"
_LIST = re.compile(rf"\[\s{{0,12}}{_ELEMENT}(?:\s{{0,4}},\s{{0,12}}{_ELEMENT}){{2,40}}\s{{0,12}}\]")
_IN_LIST = re.compile(r"[\"']([^\"'\n]{0,4})[\"']|(\d{1,4})")
_SHAPES = {
    11: ("{}{}{}.{}{}{}.{}{}{}-{}{}", "{}{}.{}{}.{}{}-{}{}{}.{}{}"),  # BR_CPF, BE_NATIONAL_NUMBER
    14: ("{}{}.{}{}{}.{}{}{}/{}{}{}{}-{}{}",),  # BR_CNPJ
}
"""How numbers of so many digits are written that are known by it and by two check digits."""
_STEPS_A_RUN = 8  # of effort.py
_FEWEST, _FEWEST_IN_GROUPS, _MOST = 7, 9, 34
"""Digits: of a number written one by one, of one in groups, and of an account number."""
_LIST_SEPARATORS = frozenset({".", ","})
"""Between numbers of their own; a card's check digit tells."""
_YEARS = range(1900, 2101)
_FOUR = 4


@dataclass(frozen=True, slots=True)
class NumberForm:
    """A number as it is usually written, behind the words before it, which recognizers ask for.
    `phones` is False where the digits may be of several numbers: any ten of them make a telephone
    number, while other types have check digits or words."""

    text: str = field(repr=False)
    start: int
    end: int
    phones: bool = False
    is_card: bool = False  # by its digits alone, and of no text


@dataclass(frozen=True, slots=True)
class NumberRun:
    """Groups of digits, and of a few capital letters, with separators between them."""

    start: int
    end: int
    groups: tuple[str, ...] = field(repr=False)
    gaps: tuple[str, ...]
    digits: str = field(repr=False)

    @property
    def is_card(self) -> bool:
        """A card's digits, in the groups of one number: commas and points between them all, or
        none."""
        if not is_card_number(self.digits) or len(self.digits) != sum(map(len, self.groups)):
            return False
        between = set(map(_key, self.gaps))
        return (len(between) == 1 or not between & _LIST_SEPARATORS) and _grouped(self.groups)


def runs(text: str, over_lines: bool) -> Iterator[NumberRun]:
    if over_lines and "(" in text:  # on one line recognizers read it as it stands
        text = _AREA.sub(r" \1 ", text)
    for match in _RUN.finditer(text):
        run = match[0]
        digits = run.translate(_DIGITS_ALONE)
        if not digits.isdecimal():
            digits = "".join(filter(str.isdecimal, run))
        if len(digits) < _FEWEST_IN_GROUPS and _PAIR.search(run):
            continue
        if _LONG_GROUP.search(run) and "\n" not in run:
            continue
        spend(_STEPS_A_RUN)
        parts = _TOKEN.split(run)  # what is between, and the groups
        if len(parts) > 3:
            yield NumberRun(
                match.start(), match.end(), tuple(parts[1::2]), tuple(parts[2:-1:2]), digits
            )


def forms(text: str, over_lines: bool | None = None) -> Iterator[NumberForm]:
    """`over_lines`: whether the text, or what it is a part of, has several."""
    for run in runs(text, "\n" in text if over_lines is None else over_lines):
        if run.is_card:
            yield NumberForm("", run.start, run.end, is_card=True)
        before = text[max(0, run.start - CONTEXT) : run.start]
        for written, phones in _written(run, before.endswith("+")):
            yield NumberForm(before + written, run.start, run.end, phones)
    for match in _LIST.finditer(text):
        spend(_STEPS_A_RUN)
        before = text[max(0, match.start() - CONTEXT) : match.start()]
        for written in _list_numbers(_elements(match[0])):
            yield NumberForm(before + written, match.start(), match.end())


def _written(run: NumberRun, international: bool) -> Iterator[tuple[str, bool]]:
    """And whether that may be a telephone number."""
    count, keys = len(run.digits), [_key(gap) for gap in run.gaps]
    one_by_one = all(len(group) == 1 or not group.isdecimal() for group in run.groups)
    if one_by_one and _LIST_SEPARATORS.issubset(keys):
        return  # decimal numbers, one after the other
    if one_by_one and count >= _FEWEST:
        inner = Counter(key for key in keys if key).most_common(1)
        yield from _one_by_one(run, keys, inner[0][0] if inner else "")
    elif _FEWEST_IN_GROUPS <= count <= _MOST:
        first = next(at for at, group in enumerate(run.groups) if group.isdecimal())
        between = {key for key in keys[first:] if key}
        if len(between) == 1 and not between & _LIST_SEPARATORS:
            yield from _in_one_piece(run, first, "\n" in between)
        if any("\n" in gap for gap in run.gaps):
            for written in _on_one_line(run):
                yield written, international


def _one_by_one(run: NumberRun, keys: Sequence[str], inner: str) -> Iterator[tuple[str, bool]]:
    """Without the separator of the digits; those between groups stay."""
    written = run.groups[0]
    before = run.groups[0]
    for key, group in zip(keys, run.groups[1:], strict=True):
        is_inner = key == inner and not (len(before) > 1 and before.isalpha())
        written += ("" if is_inner else key.replace("\n", " ")) + group
        before = group
    yield written, inner not in _LIST_SEPARATORS and len(run.digits) > _FEWEST_IN_GROUPS
    if len(written) == len(run.digits) == _FEWEST_IN_GROUPS and inner not in _LIST_SEPARATORS:
        yield _in_threes(written), False
    if inner != ",":
        for shape in _SHAPES.get(len(run.digits), ()):
            yield shape.format(*run.digits), False


def _in_one_piece(run: NumberRun, first: int, over_lines: bool) -> Iterator[tuple[str, bool]]:
    """Groups with one separator between them all, grouped as people do it."""
    head = "".join(map("".join, zip(run.groups[:first], run.gaps, strict=False)))
    groups = run.groups[first:]
    if len(groups) < 2 or not all(map(str.isdecimal, groups)) or not _grouped(groups):
        return
    if [len(group) for group in groups] == [3, 2, 4] and not head:
        yield "-".join(groups), False
    else:
        yield head + "".join(groups), True
    if over_lines:
        yield " ".join(run.groups), False


def _on_one_line(run: NumberRun) -> Iterator[str]:
    """The line breaks taken out, or where there is nothing else, turned into what is used
    elsewhere."""
    others = Counter(key for key in map(_key, run.gaps) if key not in ("", "\n"))
    other = others.most_common(1)[0][0] if others else " "
    joined = replaced = run.groups[0]
    for gap, group in zip(run.gaps, run.groups[1:], strict=True):
        between = _without_break(gap)
        joined += between + group
        replaced += (other if "\n" in gap and not between else between) + group
    yield joined
    if replaced != joined:
        yield replaced


def _without_break(gap: str) -> str:
    between = _BREAK.sub("", gap)
    return between.strip(" \t") or between[:1]


def _key(gap: str) -> str:
    """A separator without the spaces around it; of spaces alone, one of them, or the line break."""
    solid = gap.strip(" \t\r\n>")
    return solid or ("\n" if "\n" in gap else gap[:1].replace("\t", " "))


def _elements(written: str) -> list[str]:
    elements = (text or number for text, number in _IN_LIST.findall(written))
    return [element for element in elements if element]


def _list_numbers(elements: Sequence[str]) -> Iterator[str]:
    """Digits, or groups of four, as numbers (which lose their zeros) or as strings."""
    if not elements:
        return
    sizes = {len(element) for element in elements}
    if sizes == {1} or not all(map(str.isalnum, elements)):
        readings = ["".join(elements)]
    elif max(sizes) == _FOUR and not all(map(_is_year, elements)):
        first, last = "".join(e.zfill(_FOUR) for e in elements[:-1]), elements[-1]
        readings = list(dict.fromkeys((first + last, first + last.zfill(_FOUR))))
    else:
        return
    for written in readings:
        digits = sum(map(str.isdecimal, written))
        if _FEWEST <= digits <= _MOST:
            yield written


def _is_year(element: str) -> bool:
    return element.isdecimal() and int(element) in _YEARS


def _in_threes(digits: str) -> str:
    """As a social security number is written, which the nine digits may be."""
    return f"{digits[:3]}-{digits[3:5]}-{digits[5:]}"


def _grouped(groups: Sequence[str]) -> bool:
    """The way numbers are split by people: digits alone, one each, or groups of two to six."""
    sizes = [len(group) for group in groups]
    if max(sizes) == 1:
        return True
    return min(sizes[:-1]) > 1 and max(sizes) <= 6 and "".join(groups).isdigit()
